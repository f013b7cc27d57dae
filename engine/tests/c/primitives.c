/* Every primitive x type x operator x count x root, in place and out of place, against the definition in nccl.h. */
#include <math.h>
#include <stdint.h>

#include "job.h"

enum { ALL_REDUCE, REDUCE, BROADCAST, BCAST, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, GATHER, SCATTER, N_PRIMITIVES };

/* Bytes, and for floats the bits of the exponent's bias and of the fraction; a fraction of 0 bits is an integer. */
static const struct { size_t bytes; int bias, fraction; } types[ncclNumTypes] = {
    {1, 0, 0}, {1, 0, 0}, {4, 0, 0}, {4, 0, 0}, {8, 0, 0}, {8, 0, 0},
    {2, 15, 10}, {4, 127, 23}, {8, 1023, 52}, {2, 127, 7}, {1, 7, 3}, {1, 15, 2}};

typedef struct {
  int primitive;
  ncclDataType_t type;
  ncclRedOp_t op;
  size_t count;
  int root, in_place;
  int factor; /* of each rank's contribution, for PreMulSum; else 0 */
} Case;

/* Small numbers are exact in every type, and so is each step of their sums. */
static void put(char* buffer, ncclDataType_t type, size_t index, double value) {
  uint64_t bits = (uint64_t)value;
  if (types[type].fraction && value != 0) {
    int exponent;
    double fraction = 2 * frexp(value, &exponent) - 1;
    bits = ((uint64_t)(exponent - 1 + types[type].bias) << types[type].fraction) |
           (uint64_t)ldexp(fraction, types[type].fraction);
  }
  memcpy(buffer + index * types[type].bytes, &bits, types[type].bytes);
}

static double take(const char* buffer, ncclDataType_t type, size_t index) {
  uint64_t bits = 0;
  memcpy(&bits, buffer + index * types[type].bytes, types[type].bytes);
  int fraction = types[type].fraction;
  if (!fraction || !bits) return (double)bits;
  return ldexp(1 + ldexp((double)(bits & ((1ull << fraction) - 1)), -fraction),
               (int)(bits >> fraction) - types[type].bias);
}

static double contribution(const Case* c, int r, size_t i) {
  return (double)((size_t)r + i + i / 7) * 1.0 - 3.0 * (double)(((size_t)r + i + i / 7) / 3) -
         (c->factor && ((size_t)r + i + i / 7) % 3 == 2 ? 1 : 0);
}

static double reduced(const Case* c, size_t i) {
  double all = c->op == ncclProd ? 1 : c->op == ncclMin ? 1e9 : 0;
  for (int r = 0; r < n_ranks; r++) {
    double value = contribution(c, r, i) * (c->factor ? r % 2 + 1 : 1);
    if (c->op == ncclProd) all *= value;
    else if (c->op == ncclMax) all = value > all ? value : all;
    else if (c->op == ncclMin) all = value < all ? value : all;
    else all += value;
  }
  if (c->op != ncclAvg) return all;
  return types[c->type].fraction ? all / n_ranks : floor(all / n_ranks);
}

/* Element i of what this rank gets. */
static double expected(const Case* c, size_t i) {
  size_t block = i / c->count, at = i % c->count, own = (size_t)rank * c->count;
  switch (c->primitive) {
    case BROADCAST:
    case BCAST: return contribution(c, c->root, i);
    case ALL_GATHER:
    case GATHER: return contribution(c, (int)block, at);
    case REDUCE_SCATTER: return reduced(c, own + i);
    case ALL_TO_ALL: return contribution(c, (int)block, own + at);
    case SCATTER: return contribution(c, c->root, own + i);
    default: return reduced(c, i);
  }
}

static ncclResult_t call(const Case* c, const void* send, void* recv) {
  switch (c->primitive) {
    case ALL_REDUCE: return ncclAllReduce(send, recv, c->count, c->type, c->op, comm, stream);
    case REDUCE: return ncclReduce(send, recv, c->count, c->type, c->op, c->root, comm, stream);
    case BROADCAST: return ncclBroadcast(send, recv, c->count, c->type, c->root, comm, stream);
    case BCAST: return ncclBcast(recv, c->count, c->type, c->root, comm, stream);
    case ALL_GATHER: return ncclAllGather(send, recv, c->count, c->type, comm, stream);
    case REDUCE_SCATTER: return ncclReduceScatter(send, recv, c->count, c->type, c->op, comm, stream);
    case ALL_TO_ALL: return ncclAlltoAll(send, recv, c->count, c->type, comm, stream);
    case GATHER: return ncclGather(send, recv, c->count, c->type, c->root, comm, stream);
    default: return ncclScatter(send, recv, c->count, c->type, c->root, comm, stream);
  }
}

static int is_in(int primitive, const int* list) {
  for (; *list >= 0; list++)
    if (*list == primitive) return 1;
  return 0;
}

static void run(const Case* c) {
  static const int sends_all[] = {REDUCE_SCATTER, ALL_TO_ALL, SCATTER, -1};
  static const int gets_all[] = {ALL_GATHER, ALL_TO_ALL, GATHER, -1};
  static const int to_root[] = {REDUCE, GATHER, -1};
  size_t size = types[c->type].bytes, all = c->count * (size_t)n_ranks;
  size_t sent = is_in(c->primitive, sends_all) ? all : c->count;
  size_t got = is_in(c->primitive, gets_all) ? all : c->count;
  size_t own = (size_t)rank * c->count * size;
  char* send = malloc(all * size + 1);
  char* recv = malloc(all * size + 1);
  int is_root = rank == c->root;
  const char* from = send;
  char* to = recv;
  if (c->in_place || c->primitive == BCAST) {
    to = send;
    if (c->primitive == ALL_GATHER || (c->primitive == GATHER && is_root)) from = send + own;
    if (c->primitive == REDUCE_SCATTER || (c->primitive == SCATTER && is_root)) to = send + own;
  }
  if (is_in(c->primitive, to_root) && !is_root) to = NULL;
  if (c->primitive == SCATTER && !is_root) from = NULL;
  for (size_t i = 0; from && i < sent; i++) put((char*)from, c->type, i, contribution(c, rank, i));
  ncclResult_t code = call(c, from, to);
  if (code == ncclSuccess) code = rscclStreamSynchronize(stream);
  double slack = c->op == ncclAvg ? ldexp(1, -types[c->type].fraction) : 0;
  for (size_t i = 0; to && i < got && code == ncclSuccess; i++) {
    double value = take(to, c->type, i), want = expected(c, i);
    if (fabs(value - want) > (types[c->type].fraction ? slack * want : 0)) {
      printf("WRONG primitive %d type %d op %d count %zu root %d in place %d factor %d: element %zu is %g, not %g\n",
             c->primitive, c->type, c->op, c->count, c->root, c->in_place, c->factor, i, value, want);
      exit(4);
    }
  }
  CHECK(code);
  free(send);
  free(recv);
}

static void run_all_of(int primitive, ncclDataType_t type) {
  static const size_t counts[] = {1, 13, 1031};
  for (ncclRedOp_t op = ncclSum; op <= ncclAvg; op++) {
    if (op != ncclSum && primitive != ALL_REDUCE && primitive != REDUCE && primitive != REDUCE_SCATTER) continue;
    for (int which = 0; which < 6; which++) {
      Case c = {primitive, type, op, counts[which / 2], (int)op % n_ranks, which % 2, 0};
      run(&c);
    }
  }
}

/* The scalar may be read now, or when the operation runs. */
static void run_pre_mul_sum(ncclDataType_t type) {
  static const int reducing[] = {ALL_REDUCE, REDUCE, REDUCE_SCATTER};
  for (int residence = ncclScalarDevice; residence <= ncclScalarHostImmediate; residence++) {
    char scalar[8];
    ncclRedOp_t op;
    put(scalar, type, 0, residence == ncclScalarDevice ? 0 : rank % 2 + 1);
    CHECK(ncclRedOpCreatePreMulSum(&op, scalar, type, (ncclScalarResidence_t)residence, comm));
    EXPECT(op >= ncclNumOps);
    put(scalar, type, 0, residence == ncclScalarDevice ? rank % 2 + 1 : 0);
    for (int which = 0; which < 6; which++) {
      Case c = {reducing[which / 2], type, op, 129, n_ranks - 1, which % 2, 1};
      run(&c);
    }
    CHECK(ncclRedOpDestroy(op, comm));
    EXPECT(ncclRedOpDestroy(op, comm) == ncclInvalidArgument);
  }
}

/* To the right and from the left, in one group. */
static void run_messages(ncclDataType_t type) {
  Case c = {BROADCAST, type, ncclSum, 777, 0, 0, 0};
  int next = (rank + 1) % n_ranks, prev = (rank + n_ranks - 1) % n_ranks;
  char* send = malloc(c.count * types[type].bytes);
  char* recv = malloc(c.count * types[type].bytes);
  for (size_t i = 0; i < c.count; i++) put(send, type, i, contribution(&c, rank, i));
  CHECK(ncclGroupStart());
  CHECK(ncclRecv(recv, c.count, type, prev, comm, stream));
  CHECK(ncclSend(send, c.count, type, next, comm, stream));
  CHECK(ncclGroupEnd());
  CHECK(rscclStreamSynchronize(stream));
  for (size_t i = 0; i < c.count; i++) EXPECT(take(recv, type, i) == contribution(&c, prev, i));
  free(send);
  free(recv);
}

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  parse_arguments(argv);
  CHECK(ncclCommInitRank(&comm, n_ranks, id, rank));
  for (int primitive = 0; primitive < N_PRIMITIVES; primitive++) {
    for (int type = 0; type < ncclNumTypes; type++) run_all_of(primitive, (ncclDataType_t)type);
    Case none = {primitive, ncclFloat32, ncclSum, 0, 0, 0, 0}, large = {primitive, ncclFloat32, ncclSum, 300007, 0, 0, 0};
    CHECK(call(&none, NULL, NULL));
    run(&large);
  }
  for (int type = 0; type < ncclNumTypes; type++) {
    run_pre_mul_sum((ncclDataType_t)type);
    run_messages((ncclDataType_t)type);
  }
  CHECK(ncclCommFinalize(comm));
  CHECK(ncclCommDestroy(comm));
  CHECK(rscclStreamDestroy(stream));
  say_done();
  return 0;
}

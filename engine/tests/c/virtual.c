/* One job of N_VIRTUAL ranks on n_ranks processes: prints a fingerprint of each result, which must not depend on n_ranks.
 * Command: N_VIRTUAL. With as many processes as virtual ranks the ordinary call is used. */
#include <stdint.h>

#include "job.h"
#include "rsccl_virtual.h"

static uint64_t mix(uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ull;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebull;
  return x ^ x >> 31;
}

/* Numbers of all magnitudes in (-2, 2), so that another order of the sum gives other bits. */
static void fill(char* at, ncclDataType_t type, size_t count, int virtual_rank) {
  for (size_t i = 0; i < count; i++) {
    uint64_t random = mix((uint64_t)virtual_rank << 32 | i);
    double value = ((double)(random >> 12) / (double)(1ull << 51) - 1) / (double)(1 << (random % 11));
    float narrow = (float)value;
    if (type == ncclFloat64) memcpy(at + 8 * i, &value, 8);
    else if (type == ncclFloat32) memcpy(at + 4 * i, &narrow, 4);
    else memcpy(at + 2 * i, (char*)&narrow + 2, 2); /* bfloat16 is the upper half */
  }
}

static uint64_t fingerprint(const char* bytes, size_t len) {
  uint64_t hash = 1469598103934665603ull;
  for (size_t i = 0; i < len; i++) hash = (hash ^ (unsigned char)bytes[i]) * 1099511628211ull;
  return hash;
}

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  static const ncclDataType_t types[] = {ncclFloat32, ncclFloat64, ncclBfloat16};
  static const ncclRedOp_t ops[] = {ncclSum, ncclAvg};
  static const size_t sizes[] = {4, 8, 2}, counts[] = {1, 1009, 300007};
  parse_arguments(argv);
  int n_virtual = atoi(argv[4]) / n_ranks;
  CHECK(ncclCommInitRank(&comm, n_ranks, id, rank));
  char* send = malloc((size_t)n_virtual * 300007 * 8);
  char* recv = malloc((size_t)300007 * 8);
  ncclResult_t code = rscclAllReduceVirtual(send, recv, 4, 0, ncclFloat32, ncclSum, comm, stream);
  EXPECT(code == ncclInvalidArgument && strstr(ncclGetLastError(NULL), "n_virtual 0"));
  code = rscclAllReduceVirtual(send, send, 4, 2, ncclFloat32, ncclSum, comm, stream);
  EXPECT(code == ncclInvalidArgument && strstr(ncclGetLastError(NULL), "overlap"));
  for (int which = 0; which < 18; which++) {
    int type = which % 3;
    size_t count = counts[which / 3 % 3], bytes = count * sizes[type];
    ncclRedOp_t op = ops[which / 9];
    for (int i = 0; i < n_virtual; i++) fill(send + (size_t)i * bytes, types[type], count, rank * n_virtual + i);
    if (n_virtual == 1) CHECK(ncclAllReduce(send, recv, count, types[type], op, comm, stream));
    else CHECK(rscclAllReduceVirtual(send, recv, count, n_virtual, types[type], op, comm, stream));
    CHECK(rscclStreamSynchronize(stream));
    printf("type %d op %d count %zu: %016llx\n", types[type], op, count,
           (unsigned long long)fingerprint(recv, bytes));
  }
  CHECK(ncclCommDestroy(comm));
  return 0;
}

/* One rank of a job, for the integration tests: rank.c RANK N_RANKS ID_HEX COMMAND [ARGUMENT].
 *
 * Commands:
 *   once          every primitive once, checked
 *   bench COUNT [shared]  all-reduces of COUNT floats, in memory that other ranks can read; rank 0 prints the time of one
 *   until-error   all-reduces until one fails; prints READY after the first, and the error at the end, then makes a
 *                 communicator of one rank to show that the process is still of use
 *   init          init alone
 *   idle COUNT ROUNDS  that many all-reduces of COUNT floats, then IDLE, and nothing more until it is ended
 *   leave ROUNDS  that many all-reduces, then exit without destroying anything
 *   mismatch      rank 0 calls all-gather where the others call all-reduce
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifdef WITH_NVIDIA_HEADER
#include <nccl.h>
#else
#include "rsccl.h"
#endif
#include "rsccl_stream.h"
#include "id.h"

#define CHECK(call)                                                                             \
  do {                                                                                          \
    ncclResult_t code = (call);                                                                 \
    if (code != ncclSuccess) {                                                                  \
      printf("FAILED %d %s: %s: %s\n", code, #call, ncclGetErrorString(code), ncclGetLastError(NULL)); \
      exit(3);                                                                                  \
    }                                                                                           \
  } while (0)
#define EXPECT(condition)                                           \
  do {                                                              \
    if (!(condition)) {                                             \
      printf("WRONG line %d: %s\n", __LINE__, #condition);          \
      exit(4);                                                      \
    }                                                               \
  } while (0)

static int rank, n_ranks;
static ncclComm_t comm;
static cudaStream_t stream;

static float* numbers(size_t count, float first) {
  float* values = malloc((count ? count : 1) * sizeof(float));
  for (size_t i = 0; i < count; i++) values[i] = first + (float)(i % 100);
  return values;
}

static void check_collectives(size_t count) {
  float sum = 0;
  for (int r = 0; r < n_ranks; r++) sum += (float)r;
  float* send = numbers(count * n_ranks, (float)rank);
  float* recv = numbers(count * n_ranks, -1);

  CHECK(ncclAllReduce(send, recv, count, ncclFloat32, ncclSum, comm, stream));
  CHECK(rscclStreamSynchronize(stream));
  for (size_t i = 0; i < count; i++) EXPECT(recv[i] == sum + (float)n_ranks * (float)(i % 100));

  CHECK(ncclAllGather(send, recv, count, ncclFloat32, comm, stream));
  CHECK(rscclStreamSynchronize(stream));
  for (size_t i = 0; i < count * n_ranks; i++) EXPECT(recv[i] == (float)(i / count) + (float)(i % count % 100));

  CHECK(ncclReduceScatter(send, recv, count, ncclFloat32, ncclMax, comm, stream));
  CHECK(rscclStreamSynchronize(stream));
  for (size_t i = 0; i < count; i++)
    EXPECT(recv[i] == (float)(n_ranks - 1) + (float)((count * rank + i) % 100));

  int root = n_ranks - 1;
  CHECK(ncclBroadcast(send, recv, count, ncclFloat32, root, comm, stream));
  CHECK(rscclStreamSynchronize(stream));
  for (size_t i = 0; i < count; i++) EXPECT(recv[i] == (float)root + (float)(i % 100));

  CHECK(ncclReduce(send, recv, count, ncclFloat32, ncclSum, root, comm, stream));
  CHECK(rscclStreamSynchronize(stream));
  for (size_t i = 0; i < count; i++)
    EXPECT(rank != root || recv[i] == sum + (float)n_ranks * (float)(i % 100));

  CHECK(ncclBcast(recv, count, ncclFloat32, root, comm, stream));
  CHECK(rscclStreamSynchronize(stream));
  for (size_t i = 0; i < count; i++) EXPECT(recv[i] == sum + (float)n_ranks * (float)(i % 100));
  free(send);
  free(recv);
}

/* All ranks send to all in one group, receives in the opposite order of sends, among two all-reduces. */
static void check_group(size_t count) {
  float* send = numbers(count * n_ranks, (float)(100 * rank));
  float* recv = numbers(count * n_ranks, -1);
  float one[2] = {1, 1};
  CHECK(ncclGroupStart());
  CHECK(ncclAllReduce(one, one, 1, ncclFloat32, ncclSum, comm, stream));
  for (int r = 0; r < n_ranks; r++) CHECK(ncclSend(send + r * count, count, ncclFloat32, r, comm, stream));
  for (int r = n_ranks - 1; r >= 0; r--) CHECK(ncclRecv(recv + r * count, count, ncclFloat32, r, comm, stream));
  CHECK(ncclAllReduce(one + 1, one + 1, 1, ncclFloat32, ncclProd, comm, stream));
  CHECK(ncclGroupEnd());
  CHECK(rscclStreamSynchronize(stream));
  for (int r = 0; r < n_ranks; r++)
    for (size_t i = 0; i < count; i++)
      EXPECT(recv[r * count + i] == (float)(100 * r) + (float)((rank * count + i) % 100));
  EXPECT(one[0] == (float)n_ranks && one[1] == 1);
  free(send);
  free(recv);
}

static void check_split(void) {
  ncclComm_t half, none;
  int count = 0, own = -1;
  CHECK(ncclCommSplit(comm, rank % 2, -rank, &half, NULL));
  CHECK(ncclCommCount(half, &count));
  CHECK(ncclCommUserRank(half, &own));
  int members = (n_ranks + 1 - rank % 2) / 2;
  EXPECT(count == members && own == members - 1 - rank / 2);
  int value = rank, sum = 0;
  CHECK(ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, half, stream));
  CHECK(rscclStreamSynchronize(stream));
  for (int r = rank % 2; r < n_ranks; r += 2) sum += r;
  EXPECT(value == sum);
  CHECK(ncclCommDestroy(half));
  CHECK(ncclCommSplit(comm, rank == 0 ? NCCL_SPLIT_NOCOLOR : 0, 0, &none, NULL));
  EXPECT((none == NULL) == (rank == 0));
  CHECK(ncclCommDestroy(none));
}

static int until_error(void) {
  float* values = numbers(200000, 1);
  for (long round = 0;; round++) {
    ncclResult_t code = ncclAllReduce(values, values, 200000, ncclFloat32, ncclMax, comm, stream);
    if (code == ncclSuccess) code = rscclStreamSynchronize(stream);
    if (code != ncclSuccess) {
      ncclResult_t later = ncclSuccess;
      CHECK(ncclCommGetAsyncError(comm, &later));
      EXPECT(later == code);
      printf("ERROR %d %s\n", code, ncclGetLastError(comm));
      fflush(stdout);
      break;
    }
    if (round == 0) {
      printf("READY\n");
      fflush(stdout);
    }
  }
  if (rank % 2) CHECK(ncclCommAbort(comm));
  else CHECK(ncclCommDestroy(comm));
  ncclUniqueId id;
  CHECK(ncclGetUniqueId(&id));
  CHECK(ncclCommInitRank(&comm, 1, id, 0));
  CHECK(ncclAllReduce(values, values, 10, ncclFloat32, ncclMax, comm, stream));
  CHECK(rscclStreamSynchronize(stream));
  CHECK(ncclCommDestroy(comm));
  printf("AGAIN\n");
  free(values);
  return 0;
}

static void mismatch(void) {
  float values[64] = {0};
  ncclResult_t code = rank == 0 ? ncclAllGather(values, values, 8, ncclFloat32, comm, stream)
                                : ncclAllReduce(values, values, 8, ncclFloat32, ncclSum, comm, stream);
  if (code == ncclSuccess) code = rscclStreamSynchronize(stream);
  printf("ERROR %d %s\n", code, ncclGetLastError(comm));
  CHECK(ncclCommAbort(comm));
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void bench(size_t count, int shared) {
  float* values = numbers(count, 0);
  if (shared) {
    void* memory = NULL;
    CHECK(ncclMemAlloc(&memory, count * sizeof(float)));
    memcpy(memory, values, count * sizeof(float));
    free(values);
    values = memory;
  }
  int rounds = 20;
  double start = 0;
  for (int round = -3; round < rounds; round++) {
    if (round == 0) start = seconds();
    CHECK(ncclAllReduce(values, values, count, ncclFloat32, ncclMax, comm, stream));
    CHECK(rscclStreamSynchronize(stream));
  }
  if (rank == 0) printf("%zu bytes: %.3f ms\n", count * sizeof(float), 1e3 * (seconds() - start) / rounds);
  if (shared) CHECK(ncclMemFree(values));
  else free(values);
}

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  ncclUniqueId id;
  rank = atoi(argv[1]);
  n_ranks = atoi(argv[2]);
  parse_id(&id, argv[3]);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.commName = "world";
  ncclResult_t code = ncclCommInitRankConfig(&comm, n_ranks, id, rank, &config);
  if (code != ncclSuccess) {
    printf("ERROR %d %s\n", code, ncclGetLastError(NULL));
    return 3;
  }
  CHECK(rscclStreamCreate(&stream));
  if (!strcmp(argv[4], "until-error")) return until_error();
  if (!strcmp(argv[4], "mismatch")) return mismatch(), 0;
  if (!strcmp(argv[4], "leave")) {
    float value[1000] = {0};
    for (int round = atoi(argv[5]); round > 0; round--) CHECK(ncclAllReduce(value, value, 1000, ncclFloat32, ncclSum, comm, stream));
    CHECK(rscclStreamSynchronize(stream));
    printf("LEFT\n");
    return 0;
  }
  if (!strcmp(argv[4], "idle")) {
    size_t count = strtoul(argv[5], NULL, 10);
    float* values = numbers(count, 1);
    for (int round = atoi(argv[6]); round > 0; round--) {
      CHECK(ncclAllReduce(values, values, count, ncclFloat32, ncclMax, comm, stream));
      CHECK(rscclStreamSynchronize(stream));
    }
    printf("IDLE\n");
    fflush(stdout);
    for (;;) pause();
  }
  if (!strcmp(argv[4], "bench")) bench(strtoul(argv[5], NULL, 10), argc > 6 && !strcmp(argv[6], "shared"));
  if (!strcmp(argv[4], "once")) {
    int version = 0, count = 0, own = -1;
    CHECK(ncclGetVersion(&version));
    CHECK(ncclCommCount(comm, &count));
    CHECK(ncclCommUserRank(comm, &own));
    EXPECT(version == 22809 && count == n_ranks && own == rank);
    check_collectives(1);
    check_collectives(100003);
    check_group(5000);
    check_split();
  }
  CHECK(ncclCommFinalize(comm));
  CHECK(ncclCommDestroy(comm));
  CHECK(rscclStreamDestroy(stream));
  printf("DONE\n");
  return 0;
}

/* Truth against the segment: several ranks in one process, groups, in place, zero counts, sends and receives of two
 * communicators in one group, refused calls, a split, an abort: counters ROUNDS. Per rank of the first two communicators that is
 * AllReduce 2 x ROUNDS calls of 4000 x ROUNDS bytes, ROUNDS more refused on rank 0; Send ROUNDS calls of 400 x ROUNDS bytes, and
 * in the second ROUNDS calls of 56 x ROUNDS bytes. */
#include "engine.h"

enum { N = 2 };
static float in[2 * N][1 << 12], out[2 * N][1 << 12];

static void exchange(ncclComm_t *comms, cudaStream_t *streams, size_t count, ncclDataType_t type) {
  for (int i = 0; i < N; i++) {
    OK(ncclSend(in[i], count, type, 1 - i, comms[i], streams[i]));
    OK(ncclRecv(out[i], count, type, 1 - i, comms[i], streams[i]));
  }
}

static void one_round(ncclComm_t *a, ncclComm_t *b, cudaStream_t *streams) {
  OK(ncclGroupStart());
  for (int i = 0; i < N; i++) OK(ncclAllReduce(in[i], in[i], 1000, ncclFloat, ncclSum, a[i], streams[i]));
  OK(ncclGroupEnd());
  OK(ncclGroupStart());
  for (int i = 0; i < N; i++) OK(ncclAllReduce(in[i], out[i], 0, ncclFloat, ncclSum, a[i], streams[i]));
  OK(ncclGroupEnd());
  OK(ncclGroupStart());
  OK(ncclGroupStart());
  exchange(a, streams, 100, ncclFloat);
  OK(ncclGroupEnd());
  exchange(b, streams + N, 7, ncclDouble);
  OK(ncclGroupEnd());
  if (ncclAllReduce(NULL, NULL, 5, (ncclDataType_t)99, ncclSum, a[0], streams[0]) == ncclSuccess) puts("taken?");
}

int main(int argc, char **argv) {
  int rounds = argc > 1 ? atoi(argv[1]) : 100;
  ncclComm_t a[N], b[N], c[N];
  cudaStream_t streams[2 * N];
  OK(ncclCommInitAll(a, N, NULL));
  OK(ncclCommInitAll(b, N, NULL));
  for (int i = 0; i < 2 * N; i++) OK(rscclStreamCreate(&streams[i]));
  for (int k = 0; k < rounds; k++) one_round(a, b, streams);
  for (int i = 0; i < 2 * N; i++) OK(rscclStreamSynchronize(streams[i]));
  OK(ncclGroupStart());
  for (int i = 0; i < N; i++) OK(ncclCommSplit(a[i], 0, i, &c[i], NULL));
  OK(ncclGroupEnd());
  OK(ncclGroupStart());
  for (int i = 0; i < N; i++) OK(ncclBcast(in[i], 10, ncclInt8, 1, c[i], streams[i]));
  OK(ncclGroupEnd());
  for (int i = 0; i < N; i++) OK(rscclStreamSynchronize(streams[i]));
  /* One rank alone: it hangs, and is aborted. */
  OK(ncclAllReduce(in[0], out[0], 10, ncclFloat, ncclSum, c[0], streams[0]));
  usleep(100000);
  for (int i = 0; i < N; i++) OK(ncclCommAbort(c[i]));
  for (int i = 0; i < N; i++) OK(ncclCommDestroy(a[i]));
  for (int i = 0; i < N; i++) OK(ncclCommDestroy(b[i]));
  puts("ok");
  return 0;
}

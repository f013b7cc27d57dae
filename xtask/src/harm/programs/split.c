/* One process with four ranks: ncclCommInitAll, a group of ncclCommSplit, 50 all-reduces, as a program with several GPUs has it. */
#include "engine.h"

enum { N = 4, ROUNDS = 50 };

int main(void) {
  ncclComm_t world[N], child[N];
  cudaStream_t streams[N];
  static float buffers[N][1 << 12];
  OK(ncclCommInitAll(world, N, NULL));
  for (int i = 0; i < N; i++) OK(rscclStreamCreate(&streams[i]));
  OK(ncclGroupStart());
  for (int i = 0; i < N; i++) OK(ncclCommSplit(world[i], 0, i, &child[i], NULL));
  OK(ncclGroupEnd());
  for (int k = 0; k < ROUNDS; k++) {
    OK(ncclGroupStart());
    for (int i = 0; i < N; i++) OK(ncclAllReduce(buffers[i], buffers[i], 1000, ncclFloat, ncclSum, child[i], streams[i]));
    OK(ncclGroupEnd());
  }
  for (int i = 0; i < N; i++) OK(rscclStreamSynchronize(streams[i]));
  for (int i = 0; i < N; i++) OK(ncclCommDestroy(child[i]));
  for (int i = 0; i < N; i++) OK(ncclCommDestroy(world[i]));
  puts("ok");
  return 0;
}

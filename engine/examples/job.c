/* One rank of a small job, to try the library with: job RANK N_RANKS ID_FILE. Rank 0 writes the communicator's id to the file, the
 * others wait for it there; then all sum their ranks up, a hundred times, and say the sum.
 *
 *   cc engine/examples/job.c -o job -Iengine/include -Ltarget/release -lrsccl -Wl,-rpath,"$PWD/target/release" */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "rsccl.h"
#include "rsccl_stream.h"

enum { COUNT = 65536, ROUNDS = 100, PATIENCE_S = 60 };

static void check(ncclResult_t code, const char* what) {
  if (code == ncclSuccess) return;
  fprintf(stderr, "%s: %s: %s\n", what, ncclGetErrorString(code), ncclGetLastError(NULL));
  exit(1);
}

/* The whole id is there under its name at once. */
static void tell(const ncclUniqueId* id, const char* path) {
  char beside[4096];
  snprintf(beside, sizeof beside, "%s.part", path);
  FILE* file = fopen(beside, "wb");
  if (!file || fwrite(id, sizeof *id, 1, file) != 1 || fclose(file) || rename(beside, path)) {
    perror(path);
    exit(1);
  }
}

static void hear(ncclUniqueId* id, const char* path) {
  FILE* file = NULL;
  for (int hundredth = 0; !file && hundredth < 100 * PATIENCE_S; hundredth++) {
    file = fopen(path, "rb");
    if (!file) usleep(10000);
  }
  if (!file || fread(id, sizeof *id, 1, file) != 1) {
    fprintf(stderr, "%s: rank 0 has not told the id in %d s\n", path, PATIENCE_S);
    exit(1);
  }
  fclose(file);
}

int main(int argc, char** argv) {
  if (argc != 4) {
    fprintf(stderr, "job RANK N_RANKS ID_FILE\n");
    return 2;
  }
  int rank = atoi(argv[1]), n_ranks = atoi(argv[2]);
  ncclUniqueId id;
  if (rank == 0) {
    check(ncclGetUniqueId(&id), "the id");
    tell(&id, argv[3]);
  } else {
    hear(&id, argv[3]);
  }
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.commName = "world";
  ncclComm_t comm;
  cudaStream_t stream;
  check(rscclStreamCreate(&stream), "a stream");
  check(ncclCommInitRankConfig(&comm, n_ranks, id, rank, &config), "the communicator");
  float* own = malloc(COUNT * sizeof *own);
  float* sum = malloc(COUNT * sizeof *sum);
  if (!own || !sum) return 1;
  for (int i = 0; i < COUNT; i++) own[i] = (float)rank;
  for (int round = 0; round < ROUNDS; round++) {
    check(ncclAllReduce(own, sum, COUNT, ncclFloat32, ncclSum, comm, stream), "an all-reduce");
    check(rscclStreamSynchronize(stream), "an all-reduce");
  }
  printf("rank %d of %d: the sum is %g\n", rank, n_ranks, (double)sum[0]);
  check(ncclCommDestroy(comm), "the end");
  check(rscclStreamDestroy(stream), "the end");
  free(own);
  free(sum);
  return 0;
}

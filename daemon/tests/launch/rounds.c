/* One rank of a job that a launch has started: all-reduces over the engine, so that bytes move. rounds ID_FOLDER ROUNDS: so many
 * rounds, or for ever where that is 0. RANK, WORLD_SIZE and MASTER_PORT are the launch's; ranks meet by a file in the folder, which
 * has the port in its name. FAIL_RANK leaves with FAIL_STATUS after FAIL_ROUND rounds, or by that signal where it is negative. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rsccl.h"
#include "rsccl_stream.h"

enum { COUNT = 16384, PATIENCE_S = 60 };

static int number(const char* name, int otherwise) {
  const char* text = getenv(name);
  return text ? atoi(text) : otherwise;
}

static void check(ncclResult_t code, const char* what) {
  if (code == ncclSuccess) return;
  fprintf(stderr, "%s: %s: %s\n", what, ncclGetErrorString(code), ncclGetLastError(NULL));
  exit(1);
}

static void tell(const ncclUniqueId* id, const char* path) {
  char beside[4104];
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
    fprintf(stderr, "%s: no id\n", path);
    exit(1);
  }
  fclose(file);
}

static void fail(int status) {
  fprintf(stderr, "I was told to fail\n");
  if (status < 0) {
    signal(-status, SIG_DFL);
    kill(getpid(), -status);
  }
  exit(status);
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  setvbuf(stdout, NULL, _IOLBF, 0);
  int rank = number("RANK", -1), n_ranks = number("WORLD_SIZE", -1), rounds = atoi(argv[2]);
  char path[4096];
  snprintf(path, sizeof path, "%s/id-%d", argv[1], number("MASTER_PORT", 0));
  ncclUniqueId id;
  if (rank == 0) {
    check(ncclGetUniqueId(&id), "the id");
    tell(&id, path);
  } else {
    hear(&id, path);
  }
  ncclComm_t comm;
  cudaStream_t stream;
  check(rscclStreamCreate(&stream), "a stream");
  check(ncclCommInitRank(&comm, n_ranks, id, rank), "the communicator");
  static float own[COUNT], sum[COUNT];
  for (int i = 0; i < COUNT; i++) own[i] = (float)rank;
  int failing = rank == number("FAIL_RANK", -1) ? number("FAIL_ROUND", 10) : -1;
  for (int round = 0; rounds == 0 || round < rounds; round++) {
    if (round == failing) fail(number("FAIL_STATUS", 7));
    check(ncclAllReduce(own, sum, COUNT, ncclFloat32, ncclSum, comm, stream), "an all-reduce");
    check(rscclStreamSynchronize(stream), "an all-reduce");
    if (round == 0) printf("the sum is %g\n", (double)sum[0]);
    if (rounds == 0) usleep(2000);
  }
  check(ncclCommDestroy(comm), "the end");
  check(rscclStreamDestroy(stream), "the end");
  printf("done\n");
  return 0;
}

/* One rank of a job that calls each primitive once, for tests of profiler plugins: script.c RANK N_RANKS ID_HEX.
 * AllReduce, AllGather, ReduceScatter, Broadcast from 1, Reduce to 0, AlltoAll, Gather to 0, Scatter from 0, a send to the
 * next rank with a receive from the one before in one group, an AllReduce of nothing. Each is waited for. Says DONE. */
#include <stdio.h>
#include <stdlib.h>

#include "rsccl.h"
#include "rsccl_stream.h"

enum { COUNT = 65536 };

static void check(ncclResult_t code, const char* what) {
  if (!code) return;
  printf("FAILED %s: %d %s\n", what, code, ncclGetLastError(NULL));
  exit(3);
}

#define DO(call) check(call, #call), check(rscclStreamSynchronize(stream), #call)

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  int rank = atoi(argv[1]), n_ranks = atoi(argv[2]);
  ncclUniqueId id;
  for (int i = 0; i < NCCL_UNIQUE_ID_BYTES; i++) {
    unsigned byte = 0;
    sscanf(argv[3] + 2 * i, "%2x", &byte);
    id.internal[i] = (char)byte;
  }
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.commName = "world";
  ncclComm_t comm;
  cudaStream_t stream;
  check(rscclStreamCreate(&stream), "a stream");
  check(ncclCommInitRankConfig(&comm, n_ranks, id, rank, &config), "the communicator");
  float* from = calloc((size_t)n_ranks * COUNT, sizeof(float));
  float* to = calloc((size_t)n_ranks * COUNT, sizeof(float));
  DO(ncclAllReduce(from, to, COUNT, ncclFloat32, ncclSum, comm, stream));
  DO(ncclAllGather(from, to, COUNT, ncclFloat32, comm, stream));
  DO(ncclReduceScatter(from, to, COUNT, ncclFloat32, ncclSum, comm, stream));
  DO(ncclBroadcast(from, to, COUNT, ncclFloat32, 1, comm, stream));
  DO(ncclReduce(from, to, COUNT, ncclFloat32, ncclSum, 0, comm, stream));
  DO(ncclAlltoAll(from, to, COUNT, ncclFloat32, comm, stream));
  DO(ncclGather(from, to, COUNT, ncclFloat32, 0, comm, stream));
  DO(ncclScatter(from, to, COUNT, ncclFloat32, 0, comm, stream));
  check(ncclGroupStart(), "a group");
  check(ncclSend(from, COUNT, ncclFloat32, (rank + 1) % n_ranks, comm, stream), "a send");
  check(ncclRecv(to, COUNT, ncclFloat32, (rank + n_ranks - 1) % n_ranks, comm, stream), "a receive");
  DO(ncclGroupEnd());
  DO(ncclAllReduce(from, to, 0, ncclFloat32, ncclSum, comm, stream));
  check(ncclCommDestroy(comm), "the end");
  puts("DONE");
  return 0;
}

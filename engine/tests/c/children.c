/* One rank of a job that splits its ranks in the order of their numbers into two halves, and shrinks the world by its first rank:
 * children.c RANK N_RANKS ID_HEX. Says DONE. */
#include <stdio.h>
#include <stdlib.h>

#include "rsccl.h"
#include "rsccl_stream.h"

static void check(ncclResult_t code, const char* what) {
  if (!code) return;
  printf("FAILED %s: %d %s\n", what, code, ncclGetLastError(NULL));
  exit(3);
}

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  int rank = atoi(argv[1]), n_ranks = atoi(argv[2]), first = 0;
  ncclUniqueId id;
  for (int i = 0; i < NCCL_UNIQUE_ID_BYTES; i++) {
    unsigned byte = 0;
    sscanf(argv[3] + 2 * i, "%2x", &byte);
    id.internal[i] = (char)byte;
  }
  ncclComm_t world, half, rest;
  check(ncclCommInitRank(&world, n_ranks, id, rank), "the communicator");
  check(ncclCommSplit(world, 2 * rank / n_ranks, rank, &half, NULL), "a half");
  check(ncclCommDestroy(half), "its end");
  if (rank > 0) {
    check(ncclCommShrink(world, &first, 1, &rest, NULL, NCCL_SHRINK_DEFAULT), "the rest");
    check(ncclCommDestroy(rest), "its end");
  }
  check(ncclCommDestroy(world), "the end");
  puts("DONE");
  return 0;
}

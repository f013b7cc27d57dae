/* A library with functions of NCCL's that take arguments in every way that a call can: compiled by any compiler, for any
 * C library, it needs none. With -DVERSION it says another version. */
#include "loading.h"

#ifndef VERSION
#define VERSION 22907
#endif

int ncclGetVersion(int *version) { *version = VERSION; return 0; }
int ncclCommAbort(void *comm) { return comm == (void *)6 ? 0 : 4; }
int ncclGroupStart(void) { return 0; }
int ncclGroupEnd(void) { return 0; }

/* Seven arguments, of which one is on the stack. */
int ncclAllReduce(const void *send, void *recv, unsigned long count, int datatype, int op, void *comm, void *stream) {
  int is_whole = send == (void *)1 && recv == (void *)2 && count == 3 && datatype == 4 && op == 5 && comm == (void *)6 &&
                 stream == (void *)7;
  return is_whole ? 0 : 4;
}

/* A struct by value, which lies on the stack too. */
int ncclCommInitRank(void **comm, int n_ranks, struct unique_id id, int rank) {
  for (int i = 0; i < 128; i++)
    if (id.bytes[i] != (char)i) return 4;
  if (n_ranks != 2 || rank != 1) return 4;
  *comm = (void *)6;
  return 0;
}

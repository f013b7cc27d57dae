/* Calls the library as a job would: `begin` without a communicator, `use` with one. */
#include "loading.h"
#include <stddef.h>

int begin(void) { return ncclGroupStart() != 0 || ncclGroupEnd() != 0; }

/* A function that has not been called before. */
int stop(void) { return ncclCommAbort((void *)6) != 0; }

/* All that a job may find wrong, 0 if nothing. */
int use(void) {
  struct unique_id id;
  for (int i = 0; i < 128; i++) id.bytes[i] = (char)i;
  void *comm = NULL;
  if (begin()) return 1;
  if (ncclCommInitRank(&comm, 2, id, 1) != 0 || comm != (void *)6) return 2;
  return ncclAllReduce((void *)1, (void *)2, 3, 4, 5, comm, (void *)7) != 0 ? 3 : 0;
}

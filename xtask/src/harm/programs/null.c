/* Arguments that NCCL refuses: NULL places and NULL communicators. The answers are NCCL's. */
#include "harm.h"

#define TELL(call) printf("%s -> %d\n", #call, call)

int main(void) {
  ncclUniqueId id = {{1}};
  ncclComm_t comm = NULL, other = NULL;
  for (int round = 0; round < 2; round++) {
    TELL(ncclGetVersion(NULL));
    TELL(ncclGetUniqueId(NULL));
    TELL(ncclCommInitRank(NULL, 8, id, 0));
    TELL(ncclCommInitRank(&other, 0, id, 0));
    TELL(ncclCommInitAll(NULL, 2, NULL));
    TELL(ncclCommSplit(NULL, 0, 0, &other, NULL));
    TELL(ncclCommSplit(comm, 0, 0, NULL, NULL));
    TELL(ncclCommCount(NULL, NULL));
    TELL(ncclCommGetAsyncError(comm, NULL));
    TELL(ncclCommFinalize(NULL));
    TELL(ncclAllReduce(NULL, NULL, 0, 99, 99, NULL, NULL));
    TELL(ncclAllReduce(NULL, NULL, SIZE_MAX, -1, -1, comm, (void *)7));
    TELL(ncclSend(NULL, 1, FLOAT, -5, NULL, NULL));
    TELL(ncclCommDestroy(NULL));
    TELL(ncclCommAbort(NULL));
    TELL(ncclCommRevoke(NULL, 1));
    TELL(ncclGroupEnd());
    comm = make_comm(0);
  }
  return ncclCommDestroy(comm);
}

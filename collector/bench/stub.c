/* The cheapest library there can be: a call that returns. What remains of the time is the way to it. An init allocates on the thread
 * that makes it, as NCCL's does: so the program has its threads' heaps bare, too. */
#include <stdlib.h>
#define API __attribute__((visibility("default")))
typedef struct { char internal[128]; } ncclUniqueId;
enum { COMM_BYTES = 256 };

API int ncclGetVersion(int *version) { *version = 22809; return 0; }
API int ncclCommInitRank(void **comm, int n_ranks, ncclUniqueId id, int rank) {
  (void)n_ranks; (void)id; (void)rank;
  *comm = calloc(1, COMM_BYTES);
  return *comm ? 0 : 2;
}
API int ncclCommCount(void *comm, int *n) { (void)comm; *n = 8; return 0; }
API int ncclCommUserRank(void *comm, int *rank) { (void)comm; *rank = 0; return 0; }
API int ncclCommCuDevice(void *comm, int *device) { (void)comm; *device = 0; return 0; }
API int ncclAllReduce(const void *s, void *r, unsigned long n, int t, int o, void *c, void *q) {
  (void)s; (void)r; (void)n; (void)t; (void)o; (void)c; (void)q;
  return 0;
}

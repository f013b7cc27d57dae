/* A library that speaks NCCL's C API, loads the CUDA driver as NCCL does, puts work on streams and has no profiler. */
#define _GNU_SOURCE
#include "stub_stream_nccl.h"
#include <dlfcn.h>
#include <stdlib.h>

enum { SUCCESS = 0, IN_PROGRESS = 7, MAX_QUEUE = 65536, DEVICE = 3 };

struct stub_comm { int rank, n_ranks, device, is_non_blocking, n_pending; cudaStream_t pending[64]; };

static void (*launch)(cudaStream_t);
static void (*unhang)(void);
static int is_loaded, next_is_non_blocking, fail_next, next_device = DEVICE;
static _Thread_local int depth, n_queued, group_failed;
static _Thread_local struct { ncclComm_t comm; cudaStream_t stream; } *queue;

void stub_next_is_non_blocking(void) { next_is_non_blocking = 1; }
void stub_next_device(int device) { next_device = device; }
void stub_fail_next(int result) { fail_next = result; }
static void (*during_next)(void);
void stub_during_next(void (*what)(void)) { during_next = what; }
void stub_progress(ncclComm_t comm) {
  for (int i = 0; i < comm->n_pending; i++) if (launch) launch(comm->pending[i]);
  comm->n_pending = 0;
}

static int put(ncclComm_t comm, cudaStream_t stream) {
  if (comm->is_non_blocking) { comm->pending[comm->n_pending++] = stream; return IN_PROGRESS; }
  if (launch) launch(stream);
  return SUCCESS;
}

static int operation(ncclComm_t comm, cudaStream_t stream) {
  int error = fail_next;
  fail_next = 0;
  void (*meanwhile)(void) = during_next;
  during_next = NULL;
  if (meanwhile) meanwhile();
  if (error) { group_failed = depth > 0 ? error : 0; return error; }
  if (depth == 0) return put(comm, stream);
  if (!queue) queue = malloc(MAX_QUEUE * sizeof *queue);
  queue[n_queued].comm = comm;
  queue[n_queued++].stream = stream;
  return SUCCESS;
}

int ncclGetVersion(int *version) { *version = 21805; return SUCCESS; }
int ncclCommCount(ncclComm_t comm, int *n) { *n = comm->n_ranks; return SUCCESS; }
int ncclCommUserRank(ncclComm_t comm, int *rank) { *rank = comm->rank; return SUCCESS; }
int ncclCommCuDevice(ncclComm_t comm, int *device) { *device = comm->device; return SUCCESS; }
int ncclCommInitRank(ncclComm_t *comm, int n_ranks, ncclUniqueId id, int rank) {
  (void)id;
  if (!is_loaded) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    launch = driver ? (void (*)(cudaStream_t))dlsym(driver, "stub_launch") : NULL;
    unhang = driver ? (void (*)(void))dlsym(driver, "stub_unhang") : NULL;
    is_loaded = 1;
  }
  *comm = calloc(1, sizeof **comm);
  (*comm)->rank = rank;
  (*comm)->n_ranks = n_ranks;
  (*comm)->device = next_device;
  next_device = DEVICE;
  (*comm)->is_non_blocking = next_is_non_blocking;
  next_is_non_blocking = 0;
  return SUCCESS;
}
int ncclCommDestroy(ncclComm_t comm) { free(comm); return SUCCESS; }
/* The hung kernel leaves. */
int ncclCommAbort(ncclComm_t comm) { (void)comm; if (unhang) unhang(); return SUCCESS; }
int ncclCommRevoke(ncclComm_t comm, int flags) { (void)flags; return ncclCommAbort(comm); }
int ncclCommGetAsyncError(ncclComm_t comm, int *state) { *state = comm->n_pending ? IN_PROGRESS : SUCCESS; return SUCCESS; }
int ncclGroupStart(void) { depth++; return SUCCESS; }
int ncclGroupEnd(void) {
  if (--depth > 0) return SUCCESS;
  int result = group_failed;
  for (int i = 0; !group_failed && i < n_queued; i++) {
    int one = put(queue[i].comm, queue[i].stream);
    if (one) result = one;
  }
  n_queued = group_failed = 0;
  return result;
}
int ncclAllReduce(const void *s, void *r, size_t n, int t, int o, ncclComm_t c, cudaStream_t q) { (void)s; (void)r; (void)n; (void)t; (void)o; return operation(c, q); }
int ncclSend(const void *b, size_t n, int t, int peer, ncclComm_t c, cudaStream_t q) { (void)b; (void)n; (void)t; (void)peer; return operation(c, q); }
int ncclRecv(void *b, size_t n, int t, int peer, ncclComm_t c, cudaStream_t q) { (void)b; (void)n; (void)t; (void)peer; return operation(c, q); }

/* What the stub library and the programs that use it share: the part of nccl.h that is needed, and the strings to
 * pull. No CUDA, no data: calls only cost time and make profiler events. */
#ifndef STUB_H
#define STUB_H
#include <stddef.h>
#include <stdint.h>

typedef struct stub_comm *ncclComm_t;
typedef void *cudaStream_t;
typedef struct { char internal[128]; } ncclUniqueId;
typedef struct {
  size_t size;
  unsigned magic, version;
  int blocking, cgaClusterSize, minCTAs, maxCTAs;
  const char *netName;
  int splitShare, trafficClass;
  const char *commName;
  int collnetEnable, CTAPolicy, shrinkShare, nvlsCTAs;
} ncclConfig_t;

int ncclGetVersion(int *);
int ncclGetUniqueId(ncclUniqueId *);
int ncclCommInitRank(ncclComm_t *, int, ncclUniqueId, int);
int ncclCommInitRankConfig(ncclComm_t *, int, ncclUniqueId, int, ncclConfig_t *);
int ncclCommInitAll(ncclComm_t *, int, const int *);
int ncclCommSplit(ncclComm_t, int, int, ncclComm_t *, ncclConfig_t *);
int ncclCommDestroy(ncclComm_t);
int ncclCommAbort(ncclComm_t);
int ncclCommFinalize(ncclComm_t);
int ncclCommCount(ncclComm_t, int *);
int ncclCommUserRank(ncclComm_t, int *);
int ncclCommCuDevice(ncclComm_t, int *);
int ncclGroupStart(void);
int ncclGroupEnd(void);
int ncclAllReduce(const void *, void *, size_t, int, int, ncclComm_t, cudaStream_t);
int ncclBroadcast(const void *, void *, size_t, int, int, ncclComm_t, cudaStream_t);
int ncclBcast(void *, size_t, int, int, ncclComm_t, cudaStream_t);
int ncclReduce(const void *, void *, size_t, int, int, int, ncclComm_t, cudaStream_t);
int ncclAllGather(const void *, void *, size_t, int, ncclComm_t, cudaStream_t);
int ncclReduceScatter(const void *, void *, size_t, int, int, ncclComm_t, cudaStream_t);
int ncclSend(const void *, size_t, int, int, ncclComm_t, cudaStream_t);
int ncclRecv(void *, size_t, int, int, ncclComm_t, cudaStream_t);

/* Since 2.22 and later. */
int ncclCommGetAsyncError(ncclComm_t, int *);
int ncclCommInitRankScalable(ncclComm_t *, int, int, int, ncclUniqueId *, ncclConfig_t *);
int ncclCommShrink(ncclComm_t, int *, int, ncclComm_t *, ncclConfig_t *, int);
int ncclCommGetUniqueId(ncclComm_t, ncclUniqueId *);
int ncclCommGrow(ncclComm_t, int, const ncclUniqueId *, int, ncclComm_t *, ncclConfig_t *);
int ncclCommRevoke(ncclComm_t, int);
int ncclGroupSimulateEnd(void *);
int ncclCommRegister(ncclComm_t, void *, size_t, void **);
int ncclCommWindowRegister(ncclComm_t, void *, size_t, void **, int);
int ncclMemAlloc(void **, size_t);
int ncclCommDeregister(ncclComm_t, void *);
int ncclCommWindowDeregister(ncclComm_t, void *);
int ncclAlltoAll(const void *, void *, size_t, int, ncclComm_t, cudaStream_t);
int ncclGather(const void *, void *, size_t, int, int, ncclComm_t, cudaStream_t);
int ncclScatter(const void *, void *, size_t, int, int, ncclComm_t, cudaStream_t);
int ncclAllReduceConfig(const void *, void *, size_t, int, int, ncclComm_t, cudaStream_t, const void *);
int ncclBroadcastConfig(const void *, void *, size_t, int, int, ncclComm_t, cudaStream_t, const void *);
int ncclReduceConfig(const void *, void *, size_t, int, int, int, ncclComm_t, cudaStream_t, const void *);
int ncclAllGatherConfig(const void *, void *, size_t, int, ncclComm_t, cudaStream_t, const void *);
int ncclReduceScatterConfig(const void *, void *, size_t, int, int, ncclComm_t, cudaStream_t, const void *);
int ncclAlltoAllConfig(const void *, void *, size_t, int, ncclComm_t, cudaStream_t, const void *);
int ncclGatherConfig(const void *, void *, size_t, int, int, ncclComm_t, cudaStream_t, const void *);
int ncclScatterConfig(const void *, void *, size_t, int, int, ncclComm_t, cudaStream_t, const void *);
int ncclPutSignal(const void *, size_t, int, int, void *, size_t, int, int, unsigned, ncclComm_t, cudaStream_t);
int ncclSignal(int, int, int, unsigned, ncclComm_t, cudaStream_t);
int ncclWaitSignal(int, void *, ncclComm_t, cudaStream_t);

enum stub_completion {
  STUB_INLINE,  /* every channel finishes before the call that launches it returns */
  STUB_THREADS, /* each channel finishes on a thread of its own, as it likes */
  STUB_HOLD,    /* channels finish in stub_release(), or never */
};
void stub_complete(enum stub_completion how, int channels);
/* Finishes what is held. */
void stub_release(void);
/* The next operation, init or outermost group end returns this. */
void stub_fail_next(int result);
/* As a result of an operation: it ends its thread instead of returning. */
#define STUB_EXIT_THREAD 1000
/* As a result of an operation, init, destroy or group end: it says "waiting" and never returns. */
#define STUB_WAIT 1001
/* As a result of an operation: it forks and succeeds, in the child too. */
#define STUB_FORK 1003
/* As a result of an operation: it goes on when it is told to, and only then looks at the mask. */
#define STUB_PAUSE 1002
/* Returns when an operation has paused. */
void stub_await_pause(void);
void stub_go_on(void);
/* What ncclCommGetAsyncError says from now on. */
void stub_async_error(int error);
/* The call that was captured last runs, outside of any call. */
void stub_run(void);
/* Calls are captured into a graph, as the profiler says. */
void stub_captured(int is_captured);
/* Each operation sends `steps` network steps of `bytes` to `peer`; 0 steps: none. */
void stub_network(int peer, int steps, size_t bytes);
/* An all-to-all is so many sends, launched one after the other: all but the last finish at once. 0: it is one operation. */
void stub_parts(int n);
/* Each operation is launched this many times, as a captured graph is. */
void stub_replays(int times);
/* Events started with handle NULL although the plugin asked for them. */
int stub_refused_events(void);
int stub_mask(void);
/* Inits return ncclInProgress; what they make is there when ncclCommGetAsyncError is asked for the second time. */
void stub_non_blocking(int is_on);
/* The profiler hears of children when the parent is done with all of them, last first if backwards. */
void stub_announce_late(int is_on);
void stub_splits_are_done(ncclComm_t parent);
/* Profiler contexts of what is destroyed are finalized when this is over. */
void stub_finalize_late(int is_on);
/* Inits in a group fill the caller's place in the call, and not when the group ends. As NCCL. */
void stub_gives_at_once(void);
/* The inits of a group are announced to the profiler from the last to the first. */
void stub_backwards(int is_on);
/* ncclCommInitAll announces nothing before so many threads are in it. */
void stub_meet(int n_threads);
/* The init of the communicator is over, before it was asked. */
void stub_init_is_done(ncclComm_t comm);
/* The child that is being split from the communicator is there, before the parent was asked. */
void stub_split_is_done(ncclComm_t parent);
/* Calls that have come to this copy of the library: operations, and group starts. */
int stub_operations(void);
int stub_group_starts(void);
#endif

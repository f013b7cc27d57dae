/* The part of nccl.h that the scenarios with streams need, and the strings to pull. */
#ifndef STUB_STREAM_NCCL_H
#define STUB_STREAM_NCCL_H
#include <stddef.h>

typedef struct stub_comm *ncclComm_t;
typedef void *cudaStream_t;
typedef struct { char internal[128]; } ncclUniqueId;

int ncclCommInitRank(ncclComm_t *, int, ncclUniqueId, int);
int ncclCommDestroy(ncclComm_t);
int ncclCommAbort(ncclComm_t);
int ncclCommRevoke(ncclComm_t, int);
int ncclCommGetAsyncError(ncclComm_t, int *);
int ncclGroupStart(void);
int ncclGroupEnd(void);
int ncclAllReduce(const void *, void *, size_t, int, int, ncclComm_t, cudaStream_t);
int ncclSend(const void *, size_t, int, int, ncclComm_t, cudaStream_t);
int ncclRecv(void *, size_t, int, int, ncclComm_t, cudaStream_t);

/* The next communicator is nonblocking: its calls are in progress until stub_progress. */
void stub_next_is_non_blocking(void);
void stub_progress(ncclComm_t);
/* The next communicator is on this device, not on 3. */
void stub_next_device(int device);
/* The next operation returns this, and its group. */
void stub_fail_next(int result);
/* The next operation does this meanwhile. */
void stub_during_next(void (*what)(void));
#endif

/* Streams of librsccl.so, which NCCL takes from CUDA.
 *
 * On a CPU a stream is a worker thread: operations on one stream run one after the other, in the order of the calls.
 * The NULL stream is one default stream of the process; several ranks in one process need a stream each. A call returns
 * once its operation is enqueued; its buffers belong to the library until the stream has been synchronized.
 *
 * Include after rsccl.h, or after NVIDIA's own nccl.h with CUDA's headers. */
#ifndef RSCCL_STREAM_H_
#define RSCCL_STREAM_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Makes a stream. */
ncclResult_t rscclStreamCreate(cudaStream_t* stream);
/* Waits for all that is enqueued; returns the first error since the last call. */
ncclResult_t rscclStreamSynchronize(cudaStream_t stream);
/* ncclSuccess if all that is enqueued is done, else ncclInProgress. */
ncclResult_t rscclStreamQuery(cudaStream_t stream);
/* How many operations were enqueued on a stream so far: after a call, the number of the last one that it enqueued. The
 * calls of one group are one operation for each stream and communicator. */
ncclResult_t rscclStreamCount(cudaStream_t stream, uint64_t* count);
/* Waits until the first `count` operations of a stream are over, for `timeout_ms` at most: ncclSuccess if they are, else
 * ncclInProgress, or the error of the first of them that failed, which stays until rscclStreamSynchronize. */
ncclResult_t rscclStreamWait(cudaStream_t stream, uint64_t count, int timeout_ms);
/* Enqueues a call of a function, as cudaLaunchHostFunc does: what comes after it on the stream waits until it has
 * returned. It must not call this library. */
ncclResult_t rscclStreamCall(cudaStream_t stream, void (*function)(void*), void* argument);
/* Forgets a stream; what is enqueued is still done. */
ncclResult_t rscclStreamDestroy(cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif

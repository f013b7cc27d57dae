/* Stands in for CUDA's runtime library, and for NCCL before it, so that the scripts' CUDA code runs without a GPU: memory
 * is the heap, a stream is the engine's, and a graph is the list of all-reduces called while its stream was capturing.
 * Signatures as in cuda_runtime_api.h. What it cannot show: how CUDA and NCCL behave. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "rsccl.h"
#include "rsccl_stream.h"

typedef int cudaError_t;
enum { cudaSuccess = 0, cudaErrorInvalidValue = 1 };
enum { MAX_CALLS = 8 };

struct call { const void* send; void* recv; size_t count; ncclDataType_t type; ncclRedOp_t op; ncclComm_t comm; };
struct graph { int n_calls; struct call calls[MAX_CALLS]; };

static struct graph* capturing;

static ncclResult_t forward(struct call call, cudaStream_t stream) {
  /* The engine is next in the process's search order. */
  ncclResult_t (*real)(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t) =
      dlsym(RTLD_NEXT, "pncclAllReduce");
  return real ? real(call.send, call.recv, call.count, call.type, call.op, call.comm, stream) : ncclSystemError;
}

ncclResult_t ncclAllReduce(const void* send, void* recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  struct call call = {send, recv, count, type, op, comm};
  if (!capturing) return forward(call, stream);
  if (capturing->n_calls == MAX_CALLS) return ncclInternalError;
  capturing->calls[capturing->n_calls++] = call;
  return ncclSuccess;
}

cudaError_t cudaSetDevice(int device) { return device == 0 ? cudaSuccess : cudaErrorInvalidValue; }
const char* cudaGetErrorString(cudaError_t error) { return error ? "invalid argument" : "no error"; }
cudaError_t cudaMalloc(void** address, size_t size) { return (*address = malloc(size)) ? cudaSuccess : cudaErrorInvalidValue; }
cudaError_t cudaFree(void* address) { free(address); return cudaSuccess; }
cudaError_t cudaMemcpy(void* to, const void* from, size_t size, int kind) {
  if (kind != 1 && kind != 2) return cudaErrorInvalidValue;
  memcpy(to, from, size);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t size, cudaStream_t stream) {
  if (!stream) return cudaErrorInvalidValue;
  memset(to, value, size);
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return flags == 1 ? (cudaError_t)rscclStreamCreate(stream) : cudaErrorInvalidValue;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) { return (cudaError_t)rscclStreamSynchronize(stream); }
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, int mode) {
  if (!stream || mode != 0 || capturing) return cudaErrorInvalidValue;
  capturing = calloc(1, sizeof *capturing);
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, struct graph** graph) {
  if (!stream || !capturing) return cudaErrorInvalidValue;
  *graph = capturing;
  capturing = NULL;
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiateWithFlags(struct graph** executable, struct graph* graph, unsigned long long flags) {
  if (flags != 0) return cudaErrorInvalidValue;
  *executable = malloc(sizeof *graph);
  **executable = *graph;
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(struct graph* executable, cudaStream_t stream) {
  for (int i = 0; i < executable->n_calls; i++)
    if (forward(executable->calls[i], stream) != ncclSuccess) return cudaErrorInvalidValue;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(struct graph* executable) { free(executable); return cudaSuccess; }
cudaError_t cudaGraphDestroy(struct graph* graph) { free(graph); return cudaSuccess; }
cudaError_t cudaDeviceGetAttribute(int* value, int attribute, int device) {
  *value = attribute == 75 ? 9 : 0;
  return device == 0 ? cudaSuccess : cudaErrorInvalidValue;
}
cudaError_t cudaDriverGetVersion(int* version) { *version = 13000; return cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int* version) { *version = 12080; return cudaSuccess; }

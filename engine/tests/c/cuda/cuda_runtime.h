/* The few names of CUDA's runtime that NVIDIA's nccl.h uses, so that it compiles where there is no CUDA. */
#ifndef STUB_CUDA_RUNTIME_H_
#define STUB_CUDA_RUNTIME_H_

#include <stddef.h>

#define CUDART_VERSION 12080

typedef struct CUstream_st* cudaStream_t;

#endif

/* Virtual ranks of librsccl.so: a job of N ranks that gives the same bits on any number of processes.
 *
 * A process stands for n_virtual ranks, the same number on each: virtual rank v = rank * n_virtual + i. Their
 * contributions are folded in a fixed order of virtual ranks, so that 8 virtual ranks have one result on 8, 4, 2 and 1
 * processes. Set RSCCL_DETERMINISTIC=rank-order.
 *
 * Include after rsccl.h, or after NVIDIA's own nccl.h with CUDA's headers. */
#ifndef RSCCL_VIRTUAL_H_
#define RSCCL_VIRTUAL_H_

#ifdef __cplusplus
extern "C" {
#endif

/* All-reduce of nranks * n_virtual contributions. send holds n_virtual of them, count elements each, one after another;
 * recv gets count elements, and does not overlap send unless n_virtual is 1 and they are the same. An average divides by
 * the number of virtual ranks. */
ncclResult_t rscclAllReduceVirtual(const void* send, void* recv, size_t count, int n_virtual, ncclDataType_t type,
                                   ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif

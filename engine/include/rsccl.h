/* NCCL's C API as librsccl.so offers it, over host memory: the same names, values and layouts as NCCL 2.28's nccl.h, so a
 * program may be compiled against either; the header's functions for device code are not offered. Buffers are ordinary memory; for streams see rsccl_stream.h.
 * Every function is exported as ncclX and as pncclX, the name that interposing tools call. */
#ifndef RSCCL_H_
#define RSCCL_H_

#include <limits.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct CUstream_st* cudaStream_t;
typedef struct ncclComm* ncclComm_t;
typedef struct ncclWindow_vidmem* ncclWindow_t;
#define NCCL_COMM_NULL NULL

#define NCCL_MAJOR 2
#define NCCL_MINOR 28
#define NCCL_PATCH 9
#define NCCL_SUFFIX ""
#define NCCL_VERSION_CODE 22809
#define NCCL_VERSION(X, Y, Z) \
  (((X) <= 2 && (Y) <= 8) ? (X) * 1000 + (Y) * 100 + (Z) : (X) * 10000 + (Y) * 100 + (Z))

#define NCCL_UNIQUE_ID_BYTES 128
typedef struct { char internal[NCCL_UNIQUE_ID_BYTES]; } ncclUniqueId;

typedef enum {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,
  ncclNumResults = 8
} ncclResult_t;

/* Values from ncclNumOps on are made by ncclRedOpCreatePreMulSum. */
typedef enum {
  ncclSum = 0,
  ncclProd = 1,
  ncclMax = 2,
  ncclMin = 3,
  ncclAvg = 4,
  ncclNumOps = 5,
  ncclMaxRedOp = 0x7fffffff
} ncclRedOp_t;

/* On a CPU both are host memory; they differ in when it is read. */
typedef enum {
  ncclScalarDevice = 0,       /* when the operation runs */
  ncclScalarHostImmediate = 1 /* before ncclRedOpCreatePreMulSum returns */
} ncclScalarResidence_t;

typedef enum {
  ncclInt8 = 0,
  ncclChar = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclInt = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclHalf = 6,
  ncclFloat32 = 7,
  ncclFloat = 7,
  ncclFloat64 = 8,
  ncclDouble = 8,
  ncclBfloat16 = 9,
  ncclFloat8e4m3 = 10,
  ncclFloat8e5m2 = 11,
  ncclNumTypes = 12
} ncclDataType_t;

#define NCCL_CONFIG_UNDEF_INT INT_MIN
#define NCCL_CONFIG_UNDEF_PTR NULL
#define NCCL_UNDEF_FLOAT -1.0f
#define NCCL_SPLIT_NOCOLOR -1

#define NCCL_WIN_DEFAULT 0x00
#define NCCL_WIN_COLL_SYMMETRIC 0x01
#define NCCL_WIN_REQUIRED_ALIGNMENT 4096

#define NCCL_CTA_POLICY_DEFAULT 0x00
#define NCCL_CTA_POLICY_EFFICIENCY 0x01
#define NCCL_CTA_POLICY_ZERO 0x02

#define NCCL_SHRINK_DEFAULT 0x00
#define NCCL_SHRINK_ABORT 0x01

#define NCCL_REVOKE_DEFAULT 0x00

/* blocking, commName, minCTAs and maxCTAs are honoured; the rest is accepted and has no meaning on a CPU. Initialise with
 * NCCL_CONFIG_INITIALIZER. */
typedef struct ncclConfig_v22800 {
  size_t size;
  unsigned int magic;
  unsigned int version;
  int blocking;
  int cgaClusterSize;
  int minCTAs;
  int maxCTAs;
  const char* netName;
  int splitShare;
  int trafficClass;
  const char* commName;
  int collnetEnable;
  int CTAPolicy;
  int shrinkShare;
  int nvlsCTAs;
  int nChannelsPerNetPeer;
  int nvlinkCentricSched;
} ncclConfig_t;

#define NCCL_CONFIG_INITIALIZER                                                                              \
  {                                                                                                          \
    sizeof(ncclConfig_t), 0xcafebeef, 22809, INT_MIN, INT_MIN, INT_MIN, INT_MIN, NULL, INT_MIN, INT_MIN,     \
        NULL, INT_MIN, INT_MIN, INT_MIN, INT_MIN, INT_MIN, INT_MIN                                           \
  }

typedef struct ncclSimInfo_v22200 {
  size_t size;
  unsigned int magic;
  unsigned int version;
  float estimatedTime;
} ncclSimInfo_t;

#define NCCL_SIM_INFO_INITIALIZER { sizeof(ncclSimInfo_t), 0x74685283, NCCL_VERSION_CODE, NCCL_UNDEF_FLOAT }

#define RSCCL_API(result, name, arguments) \
  result nccl##name arguments;             \
  result pnccl##name arguments

RSCCL_API(ncclResult_t, GetVersion, (int* version));
RSCCL_API(ncclResult_t, GetUniqueId, (ncclUniqueId* id));
RSCCL_API(const char*, GetErrorString, (ncclResult_t result));
/* Valid until this thread's next call of it. */
RSCCL_API(const char*, GetLastError, (ncclComm_t comm));
RSCCL_API(ncclResult_t, MemAlloc, (void** address, size_t size));
RSCCL_API(ncclResult_t, MemFree, (void* address));

RSCCL_API(ncclResult_t, CommInitRank, (ncclComm_t* comm, int nranks, ncclUniqueId id, int rank));
RSCCL_API(ncclResult_t, CommInitRankConfig,
          (ncclComm_t* comm, int nranks, ncclUniqueId id, int rank, ncclConfig_t* config));
/* The first id is used. */
RSCCL_API(ncclResult_t, CommInitRankScalable,
          (ncclComm_t* newcomm, int nranks, int myrank, int nId, ncclUniqueId* commIds, ncclConfig_t* config));
/* All ranks in this process; devices NULL, or each of 0 to ndev-1 once. */
RSCCL_API(ncclResult_t, CommInitAll, (ncclComm_t* comms, int ndev, const int* devices));
RSCCL_API(ncclResult_t, CommSplit,
          (ncclComm_t comm, int color, int key, ncclComm_t* newcomm, ncclConfig_t* config));
RSCCL_API(ncclResult_t, CommShrink,
          (ncclComm_t comm, int* excludeRanksList, int excludeRanksCount, ncclComm_t* newcomm, ncclConfig_t* config,
           int shrinkFlags));
RSCCL_API(ncclResult_t, CommRevoke, (ncclComm_t comm, int revokeFlags));
RSCCL_API(ncclResult_t, CommFinalize, (ncclComm_t comm));
RSCCL_API(ncclResult_t, CommDestroy, (ncclComm_t comm));
RSCCL_API(ncclResult_t, CommAbort, (ncclComm_t comm));
RSCCL_API(ncclResult_t, CommGetAsyncError, (ncclComm_t comm, ncclResult_t* error));
RSCCL_API(ncclResult_t, CommCount, (const ncclComm_t comm, int* count));
RSCCL_API(ncclResult_t, CommCuDevice, (const ncclComm_t comm, int* device));
RSCCL_API(ncclResult_t, CommUserRank, (const ncclComm_t comm, int* rank));
RSCCL_API(ncclResult_t, CommRegister, (const ncclComm_t comm, void* buffer, size_t size, void** handle));
RSCCL_API(ncclResult_t, CommDeregister, (const ncclComm_t comm, void* handle));
/* A window is the buffer itself. */
RSCCL_API(ncclResult_t, CommWindowRegister,
          (ncclComm_t comm, void* buffer, size_t size, ncclWindow_t* window, int winFlags));
RSCCL_API(ncclResult_t, CommWindowDeregister, (ncclComm_t comm, ncclWindow_t window));

RSCCL_API(ncclResult_t, RedOpCreatePreMulSum,
          (ncclRedOp_t* op, void* scalar, ncclDataType_t type, ncclScalarResidence_t residence, ncclComm_t comm));
RSCCL_API(ncclResult_t, RedOpDestroy, (ncclRedOp_t op, ncclComm_t comm));

RSCCL_API(ncclResult_t, GroupStart, (void));
RSCCL_API(ncclResult_t, GroupEnd, (void));
/* Predicts what the group's last collective would take, in microseconds; the group's calls are dropped. NULL: GroupEnd. */
RSCCL_API(ncclResult_t, GroupSimulateEnd, (ncclSimInfo_t* simInfo));

RSCCL_API(ncclResult_t, AllReduce,
          (const void* send, void* recv, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
           cudaStream_t stream));
RSCCL_API(ncclResult_t, AllGather,
          (const void* send, void* recv, size_t sendcount, ncclDataType_t type, ncclComm_t comm,
           cudaStream_t stream));
RSCCL_API(ncclResult_t, ReduceScatter,
          (const void* send, void* recv, size_t recvcount, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
           cudaStream_t stream));
RSCCL_API(ncclResult_t, Broadcast,
          (const void* send, void* recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
           cudaStream_t stream));
RSCCL_API(ncclResult_t, Bcast,
          (void* buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t stream));
RSCCL_API(ncclResult_t, Reduce,
          (const void* send, void* recv, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
           ncclComm_t comm, cudaStream_t stream));
RSCCL_API(ncclResult_t, AlltoAll,
          (const void* send, void* recv, size_t count, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream));
RSCCL_API(ncclResult_t, Gather,
          (const void* send, void* recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
           cudaStream_t stream));
RSCCL_API(ncclResult_t, Scatter,
          (const void* send, void* recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
           cudaStream_t stream));
RSCCL_API(ncclResult_t, Send,
          (const void* send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream));
RSCCL_API(ncclResult_t, Recv,
          (void* recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream));

#undef RSCCL_API

#ifdef __cplusplus
}
#endif
#endif

/* Prints what a header defines: values, sizes, offsets, initialisers. Compiled with either header. */
#include <stddef.h>

#include "job.h"

#define VALUE(name) printf(#name " %lld\n", (long long)(name))
#define SIZE(type) printf("sizeof " #type " %zu\n", sizeof(type))
#define MEMBER(type, member) printf(#type "." #member " %zu %zu\n", offsetof(type, member), sizeof(((type*)0)->member))

int main(void) {
  VALUE(ncclSuccess); VALUE(ncclUnhandledCudaError); VALUE(ncclSystemError); VALUE(ncclInternalError);
  VALUE(ncclInvalidArgument); VALUE(ncclInvalidUsage); VALUE(ncclRemoteError); VALUE(ncclInProgress);
  VALUE(ncclNumResults);
  VALUE(ncclSum); VALUE(ncclProd); VALUE(ncclMax); VALUE(ncclMin); VALUE(ncclAvg); VALUE(ncclNumOps); VALUE(ncclMaxRedOp);
  VALUE(ncclInt8); VALUE(ncclChar); VALUE(ncclUint8); VALUE(ncclInt32); VALUE(ncclInt); VALUE(ncclUint32);
  VALUE(ncclInt64); VALUE(ncclUint64); VALUE(ncclFloat16); VALUE(ncclHalf); VALUE(ncclFloat32); VALUE(ncclFloat);
  VALUE(ncclFloat64); VALUE(ncclDouble); VALUE(ncclBfloat16); VALUE(ncclFloat8e4m3); VALUE(ncclFloat8e5m2);
  VALUE(ncclNumTypes);
  VALUE(ncclScalarDevice); VALUE(ncclScalarHostImmediate);
  VALUE(NCCL_MAJOR); VALUE(NCCL_MINOR); VALUE(NCCL_PATCH); VALUE(NCCL_VERSION_CODE); VALUE(NCCL_VERSION(2, 8, 3));
  VALUE(NCCL_VERSION(2, 28, 9)); VALUE(NCCL_UNIQUE_ID_BYTES); VALUE(NCCL_CONFIG_UNDEF_INT); VALUE(NCCL_SPLIT_NOCOLOR);
  VALUE(NCCL_WIN_DEFAULT); VALUE(NCCL_WIN_COLL_SYMMETRIC); VALUE(NCCL_WIN_REQUIRED_ALIGNMENT);
  VALUE(NCCL_CTA_POLICY_DEFAULT); VALUE(NCCL_CTA_POLICY_EFFICIENCY); VALUE(NCCL_CTA_POLICY_ZERO);
  VALUE(NCCL_SHRINK_DEFAULT); VALUE(NCCL_SHRINK_ABORT); VALUE(NCCL_REVOKE_DEFAULT);
  VALUE(NCCL_UNDEF_FLOAT); VALUE(NCCL_COMM_NULL == NULL); VALUE(NCCL_CONFIG_UNDEF_PTR == NULL);
  SIZE(ncclUniqueId); SIZE(ncclComm_t); SIZE(ncclWindow_t); SIZE(ncclResult_t); SIZE(ncclRedOp_t); SIZE(ncclDataType_t);
  SIZE(ncclScalarResidence_t); SIZE(ncclConfig_t); SIZE(ncclSimInfo_t); SIZE(cudaStream_t);
  MEMBER(ncclConfig_t, size); MEMBER(ncclConfig_t, magic); MEMBER(ncclConfig_t, version); MEMBER(ncclConfig_t, blocking);
  MEMBER(ncclConfig_t, cgaClusterSize); MEMBER(ncclConfig_t, minCTAs); MEMBER(ncclConfig_t, maxCTAs);
  MEMBER(ncclConfig_t, netName); MEMBER(ncclConfig_t, splitShare); MEMBER(ncclConfig_t, trafficClass);
  MEMBER(ncclConfig_t, commName); MEMBER(ncclConfig_t, collnetEnable); MEMBER(ncclConfig_t, CTAPolicy);
  MEMBER(ncclConfig_t, shrinkShare); MEMBER(ncclConfig_t, nvlsCTAs); MEMBER(ncclConfig_t, nChannelsPerNetPeer);
  MEMBER(ncclConfig_t, nvlinkCentricSched);
  MEMBER(ncclSimInfo_t, size); MEMBER(ncclSimInfo_t, magic); MEMBER(ncclSimInfo_t, version);
  MEMBER(ncclSimInfo_t, estimatedTime);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  printf("config %zu %x %u %d %d %d %d %d %d %d %d %d %d %d %d %d %d\n", config.size, config.magic, config.version,
         config.blocking, config.cgaClusterSize, config.minCTAs, config.maxCTAs, config.netName == NULL,
         config.splitShare, config.trafficClass, config.commName == NULL, config.collnetEnable, config.CTAPolicy,
         config.shrinkShare, config.nvlsCTAs, config.nChannelsPerNetPeer, config.nvlinkCentricSched);
  printf("info %zu %x %u %g\n", info.size, info.magic, info.version, (double)info.estimatedTime);
  (void)rank, (void)n_ranks, (void)id, (void)comm, (void)stream;
  return 0;
}

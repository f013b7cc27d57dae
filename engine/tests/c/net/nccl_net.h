/* NCCL's network interface, versions 8 to 11, as its headers have it (NVIDIA/nccl, src/include/plugin/net). */
#ifndef NCCL_NET_H
#define NCCL_NET_H

#include <stddef.h>
#include <stdint.h>

enum { OK = 0, SYSTEM_ERROR = 2, INTERNAL_ERROR = 3, INVALID_USAGE = 5, REMOTE_ERROR = 6 };
enum { PTR_HOST = 1, PTR_CUDA = 2, PTR_DMABUF = 4, MAX_REQUESTS = 32, HANDLE_BYTES = 128 };
enum { LOG_WARN = 2, LOG_INFO = 3 };

typedef int Code;
typedef void (*Logger)(int level, unsigned long flags, const char* file, int line, const char* format, ...);
typedef Code (*Profiler)(void** event, int type, void* parent, int64_t id, void* data);

typedef struct { int n_devices; int devices[4]; } VirtualDevice;
typedef struct { int traffic_class; } Config;

typedef struct {
  char *name, *pci_path;
  uint64_t guid;
  int ptr_support, reg_is_global, speed, port;
  float latency;
  int max_comms, max_recvs, device_type, device_version;
} PropertiesV8;

typedef struct {
  char *name, *pci_path;
  uint64_t guid;
  int ptr_support, reg_is_global, force_flush, speed, port;
  float latency;
  int max_comms, max_recvs, device_type, device_version;
  VirtualDevice virtual_device;
  size_t max_p2p_bytes, max_coll_bytes;
} PropertiesV9;

typedef struct { PropertiesV9 v9; int max_multi_request_size; } PropertiesV11;

#define COMMON                                                                                     \
  Code (*accept)(void* listening, void** receiving, void** offload);                               \
  Code (*reg_mr)(void* comm, void* data, size_t size, int type, void** memory);                    \
  Code (*reg_mr_dma_buf)(void* comm, void* data, size_t size, int type, uint64_t offset, int fd, void** memory); \
  Code (*dereg_mr)(void* comm, void* memory);
#define COMMON_END                                                                                 \
  Code (*iflush)(void* comm, int n, void** data, int* sizes, void** memory, void** request);       \
  Code (*test)(void* request, int* done, int* sizes);                                              \
  Code (*close_send)(void* comm);                                                                  \
  Code (*close_recv)(void* comm);                                                                  \
  Code (*close_listen)(void* comm);                                                                \
  Code (*get_device_mr)(void* comm, void* memory, void** device);                                  \
  Code (*irecv_consumed)(void* comm, int n, void* request);

typedef struct {
  const char* name;
  Code (*init)(Logger);
  Code (*devices)(int*);
  Code (*properties)(int, PropertiesV8*);
  Code (*listen)(int, void*, void**);
  Code (*connect)(int, void*, void**, void**);
  COMMON
  Code (*isend)(void*, void*, int, int, void*, void**);
  Code (*irecv)(void*, int, void**, int*, int*, void**, void**);
  COMMON_END
} NetV8;

typedef struct {
  const char* name;
  Code (*init)(Logger);
  Code (*devices)(int*);
  Code (*properties)(int, PropertiesV9*);
  Code (*listen)(int, void*, void**);
  Code (*connect)(int, void*, void**, void**);
  COMMON
  Code (*isend)(void*, void*, size_t, int, void*, void**);
  Code (*irecv)(void*, int, void**, size_t*, int*, void**, void**);
  COMMON_END
  Code (*make_virtual)(int*, VirtualDevice*);
} NetV9;

typedef struct {
  const char* name;
  Code (*init)(Logger, Profiler);
  Code (*devices)(int*);
  Code (*properties)(int, PropertiesV9*);
  Code (*listen)(int, void*, void**);
  Code (*connect)(int, Config*, void*, void**, void**);
  COMMON
  Code (*isend)(void*, void*, size_t, int, void*, void*, void**);
  Code (*irecv)(void*, int, void**, size_t*, int*, void**, void**, void**);
  COMMON_END
  Code (*make_virtual)(int*, VirtualDevice*);
} NetV10;

typedef struct {
  const char* name;
  Code (*init)(void**, uint64_t, Config*, Logger, Profiler);
  Code (*devices)(int*);
  Code (*properties)(int, PropertiesV11*);
  Code (*listen)(void*, int, void*, void**);
  Code (*connect)(void*, int, void*, void**, void**);
  COMMON
  Code (*isend)(void*, void*, size_t, int, void*, void*, void**);
  Code (*irecv)(void*, int, void**, size_t*, int*, void**, void**, void**);
  COMMON_END
  Code (*make_virtual)(int*, VirtualDevice*);
  Code (*finalize)(void*);
  Code (*set_attributes)(void*, void*);
} NetV11;

#endif

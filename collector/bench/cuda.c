/* As much of libcuda.so.1 as a profiler plugin asks for on a machine without it. */
#include <string.h>
int cuGetErrorString(int error, const char **text) { (void)error; *text = "no CUDA here"; return 0; }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return 0; }
int cuDeviceGetUuid(void *uuid, int device) { memset(uuid, device, 16); return 0; }
int cuDeviceGetUuid_v2(void *uuid, int device) { return cuDeviceGetUuid(uuid, device); }

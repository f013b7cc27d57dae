/* A CUDA driver in which an event completes 1.5 ms after it was recorded, and that counts its queries. Nothing takes any time. */
#include <stdlib.h>
#include <time.h>
#define API __attribute__((visibility("default")))
#define DURATION_US 1500
static double now_us(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1e6 + t.tv_nsec * 1e-3; }
API volatile long n_queries;
API int cuEventCreate(double **event, unsigned flags) { (void)flags; *event = malloc(sizeof **event); return 0; }
API int cuEventRecord(double *event, void *stream) { (void)stream; *event = now_us() + DURATION_US; return 0; }
API int cuEventQuery(double *event) { n_queries++; return now_us() < *event ? 600 : 0; }
API int cuStreamIsCapturing(void *stream, int *status) { (void)stream; *status = 0; return 0; }
API int cuStreamGetCtx(void *stream, void **context) { (void)stream; *context = (void *)0xc0de; return 0; }
API int cuThreadExchangeStreamCaptureMode(int *mode) { (void)mode; return 0; }
API int cuCtxGetCurrent(void **context) { *context = (void *)0xc0de; return 0; }
API int cuCtxPushCurrent_v2(void *context) { (void)context; return 0; }
API int cuCtxPopCurrent_v2(void **context) { *context = (void *)0xc0de; return 0; }
API int cuCtxGetDevice(int *device) { *device = 0; return 0; }
API int cuCtxGetId(void *context, unsigned long long *id) { (void)context; *id = 1; return 0; }
API int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return 0; }
API int cuDeviceGetAttribute(int *value, int attribute, int device) { (void)device; *value = attribute == 75 ? 9 : 0; return 0; }

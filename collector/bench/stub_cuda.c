/* The cheapest CUDA driver there can be: nothing is captured, and every event is done. What remains of the time is the
 * collector's own; a real cuEventRecord and cuStreamIsCapturing come on top. */
#define API __attribute__((visibility("default")))
API int cuEventCreate(void **event, unsigned flags) { static char events[4096]; static int used; (void)flags; *event = &events[++used % 4096]; return 0; }
API long n_records;
API int cuEventRecord(void *event, void *stream) { (void)event; (void)stream; n_records++; return 0; }
API int cuEventQuery(void *event) { (void)event; return 0; }
API int cuStreamIsCapturing(void *stream, int *status) { (void)stream; *status = 0; return 0; }
API int cuStreamGetCtx(void *stream, void **context) { *context = stream; return 0; }
API int cuThreadExchangeStreamCaptureMode(int *mode) { (void)mode; return 0; }
API int cuCtxGetCurrent(void **context) { *context = 0; return 0; }
API int cuCtxPushCurrent_v2(void *context) { (void)context; return 0; }
API int cuCtxPopCurrent_v2(void **context) { *context = 0; return 0; }
API int cuCtxGetDevice(int *device) { *device = 0; return 0; }
API int cuCtxGetId(void *context, unsigned long long *id) { (void)context; *id = 1; return 0; }
API int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return 0; }
API int cuDeviceGetAttribute(int *value, int attribute, int device) { (void)device; *value = attribute == 75 ? 9 : 0; return 0; }

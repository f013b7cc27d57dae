/* A CUDA driver with one launch queue of bounded depth, as CUDA's is: who pushes on a full queue waits for room.
 * STUB_HUNG=1: what is pushed never ends until gpu_recover, as a collective whose peer is gone. STUB_DEPTH: the queue's depth, 1024.
 * STUB_HELD_LOCK=1: the waiting launch holds the driver's lock, which every other function takes. STUB_BUSY_US: how long work
 * takes otherwise. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#define API __attribute__((visibility("default")))
enum { SUCCESS = 0, NOT_READY = 600, CONTEXT = 0xc0de };
struct event { _Atomic double due_us; };

static pthread_mutex_t driver = PTHREAD_MUTEX_INITIALIZER, queue = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t room = PTHREAD_COND_INITIALIZER;
static atomic_int is_hung; /* an event is asked for without a lock */
static int used, depth, holds_lock, busy_us;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_long n_calls, n_queries, n_records;

API long gpu_queries(void) { return atomic_load(&n_queries); }
API long gpu_records(void) { return atomic_load(&n_records); }

/* What other threads held at a fork, nobody holds in the child. */
__attribute__((no_sanitize("thread"))) static void renew(void) {
  driver = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
  queue = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}
__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(NULL, NULL, renew); }

static int setting(const char *name, int otherwise) {
  const char *value = getenv(name);
  return value ? atoi(value) : otherwise;
}

static void read_settings(void) {
  depth = setting("STUB_DEPTH", 1024);
  is_hung = setting("STUB_HUNG", 0);
  holds_lock = setting("STUB_HELD_LOCK", 0);
  busy_us = setting("STUB_BUSY_US", 0);
}

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

/* Calls are in an order, as a driver's are, also where they wait for nobody. */
static void enter(void) {
  pthread_once(&once, read_settings);
  if (holds_lock) pthread_mutex_lock(&driver);
  atomic_fetch_add(&n_calls, 1);
}

static void leave(void) {
  atomic_fetch_add(&n_calls, 1);
  if (holds_lock) pthread_mutex_unlock(&driver);
}

static int touch(void) { enter(); leave(); return SUCCESS; }

API void gpu_push(void *stream) {
  (void)stream;
  enter();
  pthread_mutex_lock(&queue);
  if (is_hung) {
    while (is_hung && used >= depth) pthread_cond_wait(&room, &queue);
    used++;
  }
  pthread_mutex_unlock(&queue);
  leave();
}

API void gpu_recover(void) {
  pthread_mutex_lock(&queue);
  is_hung = used = 0;
  pthread_cond_broadcast(&room);
  pthread_mutex_unlock(&queue);
}

API int cuEventCreate(struct event **event, unsigned flags) { (void)flags; *event = calloc(1, sizeof **event); return touch(); }
API int cuEventDestroy_v2(struct event *event) { touch(); free(event); return SUCCESS; }
API int cuEventRecord(struct event *event, void *stream) {
  gpu_push(stream);
  atomic_fetch_add(&n_records, 1);
  event->due_us = now_us() + busy_us;
  return touch();
}
API int cuEventQuery(struct event *event) {
  enter();
  atomic_fetch_add(&n_queries, 1);
  int result = is_hung || now_us() < event->due_us ? NOT_READY : SUCCESS;
  leave();
  return result;
}
API int cuStreamIsCapturing(void *stream, int *status) { (void)stream; touch(); *status = 0; return SUCCESS; }
API int cuStreamGetCtx(void *stream, uintptr_t *context) { (void)stream; touch(); *context = CONTEXT; return SUCCESS; }
API int cuThreadExchangeStreamCaptureMode(int *mode) { (void)mode; return touch(); }
API int cuCtxGetCurrent(uintptr_t *context) { touch(); *context = CONTEXT; return SUCCESS; }
API int cuCtxPushCurrent_v2(uintptr_t context) { (void)context; return touch(); }
API int cuCtxPopCurrent_v2(uintptr_t *context) { touch(); *context = CONTEXT; return SUCCESS; }
API int cuCtxGetDevice(int *device) { touch(); *device = 0; return SUCCESS; }
API int cuCtxGetId(uintptr_t context, uint64_t *id) { (void)context; touch(); *id = 1; return SUCCESS; }
API int cuDeviceGet(int *device, int ordinal) { touch(); *device = ordinal; return SUCCESS; }
API int cuDeviceGetAttribute(int *value, int attribute, int device) { (void)attribute; (void)device; touch(); *value = 9; return SUCCESS; }

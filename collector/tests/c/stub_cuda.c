/* A CUDA driver without a device: streams whose work ends when the test says, events, and capture as CUDA has it: a query
 * by any thread that is not in relaxed mode invalidates a capture in global mode. STUB_OLD: as it was before 10.1. Two devices, each
 * with a clock of its own that neither begins nor runs as the host's does. */
#include "stub_cuda.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

static atomic_int context_id = 7, n_stale;
void stub_reset(void) { context_id++; }
int stub_n_stale(void) { return n_stale; }

enum { SUCCESS = 0, INVALID = 1, OUT_OF_MEMORY = 2, INVALID_HANDLE = 400, NOT_READY = 600, CAPTURE_UNSUPPORTED = 900,
       GLOBAL = 0, RELAXED = 2, CONTEXT = 0xc0de, OTHER_CONTEXT = 0xc0df };

struct stub_stream { atomic_int launched, finished, captures, refused, device; atomic_bool is_gone; };
struct event { struct stub_stream *stream; int position, context_id, device; bool has_time, is_reached; double at_ms; };

enum { MAX_TIMED = 65536 };
static struct event *timed[MAX_TIMED];
static int n_timed;
static atomic_int n_mixed, n_gone, time_fault, n_timed_left;

static struct stub_stream legacy;
static atomic_bool holds, refuses_events, refuses_record, is_invalid;
static atomic_int n_captures, n_creates, n_records, n_queries, n_calls, n_sins, n_useless;
/* A thread's first look at what is not in place from its start allocates, and tests count what is allocated. */
#define IN_PLACE __attribute__((tls_model("initial-exec")))
static _Thread_local int mode IN_PLACE = GLOBAL;
static _Thread_local uintptr_t current IN_PLACE;
static bool is_one(uintptr_t context) { return context == CONTEXT || context == OTHER_CONTEXT; }
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct stub_stream *of(stream_t stream) { return (uintptr_t)stream <= 2 ? &legacy : stream; }

/* The launch queue: once it is bounded nothing leaves it before stub_unhang, as behind a hung kernel, and whoever puts something on
 * it when it is full waits, on demand with the lock that a query wants. */
static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER, driver_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t queue_moved = PTHREAD_COND_INITIALIZER;
static int depth, n_queued;
static bool is_bounded;
static atomic_bool takes_lock, is_full;

void stub_bound_queue(int room, bool with_lock) {
  takes_lock = with_lock;
  pthread_mutex_lock(&queue_lock);
  depth = room;
  n_queued = 0;
  is_bounded = true;
  is_full = false;
  pthread_mutex_unlock(&queue_lock);
}
void stub_unhang(void) {
  pthread_mutex_lock(&queue_lock);
  is_bounded = is_full = false;
  pthread_cond_broadcast(&queue_moved);
  pthread_mutex_unlock(&queue_lock);
}
bool stub_is_full(void) { return is_full; }
static void put_on_queue(void) {
  bool has_lock = takes_lock;
  if (has_lock) pthread_mutex_lock(&driver_lock);
  pthread_mutex_lock(&queue_lock);
  while (is_bounded && n_queued >= depth) {
    is_full = true;
    pthread_cond_wait(&queue_moved, &queue_lock);
  }
  n_queued++;
  pthread_mutex_unlock(&queue_lock);
  if (has_lock) pthread_mutex_unlock(&driver_lock);
}

/* By the clock of the device: another zero, and 50 ppm too fast or too slow. */
static double device_ms(int device) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (now.tv_sec * 1e3 + now.tv_nsec * 1e-6) * (device ? 1.00005 : 0.99995) + device * 1e7;
}
/* With the lock: the device has got to the event, if it has. */
static bool reach(struct event *event) {
  if (!event->is_reached && (!holds || !event->stream || event->stream->finished >= event->position)) {
    event->is_reached = true;
    event->at_ms = device_ms(event->device);
  }
  return event->is_reached;
}
static void reach_all(void) {
  for (int i = 0; i < n_timed; i++) if (timed[i]->stream) reach(timed[i]);
}

stream_t stub_stream(void) { return calloc(1, sizeof(struct stub_stream)); }
stream_t stub_stream_of(int device) {
  stream_t stream = stub_stream();
  stream->device = device;
  return stream;
}
void stub_destroy(stream_t stream) { stream->is_gone = true; }
void stub_fail_times(int call) { time_fault = call; }
int stub_n_mixed(void) { return n_mixed; }
int stub_n_gone(void) { return n_gone; }
void stub_launch(stream_t stream) {
  if (of(stream)->captures) return;
  put_on_queue();
  of(stream)->launched++;
}
void stub_hold(bool how) {
  pthread_mutex_lock(&lock);
  holds = how;
  reach_all();
  pthread_mutex_unlock(&lock);
}
void stub_finish(stream_t stream, int n) {
  pthread_mutex_lock(&lock);
  of(stream)->finished = n;
  reach_all();
  pthread_mutex_unlock(&lock);
}
void stub_begin_capture(stream_t stream) { is_invalid = false; of(stream)->captures = 1; n_captures++; }
bool stub_end_capture(stream_t stream) { of(stream)->captures = 0; n_captures--; return !is_invalid; }
void stub_refuse_events(bool how) { refuses_events = how; }
void stub_refuse_timed_after(int n) { n_timed_left = n + 1; }
void stub_refuse_record(void) { refuses_record = true; }
int stub_n_creates(void) { return n_creates; }
int stub_n_records(void) { return n_records; }
int stub_n_queries(void) { return n_queries; }
int stub_n_calls(void) { return n_calls; }
int stub_n_sins(void) { return n_sins; }
int stub_n_useless(void) { return n_useless; }

int cuEventCreate(struct event **event, unsigned flags) {
  n_calls++;
  if (flags != 2 && flags != 0) return INVALID;
  if (refuses_events || (flags == 0 && time_fault == 1)) return OUT_OF_MEMORY;
  if (flags == 0 && n_timed_left && !--n_timed_left) return OUT_OF_MEMORY;
  n_creates++;
  *event = calloc(1, sizeof **event);
  (*event)->context_id = context_id;
  (*event)->device = current == OTHER_CONTEXT;
  (*event)->has_time = flags == 0;
  if ((*event)->has_time) {
    pthread_mutex_lock(&lock);
    if (n_timed == MAX_TIMED) abort();
    timed[n_timed++] = *event;
    pthread_mutex_unlock(&lock);
  }
  return SUCCESS;
}
int cuEventRecord(struct event *event, stream_t stream) {
  n_calls++;
  n_records++;
  if (event->context_id != context_id) { n_stale++; return INVALID_HANDLE; }
  if (of(stream)->is_gone) { n_gone++; return INVALID_HANDLE; }
  if (of(stream)->device != event->device) { n_mixed++; return INVALID_HANDLE; }
  if (event->has_time && time_fault > 1 && time_fault < 4 && --time_fault == 1) return INVALID_HANDLE;
  if (of(stream)->captures) { n_sins++; is_invalid = true; return CAPTURE_UNSUPPORTED; }
  if (refuses_record) { refuses_record = false; return INVALID_HANDLE; }
  put_on_queue();
  pthread_mutex_lock(&lock);
  event->stream = of(stream);
  event->position = of(stream)->launched;
  event->is_reached = false;
  reach(event);
  pthread_mutex_unlock(&lock);
  return SUCCESS;
}
int cuEventQuery(struct event *event) {
  n_calls++;
  if (event->context_id != context_id) { n_stale++; return INVALID_HANDLE; }
  if (takes_lock) {
    pthread_mutex_lock(&driver_lock);
    pthread_mutex_unlock(&driver_lock);
  }
  if (mode != RELAXED) {
    n_sins++;
    if (n_captures) { is_invalid = true; return CAPTURE_UNSUPPORTED; }
  }
  pthread_mutex_lock(&lock);
  bool is_done = !holds || !event->stream || event->stream->finished >= event->position;
  pthread_mutex_unlock(&lock);
  n_queries++;
  if (event->stream) {
    struct stub_stream *stream = event->stream;
    n_useless += stream->finished < stream->refused && event->position > stream->refused;
    if (!is_done) stream->refused = event->position;
  }
  return is_done ? SUCCESS : NOT_READY;
}
#ifndef STUB_UNTIMED
int cuEventElapsedTime(float *ms, struct event *from, struct event *to) {
  n_calls++;
  if (from->context_id != context_id || to->context_id != context_id) { n_stale++; return INVALID_HANDLE; }
  if (from->device != to->device) { n_mixed++; return INVALID_HANDLE; }
  if (!from->has_time || !to->has_time || !from->stream || !to->stream || time_fault == 4) return INVALID_HANDLE;
  if (mode != RELAXED) n_sins++;
  pthread_mutex_lock(&lock);
  bool is_told = reach(from) && reach(to);
  if (is_told) *ms = (float)(to->at_ms - from->at_ms);
  if (is_told && time_fault > 4) *ms = time_fault == 5 ? 1e30f : -1e30f;
  pthread_mutex_unlock(&lock);
  return is_told ? SUCCESS : NOT_READY;
}
#endif
int cuStreamIsCapturing(stream_t stream, int *status) { n_calls++; *status = of(stream)->captures; return SUCCESS; }
int cuStreamGetCtx(stream_t stream, uintptr_t *context) {
  n_calls++;
  *context = of(stream)->device ? OTHER_CONTEXT : CONTEXT;
  return SUCCESS;
}
#ifndef STUB_OLD
int cuThreadExchangeStreamCaptureMode(int *other) {
  int before = mode;
  n_calls++;
  mode = *other;
  *other = before;
  return SUCCESS;
}
#endif
int cuCtxGetCurrent(uintptr_t *context) { n_calls++; *context = current; return SUCCESS; }
int cuCtxPushCurrent_v2(uintptr_t context) { n_calls++; current = context; return is_one(context) ? SUCCESS : INVALID; }
int cuCtxPopCurrent_v2(uintptr_t *context) { n_calls++; *context = current; current = 0; return SUCCESS; }
#ifndef STUB_WITHOUT_ID
int cuCtxGetId(uintptr_t context, uint64_t *id) { n_calls++; *id = context_id; return is_one(context) ? SUCCESS : INVALID; }
#endif
int cuCtxGetDevice(int *device) { n_calls++; *device = current == OTHER_CONTEXT ? 4 : 3; return is_one(current) ? SUCCESS : 201; }
int cuDeviceGet(int *device, int ordinal) { n_calls++; *device = ordinal; return SUCCESS; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
  n_calls++;
  (void)device;
  *value = attribute == 75 ? 9 : attribute == 76 ? 0 : -1;
  return SUCCESS;
}

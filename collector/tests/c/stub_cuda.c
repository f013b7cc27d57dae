/* A CUDA driver without a device: streams whose work ends when the test says, events, and capture as CUDA has it: a query
 * by any thread that is not in relaxed mode invalidates a capture in global mode. STUB_OLD: as it was before 10.1. */
#include "stub_cuda.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

static atomic_int context_id = 7, n_stale;
void stub_reset(void) { context_id++; }
int stub_n_stale(void) { return n_stale; }

enum { SUCCESS = 0, INVALID = 1, OUT_OF_MEMORY = 2, INVALID_HANDLE = 400, NOT_READY = 600, CAPTURE_UNSUPPORTED = 900,
       GLOBAL = 0, RELAXED = 2, CONTEXT = 0xc0de };

struct stub_stream { atomic_int launched, finished, captures, refused; };
struct event { struct stub_stream *stream; int position, context_id; };

static struct stub_stream legacy;
static atomic_bool holds, refuses_events, refuses_record, is_invalid;
static atomic_int n_captures, n_creates, n_records, n_queries, n_calls, n_sins, n_useless;
static _Thread_local int mode = GLOBAL;
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

stream_t stub_stream(void) { return calloc(1, sizeof(struct stub_stream)); }
void stub_launch(stream_t stream) {
  if (of(stream)->captures) return;
  put_on_queue();
  of(stream)->launched++;
}
void stub_hold(bool how) { holds = how; }
void stub_finish(stream_t stream, int n) { of(stream)->finished = n; }
void stub_begin_capture(stream_t stream) { is_invalid = false; of(stream)->captures = 1; n_captures++; }
bool stub_end_capture(stream_t stream) { of(stream)->captures = 0; n_captures--; return !is_invalid; }
void stub_refuse_events(bool how) { refuses_events = how; }
void stub_refuse_record(void) { refuses_record = true; }
int stub_n_creates(void) { return n_creates; }
int stub_n_records(void) { return n_records; }
int stub_n_queries(void) { return n_queries; }
int stub_n_calls(void) { return n_calls; }
int stub_n_sins(void) { return n_sins; }
int stub_n_useless(void) { return n_useless; }

int cuEventCreate(struct event **event, unsigned flags) {
  n_calls++;
  if (flags != 2) return INVALID;
  if (refuses_events) return OUT_OF_MEMORY;
  n_creates++;
  *event = calloc(1, sizeof **event);
  (*event)->context_id = context_id;
  return SUCCESS;
}
int cuEventRecord(struct event *event, stream_t stream) {
  n_calls++;
  n_records++;
  if (event->context_id != context_id) { n_stale++; return INVALID_HANDLE; }
  if (of(stream)->captures) { n_sins++; is_invalid = true; return CAPTURE_UNSUPPORTED; }
  if (refuses_record) { refuses_record = false; return INVALID_HANDLE; }
  put_on_queue();
  pthread_mutex_lock(&lock);
  event->stream = of(stream);
  event->position = of(stream)->launched;
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
int cuStreamIsCapturing(stream_t stream, int *status) { n_calls++; *status = of(stream)->captures; return SUCCESS; }
int cuStreamGetCtx(stream_t stream, uintptr_t *context) { (void)stream; n_calls++; *context = CONTEXT; return SUCCESS; }
#ifndef STUB_OLD
int cuThreadExchangeStreamCaptureMode(int *other) {
  int before = mode;
  n_calls++;
  mode = *other;
  *other = before;
  return SUCCESS;
}
#endif
static _Thread_local uintptr_t current;
int cuCtxGetCurrent(uintptr_t *context) { n_calls++; *context = current; return SUCCESS; }
int cuCtxPushCurrent_v2(uintptr_t context) { n_calls++; current = context; return context == CONTEXT ? SUCCESS : INVALID; }
int cuCtxPopCurrent_v2(uintptr_t *context) { n_calls++; *context = current; current = 0; return SUCCESS; }
#ifndef STUB_WITHOUT_ID
int cuCtxGetId(uintptr_t context, uint64_t *id) { n_calls++; *id = context_id; return context == CONTEXT ? SUCCESS : INVALID; }
#endif
int cuCtxGetDevice(int *device) { n_calls++; *device = 3; return current == CONTEXT ? SUCCESS : 201; }
int cuDeviceGet(int *device, int ordinal) { n_calls++; *device = ordinal; return SUCCESS; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
  n_calls++;
  (void)device;
  *value = attribute == 75 ? 9 : attribute == 76 ? 0 : -1;
  return SUCCESS;
}

/* A CUDA driver without a device. Device memory is mapped twice: where programs know it nobody may touch it, and elsewhere for
 * this driver alone. A stream's work is done in its order by a thread of the stream's own, later. */
#define _GNU_SOURCE
#include "fake_cuda.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_CONTEXT = 201, INVALID_HANDLE = 400, NOT_READY = 600,
       ILLEGAL_ADDRESS = 700, CAPTURE_UNSUPPORTED = 900, RELAXED = 2, MANY = 256 };
enum { MEMORY_TYPE = 2, IS_MANAGED = 8, DEVICE_ORDINAL = 9, DEVICE = 2 };

struct memory { char *known, *alias; size_t bytes; int device; bool is_managed; };
struct event { struct fake_stream* stream; uint64_t position; };
struct work { char* to; const char* from; size_t bytes; bool fails; };
struct fake_stream {
  int device;
  unsigned delay_us;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  struct work* queue;
  uint64_t enqueued, done;
  size_t room;
  bool is_held, is_captured, has_failed, is_ours;
};

static struct memory devices[MANY], pinned[MANY];
static int contexts[4];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int n_pins, n_pinned, n_events, n_streams, n_sins, fault;
static _Thread_local int* current;
static _Thread_local int mode;

static void misdeed(const char* what) {
  n_sins++;
  printf("SIN %s\n", what);
  fflush(stdout);
}

static bool takes(enum fake_fault which) {
  int wanted = which;
  return atomic_compare_exchange_strong(&fault, &wanted, fakeNone);
}

static struct memory* find(struct memory* table, const void* address) {
  pthread_mutex_lock(&lock);
  struct memory* found = NULL;
  for (int i = 0; i < MANY && !found; i++) {
    size_t offset = (size_t)((const char*)address - table[i].known);
    if (table[i].known && offset < table[i].bytes) found = &table[i];
  }
  pthread_mutex_unlock(&lock);
  return found;
}

static void add(struct memory* table, struct memory what) {
  pthread_mutex_lock(&lock);
  int i = 0;
  while (i < MANY && table[i].known) i++;
  if (i == MANY) abort();
  table[i] = what;
  pthread_mutex_unlock(&lock);
}

static char* alias(const void* address) {
  struct memory* found = find(devices, address);
  return found ? found->alias + ((const char*)address - found->known) : NULL;
}

static void* alloc(int device, size_t bytes, bool is_managed) {
  int file = memfd_create("device", 0);
  if (file < 0 || ftruncate(file, (off_t)bytes) != 0) abort();
  char* known = mmap(NULL, bytes, is_managed ? PROT_READ | PROT_WRITE : PROT_NONE, MAP_SHARED, file, 0);
  char* other = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (known == MAP_FAILED || other == MAP_FAILED) abort();
  close(file);
  add(devices, (struct memory){known, other, bytes, device, is_managed});
  return known;
}

void* fake_alloc(int device, size_t bytes) { return alloc(device, bytes, false); }
void* fake_alloc_managed(int device, size_t bytes) { return alloc(device, bytes, true); }
void fake_read(void* to, const void* from, size_t bytes) { memcpy(to, alias(from), bytes); }
void fake_use_device(int device) { current = &contexts[device]; }
void fake_hold(fake_stream_t stream, bool holds) {
  pthread_mutex_lock(&stream->lock);
  stream->is_held = holds;
  pthread_cond_broadcast(&stream->changed);
  pthread_mutex_unlock(&stream->lock);
}
void fake_capture(fake_stream_t stream, bool captures) { stream->is_captured = captures; }
void fake_fail(enum fake_fault which) { fault = which; }
int fake_n_pinned(void) { return n_pinned; }
int fake_n_events(void) { return n_events; }
int fake_n_streams(void) { return n_streams; }
int fake_n_pins(void) { return n_pins; }
int fake_n_sins(void) { return n_sins; }

static void* serve(void* argument) {
  struct fake_stream* stream = argument;
  pthread_mutex_lock(&stream->lock);
  for (;;) {
    while (stream->is_held || stream->done == stream->enqueued) pthread_cond_wait(&stream->changed, &stream->lock);
    struct work work = stream->queue[stream->done % stream->room];
    pthread_mutex_unlock(&stream->lock);
    if (stream->delay_us) usleep(stream->delay_us);
    if (work.bytes && !work.fails) memcpy(work.to, work.from, work.bytes);
    pthread_mutex_lock(&stream->lock);
    stream->done++;
    if (work.fails) stream->has_failed = true;
    pthread_cond_broadcast(&stream->changed);
  }
  return NULL;
}

fake_stream_t fake_stream(int device, unsigned delay_us) {
  struct fake_stream* stream = calloc(1, sizeof *stream);
  pthread_t thread;
  stream->device = device;
  stream->delay_us = delay_us;
  stream->room = 4096;
  stream->queue = calloc(stream->room, sizeof *stream->queue);
  pthread_mutex_init(&stream->lock, NULL);
  pthread_cond_init(&stream->changed, NULL);
  if (pthread_create(&thread, NULL, serve, stream) != 0) abort();
  pthread_detach(thread);
  return stream;
}

static int enqueue(struct fake_stream* stream, struct work work) {
  if (stream->is_captured) { misdeed("work on a stream that is captured"); return CAPTURE_UNSUPPORTED; }
  pthread_mutex_lock(&stream->lock);
  if (stream->enqueued - stream->done == stream->room) abort();
  stream->queue[stream->enqueued++ % stream->room] = work;
  pthread_cond_broadcast(&stream->changed);
  pthread_mutex_unlock(&stream->lock);
  return SUCCESS;
}

void fake_kernel(fake_stream_t stream, void* to, const void* from, size_t bytes) {
  enqueue(stream, (struct work){alias(to), from, bytes, false});
}

/* Calls that a capture of another thread would not survive. */
static void must_be_relaxed(const char* what) {
  if (mode != RELAXED) misdeed(what);
}

int cuThreadExchangeStreamCaptureMode(int* other) {
  int before = mode;
  mode = *other;
  *other = before;
  return SUCCESS;
}
int cuGetErrorName(unsigned code, const char** name) {
  *name = code == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : code == ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS" : NULL;
  return *name ? SUCCESS : INVALID_VALUE;
}
int cuCtxGetCurrent(int** context) { *context = current; return SUCCESS; }
static _Thread_local int* pushed[8];
static _Thread_local int n_pushed;
int cuCtxPushCurrent_v2(int* context) {
  if (context < contexts || context >= contexts + 4) { misdeed("a context that is none"); return INVALID_CONTEXT; }
  pushed[n_pushed++] = current;
  current = context;
  return SUCCESS;
}
int cuCtxPopCurrent_v2(int** context) {
  if (n_pushed == 0) { misdeed("a pop too many"); return INVALID_CONTEXT; }
  *context = current;
  current = pushed[--n_pushed];
  return SUCCESS;
}
int cuCtxGetDevice(int* device) {
  if (!current) return INVALID_CONTEXT;
  *device = (int)(current - contexts);
  return SUCCESS;
}
int cuPointerGetAttribute(void* answer, int attribute, uint64_t pointer) {
  struct memory* found = find(devices, (void*)pointer);
  if (!found) return INVALID_VALUE;
  switch (attribute) {
    case MEMORY_TYPE: *(unsigned*)answer = DEVICE; return SUCCESS;
    case IS_MANAGED: *(bool*)answer = found->is_managed; return SUCCESS;
    case DEVICE_ORDINAL: *(int*)answer = found->device; return SUCCESS;
    default: return INVALID_VALUE;
  }
}
int cuStreamIsCapturing(struct fake_stream* stream, int* status) { *status = stream->is_captured; return SUCCESS; }
int cuStreamGetCtx(struct fake_stream* stream, int** context) { *context = &contexts[stream->device]; return SUCCESS; }
int cuStreamCreate(struct fake_stream** stream, unsigned flags) {
  if (flags != 1) misdeed("a stream that waits for others");
  if (!current) return INVALID_CONTEXT;
  *stream = fake_stream((int)(current - contexts), 0);
  (*stream)->is_ours = true;
  n_streams++;
  return SUCCESS;
}
int cuStreamDestroy_v2(struct fake_stream* stream) {
  if (!stream->is_ours) misdeed("ends the caller's stream");
  if (stream->done != stream->enqueued) misdeed("ends a stream that works");
  n_streams--;
  return SUCCESS;
}
int cuStreamSynchronize(struct fake_stream* stream) {
  pthread_mutex_lock(&stream->lock);
  while (stream->done != stream->enqueued) pthread_cond_wait(&stream->changed, &stream->lock);
  pthread_mutex_unlock(&stream->lock);
  return SUCCESS;
}
int cuEventCreate(struct event** event, unsigned flags) {
  if (flags != 2) misdeed("an event that takes times");
  if (!current) return INVALID_CONTEXT;
  *event = calloc(1, sizeof **event);
  n_events++;
  return SUCCESS;
}
int cuEventDestroy_v2(struct event* event) {
  n_events--;
  free(event);
  return SUCCESS;
}
int cuEventRecord(struct event* event, struct fake_stream* stream) {
  must_be_relaxed("an event recorded in a strict mode");
  if (takes(fakeRecordCall)) return INVALID_HANDLE;
  if (!current || current - contexts != stream->device) { misdeed("an event of another context"); return INVALID_HANDLE; }
  if (enqueue(stream, (struct work){0}) != SUCCESS) return CAPTURE_UNSUPPORTED;
  event->stream = stream;
  event->position = stream->enqueued;
  return SUCCESS;
}
int cuEventQuery(struct event* event) {
  must_be_relaxed("an event asked in a strict mode");
  struct fake_stream* stream = event->stream;
  pthread_mutex_lock(&stream->lock);
  bool is_done = stream->done >= event->position, has_failed = stream->has_failed && is_done;
  /* Not sticky, unlike CUDA's, so that a test can go on. */
  if (has_failed) stream->has_failed = false;
  pthread_mutex_unlock(&stream->lock);
  return has_failed ? ILLEGAL_ADDRESS : is_done ? SUCCESS : NOT_READY;
}
int cuMemHostAlloc(void** memory, size_t bytes, unsigned flags) {
  must_be_relaxed("memory pinned in a strict mode");
  if (!current) return INVALID_CONTEXT;
  if (flags != 1) misdeed("memory for one context");
  if (takes(fakePin)) return OUT_OF_MEMORY;
  *memory = malloc(bytes);
  add(pinned, (struct memory){*memory, *memory, bytes, 0, false});
  n_pinned++;
  n_pins++;
  return SUCCESS;
}
int cuMemFreeHost(void* memory) {
  struct memory* found = find(pinned, memory);
  if (!found || found->known != memory) { misdeed("frees what is not pinned"); return INVALID_VALUE; }
  found->known = NULL;
  n_pinned--;
  free(memory);
  return SUCCESS;
}
/* Both ends of a copy must be what they are said to be, as long as the copy. */
static int copy(uint64_t device, void* host, size_t bytes, struct fake_stream* stream, bool is_out) {
  struct memory *far = find(devices, (void*)device), *near = find(pinned, host);
  must_be_relaxed("a copy in a strict mode");
  if (takes(is_out ? fakeCopyOutCall : fakeCopyInCall)) return INVALID_VALUE;
  if (!far || !near || (char*)device + bytes > far->known + far->bytes || (char*)host + bytes > near->known + near->bytes) {
    misdeed("a copy of other memory");
    return INVALID_VALUE;
  }
  if (!current || current - contexts != stream->device) { misdeed("a copy in another context"); return INVALID_HANDLE; }
  bool fails = takes(is_out ? fakeCopyOut : fakeCopyIn);
  char* there = alias((void*)device);
  struct work work = is_out ? (struct work){host, there, bytes, fails} : (struct work){there, host, bytes, fails};
  return enqueue(stream, work);
}
int cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t bytes, struct fake_stream* stream) {
  return copy(from, to, bytes, stream, true);
}
int cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t bytes, struct fake_stream* stream) {
  return copy(to, (void*)from, bytes, stream, false);
}

/* A library that speaks version 5 of the profiler interface: per collective an implicit group, an API call, its task and
 * two channels: twelve callbacks. Answers each line on stdin with a line
 *   <ns per collective, hot> <median ns per collective at 5000 per second> <allocations> <threads>
 * so that processes with different plugins can take turns. Before that it writes "ready", or on stderr why the library is no
 * plugin that it can speak to. */
#define _GNU_SOURCE
#define V 5
#include "../tests/plugin/c/abi.h"
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
static volatile long allocations;
void *malloc(size_t n) { allocations++; return __libc_malloc(n); }
void *calloc(size_t n, size_t m) { allocations++; return __libc_calloc(n, m); }
void *realloc(void *p, size_t n) { allocations++; return __libc_realloc(p, n); }

/* What NVIDIA's plugins ask of CUDA when a communicator begins, for a machine without it. */
int cudaGetDevice(int *device) { *device = 0; return 0; }
int cudaEventCreateWithFlags(void **event, unsigned flags) { (void)flags; *event = NULL; return 0; }
int cudaEventDestroy(void *event) { (void)event; return 0; }
int cudaEventElapsedTime(float *ms, void *from, void *to) { (void)from; (void)to; *ms = 0; return 0; }
int cudaEventQuery(void *event) { (void)event; return 0; }
int cudaEventRecord(void *event, void *stream) { (void)event; (void)stream; return 0; }
const char *cudaGetErrorString(int error) { (void)error; return "no CUDA here"; }

static void quiet(int level, unsigned long flags, const char *file, int line, const char *format, ...) {
  (void)level; (void)flags; (void)file; (void)line; (void)format;
}

static table *plugin;
static void *context;
enum { BATCHES = 50, BATCH = 1000, PACED = 500, PERIOD_NS = 200000 };
static uint64_t paced[PACED], batches[BATCHES];

static uint64_t now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static inline void *start(descriptor *it) {
  void *handle = NULL;
  plugin->start(context, &handle, it);
  return handle;
}
static inline void stop(void *handle) { if (handle) plugin->stop(handle); }

static inline void collective(uint64_t number) {
  descriptor it = {.kind = GROUP_API, .group = {false, 1}};
  void *group = start(&it);
  it = (descriptor){.kind = COLL_API, .parent = group, .coll_api = {"AllReduce", 1 << 20, "ncclFloat32", 0, NULL, false}};
  void *api = start(&it), *channels[2];
  stop(api);
  it = (descriptor){.kind = COLL, .parent = api, .coll = {number, "AllReduce", NULL, NULL, 1 << 20, 0, "ncclFloat32", 2, 16, "RING", "SIMPLE", NULL}};
  void *task = start(&it);
  stop(task);
  stop(group);
  for (int i = 0; i < 2; i++) {
    it = (descriptor){.kind = KERNEL_CH, .parent = task, .kernel = {(uint8_t)i, 1000 + number}};
    channels[i] = start(&it);
  }
  for (int i = 0; i < 2; i++) {
    state_args args = {2000 + number, 0};
    if (channels[i]) plugin->record(channels[i], 22, &args);
    stop(channels[i]);
  }
}

static int ascending(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

static int n_threads(void) {
  DIR *tasks = opendir("/proc/self/task");
  int n = 0;
  while (readdir(tasks)) n++;
  closedir(tasks);
  return n - 2;
}

static void one_round(void) {
  static uint64_t number;
  for (int i = 0; i < BATCH; i++) collective(number++);
  long allocated = allocations;
  for (int i = 0; i < BATCHES; i++) {
    uint64_t begun = now_ns();
    for (int j = 0; j < BATCH; j++) collective(number++);
    batches[i] = now_ns() - begun;
  }
  uint64_t next = now_ns();
  for (int i = 0; i < PACED; i++) {
    for (next += PERIOD_NS; now_ns() < next;) {}
    uint64_t before = now_ns();
    collective(number++);
    paced[i] = now_ns() - before;
  }
  allocated = allocations - allocated;
  /* Short batches, and their median: another process on the core is in few of them. */
  qsort(batches, BATCHES, sizeof *batches, ascending);
  double hot = (double)batches[BATCHES / 2] / BATCH;
  qsort(paced, PACED, sizeof *paced, ascending);
  printf("%.2f %.2f %ld %d\n", hot, (double)paced[PACED / 2], allocated, n_threads());
  fflush(stdout);
}

/* Another version of the interface that the library offers; 0 for none. */
static int other_version(void *object) {
  for (int version = 9; version > 0; version--) {
    char name[32];
    snprintf(name, sizeof name, "ncclProfiler_v%d", version);
    if (version != V && dlsym(object, name)) return version;
  }
  return 0;
}

static int is_plugin(const char *path) {
  void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!object) {
    fprintf(stderr, "cannot load it: %s\n", dlerror());
    return 0;
  }
  plugin = dlsym(object, "ncclProfiler_v5");
  if (plugin) return 1;
  int version = other_version(object);
  if (version) fprintf(stderr, "%s: offers version %d of the profiler interface, and only version 5 is spoken here\n", path, version);
  else fprintf(stderr, "%s: is no profiler plugin: it has no ncclProfiler_v5\n", path);
  return 0;
}

int main(int argc, char **argv) {
  static int mask;
  if (argc != 2 || !is_plugin(argv[1])) return 1;
  int refusal = plugin->init(&context, 0xabc, &mask, "bench", 2, 8, 0, (void *)quiet);
  if (refusal) { fprintf(stderr, "%s: its init returned %d\n", argv[1], refusal); return 2; }
  puts("ready");
  fflush(stdout);
  for (char line[16]; fgets(line, sizeof line, stdin);) one_round();
  return 0;
}

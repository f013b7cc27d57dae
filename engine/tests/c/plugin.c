/* A profiler plugin for the tests, written against NCCL's interface of the version that VERSION names, 1 to 7: writes one
 * line per call to the file named by PLUGIN_LOG with the process id after it. An event's handle is its number. The line of
 * a beginning ends with the time in nanoseconds and the thread, that of a state with the time; an event whose type the
 * version does not have is "unknown". With PLUGIN_FAILS its init fails; with OLDER it also offers the version before, of
 * which nothing can be called. To the descriptor PLUGIN_BEGUN it writes a byte when a KernelCh begins, or an event of the
 * type PLUGIN_BEGUN_TYPE, or one gets to the state PLUGIN_BEGUN_STATE; from PLUGIN_GATE it then reads one when an event
 * has begun, before it returns. PLUGIN_MASK is the mask, 0xfdf without. */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

typedef void logger(int, unsigned long, const char*, int, const char*, ...);

#if VERSION == 1
typedef struct {
  const char* name; uint64_t hash; uint64_t seq; uint8_t func; const void* send; void* recv; size_t count; int root;
  uint8_t datatype; uint32_t op; size_t traffic; uint8_t channels; uint8_t warps; uint8_t algo; uint8_t proto;
  int is_collnet; int is_nvls;
} coll_t;
typedef struct { const char* name; uint64_t hash; uint8_t func; void* buff; uint8_t datatype; size_t count; int peer; } p2p_t;
#elif VERSION == 2
typedef struct {
  const char* name; uint64_t hash; uint64_t seq; const char* func; const void* send; void* recv; size_t count; int root;
  const char* datatype; size_t traffic; uint8_t channels; uint8_t warps; const char* algo; const char* proto;
} coll_t;
typedef struct {
  const char* name; uint64_t hash; const char* func; void* buff; const char* datatype; size_t count; int peer;
} p2p_t;
#elif VERSION == 3
typedef struct {
  const char* name; uint64_t hash; uint64_t seq; const char* func; const void* send; void* recv; size_t count; int root;
  const char* datatype; uint8_t channels; uint8_t warps; const char* algo; const char* proto;
} coll_t;
typedef struct {
  const char* name; uint64_t hash; const char* func; void* buff; const char* datatype; size_t count; int peer;
} p2p_t;
#else
typedef struct {
  uint64_t seq; const char* func; const void* send; void* recv; size_t count; int root; const char* datatype;
  uint8_t channels; uint8_t warps; const char* algo; const char* proto;
#if VERSION >= 5
  void* group;
#endif
#if VERSION >= 7
  const char* variant; bool is_symmetric; uint64_t tag;
#endif
} coll_t;
typedef struct {
  const char* func; void* buff; const char* datatype; size_t count; int peer; uint8_t channels;
#if VERSION >= 5
  void* group;
#endif
#if VERSION >= 7
  uint64_t tag;
#endif
} p2p_t;
#endif

typedef struct {
#if VERSION >= 5
  uint64_t type;
#else
  uint8_t type;
#endif
  void* parent;
  int rank;
  union {
#if VERSION >= 5
    struct { bool captured; int depth; } group;
    struct { const char* func; size_t count; const char* datatype; int root; void* stream; bool captured; } coll_api;
    struct { const char* func; size_t count; const char* datatype; void* stream; bool captured; } p2p_api;
    struct { void* stream; } launch;
#endif
    coll_t coll;
    p2p_t p2p;
    struct { int pid; uint8_t channel; int peer; int steps; int chunk; int is_send; } proxy_op;
    struct { int step; } proxy_step;
#if VERSION == 3
    struct { uint8_t channel; } kernel;
#elif VERSION > 3
    struct { uint8_t channel; uint64_t timer; } kernel;
#endif
  };
} descriptor;

#if VERSION <= 3
typedef union { struct { size_t trans_size; int steps; } proxy_op; } state_args;
static size_t argument(state_args* args) { return args->proxy_op.trans_size; }
#else
typedef union { size_t trans_size; uint64_t timer; } state_args;
static size_t argument(state_args* args) { return args->trans_size; }
#endif

static FILE* out;
static uintptr_t events;

/* The library may let the plugin go and load it again. */
static __attribute__((constructor)) void open_log(void) {
  char path[4096];
  snprintf(path, sizeof path, "%s.%d", getenv("PLUGIN_LOG"), getpid());
  out = fopen(path, "a");
}

static __attribute__((destructor)) void close_log(void) {
  if (out) fclose(out);
}

static int begun(void** context, int* mask) {
  *context = (void*)0x77;
  *mask = getenv("PLUGIN_MASK") ? (int)strtol(getenv("PLUGIN_MASK"), NULL, 0) : 0xfdf;
  if (getenv("PLUGIN_FAILS")) return fprintf(out, "init fails\n"), fflush(out), 3;
  return out ? 0 : 3;
}

#if VERSION <= 3
static int init(void** context, int* mask) {
  fprintf(out, "init\n");
  return begun(context, mask);
}
#else
#if VERSION == 4
static int init(void** context, int* mask, const char* name, uint64_t id, int nodes, int ranks, int rank, logger* log) {
#else
static int init(void** context, uint64_t id, int* mask, const char* name, int nodes, int ranks, int rank, logger* log) {
#endif
  log(3, 0x4000, __FILE__, __LINE__, "test plugin");
  fprintf(out, "init %llx %s %d %d %d\n", (unsigned long long)id, name, nodes, ranks, rank);
  return begun(context, mask);
}
#endif

static long long now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000LL + time.tv_nsec;
}

/* Tells the program that an event has begun, and waits as long as it likes. */
static void tell_begun(int type) {
  const char *begun = getenv("PLUGIN_BEGUN"), *gate = getenv("PLUGIN_GATE"), *which = getenv("PLUGIN_BEGUN_TYPE");
  char byte = 0;
  if (type != (which ? (int)strtol(which, NULL, 0) : 0x40)) return;
  if (begun && write(atoi(begun), &byte, 1) != 1) abort();
  if (gate && read(atoi(gate), &byte, 1) < 0) abort();
}

#if VERSION == 1
#define TEXT "%d"
#else
#define TEXT "%s"
#endif

static int start(void* context, void** handle, descriptor* d) {
  uintptr_t own = __atomic_add_fetch(&events, 1, __ATOMIC_RELAXED);
  *handle = (void*)own;
  size_t parent = (size_t)d->parent;
  if (context != (void*)0x77) return 3;
  char text[512];
  switch (d->type) {
    case 0x1: snprintf(text, sizeof text, "Group %zu", parent); break;
#if VERSION >= 5
    case 0x100: snprintf(text, sizeof text, "GroupApi %zu %d", parent, d->group.depth); break;
    case 0x200: snprintf(text, sizeof text, "CollApi %zu %s %zu %s", parent, d->coll_api.func, d->coll_api.count, d->coll_api.datatype); break;
    case 0x400: snprintf(text, sizeof text, "P2pApi %zu %s %zu %s", parent, d->p2p_api.func, d->p2p_api.count, d->p2p_api.datatype); break;
    case 0x800: snprintf(text, sizeof text, "KernelLaunch %zu", parent); break;
#endif
    case 0x2: snprintf(text, sizeof text, "Coll %zu " TEXT " %zu " TEXT " %d %llu " TEXT " " TEXT, parent, d->coll.func, d->coll.count, d->coll.datatype, d->coll.channels, (unsigned long long)d->coll.seq, d->coll.algo, d->coll.proto); break;
    case 0x4: snprintf(text, sizeof text, "P2p %zu " TEXT " %d %zu", parent, d->p2p.func, d->p2p.peer, d->p2p.count); break;
    case 0x8: snprintf(text, sizeof text, "ProxyOp %zu %d %d %d %d %d", parent, d->proxy_op.pid == getpid(), d->proxy_op.channel, d->proxy_op.steps, d->proxy_op.is_send, d->proxy_op.peer); break;
    case 0x10: snprintf(text, sizeof text, "ProxyStep %zu %d", parent, d->proxy_step.step); break;
#if VERSION == 3
    case 0x40: snprintf(text, sizeof text, "KernelCh %zu %d", parent, d->kernel.channel); break;
#elif VERSION > 3
    case 0x40: snprintf(text, sizeof text, "KernelCh %zu %d %llu", parent, d->kernel.channel, (unsigned long long)d->kernel.timer); break;
#endif
    case 0x20: snprintf(text, sizeof text, "ProxyCtrl %zu", parent); break;
    default: snprintf(text, sizeof text, "unknown 0");
  }
  fprintf(out, "start %zu %s at %lld by %ld\n", own, text, now(), syscall(SYS_gettid));
  tell_begun((int)d->type);
  return 0;
}

static int stop(void* handle) {
  fprintf(out, "stop %zu\n", (size_t)handle);
  return 0;
}

static int record(void* handle, int state, state_args* args) {
  const char *begun = getenv("PLUGIN_BEGUN"), *which = getenv("PLUGIN_BEGUN_STATE");
  fprintf(out, "state %zu %d %zu %lld\n", (size_t)handle, state, args ? argument(args) : 0, now());
  if (begun && which && state == atoi(which) && write(atoi(begun), "", 1) != 1) abort();
  return 0;
}

static int finalize(void* context) {
  fprintf(out, "finalize %d\n", context == (void*)0x77);
  fflush(out);
  return 0;
}

typedef struct {
  const char* name;
#if VERSION <= 3
  int (*init)(void**, int*);
#elif VERSION == 4
  int (*init)(void**, int*, const char*, uint64_t, int, int, int, logger*);
#else
  int (*init)(void**, uint64_t, int*, const char*, int, int, int, logger*);
#endif
  int (*start)(void*, void**, descriptor*);
  int (*stop)(void*);
  int (*record)(void*, int, state_args*);
  int (*finalize)(void*);
} profiler;

#define NAME_(version) ncclProfiler_v##version
#define NAME(version) NAME_(version)

profiler NAME(VERSION) = {"test", init, start, stop, record, finalize};
#ifdef OLDER
profiler NAME(OLDER); /* nothing in it can be called */
#endif

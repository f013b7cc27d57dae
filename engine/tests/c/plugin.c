/* A profiler plugin for the tests, written against versions 5 and 6 of NCCL's interface, whose layouts are the same:
 * writes one line per call to the file named by PLUGIN_LOG with the process id after it. An event's handle is its
 * number. VERSION is the one it offers; with 6 it also offers a version 5 that must not be asked for. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct {
  uint64_t type;
  void* parent;
  int rank;
  union {
    struct { bool captured; int depth; } group;
    struct { const char* func; size_t count; const char* datatype; int root; void* stream; bool captured; } coll_api;
    struct {
      uint64_t seq; const char* func; const void* send; void* recv; size_t count; int root; const char* datatype;
      uint8_t channels; uint8_t warps; const char* algo; const char* proto; void* group;
    } coll;
    struct {
      const char* func; void* buff; const char* datatype; size_t count; int peer; uint8_t channels; void* group;
    } p2p;
    struct { int pid; uint8_t channel; int peer; int steps; int chunk; int is_send; } proxy_op;
    struct { int step; } proxy_step;
    struct { uint8_t channel; uint64_t timer; } kernel;
  };
} descriptor;

typedef union { size_t trans_size; uint64_t timer; } state_args;

static FILE* out;
static uintptr_t events;

static int init(void** context, uint64_t id, int* mask, const char* name, int nodes, int ranks, int rank,
                void (*log)(int, unsigned long, const char*, int, const char*, ...)) {
  if (!out) {
    char path[4096];
    snprintf(path, sizeof path, "%s.%d", getenv("PLUGIN_LOG"), getpid());
    out = fopen(path, "w");
  }
  log(3, 0x4000, __FILE__, __LINE__, "test plugin");
  fprintf(out, "init %llx %s %d %d %d\n", (unsigned long long)id, name, nodes, ranks, rank);
  *context = (void*)0x77;
  *mask = 0x7de;
  return out ? 0 : 3;
}

static int start(void* context, void** handle, descriptor* d) {
  uintptr_t own = __atomic_add_fetch(&events, 1, __ATOMIC_RELAXED);
  *handle = (void*)own;
  size_t parent = (size_t)d->parent;
  if (context != (void*)0x77) return 3;
  switch (d->type) {
    case 0x100: fprintf(out, "start %zu GroupApi %zu %d\n", own, parent, d->group.depth); break;
    case 0x200: fprintf(out, "start %zu CollApi %zu %s %zu %s\n", own, parent, d->coll_api.func, d->coll_api.count, d->coll_api.datatype); break;
    case 0x400: fprintf(out, "start %zu P2pApi %zu\n", own, parent); break;
    case 0x2: fprintf(out, "start %zu Coll %zu %s %zu %s %d %llu %s %s\n", own, parent, d->coll.func, d->coll.count, d->coll.datatype, d->coll.channels, (unsigned long long)d->coll.seq, d->coll.algo, d->coll.proto); break;
    case 0x4: fprintf(out, "start %zu P2p %zu %s %d %d\n", own, parent, d->p2p.func, d->p2p.peer, d->p2p.channels); break;
    case 0x8: fprintf(out, "start %zu ProxyOp %zu %d %d %d %d\n", own, parent, d->proxy_op.pid == getpid(), d->proxy_op.channel, d->proxy_op.steps, d->proxy_op.is_send); break;
    case 0x10: fprintf(out, "start %zu ProxyStep %zu %d\n", own, parent, d->proxy_step.step); break;
    case 0x40: fprintf(out, "start %zu KernelCh %zu %d %d\n", own, parent, d->kernel.channel, d->kernel.timer != 0); break;
    default: fprintf(out, "start %zu unknown\n", own);
  }
  return 0;
}

static int stop(void* handle) {
  fprintf(out, "stop %zu\n", (size_t)handle);
  return 0;
}

static int record(void* handle, int state, state_args* args) {
  fprintf(out, "state %zu %d %zu\n", (size_t)handle, state, args ? args->trans_size : 0);
  return 0;
}

static int finalize(void* context) {
  fprintf(out, "finalize %d\n", context == (void*)0x77);
  fflush(out);
  return 0;
}

typedef struct {
  const char* name;
  int (*init)(void**, uint64_t, int*, const char*, int, int, int,
              void (*)(int, unsigned long, const char*, int, const char*, ...));
  int (*start)(void*, void**, descriptor*);
  int (*stop)(void*);
  int (*record)(void*, int, state_args*);
  int (*finalize)(void*);
} profiler;

#if VERSION == 6
profiler ncclProfiler_v6 = {"test", init, start, stop, record, finalize};
profiler ncclProfiler_v5; /* nothing in it can be called */
#else
profiler ncclProfiler_v5 = {"test", init, start, stop, record, finalize};
#endif

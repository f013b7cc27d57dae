/* A profiler plugin of version V: writes what it hears to the file GUEST_LOG, an event by its number. Asks for GUEST_MASK.
 * Ends the process if a handle or a context is not its own, or an event ends twice. */
#include "abi.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct event { int number, is_open, magic; };
static struct event events[1 << 20];
static atomic_int n_events, n_contexts;
static FILE *_Atomic out;

static int is_own(const void *handle) {
  const struct event *event = handle;
  return event > events && event <= events + n_events && event->magic == 4711;
}
static int number(const void *parent) { return !parent ? 0 : is_own(parent) ? ((const struct event *)parent)->number : -1; }

static int begin(void **context, int *mask) {
  if (getenv("GUEST_REFUSES")) return 3;
  if (!out) {
    FILE *none = NULL;
    atomic_compare_exchange_strong(&out, &none, fopen(getenv("GUEST_LOG"), "w"));
  }
  *mask = (int)strtol(getenv("GUEST_MASK"), NULL, 16);
  *context = (void *)(uintptr_t)(0x7700 + ++n_contexts);
  return out ? 0 : 3;
}
#if V <= 3
static int init(void **context, int *mask) {
  int result = begin(context, mask);
  if (!result) fprintf(out, "init\n");
  return result;
}
#else
#if V == 4
static int init(void **context, int *mask, const char *name, uint64_t id, int nodes, int ranks, int rank, void *log) {
#else
static int init(void **context, uint64_t id, int *mask, const char *name, int nodes, int ranks, int rank, void *log) {
#endif
  (void)log;
  int result = begin(context, mask);
  if (!result) fprintf(out, "init %llx %s %d %d %d\n", (unsigned long long)id, name, nodes, ranks, rank);
  return result;
}
#endif

static int start(void *context, void **handle, descriptor *it) {
  if ((uintptr_t)context < 0x7701 || (uintptr_t)context > 0x7700u + (unsigned)n_contexts) abort();
  int own = ++n_events;
  struct event *event = &events[own];
  *event = (struct event){own, 1, 4711};
  *handle = event;
  char line[512];
  FILE *text = fmemopen(line, sizeof line, "w");
  fprintf(text, "start %d %x below %d rank %d", own, (unsigned)it->kind, number(it->parent), it->rank);
  switch (it->kind) {
#if V == 1
    case COLL: fprintf(text, " %d %zu %d %d %d %d", it->coll.func, it->coll.count, it->coll.type, it->coll.n_channels, it->coll.algo, it->coll.proto); break;
    case P2P: fprintf(text, " %d %zu %d %d", it->p2p.func, it->p2p.count, it->p2p.type, it->p2p.peer); break;
#else
    case COLL: fprintf(text, " %s %zu %s %d %s %s", it->coll.func, it->coll.count, it->coll.type, it->coll.n_channels, it->coll.algo, it->coll.proto); break;
    case P2P: fprintf(text, " %s %zu %s %d", it->p2p.func, it->p2p.count, it->p2p.type, it->p2p.peer); break;
#endif
    case PROXY_OP: fprintf(text, " %d %d %d %d", it->proxy.channel, it->proxy.peer, it->proxy.n_steps, it->proxy.is_send); break;
    case PROXY_STEP: fprintf(text, " %d", it->step.step); break;
#if V >= 3
    case KERNEL_CH: fprintf(text, " %d %d", it->kernel.channel, V < 4 ? 17 : (int)it->kernel.timer); break;
#endif
#if V >= 5
    case GROUP_API: fprintf(text, " %d", it->group.depth); break;
    case COLL_API: fprintf(text, " %s %zu %s", it->coll_api.func, it->coll_api.count, it->coll_api.type); break;
    case P2P_API: fprintf(text, " %s %zu %s", it->p2p_api.func, it->p2p_api.count, it->p2p_api.type); break;
#endif
  }
#if V >= 5
  if (it->kind == COLL) fprintf(text, " plan %d", number(it->coll.group));
  if (it->kind == P2P) fprintf(text, " plan %d", number(it->p2p.group));
#endif
  fclose(text);
  fprintf(out, "%s\n", line);
  return 0;
}
static int stop(void *handle) {
  struct event *event = handle;
  if (!is_own(event) || !event->is_open) abort();
  event->is_open = 0;
  fprintf(out, "stop %d\n", event->number);
  return 0;
}
static int record(void *handle, int state, state_args *args) {
  if (!is_own(handle)) abort();
  fprintf(out, "state %d %d %zu\n", number(handle), state, args ? args->value : 0);
  return 0;
}
static int finalize(void *context) {
  fprintf(out, "finalize %d\n", (int)((uintptr_t)context - 0x7700));
  fflush(out);
  return 0;
}

table SYMBOL = {"guest", init, start, stop, record, finalize};

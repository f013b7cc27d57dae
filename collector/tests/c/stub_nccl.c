/* A library that speaks NCCL's C API and version V of its profiler interface, and communicates with nobody. */
#define _GNU_SOURCE
#ifndef V
#define V 5
#endif
#include "../plugin/c/abi.h"
#include "stub.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SUCCESS 0
#define INVALID_USAGE 5
#define API(name) __attribute__((visibility("default"), weak, alias(#name))) __typeof__(name) p##name;

#ifndef STUB_VERSION
#define STUB_VERSION 22809
#endif

struct stub_comm {
  int rank, n_ranks, child_count;
  int polls, revoked; /* how often it was asked for while it was being made */
  struct stub_comm *child, **place;
  uint64_t hash;
  void *context;
};

/* `asked` is the mask when it was called: the library latches it there. */
struct task {
  const char *func;
  int type;
  ncclComm_t comm;
  bool is_p2p;
  int peer, asked;
  size_t count;
  void *api;
};

static table *profiler;
static int mask;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int completion = STUB_INLINE, n_channels = 2, fail_next, net_peer, net_steps, replays = 1;
static size_t net_bytes;
static atomic_int refused;

#define MAX_TASKS 65536
static _Thread_local struct task *queue;
static _Thread_local int n_queued, depth, group_error;
static _Thread_local struct { ncclComm_t *place, comm; const char *name; } inits[64];
static _Thread_local int n_inits;

static void *held[MAX_TASKS];
static int n_held;
static pthread_t threads[1024];
static int n_threads;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void load(void) {
  const char *path = getenv("NCCL_PROFILER_PLUGIN");
  void *object = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
  profiler = object && sizeof(descriptor) == SIZES[V] ? dlsym(object, TEXT(SYMBOL)) : NULL;
}

static int is_non_blocking;
static atomic_int operations, group_starts;
void stub_non_blocking(int is_on) { is_non_blocking = is_on; }
static int gives_at_once;
void stub_gives_at_once(void) { gives_at_once = 1; }
static int is_backwards, meets;
static pthread_barrier_t meeting;
void stub_backwards(int is_on) { is_backwards = is_on; }
void stub_meet(int n_threads) { meets = !pthread_barrier_init(&meeting, NULL, (unsigned)n_threads); }
int stub_operations(void) { return operations; }
int stub_group_starts(void) { return group_starts; }

static pthread_mutex_t pause_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t pause_changed = PTHREAD_COND_INITIALIZER;
static int pauses;
static void set_pause(int from, int to) {
  pthread_mutex_lock(&pause_lock);
  while (pauses != from) pthread_cond_wait(&pause_changed, &pause_lock);
  pauses = to;
  pthread_cond_broadcast(&pause_changed);
  pthread_mutex_unlock(&pause_lock);
}
void stub_await_pause(void) { set_pause(1, 2); }
void stub_go_on(void) { set_pause(2, 3); }

static int take_failure(void) {
  int result = fail_next;
  fail_next = 0;
  if (result == STUB_PAUSE) {
    set_pause(0, 1);
    set_pause(3, 0);
    return SUCCESS;
  }
  if (result == STUB_FORK) return fork() < 0;
  if (result == STUB_WAIT) {
    puts("waiting");
    fflush(stdout);
    for (;;) pause();
  }
  return result;
}

static int async_error, is_captured;
void stub_async_error(int error) { async_error = error; }
void stub_captured(int captured) { is_captured = captured; }

void stub_complete(enum stub_completion how, int channels) { completion = how; n_channels = channels; }
void stub_fail_next(int result) { fail_next = result; }
void stub_network(int peer, int steps, size_t bytes) { net_peer = peer; net_steps = steps; net_bytes = bytes; }
static int parts;
void stub_parts(int n) { parts = n; }
void stub_replays(int times) { replays = times; }
int stub_refused_events(void) { return refused; }
int stub_mask(void) { return mask; }

static void *start(ncclComm_t comm, int asked, descriptor it) {
  void *handle = NULL;
  if (!profiler || !(asked & (int)it.kind)) return NULL;
  it.rank = comm->rank;
  profiler->start(comm->context, &handle, &it);
  if (!handle) refused++;
  return handle;
}

static void stop(void *handle) {
  if (handle) profiler->stop(handle);
}

static void *stop_on_thread(void *handle) {
  stop(handle);
  return NULL;
}

static void finish_channel(void *handle) {
  if (completion == STUB_INLINE || !handle) return stop(handle);
  pthread_mutex_lock(&lock);
  if (completion == STUB_HOLD) held[n_held++] = handle;
  else pthread_create(&threads[n_threads++], NULL, stop_on_thread, handle);
  pthread_mutex_unlock(&lock);
}

void stub_release(void) {
  for (int i = 0; i < n_held; i++) stop(held[i]);
  for (int i = 0; i < n_threads; i++) pthread_join(threads[i], NULL);
  n_held = n_threads = 0;
}

static void network(const struct task *task, void *parent) {
  ncclComm_t comm = task->comm;
  descriptor it = {.kind = PROXY_OP, .parent = parent, .proxy = {getpid(), 0, net_peer, net_steps, 0, 1}};
  void *op = start(comm, task->asked, it);
  it.proxy.is_send = 0;
  void *received = start(comm, task->asked, it);
  it.proxy.is_send = 1;
  it.proxy.pid++;
  if (received || start(comm, task->asked, it)) abort();
  for (int i = 0; op && i < net_steps; i++) {
    void *step = start(comm, task->asked, (descriptor){.kind = PROXY_STEP, .parent = op, .step = {i}});
    if (V < 4) profiler->record(op, 3, &(state_args){net_bytes * (i + 1), i + 1});
    else if (step) profiler->record(step, 9, &(state_args){net_bytes, 0});
    stop(step);
  }
  stop(op);
}

/* STUB_NCCL_VERSION makes it say another one. */
static int version_number(void) {
  const char *said = getenv("STUB_NCCL_VERSION");
  return said ? atoi(said) : STUB_VERSION;
}

/* Of broadcasts these versions tell the call alone. */
static bool is_untold(const char *func) {
  int version = version_number();
  return !strcmp(func, "Broadcast") && version >= 22902 && version <= 23007;
}

/* Numbers in version 1, names in all others. */
static word func_of(const char *name) {
#if V == 1
  static const char *const names[] = {"Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce", "SendRecv", "Send", "Recv"};
  uint8_t number = 0;
  while (number < 8 && strcmp(names[number], name)) number++;
  return number;
#else
  return name;
#endif
}
static word type_of(int type) {
#if V == 1
  return (uint8_t)type;
#else
  static const char *const names[] = {"ncclInt8", "Unknown", "ncclInt32", "ncclUint32", "ncclInt64", "ncclUint64",
                                      "ncclFloat16", "ncclFloat32", "ncclFloat64", "ncclBfloat16"};
  return type < 10 ? names[type] : "Unknown";
#endif
}

static void *start_task(const struct task *task) {
  if ((V >= 5 && !task->api) || is_untold(task->func)) return NULL;
  descriptor it = {.kind = task->is_p2p ? P2P : COLL, .parent = task->api};
  if (task->is_p2p) {
    it.p2p.func = func_of(task->func);
    it.p2p.type = type_of(task->type);
    it.p2p.count = task->count;
    it.p2p.peer = task->peer;
#if V >= 4
    it.p2p.n_channels = (uint8_t)n_channels;
#else
    it.p2p.hash = task->comm->hash;
#endif
  } else {
    it.coll.func = func_of(task->func);
    it.coll.type = type_of(task->type);
    it.coll.count = task->count;
    it.coll.root = task->peer < 0 ? 0 : task->peer;
    it.coll.n_channels = (uint8_t)n_channels;
#if V <= 3
    it.coll.hash = task->comm->hash;
#endif
  }
  return start(task->comm, task->asked, it);
}

static void launch_once(const struct task *task) {
  void *handle = start_task(task);
  void *channels[64];
  if (net_steps > 0) network(task, handle);
  /* The second channel starts after the first has stopped, as it may; where it is not said before how many there
   * are, that would be the end. */
  for (int i = 0; V >= 3 && handle && i < n_channels; i++) {
    channels[i] = start(task->comm, task->asked, (descriptor){.kind = KERNEL_CH, .parent = handle, .kernel = {i, 0}});
    if (V >= 4) finish_channel(channels[i]);
  }
  for (int i = 0; V == 3 && handle && i < n_channels; i++) finish_channel(channels[i]);
  stop(handle);
}

static void launch(const struct task *task) {
  for (int i = 0; i < replays; i++) launch_once(task);
}

static void *start_api(const struct task *task) {
#if V >= 5
  descriptor it = {.kind = task->is_p2p ? P2P_API : COLL_API};
  if (task->is_p2p) {
    it.p2p_api.func = func_of(task->func);
    it.p2p_api.count = task->count;
    it.p2p_api.type = type_of(task->type);
    it.p2p_api.captured = is_captured;
  } else {
    it.coll_api.func = func_of(task->func);
    it.coll_api.count = task->count;
    it.coll_api.type = type_of(task->type);
    it.coll_api.root = task->peer < 0 ? 0 : task->peer;
    it.coll_api.captured = is_captured;
  }
  return start(task->comm, task->asked, it);
#else
  (void)task;
  return NULL;
#endif
}

static struct task captured;
void stub_run(void) { launch(&captured); }

/* The calls are told first, then what is launched of them. */
static int launch_parts(const struct task *task) {
  struct task sends[8];
  int last = completion;
  for (int i = 0; i < parts && i < 8; i++) {
    sends[i] = *task;
    sends[i].func = "Send"; sends[i].is_p2p = true; sends[i].peer = i;
    sends[i].api = start_api(&sends[i]);
    stop(sends[i].api);
  }
  for (int i = 0; i < parts && i < 8; i++) {
    completion = i + 1 < parts ? STUB_INLINE : last;
    launch(&sends[i]);
  }
  return SUCCESS;
}

static int operation(const char *func, int type, ncclComm_t comm, bool is_p2p, size_t count, int peer) {
  operations++;
  int error = comm->revoked ? INVALID_USAGE : take_failure();
  if (error == STUB_EXIT_THREAD) pthread_exit(NULL);
  if (error) {
    if (depth > 0) group_error = error;
    return error;
  }
  /* The library returns early: no event at all. */
  if (count == 0 || comm->n_ranks == 1) return SUCCESS;
  struct task task = {func + strlen("nccl"), type, comm, is_p2p, peer, mask, count, NULL};
  if (parts > 0 && !strcmp(task.func, "AlltoAll")) return launch_parts(&task);
  task.api = start_api(&task);
  stop(task.api);
  if (is_captured) captured = task;
  if (depth == 0) {
    launch(&task);
  } else {
    if (!queue) queue = malloc(MAX_TASKS * sizeof *queue);
    queue[n_queued++] = task;
  }
  return SUCCESS;
}

int ncclGetVersion(int *version) { *version = version_number(); return SUCCESS; }

int ncclGetUniqueId(ncclUniqueId *id) {
  memset(id, 0, sizeof *id);
  id->internal[0] = 7;
  return SUCCESS;
}

static void announce(ncclComm_t comm, const char *name) {
  pthread_once(&once, load);
  if (!profiler) return;
#if V <= 3
  (void)name;
  profiler->init(&comm->context, &mask);
#elif V == 4
  profiler->init(&comm->context, &mask, name, comm->hash, 2, comm->n_ranks, comm->rank, NULL);
#else
  profiler->init(&comm->context, comm->hash, &mask, name, 2, comm->n_ranks, comm->rank, NULL);
#endif
}

struct announcement { ncclComm_t comm; const char *name; ncclComm_t *place; };
static void *announce_on_thread(void *argument) {
  struct announcement *it = argument;
  announce(it->comm, it->name);
  return NULL;
}

/* Children whose init has not come to its profiler yet, in the order of their splits. */
static struct announcement late[8];
static int announces_late, n_late;
void stub_announce_late(int is_on) { announces_late = is_on; }

static int make(ncclComm_t *place, int rank, int n_ranks, uint64_t hash, const char *name) {
  int error = take_failure();
  if (error) return error;
  ncclComm_t comm = calloc(1, sizeof *comm);
  comm->rank = rank; comm->n_ranks = n_ranks; comm->hash = hash;
  if (depth > 0) {
    if (gives_at_once) *place = comm;
    inits[n_inits].place = gives_at_once ? NULL : place; inits[n_inits].comm = comm; inits[n_inits++].name = name;
    return SUCCESS;
  }
  if (announces_late) late[n_late++] = (struct announcement){comm, name, place};
  else announce(comm, name);
  if (is_non_blocking) comm->polls = 1;
  *place = comm;
  return is_non_blocking ? 7 : SUCCESS;
}

static int ask(ncclComm_t comm, int *value, int answer) {
  if (comm->polls > 0) abort(); /* it must not be asked */
  *value = answer;
  return SUCCESS;
}
int ncclCommCount(ncclComm_t comm, int *n) { return ask(comm, n, comm->n_ranks); }
/* As ncclCommEnsureReady does, through the exported name. */
int ncclCommUserRank(ncclComm_t comm, int *rank) {
  int error;
  ncclCommGetAsyncError(comm, &error);
  return ask(comm, rank, comm->rank);
}
int ncclCommCuDevice(ncclComm_t comm, int *device) { return ask(comm, device, comm->rank); }

/* On a thread of the library's own, in one that is real. */
void stub_init_is_done(ncclComm_t comm) { comm->polls = 0; }
void stub_split_is_done(ncclComm_t parent) {
  parent->polls = parent->child->polls = 0;
  *parent->place = parent->child;
  parent->child = NULL;
}

void stub_splits_are_done(ncclComm_t parent) {
  for (int i = 0; i < n_late; i++) {
    struct announcement *it = &late[is_backwards ? n_late - 1 - i : i];
    pthread_t thread;
    pthread_create(&thread, NULL, announce_on_thread, it);
    pthread_join(thread, NULL);
    it->comm->polls = 0;
    *it->place = it->comm;
  }
  n_late = parent->polls = 0;
  parent->child = NULL;
}

int ncclCommGetAsyncError(ncclComm_t comm, int *error) {
  if (async_error) { *error = async_error; return SUCCESS; }
  *error = comm->polls > 0 && comm->polls++ < 3 ? 7 : SUCCESS;
  if (*error == SUCCESS) {
    comm->polls = 0;
    if (comm->child) { comm->child->polls = 0; *comm->place = comm->child; }
    comm->child = NULL;
  }
  return SUCCESS;
}

/* A hash of its own: what the collector computed before must give way to it. */
static uint64_t hash_of(ncclUniqueId id) { return 0x1000 + (unsigned char)id.internal[0]; }

int ncclCommInitRankConfig(ncclComm_t *comm, int n_ranks, ncclUniqueId id, int rank, ncclConfig_t *config) {
  return make(comm, rank, n_ranks, hash_of(id), config && config->version >= 22700 ? config->commName : NULL);
}
int ncclCommInitRank(ncclComm_t *comm, int n_ranks, ncclUniqueId id, int rank) {
  return make(comm, rank, n_ranks, hash_of(id), NULL);
}
int ncclCommInitAll(ncclComm_t *comms, int n, const int *devices) {
  static atomic_int calls;
  uint64_t hash = 0xa11 + 0x1000 * (uint64_t)calls++;
  (void)devices;
  if (meets) pthread_barrier_wait(&meeting);
  for (int i = 0; i < n; i++) {
    ncclComm_t comm = calloc(1, sizeof *comm);
    comm->rank = i; comm->n_ranks = n; comm->hash = hash;
    struct announcement it = {comm, NULL, NULL};
    pthread_t thread;
    pthread_create(&thread, NULL, announce_on_thread, &it);
    pthread_join(thread, NULL);
    comms[i] = comm;
  }
  return SUCCESS;
}
/* As 2.24 makes it, which the collector knows; else one of its own, as above. */
static uint64_t hash_of_split(ncclComm_t parent, int color) {
  char id[128] = "";
  uint64_t hash = 5381;
  if (!announces_late) return parent->hash + 0x100 * (color + 1);
  if (version_number() / 100 != 224) return parent->hash + 0x100 * (color + 1) + 0x10000 * (uint64_t)parent->child_count;
  snprintf(id, sizeof id, "%016lx-%d-%d", (unsigned long)parent->hash, parent->child_count, color);
  for (size_t i = 0; i < sizeof id; i++) hash = hash * 33 ^ (uint64_t)id[i];
  return hash;
}
int ncclCommSplit(ncclComm_t parent, int color, int key, ncclComm_t *comm, ncclConfig_t *config) {
  (void)key;
  parent->child_count++;
  if (color < 0) { *comm = NULL; return SUCCESS; }
  int result = make(comm, parent->rank / 2, (parent->n_ranks + 1) / 2, hash_of_split(parent, color), config ? config->commName : NULL);
  if (result == 7) {
    /* The parent says when the child is there. */
    parent->child = *comm; parent->place = comm; parent->polls = 1;
    *comm = NULL;
  }
  return result;
}
int ncclCommInitRankScalable(ncclComm_t *comm, int n_ranks, int rank, int n_ids, ncclUniqueId *ids, ncclConfig_t *config) {
  (void)n_ids;
  return make(comm, rank, n_ranks, hash_of(ids[0]), config ? config->commName : NULL);
}
int ncclCommShrink(ncclComm_t parent, int *excluded, int n, ncclComm_t *comm, ncclConfig_t *config, int flags) {
  (void)excluded; (void)config; (void)flags;
  return make(comm, parent->rank - n, parent->n_ranks - n, parent->hash + 0x10000, NULL);
}
int ncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId *id) {
  memset(id, 0, sizeof *id);
  id->internal[0] = (char)(comm->hash & 0x7f);
  return SUCCESS;
}
int ncclCommGrow(ncclComm_t parent, int n_ranks, const ncclUniqueId *id, int rank, ncclComm_t *comm, ncclConfig_t *config) {
  (void)id; (void)config;
  return make(comm, parent ? parent->rank : rank, n_ranks, 0x20000, NULL);
}
int ncclCommRevoke(ncclComm_t comm, int flags) { (void)flags; comm->revoked = 1; return SUCCESS; }
static int registrations;
int ncclCommRegister(ncclComm_t comm, void *b, size_t n, void **handle) { (void)comm; (void)b; (void)n; *handle = &registrations; return take_failure(); }
int ncclCommWindowRegister(ncclComm_t comm, void *b, size_t n, void **window, int flags) { (void)comm; (void)b; (void)n; (void)flags; *window = &registrations; return SUCCESS; }
int ncclCommDeregister(ncclComm_t comm, void *handle) { (void)comm; (void)handle; return SUCCESS; }
int ncclCommWindowDeregister(ncclComm_t comm, void *window) { (void)comm; (void)window; return SUCCESS; }
int ncclMemAlloc(void **memory, size_t n) { (void)n; *memory = &registrations; return SUCCESS; }
int ncclCommFinalize(ncclComm_t comm) { (void)comm; return SUCCESS; }
static ncclComm_t unfinished[16];
static int is_late, n_unfinished;
void stub_finalize_late(int is_on) {
  is_late = is_on;
  while (!is_on && n_unfinished > 0) profiler->finalize(unfinished[--n_unfinished]->context);
}

int ncclCommDestroy(ncclComm_t comm) {
  if (fail_next == STUB_WAIT) take_failure();
  stub_release();
  if (is_late) { unfinished[n_unfinished++] = comm; return SUCCESS; }
  if (profiler) profiler->finalize(comm->context);
  free(comm);
  return SUCCESS;
}
int ncclCommAbort(ncclComm_t comm) {
  if (profiler) profiler->finalize(comm->context);
  return SUCCESS;
}

int ncclGroupStart(void) { group_starts++; depth++; return SUCCESS; }
#ifndef STUB_OLD /* before 2.22 */
int ncclGroupSimulateEnd(void *info) {
  (void)info;
  if (depth == 0) return INVALID_USAGE;
  if (--depth == 0) n_queued = group_error = 0;
  return SUCCESS;
}
#endif
int ncclGroupEnd(void) {
  if (depth == 0) return INVALID_USAGE;
  if (--depth > 0) return SUCCESS;
  int error = group_error ? group_error : take_failure();
  group_error = 0;
  for (int i = 0; !error && i < n_queued; i++) launch(&queue[i]);
  for (int i = 0; !error && i < n_inits; i++) {
    int at = is_backwards ? n_inits - 1 - i : i;
    struct announcement it = {inits[at].comm, inits[at].name, NULL};
    pthread_t thread;
    pthread_create(&thread, NULL, announce_on_thread, &it);
    pthread_join(thread, NULL);
    if (inits[at].place) *inits[at].place = inits[at].comm;
  }
  n_queued = n_inits = 0;
  return error;
}

int ncclAllReduce(const void *s, void *r, size_t n, int t, int o, ncclComm_t c, cudaStream_t q) { (void)s; (void)r; (void)t; (void)o; (void)q; return operation(__func__, t, c, false, n, -1); }
int ncclBroadcast(const void *s, void *r, size_t n, int t, int root, ncclComm_t c, cudaStream_t q) { (void)s; (void)r; (void)t; (void)q; return operation(__func__, t, c, false, n, root); }
int ncclBcast(void *b, size_t n, int t, int root, ncclComm_t c, cudaStream_t q) { return ncclBroadcast(b, b, n, t, root, c, q); }
int ncclReduce(const void *s, void *r, size_t n, int t, int o, int root, ncclComm_t c, cudaStream_t q) { (void)s; (void)r; (void)t; (void)o; (void)q; return operation(__func__, t, c, false, n, root); }
int ncclAllGather(const void *s, void *r, size_t n, int t, ncclComm_t c, cudaStream_t q) { (void)s; (void)r; (void)t; (void)q; return operation(__func__, t, c, false, n, -1); }
int ncclReduceScatter(const void *s, void *r, size_t n, int t, int o, ncclComm_t c, cudaStream_t q) { (void)s; (void)r; (void)t; (void)o; (void)q; return operation(__func__, t, c, false, n, -1); }
int ncclSend(const void *b, size_t n, int t, int peer, ncclComm_t c, cudaStream_t q) { (void)b; (void)t; (void)q; return operation(__func__, t, c, true, n, peer); }
int ncclRecv(void *b, size_t n, int t, int peer, ncclComm_t c, cudaStream_t q) { (void)b; (void)t; (void)q; return operation(__func__, t, c, true, n, peer); }

#define UNUSED (void)s; (void)r; (void)t; (void)q
int ncclAlltoAll(const void *s, void *r, size_t n, int t, ncclComm_t c, cudaStream_t q) { UNUSED; return operation(__func__, t, c, false, n, -1); }
int ncclGather(const void *s, void *r, size_t n, int t, int root, ncclComm_t c, cudaStream_t q) { UNUSED; return operation(__func__, t, c, false, n, root); }
int ncclScatter(const void *s, void *r, size_t n, int t, int root, ncclComm_t c, cudaStream_t q) { UNUSED; return operation(__func__, t, c, false, n, root); }
/* As the library may: through the exported name. */
int ncclAllReduceConfig(const void *s, void *r, size_t n, int t, int o, ncclComm_t c, cudaStream_t q, const void *g) { (void)g; return ncclAllReduce(s, r, n, t, o, c, q); }
int ncclBroadcastConfig(const void *s, void *r, size_t n, int t, int root, ncclComm_t c, cudaStream_t q, const void *g) { (void)g; return ncclBroadcast(s, r, n, t, root, c, q); }
int ncclReduceConfig(const void *s, void *r, size_t n, int t, int o, int root, ncclComm_t c, cudaStream_t q, const void *g) { (void)g; return ncclReduce(s, r, n, t, o, root, c, q); }
int ncclAllGatherConfig(const void *s, void *r, size_t n, int t, ncclComm_t c, cudaStream_t q, const void *g) { (void)g; return ncclAllGather(s, r, n, t, c, q); }
int ncclReduceScatterConfig(const void *s, void *r, size_t n, int t, int o, ncclComm_t c, cudaStream_t q, const void *g) { (void)g; return ncclReduceScatter(s, r, n, t, o, c, q); }
int ncclAlltoAllConfig(const void *s, void *r, size_t n, int t, ncclComm_t c, cudaStream_t q, const void *g) { (void)g; return ncclAlltoAll(s, r, n, t, c, q); }
int ncclGatherConfig(const void *s, void *r, size_t n, int t, int root, ncclComm_t c, cudaStream_t q, const void *g) { (void)g; return ncclGather(s, r, n, t, root, c, q); }
int ncclScatterConfig(const void *s, void *r, size_t n, int t, int root, ncclComm_t c, cudaStream_t q, const void *g) { (void)g; return ncclScatter(s, r, n, t, root, c, q); }
int ncclPutSignal(const void *s, size_t n, int t, int peer, void *w, size_t at, int signal, int context, unsigned flags, ncclComm_t c, cudaStream_t q) {
  (void)s; (void)t; (void)q; (void)w; (void)at;
  return signal == 1 && context == 2 && flags == 3 ? operation(__func__, t, c, true, n, peer) : INVALID_USAGE;
}
int ncclSignal(int peer, int signal, int context, unsigned flags, ncclComm_t c, cudaStream_t q) { (void)peer; (void)signal; (void)context; (void)flags; (void)c; (void)q; return SUCCESS; }
int ncclWaitSignal(int n, void *signals, ncclComm_t c, cudaStream_t q) { (void)n; (void)signals; (void)c; (void)q; return SUCCESS; }

API(ncclGetVersion) API(ncclGetUniqueId) API(ncclCommInitRank) API(ncclCommInitRankConfig) API(ncclCommInitAll)
API(ncclCommSplit) API(ncclCommDestroy) API(ncclCommAbort) API(ncclCommFinalize) API(ncclCommCount)
API(ncclCommUserRank) API(ncclCommCuDevice) API(ncclGroupStart) API(ncclGroupEnd) API(ncclAllReduce)
API(ncclBroadcast) API(ncclBcast) API(ncclReduce) API(ncclAllGather) API(ncclReduceScatter) API(ncclSend) API(ncclRecv)
API(ncclCommGetAsyncError) API(ncclCommInitRankScalable) API(ncclCommShrink) API(ncclCommGetUniqueId) API(ncclCommGrow)
API(ncclCommRevoke) API(ncclCommRegister) API(ncclCommWindowRegister) API(ncclMemAlloc) API(ncclCommDeregister) API(ncclCommWindowDeregister) API(ncclAlltoAll)
API(ncclGather) API(ncclScatter) API(ncclAllReduceConfig) API(ncclBroadcastConfig) API(ncclReduceConfig)
API(ncclAllGatherConfig) API(ncclReduceScatterConfig) API(ncclAlltoAllConfig) API(ncclGatherConfig)
API(ncclScatterConfig) API(ncclPutSignal) API(ncclSignal) API(ncclWaitSignal)
#ifndef STUB_OLD
API(ncclGroupSimulateEnd)
#endif

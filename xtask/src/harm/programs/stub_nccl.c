/* A library with NCCL's C API that communicates with nobody. Calls are pushed on the stub GPU where there is one
 * (stub_cuda.c); a call on a communicator that is none is refused, as NCCL does by a magic number. STUB_PROFILER=1: it speaks
 * version 5 of the profiler interface, and loads and closes the plugin with the first and the last communicator. An operation
 * writes a hash of its arguments, and of all calls before it on the communicator, where its result would be.
 * Splits do not block: the child is there 5 ms later (STUB_SPLIT_NOW=1: at once). */
#define _GNU_SOURCE
#define V 5
#include "../../../../collector/tests/plugin/c/abi.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))
enum { SUCCESS = 0, INVALID_ARGUMENT = 4, INVALID_USAGE = 5, IN_PROGRESS = 7 };
static const uint64_t MAGIC = 0x0280028002800280;

struct comm { _Atomic uint64_t magic; uint64_t hash, history; int rank, n; atomic_int state, revoked; struct comm **place, *next; void *context; };
typedef struct { char internal[128]; } ncclUniqueId;

void gpu_push(void *) __attribute__((weak));
void gpu_recover(void) __attribute__((weak));

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *plugin;
static table *profiler;
static struct comm *ended; /* the next one gets the address of the one that ended last */
static int n_with_profiler, mask;
/* Of groups; a key and no thread-local variable. glibc frees the block of those twice in a child that is forked while another thread
 * is made on an ended one's stack. */
static pthread_key_t depth;

/* What other threads held at a fork, nobody holds in the child. */
__attribute__((no_sanitize("thread"))) static void renew(void) {
  lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
  ended = NULL;
}
__attribute__((constructor)) static void begin_library(void) {
  pthread_atfork(NULL, NULL, renew);
  if (pthread_key_create(&depth, NULL)) abort();
}
__attribute__((destructor)) static void end_library(void) { pthread_key_delete(depth); }
static long deeper(long by) {
  long now = (long)pthread_getspecific(depth) + by;
  pthread_setspecific(depth, (void *)now);
  return now;
}

static int setting(const char *name) {
  const char *value = getenv(name);
  return value ? atoi(value) : 0;
}

static void announce(struct comm *comm) {
  const char *path = getenv("NCCL_PROFILER_PLUGIN");
  if (!setting("STUB_PROFILER") || !path) return;
  pthread_mutex_lock(&lock);
  if (n_with_profiler++ == 0) {
    plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    profiler = plugin ? dlsym(plugin, TEXT(SYMBOL)) : NULL;
  }
  if (profiler && profiler->init(&comm->context, comm->hash, &mask, NULL, 1, comm->n, comm->rank, NULL)) comm->context = NULL;
  pthread_mutex_unlock(&lock);
}

static void unannounce(struct comm *comm) {
  pthread_mutex_lock(&lock);
  if (comm->context) profiler->finalize(comm->context);
  if (setting("STUB_PROFILER") && n_with_profiler > 0 && --n_with_profiler == 0 && plugin) {
    dlclose(plugin);
    plugin = NULL;
    profiler = NULL;
  }
  pthread_mutex_unlock(&lock);
}

static void *start(struct comm *comm, descriptor it) {
  void *handle = NULL;
  if (!comm->context || !(mask & (int)it.kind)) return NULL;
  it.rank = comm->rank;
  profiler->start(comm->context, &handle, &it);
  return handle;
}

static void stop(void *handle) {
  if (handle) profiler->stop(handle);
}

static void tell(struct comm *comm, const char *func, size_t count) {
  void *api = start(comm, (descriptor){.kind = COLL_API, .coll_api = {.func = func, .count = count, .type = "ncclFloat32"}});
  stop(api);
  if (!api) return;
  descriptor task = {.kind = COLL, .parent = api};
  task.coll.func = func; task.coll.count = count; task.coll.type = "ncclFloat32"; task.coll.n_channels = 1;
  void *handle = start(comm, task);
  void *channel = handle ? start(comm, (descriptor){.kind = KERNEL_CH, .parent = handle, .kernel = {0, 0}}) : NULL;
  stop(channel);
  stop(handle);
}

static struct comm *make(int n, int rank, uint64_t hash) {
  pthread_mutex_lock(&lock);
  struct comm *comm = ended;
  if (comm) ended = comm->next;
  pthread_mutex_unlock(&lock);
  if (comm) memset(comm, 0, sizeof *comm);
  else comm = calloc(1, sizeof *comm);
  comm->n = n; comm->rank = rank; comm->hash = hash;
  announce(comm);
  atomic_store(&comm->magic, MAGIC); /* whoever finds it, by whatever way, finds all of it */
  return comm;
}

static int check(struct comm *comm) { return comm && atomic_load(&comm->magic) == MAGIC ? SUCCESS : INVALID_ARGUMENT; }

/* What the library was given; `what` is the operator, the root or the peer. */
struct given { const char *func; const void *send; void *recv; size_t count; int type, what; void *stream; };

static void note(struct comm *comm, uint64_t word) { comm->history = (comm->history ^ word) * 1099511628211ull; }

static void answer(struct comm *comm, const struct given *it) {
  for (const char *c = it->func; *c; c++) note(comm, (uint64_t)*c);
  uint32_t words[] = {0, (uint32_t)it->count, (uint32_t)it->type, (uint32_t)it->what, (uint32_t)(uintptr_t)it->stream};
  if (it->send && it->count) memcpy(&words[0], it->send, sizeof *words);
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) note(comm, words[i]);
  if (it->recv && it->count) memcpy(it->recv, &comm->history, sizeof *words);
}

static int operation(struct comm *comm, struct given it, size_t told_count) {
  if (check(comm)) return INVALID_ARGUMENT;
  if (atomic_load(&comm->revoked)) return INVALID_USAGE;
  if (gpu_push) gpu_push(it.stream);
  tell(comm, it.func, told_count);
  answer(comm, &it);
  return SUCCESS;
}

static uint64_t hash_of(ncclUniqueId id) {
  uint64_t hash = 14695981039346656037ull;
  for (int i = 0; i < 16; i++) hash = (hash ^ (unsigned char)id.internal[i]) * 1099511628211ull;
  return hash;
}

API int ncclGetVersion(int *version) {
  if (!version) return INVALID_ARGUMENT;
  *version = 22809;
  return SUCCESS;
}
API int ncclGetUniqueId(ncclUniqueId *id) {
  if (!id) return INVALID_ARGUMENT;
  memset(id, 0, sizeof *id);
  return SUCCESS;
}
static int init(struct comm **comm, int n, ncclUniqueId id, int rank) {
  if (!comm || n < 1 || rank < 0 || rank >= n) return INVALID_ARGUMENT;
  *comm = make(n, rank, hash_of(id));
  return SUCCESS;
}
API int ncclCommInitRank(struct comm **comm, int n, ncclUniqueId id, int rank) { return init(comm, n, id, rank); }
API int ncclCommInitRankConfig(struct comm **comm, int n, ncclUniqueId id, int rank, void *config) { (void)config; return init(comm, n, id, rank); }
API int ncclCommInitAll(struct comm **comms, int n, const int *devices) {
  (void)devices;
  if (!comms || n < 1) return INVALID_ARGUMENT;
  for (int i = 0; i < n; i++) comms[i] = make(n, i, 0xa11);
  return SUCCESS;
}
static void *split_later(void *argument) {
  struct comm *parent = argument;
  usleep(5000);
  __atomic_store_n(parent->place, make(parent->n, parent->rank, parent->hash + 1), __ATOMIC_RELEASE);
  atomic_store(&parent->state, SUCCESS);
  return NULL;
}
API int ncclCommSplit(struct comm *parent, int color, int key, struct comm **child, void *config) {
  (void)key; (void)config;
  if (check(parent) || !child) return INVALID_ARGUMENT;
  *child = NULL;
  if (color < 0) return SUCCESS;
  if (setting("STUB_SPLIT_NOW")) {
    *child = make(parent->n, parent->rank, parent->hash + (uint64_t)color + 1);
    return SUCCESS;
  }
  parent->place = child;
  atomic_store(&parent->state, IN_PROGRESS);
  pthread_t thread;
  if (pthread_create(&thread, NULL, split_later, parent)) abort();
  pthread_detach(thread);
  return IN_PROGRESS;
}
API int ncclCommGetAsyncError(struct comm *comm, int *error) {
  if (check(comm) || !error) return INVALID_ARGUMENT;
  *error = atomic_load(&comm->state);
  return SUCCESS;
}
API int ncclCommCount(struct comm *comm, int *n) { if (check(comm) || !n) return INVALID_ARGUMENT; *n = comm->n; return SUCCESS; }
API int ncclCommUserRank(struct comm *comm, int *rank) { if (check(comm) || !rank) return INVALID_ARGUMENT; *rank = comm->rank; return SUCCESS; }
API int ncclCommCuDevice(struct comm *comm, int *device) { if (check(comm) || !device) return INVALID_ARGUMENT; *device = 0; return SUCCESS; }
API int ncclCommFinalize(struct comm *comm) { return check(comm); }
static int end(struct comm *comm) {
  if (check(comm)) return INVALID_ARGUMENT;
  unannounce(comm);
  atomic_store(&comm->magic, 0);
  pthread_mutex_lock(&lock);
  comm->next = ended;
  ended = comm;
  pthread_mutex_unlock(&lock);
  return SUCCESS;
}
API int ncclCommDestroy(struct comm *comm) { return end(comm); }
API int ncclCommAbort(struct comm *comm) {
  if (gpu_recover) gpu_recover();
  return end(comm);
}
API int ncclCommRevoke(struct comm *comm, int flags) {
  if (check(comm) || flags) return INVALID_ARGUMENT;
  atomic_store(&comm->revoked, 1);
  if (gpu_recover) gpu_recover();
  return SUCCESS;
}
API int ncclGroupStart(void) { deeper(1); return SUCCESS; }
API int ncclGroupEnd(void) {
  if (deeper(0) == 0) return INVALID_USAGE;
  deeper(-1);
  return SUCCESS;
}
API int ncclAllReduce(const void *s, void *r, size_t n, int t, int o, struct comm *c, void *q) { return operation(c, (struct given){"AllReduce", s, r, n, t, o, q}, n); }
API int ncclBroadcast(const void *s, void *r, size_t n, int t, int root, struct comm *c, void *q) { return operation(c, (struct given){"Broadcast", s, r, n, t, root, q}, n); }
API int ncclSend(const void *b, size_t n, int t, int peer, struct comm *c, void *q) { return operation(c, (struct given){"Send", b, NULL, n, t, peer, q}, 0); }
API int ncclRecv(void *b, size_t n, int t, int peer, struct comm *c, void *q) { return operation(c, (struct given){"Recv", NULL, b, n, t, peer, q}, 0); }

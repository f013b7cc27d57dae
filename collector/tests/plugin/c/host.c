/* A collective library that does nothing but speak version V of the profiler interface to the plugin named first. */
#define _GNU_SOURCE
#include "abi.h"
#include "control.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct comm { void *context; uint64_t hash; int rank; };
static table *plugin;
static int mask;

static struct comm make(uint64_t hash, int rank) {
  struct comm comm = {NULL, hash, rank};
#if V <= 3
  CHECK(plugin->init(&comm.context, &mask) == 0);
#elif V == 4
  CHECK(plugin->init(&comm.context, &mask, "world", hash, 2, 4, rank, NULL) == 0);
#else
  CHECK(plugin->init(&comm.context, hash, &mask, "world", 2, 4, rank, NULL) == 0);
#endif
  return comm;
}

static void end(struct comm *comm) { if (comm->context) CHECK(plugin->finalize(comm->context) == 0); }

static void *start(struct comm *comm, descriptor it) {
  void *handle = (void *)0x5a5a;
  it.rank = comm->rank;
  CHECK(plugin->start(comm->context, &handle, &it) == 0);
  CHECK(handle != (void *)0x5a5a);
  return handle;
}
static void stop(void *handle) { if (handle) CHECK(plugin->stop(handle) == 0); }
static void state(void *handle, int state, size_t value, int steps) {
  state_args args = {value, steps};
  if (handle) CHECK(plugin->record(handle, state, &args) == 0);
}

static void *group_begins(struct comm *comm, bool captured) {
#if V >= 5
  void *group = start(comm, (descriptor){.kind = GROUP_API, .group = {captured, 2}});
  if (group) plugin->record(group, 23, NULL);
  return group;
#else
  (void)comm; (void)captured;
  return NULL;
#endif
}
static void group_launches(void *group) { if (group) plugin->record(group, 24, NULL); }

static void *coll_api(struct comm *comm, void *group, const char *func, size_t count, const char *type, bool captured) {
#if V >= 5
  void *api = start(comm, (descriptor){.kind = COLL_API, .parent = group, .coll_api = {.func = func, .count = count, .type = type, .captured = captured}});
  stop(api);
  return api;
#else
  (void)comm; (void)group; (void)func; (void)count; (void)type; (void)captured;
  return NULL;
#endif
}
static void *p2p_api(struct comm *comm, void *group, const char *func, size_t count) {
#if V >= 5
  void *api = start(comm, (descriptor){.kind = P2P_API, .parent = group, .p2p_api = {.func = func, .count = count, .type = "ncclInt8"}});
  stop(api);
  return api;
#else
  (void)comm; (void)group; (void)func; (void)count;
  return NULL;
#endif
}

static void *coll(struct comm *comm, void *api, void *plan, size_t count, int n_channels) {
  descriptor it = {.kind = COLL, .parent = V >= 5 ? api : plan};
  it.coll.func = WORD(4, "AllReduce");
  it.coll.type = WORD(7, "ncclFloat32");
  it.coll.algo = WORD(1, "RING");
  it.coll.proto = WORD(2, "SIMPLE");
  it.coll.count = count;
  it.coll.n_channels = (uint8_t)n_channels;
#if V <= 3
  it.coll.name = "world"; it.coll.hash = comm->hash;
#endif
#if V >= 5
  it.coll.group = plan;
#endif
  return start(comm, it);
}
static void *p2p(struct comm *comm, void *api, void *plan, bool is_send, size_t count, int peer, int n_channels) {
  descriptor it = {.kind = P2P, .parent = V >= 5 ? api : plan};
  it.p2p.func = is_send ? WORD(6, "Send") : WORD(7, "Recv");
  it.p2p.type = WORD(0, "ncclInt8");
  it.p2p.count = count;
  it.p2p.peer = peer;
#if V <= 3
  it.p2p.name = "world"; it.p2p.hash = comm->hash;
#endif
#if V >= 4
  it.p2p.n_channels = (uint8_t)n_channels;
#else
  (void)n_channels;
#endif
#if V >= 5
  it.p2p.group = plan;
#endif
  return start(comm, it);
}

static void *channel(struct comm *comm, void *task, int number) {
  return V < 3 ? NULL : start(comm, (descriptor){.kind = KERNEL_CH, .parent = task, .kernel = {(uint8_t)number, 17}});
}
static void channel_ends(void *handle) {
  if (V >= 4) state(handle, 22, 4711, 0);
  stop(handle);
}
static void channels(struct comm *comm, void *task, int n) {
  void *handles[64];
  for (int i = 0; i < n; i++) handles[i] = channel(comm, task, i);
  for (int i = 0; i < n; i++) channel_ends(handles[i]);
}

/* Two steps of 100 bytes to a peer; the same operation in another process and in the other direction. */
static void network(struct comm *comm, void *task, int peer) {
  void *op = start(comm, (descriptor){.kind = PROXY_OP, .parent = task, .proxy = {getpid(), 1, peer, 2, 4096, 1}});
  void *recv = start(comm, (descriptor){.kind = PROXY_OP, .parent = task, .proxy = {getpid(), 1, peer, 2, 4096, 0}});
  for (int i = 0; i < 2; i++) {
    void *step = start(comm, (descriptor){.kind = PROXY_STEP, .parent = op, .step = {i}});
    state(step, 8, 0, 0);
    if (V < 4) state(op, 2, 100 * (i + 1), i + 1);
    state(step, 9, V < 4 ? 0 : 100, 0);
    stop(step);
    if (V < 4) state(op, 3, 100 * (i + 1), i + 1);
  }
  stop(op);
  stop(recv);
}

static void all_reduces(struct comm *comm, int n, const size_t *counts) {
  void *apis[8], *tasks[8], *group = group_begins(comm, false);
  for (int i = 0; i < n; i++) apis[i] = coll_api(comm, group, "AllReduce", counts[i], "ncclFloat32", false);
  group_launches(group);
  void *plan = start(comm, (descriptor){.kind = GROUP});
  for (int i = 0; i < n; i++) tasks[i] = coll(comm, apis[i], plan, counts[i], 2);
  for (int i = 0; i < n; i++) stop(tasks[i]);
  stop(plan);
  stop(group);
  for (int i = 0; i < n; i++) {
    network(comm, tasks[i], 2);
    channels(comm, tasks[i], 2);
  }
}

static void everything(void) {
  struct comm comm = make(0xabc, 1), other = make(0xdef, 3);
  all_reduces(&comm, 1, (size_t[]){1000});
  all_reduces(&comm, 2, (size_t[]){10, 20});
  all_reduces(&other, 1, (size_t[]){1});
  void *group = group_begins(&comm, false);
  void *send_api = p2p_api(&comm, group, "Send", 5), *recv_api = p2p_api(&comm, group, "Recv", 7);
  group_launches(group);
  void *plan = start(&comm, (descriptor){.kind = GROUP});
  void *send = p2p(&comm, send_api, plan, true, 5, 3, 1), *recv = p2p(&comm, recv_api, plan, false, 7, 2, 1);
  stop(send); stop(recv); stop(plan); stop(group);
  channels(&comm, send, 1);
  channels(&comm, recv, 1);
  void *control = start(&comm, (descriptor){.kind = PROXY_CTRL});
  state(control, 17, 3, 0);
  stop(control);
  end(&comm);
  end(&other);
}

/* Captured once, with what the library says at once of a plan without proxies, and run three times. */
static void graph(void) {
  struct comm comm = make(0xabc, 1);
  void *group = group_begins(&comm, true);
  void *api = coll_api(&comm, group, "AllReduce", 100, "ncclFloat32", true);
  group_launches(group);
  if (V >= 5) CHECK(!coll(&comm, api, NULL, 100, 2));
  stop(group);
  for (int i = 0; i < 3; i++) {
    void *plan = start(&comm, (descriptor){.kind = GROUP});
    void *task = coll(&comm, api, plan, 100, 2);
    stop(task); stop(plan);
    network(&comm, task, 2);
    channels(&comm, task, 2);
  }
  all_reduces(&comm, 1, (size_t[]){1});
  end(&comm);
}

static void disorder(void) {
  struct comm comm = make(0xabc, 1), empty = {NULL, 0, 0}, wild = {(void *)0x123456789, 0, 0};
  void *api = coll_api(&comm, NULL, "AllReduce", 1, "ncclFloat32", false);
  void *task = coll(&comm, api, NULL, 1, 2);
  void *first = channel(&comm, task, 0), *second = channel(&comm, task, 1);
  stop(first);
  stop(first); /* twice: counted, not as another channel */
  stop(second);
  stop(task); stop(task);
  plugin->stop((void *)0xc0ffee0000000001); /* never started */
  plugin->stop((void *)0xf000000100000123);
  plugin->stop((void *)0x6000000700000123);
  plugin->stop(NULL);
  plugin->record((void *)0x6000000700000123, V < 4 ? 3 : 9, &(state_args){1, 1});
  plugin->record(task, 99, NULL);
  plugin->record(task, V < 4 ? 3 : 9, NULL);
  /* Nonsense below nonsense. */
  void *odd = (void *)0x7fffdeadbeef;
  CHECK(!start(&comm, (descriptor){.kind = KERNEL_CH, .parent = odd}));
  CHECK(!start(&comm, (descriptor){.kind = KERNEL_CH, .parent = NULL}));
  CHECK(!start(&comm, (descriptor){.kind = PROXY_OP, .parent = odd, .proxy = {getpid(), 0, 1, 1, 1, 1}}));
  CHECK(!start(&comm, (descriptor){.kind = PROXY_OP, .parent = task, .proxy = {getpid() + 1, 0, 1, 1, 1, 1}}));
  CHECK(!start(&comm, (descriptor){.kind = PROXY_OP, .parent = task, .proxy = {getpid(), 0, -1, 1, 1, 1}}));
  CHECK(!start(&comm, (descriptor){.kind = PROXY_STEP, .parent = odd}));
  /* Types that nobody knows: none, two at once, one of the future (in versions that have room for it). */
  CHECK(!start(&comm, (descriptor){.kind = 0}));
  CHECK(!start(&comm, (descriptor){.kind = 3}));
  if (V >= 5) CHECK(!start(&comm, (descriptor){.kind = (kind_type)0x100000}));
  /* Communicators that were never made. */
  coll_api(&empty, NULL, "AllReduce", 1, "ncclFloat32", false);
  coll_api(&wild, NULL, "AllReduce", 1, "ncclFloat32", false);
  coll_api(&comm, NULL, "NoSuchThing", 1, "ncclFloat32", false);
  coll_api(&comm, NULL, NULL, 1, NULL, false);
  plugin->start(comm.context, NULL, NULL);
  end(&comm);
  if (plugin->finalize(comm.context)) exit(98); /* twice */
  plugin->stop(second);
}

/* Ends with one operation half done, whose events come too late. */
static void unfinished(void) {
  struct comm comm = make(0xabc, 1);
  void *api = coll_api(&comm, NULL, "AllReduce", 1, "ncclFloat32", false);
  void *task = coll(&comm, api, NULL, 1, 2);
  void *first = channel(&comm, task, 0), *second = channel(&comm, task, 1);
  stop(first);
  end(&comm);
  stop(second);
  channel(&comm, task, 1);
}

static struct comm shared;
static void *finish(void *task) {
  channels(&shared, task, 8);
  return NULL;
}
static void *work(void *argument) {
  struct comm comm = make(0x100 + (uintptr_t)argument, (int)(uintptr_t)argument);
  for (int i = 0, n = atoi(getenv("ROUNDS")); i < n; i++) all_reduces(&comm, 2, (size_t[]){1, 2});
  end(&comm);
  return NULL;
}
static void threads(void) {
  pthread_t ids[6];
  for (uintptr_t i = 0; i < 4; i++) pthread_create(&ids[i], NULL, work, (void *)i);
  shared = make(0xabc, 1);
  for (int i = 0; i < 300; i++) {
    void *task = coll(&shared, coll_api(&shared, NULL, "AllReduce", 1, "ncclFloat32", false), NULL, 1, 16);
    /* Two threads speak of the same channels. */
    for (int j = 4; j < 6; j++) pthread_create(&ids[j], NULL, finish, task);
    for (int j = 4; j < 6; j++) pthread_join(ids[j], NULL);
  }
  for (int i = 0; i < 4; i++) pthread_join(ids[i], NULL);
  end(&shared);
}

/* Two communicators of which only nonsense is said, and one that works before and after it. */
#include "nonsense.h"
static void nonsense(void) {
  struct comm comm = make(0xabc, 1);
  all_reduces(&comm, 1, (size_t[]){1});
  pthread_t ids[2];
  for (uintptr_t i = 0; i < 2; i++) pthread_create(&ids[i], NULL, speak_nonsense, (void *)i);
  for (int i = 0; i < 2; i++) pthread_join(ids[i], NULL);
  all_reduces(&comm, 1, (size_t[]){1});
  end(&comm);
}

#include "lost.h"

/* Says the mask at each word of control. */
static void levels(void) {
  struct comm comm = make(0xabc, 1);
  for (uint32_t word = 0; word < 7; word++) {
    control(word == 5 ? 1 : word == 6 ? 0 : word);
    all_reduces(&comm, 1, (size_t[]){1});
    fprintf(stderr, "%x ", (unsigned)mask);
  }
  end(&comm);
}

int main(int argc, char **argv) {
  static const struct { const char *name; void (*run)(void); } scenarios[] = {
      {"everything", everything}, {"graph", graph}, {"disorder", disorder},
      {"unfinished", unfinished}, {"nonsense", nonsense}, {"threads", threads}, {"levels", levels},
      {"unfollowed", unfollowed}, {"taskless", taskless}, {"many_runs", many_runs}, {"old_template", old_template},
  };
  void *object = argc == 3 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  plugin = object ? dlsym(object, TEXT(SYMBOL)) : NULL;
  CHECK(plugin && plugin->name && sizeof(descriptor) == SIZES[V]);
  for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++)
    if (!strcmp(argv[2], scenarios[i].name)) { scenarios[i].run(); return 0; }
  return 97;
}

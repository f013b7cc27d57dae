/* A random schedule on the stubs: schedule SEED [HOW_MANY]. Up to four threads make, use, split, revoke, abort and end
 * communicators of their own, fork, load and unload other copies of the library, and flip the level. What the library answers
 * is determined by the seed alone, whatever the order of threads. */
#include "harm.h"
#include "level.h"
#include "random.h"
#include "seeds.h"
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>

enum { THREADS = 4, COMMS = 4 };

struct thread {
  struct random random;
  uint64_t hash;
  ncclComm_t comms[COMMS];
  int number, is_child;
};

static void told(struct thread *t, int result) { mix(&t->hash, (uint64_t)(unsigned)result); }

static void make(struct thread *t, ncclComm_t *place) {
  ncclUniqueId id = {{1, (char)t->number, (char)below(&t->random, 100)}};
  int n = 1 + below(&t->random, 16);
  switch (below(&t->random, 4)) {
    case 0: told(t, ncclCommInitRank(place, n, id, below(&t->random, n))); break;
    case 1: told(t, ncclCommInitRankConfig(place, n, id, 0, NULL)); break;
    case 2: told(t, ncclCommInitAll(place, 1, NULL)); break;
    default:
      told(t, ncclGroupStart());
      told(t, ncclCommInitRank(place, n, id, 0));
      told(t, ncclGroupEnd());
  }
}

static void use(struct thread *t, ncclComm_t comm) {
  int n = 1 + below(&t->random, 20), groups = below(&t->random, 2);
  void *stream = (void *)(uintptr_t)(below(&t->random, 3) * 0x1000);
  if (groups) told(t, ncclGroupStart());
  for (int i = 0; i < n; i++) {
    size_t count = (size_t)below(&t->random, 1000);
    switch (below(&t->random, 4)) {
      case 0: told(t, ncclAllReduce(NULL, NULL, count, FLOAT, SUM, comm, stream)); break;
      case 1: told(t, ncclBroadcast(NULL, NULL, count, FLOAT, 0, comm, stream)); break;
      case 2: told(t, ncclSend(NULL, count, FLOAT, 0, comm, stream)); break;
      default: told(t, ncclRecv(NULL, count, FLOAT, 0, comm, stream));
    }
  }
  if (groups) told(t, ncclGroupEnd());
}

/* A child whose place is given back before its parent is asked again. */
static ncclComm_t split(struct thread *t, ncclComm_t parent) {
  ncclComm_t *place = malloc(64);
  int result = ncclCommSplit(parent, below(&t->random, 3) - 1, 0, place, NULL), state = IN_PROGRESS;
  told(t, result);
  while (result == IN_PROGRESS && !__atomic_load_n(place, __ATOMIC_ACQUIRE)) sched_yield();
  ncclComm_t child = result == IN_PROGRESS || result == 0 ? *place : NULL;
  memset(place, 0x41, 64);
  free(place);
  while (result == IN_PROGRESS && state == IN_PROGRESS) if (ncclCommGetAsyncError(parent, &state)) break;
  told(t, state);
  told(t, child != NULL);
  return child;
}

static void end(struct thread *t, ncclComm_t *place) {
  ncclComm_t comm = *place;
  *place = NULL;
  if (below(&t->random, 3) == 0) told(t, ncclCommRevoke(comm, 0)), use(t, comm);
  if (below(&t->random, 3) == 0) told(t, ncclCommFinalize(comm));
  told(t, below(&t->random, 3) ? ncclCommDestroy(comm) : ncclCommAbort(comm));
}

static void ask(struct thread *t, ncclComm_t comm) {
  int value = -1;
  told(t, ncclCommCount(comm, &value));
  told(t, value);
  told(t, ncclCommUserRank(comm, &value));
  told(t, value);
  told(t, ncclCommGetAsyncError(comm, &value));
  told(t, ncclAllReduce(NULL, NULL, 1, FLOAT, SUM, NULL, NULL));
  told(t, ncclCommDestroy(NULL));
}

/* Another copy of the library, as a second framework brings it. */
static void copy(struct thread *t) {
  void *object = dlopen(below(&t->random, 2) ? "libfirst.so" : "libsecond.so", RTLD_NOW | RTLD_LOCAL);
  int (*init)(ncclComm_t *, int, ncclUniqueId, int) = object ? dlsym(object, "ncclCommInitRank") : NULL;
  int (*all)(const void *, void *, size_t, int, int, ncclComm_t, void *) = object ? dlsym(object, "ncclAllReduce") : NULL;
  int (*destroy)(ncclComm_t) = object ? dlsym(object, "ncclCommDestroy") : NULL;
  ncclUniqueId id = {{9}};
  ncclComm_t comm = NULL;
  if (!init || !all || !destroy) return told(t, -1);
  told(t, init(&comm, 2, id, 1));
  for (int i = below(&t->random, 10); i >= 0; i--) told(t, all(NULL, NULL, 3, FLOAT, SUM, comm, NULL));
  told(t, destroy(comm));
  told(t, dlclose(object));
}

static void run(struct thread *t, int steps);

static void child(struct thread *t) {
  uint64_t seed = next(&t->random);
  int process = fork(), status = -1;
  if (!process) {
    alarm(CHILD_LIMIT_S);
    setenv("STUB_PROFILER", "0", 1); /* it would load the plugin: bare, a child of several threads must not */
    struct thread own = {.random = {seed}, .hash = 1, .number = 50, .is_child = 1};
    if (seed % 4) run(&own, 5);
    _exit((int)(own.hash & 0x7f));
  }
  waitpid(process, &status, 0);
  told(t, status);
}

static void step(struct thread *t) {
  ncclComm_t *place = &t->comms[below(&t->random, COMMS)];
  int what = below(&t->random, 100);
  if (what < 6 && !t->is_child) child(t);
  else if (what < 12 && !t->is_child) copy(t);
  else if (what < 22) ask_level(below(&t->random, 6));
  else if (!*place) make(t, place);
  else if (what < 70) use(t, *place);
  else if (what < 78) ask(t, *place);
  else if (what < 86) {
    ncclComm_t made = split(t, *place);
    if (made) use(t, made), end(t, &made);
  } else end(t, place);
}

static void run(struct thread *t, int steps) {
  for (int i = 0; i < steps; i++) step(t);
  for (int i = 0; i < COMMS; i++) if (t->comms[i] && below(&t->random, 4)) end(t, &t->comms[i]);
}

static void *work(void *argument) {
  run(argument, 25);
  return NULL;
}

static uint64_t schedule(uint64_t seed) {
  struct random random = {seed};
  struct thread threads[THREADS];
  pthread_t ids[THREADS];
  uint64_t hash = 14695981039346656037ull;
  int n = 1 + below(&random, THREADS);
  setenv("STUB_PROFILER", below(&random, 2) ? "1" : "0", 1);
  setenv("STUB_SPLIT_NOW", below(&random, 4) ? "1" : "0", 1);
  setenv("STUB_BUSY_US", below(&random, 2) ? "50" : "0", 1);
  for (int i = 0; i < n; i++) threads[i] = (struct thread){.random = {next(&random)}, .hash = 1, .number = i};
  for (int i = 1; i < n; i++) pthread_create(&ids[i], NULL, work, &threads[i]);
  work(&threads[0]);
  for (int i = 1; i < n; i++) pthread_join(ids[i], NULL);
  for (int i = 0; i < n; i++) mix(&hash, threads[i].hash);
  return hash;
}

int main(int argc, char **argv) { return run_seeds(argc, argv); }

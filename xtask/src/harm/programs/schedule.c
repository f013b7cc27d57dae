/* A random schedule: schedule SEED [HOW_MANY]. Up to four threads make, use, split, revoke, abort and end communicators of their
 * own, some thousands in a row, fork, start programs and threads, load and unload other copies of the library, and flip the
 * level, some while signals come in; on the stubs, or on the engine where it is linked with that. What the library answers and
 * writes is determined by the seed alone, whatever the order of threads.
 * As a shared object, it is what schedule_copies.c loads over a copy of the library. */
#include "harm.h"
#include "level.h"
#include "random.h"
#include <sched.h>
#include <spawn.h>
#include <sys/time.h>

int rscclStreamCreate(void **) __attribute__((weak)), rscclStreamSynchronize(void *) __attribute__((weak));
int rscclStreamDestroy(void *) __attribute__((weak));
static int is_engine(void) { return rscclStreamCreate != NULL; }
/* The engine ends its threads in its own time, and with them their descriptors. */
static int has_quiet_end(void) { return !is_engine(); }
#include "seeds.h"

enum { THREADS = 4, TEAMS = 4, RANKS = 2, N = 64, GUARD = 0x5ca1ab1e, STEPS = 25, CHILD_STEPS = 5, MANY = 4200 };

/* Ranks of one communicator that this process holds: on the engine all of them, on the stubs one or two of many. */
struct team { int n; ncclComm_t ranks[RANKS]; };
struct block { uint32_t before; float data[N]; uint32_t after; };
struct thread {
  struct random random;
  uint64_t hash;
  struct team teams[TEAMS];
  struct block blocks[RANKS];
  void *streams[RANKS];
  int number, is_child, is_aside;
};

static void note(struct thread *t, int result) { mix(&t->hash, (uint64_t)(unsigned)result); }

static void make(struct thread *t, struct team *team) {
  int held = 1 + below(&t->random, RANKS), n = is_engine() ? held : held + below(&t->random, 16), how = below(&t->random, 3);
  ncclUniqueId id = {{1, (char)t->number, (char)below(&t->random, 100)}};
  if (is_engine()) note(t, ncclGetUniqueId(&id));
  team->n = held;
  if (how == 0) return note(t, ncclCommInitAll(team->ranks, held, NULL));
  note(t, ncclGroupStart());
  for (int i = 0; i < held; i++)
    note(t, how == 1 ? ncclCommInitRank(&team->ranks[i], n, id, i) : ncclCommInitRankConfig(&team->ranks[i], n, id, i, NULL));
  note(t, ncclGroupEnd());
}

/* One operation of one rank. The stubs write a hash of all that they were given. */
static void operate(struct thread *t, struct team *team, int i, int how, size_t count, void *stream) {
  float *data = t->blocks[i].data;
  ncclComm_t comm = team->ranks[i];
  int last = team->n - 1;
  if (how == 0) note(t, ncclAllReduce(data, data, count, FLOAT, SUM, comm, stream));
  else if (how == 1 || !last) note(t, ncclBroadcast(data, data, count, FLOAT, last, comm, stream));
  else if (i == 0) note(t, ncclSend(data, count, FLOAT, 1, comm, stream));
  else note(t, ncclRecv(data, count, FLOAT, 0, comm, stream));
}

static void mix_data(struct thread *t, int n) {
  for (int i = 0; i < n; i++) {
    struct block *block = &t->blocks[i];
    if (is_engine()) note(t, rscclStreamSynchronize(t->streams[i]));
    for (int k = 0; k < N; k++) {
      uint32_t word;
      memcpy(&word, &block->data[k], sizeof word);
      mix(&t->hash, word);
    }
    note(t, block->before == GUARD && block->after == GUARD);
  }
}

static void use(struct thread *t, struct team *team) {
  for (int i = 0; i < team->n; i++) for (int k = 0; k < N; k++) t->blocks[i].data[k] = (float)below(&t->random, 100);
  for (int k = below(&t->random, 12); k >= 0; k--) {
    size_t count = 1 + (size_t)below(&t->random, N);
    int how = below(&t->random, 3), is_group = team->n > 1 || below(&t->random, 2), which = below(&t->random, 3);
    if (is_group) note(t, ncclGroupStart());
    for (int i = 0; i < team->n; i++)
      operate(t, team, i, how, count, is_engine() ? t->streams[i] : (void *)(uintptr_t)(which * 0x1000));
    if (is_group) note(t, ncclGroupEnd());
  }
  mix_data(t, team->n);
}

/* Children whose places are given back before their parents are asked again. */
static struct team split(struct thread *t, const struct team *team) {
  struct team made = {0};
  ncclComm_t *places[RANKS];
  int color = below(&t->random, 3) - 1, results[RANKS];
  if (team->n > 1) note(t, ncclGroupStart());
  for (int i = 0; i < team->n; i++) {
    places[i] = calloc(8, sizeof *places[i]);
    note(t, results[i] = ncclCommSplit(team->ranks[i], color, i, places[i], NULL));
  }
  if (team->n > 1) note(t, ncclGroupEnd());
  for (int i = 0; i < team->n; i++) {
    int state = IN_PROGRESS;
    while (results[i] == IN_PROGRESS && !__atomic_load_n(places[i], __ATOMIC_ACQUIRE)) sched_yield();
    ncclComm_t child = *places[i];
    memset(places[i], 0x41, sizeof *places[i]);
    free(places[i]);
    while (results[i] == IN_PROGRESS && state == IN_PROGRESS) if (ncclCommGetAsyncError(team->ranks[i], &state)) break;
    note(t, state);
    note(t, child != NULL);
    if (child) made.ranks[made.n++] = child;
  }
  return made;
}

static void *abort_all(void *argument) {
  struct team *team = argument;
  for (int i = 0; i < team->n; i++) if (ncclCommAbort(team->ranks[i])) say("abort failed");
  return NULL;
}

static void begin(pthread_t *thread, void *(*work)(void *), void *argument) {
  if (pthread_create(thread, NULL, work, argument)) say("no thread"), abort();
}

/* As a watchdog does. */
static void abort_elsewhere(struct team *team) {
  pthread_t thread;
  begin(&thread, abort_all, team);
  pthread_join(thread, NULL);
}

static void end(struct thread *t, struct team *team) {
  int is_revoked = below(&t->random, 3) == 0, is_finalized = below(&t->random, 3) == 0, how = below(&t->random, 6);
  for (int i = 0; i < team->n && is_revoked; i++) note(t, ncclCommRevoke(team->ranks[i], 0));
  if (is_revoked && !is_engine()) use(t, team);
  for (int i = 0; i < team->n && is_finalized && !is_revoked; i++) note(t, ncclCommFinalize(team->ranks[i]));
  if (how == 0) abort_elsewhere(team);
  for (int i = 0; i < team->n && how > 0; i++) note(t, how > 2 ? ncclCommDestroy(team->ranks[i]) : ncclCommAbort(team->ranks[i]));
  team->n = 0;
}

/* A peer that does not come: what was called is given up. */
static void strand(struct thread *t, struct team *team) {
  if (!is_engine()) return end(t, team);
  note(t, ncclAllReduce(t->blocks[0].data, t->blocks[0].data, N, FLOAT, SUM, team->ranks[0], t->streams[0]));
  abort_elsewhere(team);
  team->n = 0;
  rscclStreamSynchronize(t->streams[0]);
}

static void ask(struct thread *t, const struct team *team) {
  for (int i = 0; i < team->n; i++) {
    int value = -1;
    note(t, ncclCommCount(team->ranks[i], &value)), note(t, value);
    note(t, ncclCommUserRank(team->ranks[i], &value)), note(t, value);
    note(t, ncclCommGetAsyncError(team->ranks[i], &value)), note(t, value);
  }
  note(t, ncclAllReduce(NULL, NULL, 1, FLOAT, SUM, NULL, NULL));
  note(t, ncclCommDestroy(NULL));
}

static void run(struct thread *t, int steps);

static void start(struct thread *t, uint64_t seed, int number) {
  *t = (struct thread){.random = {seed}, .hash = 1, .number = number};
  for (int i = 0; i < RANKS; i++) {
    t->blocks[i].before = t->blocks[i].after = GUARD;
    if (is_engine()) note(t, rscclStreamCreate(&t->streams[i]));
  }
}

static void finish(struct thread *t) {
  for (int i = 0; i < RANKS && is_engine(); i++) note(t, rscclStreamDestroy(t->streams[i]));
  mix_thread(&t->hash);
}

/* Communicators of a thread that comes and goes. */
static void *run_aside(void *argument) {
  struct thread *t = argument;
  run(t, CHILD_STEPS);
  finish(t);
  return NULL;
}

static void aside(struct thread *t) {
  struct thread own;
  pthread_t thread;
  start(&own, next(&t->random), t->number + 10);
  own.is_aside = 1;
  own.is_child = t->is_child;
  begin(&thread, run_aside, &own);
  pthread_join(thread, NULL);
  mix(&t->hash, own.hash);
}

/* More communicators than a segment has room for, one after another or at once. */
static void churn(struct thread *t) {
  int n = is_engine() ? 4 : below(&t->random, 40) ? 60 : MANY, is_at_once = below(&t->random, 2);
  ncclUniqueId id = {{2, (char)t->number}};
  ncclComm_t *comms = calloc((size_t)n, sizeof *comms);
  for (int i = 0; i < n; i++) {
    if (is_engine()) note(t, ncclGetUniqueId(&id));
    note(t, ncclCommInitRank(&comms[i], 1, id, 0));
    note(t, ncclAllReduce(t->blocks[0].data, t->blocks[0].data, 1, FLOAT, SUM, comms[i], t->streams[0]));
    if (!is_at_once) note(t, ncclCommDestroy(comms[i]));
  }
  for (int i = 0; i < n && is_at_once; i++) note(t, ncclCommDestroy(comms[i]));
  free(comms);
  mix_data(t, 1);
}

/* The same steps over another copy of the library, as a second framework brings it. */
static void copy(struct thread *t) {
  void *object = load(below(&t->random, 2) ? "libschedule_first.so" : "libschedule_second.so");
  uint64_t (*steps)(uint64_t, int, int) = object ? (uint64_t (*)(uint64_t, int, int))dlsym(object, "schedule_steps") : NULL;
  uint64_t seed = next(&t->random);
  if (!steps) return note(t, -1);
  mix(&t->hash, steps(seed, t->number + 20, CHILD_STEPS));
  note(t, unload(object));
}

#ifdef __SANITIZE_THREAD__
enum { IS_SANITIZED = 1 }; /* it ends a child that makes a thread where a lost one's stack was */
#elif defined __SANITIZE_ADDRESS__
enum { IS_SANITIZED = 1 }; /* its allocator's locks stay with threads that a child does not have */
#else
enum { IS_SANITIZED = 0 };
#endif

/* A program of another kind, by vfork and exec. */
static int other_program(void) {
  char *arguments[] = {"true", NULL};
  int process, status = -1;
  if (IS_SANITIZED) return 0;
  if (posix_spawn(&process, "/bin/true", NULL, NULL, arguments, environ)) return -1;
  waitpid(process, &status, 0);
  return status;
}

static void child(struct thread *t) {
  uint64_t seed = next(&t->random);
  if (seed % 8 == 0) return note(t, other_program());
  int process = fork(), status = -1;
  if (!process) {
    alarm(CHILD_LIMIT_S);
    setenv("STUB_PROFILER", "0", 1); /* it would load the plugin: bare, a child of several threads must not */
    struct thread own = {.hash = 1};
    if (!is_engine()) start(&own, seed, 50);
    own.is_child = 1;
    if (IS_SANITIZED) note(&own, 0);
    else if (seed % 4 && !is_engine()) run(&own, CHILD_STEPS);
    else note(&own, ncclGroupStart()), note(&own, ncclGroupEnd());
    mix_own(&own.hash);
    _exit((int)(own.hash & 0x7f));
  }
  waitpid(process, &status, 0);
  if (WIFSIGNALED(status)) fprintf(stderr, "a child ended by signal %d\n", WTERMSIG(status));
  note(t, status);
}

static void step(struct thread *t) {
  struct team *team = &t->teams[below(&t->random, TEAMS)];
  int what = below(&t->random, 100), is_outermost = !t->is_child && !t->is_aside;
  if (what < 6 && is_outermost) child(t);
  else if (what < 11 && is_outermost && !is_engine()) copy(t);
  else if (what < 14 && is_outermost) aside(t);
  else if (what < 16) churn(t);
  else if (what < 24) ask_level(below(&t->random, 6));
  else if (!team->n) make(t, team);
  else if (what < 70) use(t, team);
  else if (what < 78) ask(t, team);
  else if (what < 86) {
    struct team made = split(t, team);
    if (made.n) use(t, &made), end(t, &made);
  } else if (what < 90) strand(t, team);
  else end(t, team);
}

/* On the stubs some communicators are never ended. */
static void run(struct thread *t, int steps) {
  for (int i = 0; i < steps; i++) step(t);
  for (int i = 0; i < TEAMS; i++) if (t->teams[i].n && (is_engine() || below(&t->random, 4))) end(t, &t->teams[i]);
}

__attribute__((visibility("default"))) uint64_t schedule_steps(uint64_t seed, int number, int steps) {
  struct thread t;
  start(&t, seed, number);
  t.is_aside = steps == CHILD_STEPS;
  run(&t, steps);
  finish(&t);
  return t.hash;
}

static void *work(void *argument) {
  uint64_t *seed_then_hash = argument;
  seed_then_hash[0] = schedule_steps(seed_then_hash[0], (int)seed_then_hash[1], is_engine() ? STEPS / 2 : STEPS);
  return NULL;
}

static void on_signal(int signal) { (void)signal; }

static void set(struct random *random) {
  static const char *const levels[] = {"counters", "channels", "steps"};
  setenv("STUB_PROFILER", below(random, 2) ? "1" : "0", 1);
  setenv("STUB_SPLIT_NOW", below(random, 4) ? "1" : "0", 1);
  setenv("STUB_BUSY_US", below(random, 2) ? "50" : "0", 1);
  setenv("RINGSCOPE_LEVEL", levels[below(random, 3)], 1);
  if (below(random, 4) == 0) unsetenv("NCCL_PROFILER_PLUGIN");
  if (below(random, 4)) return;
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
  struct itimerval each_ms = {{0, 1000}, {0, 1000}};
  sigaction(SIGPROF, &action, NULL);
  setitimer(ITIMER_PROF, &each_ms, NULL);
}

static uint64_t schedule(uint64_t seed) {
  struct random random = {seed};
  uint64_t threads[THREADS][2], hash = 14695981039346656037ull;
  pthread_t ids[THREADS];
  int n = 1 + below(&random, THREADS);
  set(&random);
  for (int i = 0; i < n; i++) threads[i][0] = next(&random), threads[i][1] = (uint64_t)i;
  for (int i = 1; i < n; i++) begin(&ids[i], work, threads[i]);
  work(threads[0]);
  for (int i = 1; i < n; i++) pthread_join(ids[i], NULL);
  for (int i = 0; i < n; i++) mix(&hash, threads[i][0]);
  return hash;
}

int main(int argc, char **argv) { return run_seeds(argc, argv); }

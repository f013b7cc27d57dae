/* Ranks of one process, a thread each, that make communicators, use them, split and shrink them without end:
 * churn.c FIRST_RANK N_THREADS N_RANKS ID_HEX|- SEED. With "-" it makes the unique id, and says it first.
 *
 * What the ranks do follows from the seed alone, so all of a job do the same. Results are checked. No call blocks: inits,
 * splits and shrinks are asked for their end. A thread that has an error says "ERROR rank code where text", gives its
 * communicators up and ends; once all have, the process says CLEAN if it has as many open files and threads as at first.
 *
 * Commands on the standard input:
 *   state TIMES  asks so often, a millisecond or more apart, and says then, for each rank that has not ended:
 *                STATE rank steps where code (steps: all that it has done; where: init, call, split, shrink, destroy, end;
 *                code: of ncclCommGetAsyncError), and last ASKED
 *   give-up      what a user's watchdog does: aborts all communicators of this process. A thread then says
 *                FREED rank microseconds where
 *   abort RANK   aborts the communicators of one rank, as one that has had enough
 *   exit         ends by exit(), without a destroy
 */
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "rsccl.h"
#include "rsccl_stream.h"

enum { MOST_THREADS = 8, LARGEST = 1 << 16, LINE = 128 };

enum where { INIT, CALL, SPLIT, SHRINK, DESTROY, END };
static const char* const where_names[] = {"init", "call", "split", "shrink", "destroy", "end"};

struct member {
  int rank;
  pthread_t thread;
  pthread_mutex_t lock; /* over the communicators, so that nobody aborts one that is being taken away */
  ncclComm_t comm, child;
  cudaStream_t stream;
  _Atomic int where, given_up;
  _Atomic long steps;
  float sent[LARGEST], got[LARGEST];
};

static struct member members[MOST_THREADS];
static int n_threads, n_ranks;
static ncclUniqueId id;
static uint32_t seed;
static _Atomic int is_over;
static struct timespec given_up_at;

static void say(const char* text) {
  puts(text);
  fflush(stdout);
}

static void wrong(const struct member* own, int kind, size_t at, float right) {
  static const char* const names[] = {"all_reduce", "all_gather", "broadcast", "all_reduce"};
  printf("WRONG rank %d step %ld: %s gives %g for %g at %zu\n", own->rank, atomic_load(&own->steps), names[kind],
         own->got[at], right, at);
  fflush(stdout);
  _exit(4);
}

static void rest(void) {
  struct timespec moment = {0, 1000000};
  nanosleep(&moment, NULL);
}

static uint32_t mixed(uint32_t a, uint32_t b) {
  uint32_t x = a * 2654435761u ^ (b + 0x9e3779b9u);
  x ^= x >> 16, x *= 0x7feb352du, x ^= x >> 15, x *= 0x846ca68bu;
  return x ^ x >> 16;
}

static ncclConfig_t in_the_background(void) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}

/* Until a communicator is there, or has failed, or the user gives up. */
static ncclResult_t settled(struct member* own, ncclComm_t* comm, ncclResult_t code) {
  while ((code == ncclSuccess || code == ncclInProgress) && !atomic_load(&own->given_up)) {
    ncclResult_t state = ncclInProgress;
    pthread_mutex_lock(&own->lock);
    ncclResult_t asked = *comm ? ncclCommGetAsyncError(*comm, &state) : ncclSuccess;
    pthread_mutex_unlock(&own->lock);
    if (asked) return asked;
    if (state != ncclInProgress) return state;
    rest();
  }
  return atomic_load(&own->given_up) ? ncclRemoteError : code;
}

static float value(int of, size_t at, uint32_t step) { return (float)(of * 3 + (int)(at % 7) + (int)(step % 5)); }

/* One collective of `count` over `ranks`, checked. */
static ncclResult_t collective(struct member* own, ncclComm_t comm, const int* ranks, int n, uint32_t step) {
  uint32_t random = mixed(seed, step);
  static const size_t most[] = {1, 200, 4000, LARGEST / 8};
  size_t count = 1 + random / 64 % most[random / 8 % 4];
  int kind = (int)(random % 4), root = (int)(random / 16 % (unsigned)n);
  size_t blocks = kind == 1 ? (size_t)n : 1;
  if (count * (size_t)n > LARGEST) count = LARGEST / (size_t)n;
  for (size_t at = 0; at < count; at++) own->sent[at] = value(own->rank, at, step);
  for (size_t at = 0; at < count * blocks; at++) own->got[at] = -1;
  ncclResult_t code;
  if (kind == 1) code = ncclAllGather(own->sent, own->got, count, ncclFloat32, comm, own->stream);
  else if (kind == 2) code = ncclBroadcast(own->sent, own->got, count, ncclFloat32, root, comm, own->stream);
  else code = ncclAllReduce(own->sent, own->got, count, ncclFloat32, ncclSum, comm, own->stream);
  if (!code) code = rscclStreamSynchronize(own->stream);
  if (code) return code;
  for (size_t at = 0; at < count * blocks; at++) {
    float right = 0;
    if (kind == 1) right = value(ranks[at / count], at % count, step);
    else if (kind == 2) right = value(ranks[root], at, step);
    else
      for (int r = 0; r < n; r++) right += value(ranks[r], at, step);
    if (own->got[at] != right) wrong(own, kind, at, right);
  }
  return ncclSuccess;
}

/* The child is there: two calls on it, and its end. */
static ncclResult_t use_child(struct member* own, const int* ranks, int n, uint32_t step) {
  atomic_store(&own->where, CALL);
  for (uint32_t call = 0; call < 2; call++) {
    ncclResult_t code = collective(own, own->child, ranks, n, step + (call + 1) * 7919u);
    if (code) return code;
  }
  atomic_store(&own->where, DESTROY);
  pthread_mutex_lock(&own->lock);
  ncclComm_t child = own->child;
  own->child = NULL;
  pthread_mutex_unlock(&own->lock);
  ncclResult_t code = child && !atomic_load(&own->given_up) ? ncclCommDestroy(child) : ncclRemoteError;
  atomic_store(&own->where, CALL);
  return code;
}

static ncclResult_t split(struct member* own, uint32_t step) {
  int colors = 1 + (int)(mixed(seed, step) / 256 % 3), ranks[64], n = 0;
  for (int r = 0; r < n_ranks; r++)
    if (r % colors == own->rank % colors) ranks[n++] = r;
  ncclConfig_t config = in_the_background();
  atomic_store(&own->where, SPLIT);
  pthread_mutex_lock(&own->lock);
  ncclResult_t code = ncclCommSplit(own->comm, own->rank % colors, own->rank, &own->child, &config);
  pthread_mutex_unlock(&own->lock);
  code = settled(own, &own->child, code);
  return code ? code : use_child(own, ranks, n, step);
}

static ncclResult_t shrink(struct member* own, uint32_t step) {
  int out = (int)(mixed(seed, step) / 256 % (unsigned)n_ranks), ranks[64], n = 0;
  if (own->rank == out || n_ranks == 2) return ncclSuccess;
  for (int r = 0; r < n_ranks; r++)
    if (r != out) ranks[n++] = r;
  ncclConfig_t config = in_the_background();
  atomic_store(&own->where, SHRINK);
  pthread_mutex_lock(&own->lock);
  ncclResult_t code = ncclCommShrink(own->comm, &out, 1, &own->child, &config, NCCL_SHRINK_DEFAULT);
  pthread_mutex_unlock(&own->lock);
  code = settled(own, &own->child, code);
  return code ? code : use_child(own, ranks, n, step);
}

static ncclResult_t work(struct member* own) {
  int all[64];
  for (int r = 0; r < n_ranks; r++) all[r] = r;
  ncclConfig_t config = in_the_background();
  pthread_mutex_lock(&own->lock);
  ncclResult_t code = ncclCommInitRankConfig(&own->comm, n_ranks, id, own->rank, &config);
  pthread_mutex_unlock(&own->lock);
  code = settled(own, &own->comm, code);
  for (uint32_t step = 0; !code; step++) {
    if (atomic_load(&own->given_up)) return ncclRemoteError;
    atomic_store(&own->where, CALL);
    uint32_t kind = mixed(seed ^ 0x5555u, step) % 16;
    if (kind == 0) code = split(own, step);
    else if (kind == 1) code = shrink(own, step);
    else code = collective(own, own->comm, all, n_ranks, step);
    atomic_fetch_add(&own->steps, 1);
  }
  return code;
}

/* The communicators of one rank, from any thread. */
static void abort_member(struct member* own) {
  atomic_store(&own->given_up, 1);
  pthread_mutex_lock(&own->lock);
  ncclComm_t child = own->child, comm = own->comm;
  own->child = own->comm = NULL;
  if (child) ncclCommAbort(child);
  if (comm) ncclCommAbort(comm);
  pthread_mutex_unlock(&own->lock);
}

static void* run(void* argument) {
  struct member* own = argument;
  if (rscclStreamCreate(&own->stream)) _exit(5);
  ncclResult_t code = work(own);
  int where = atomic_load(&own->where);
  if (atomic_load(&own->given_up)) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    long us = (now.tv_sec - given_up_at.tv_sec) * 1000000 + (now.tv_nsec - given_up_at.tv_nsec) / 1000;
    printf("FREED %d %ld %s\n", own->rank, us, where_names[where]);
  } else printf("ERROR %d %d %s %s\n", own->rank, code, where_names[where], ncclGetLastError(NULL));
  fflush(stdout);
  atomic_store(&own->where, END);
  if (own->rank % 2 || own->child) abort_member(own);
  else {
    pthread_mutex_lock(&own->lock);
    ncclComm_t comm = own->comm;
    own->comm = NULL;
    pthread_mutex_unlock(&own->lock);
    if (comm) ncclCommDestroy(comm);
  }
  rscclStreamDestroy(own->stream);
  return NULL;
}

static void tell_state(long times) {
  for (long at = 0; at < times; at++) rest();
  for (int t = 0; t < n_threads; t++) {
    struct member* one = &members[t];
    int where = atomic_load(&one->where);
    if (where == END) continue;
    ncclResult_t code = ncclSuccess, child = ncclSuccess;
    if (!pthread_mutex_trylock(&one->lock)) {
      if (one->comm) ncclCommGetAsyncError(one->comm, &code);
      if (one->child) ncclCommGetAsyncError(one->child, &child);
      pthread_mutex_unlock(&one->lock);
    }
    if (code == ncclSuccess || code == ncclInProgress) code = child;
    printf("STATE %d %ld %s %d\n", one->rank, atomic_load(&one->steps), where_names[where], code);
  }
  say("ASKED");
}

static void* obey(void* unused) {
  (void)unused;
  char line[LINE];
  while (!atomic_load(&is_over) && fgets(line, sizeof line, stdin)) {
    clock_gettime(CLOCK_MONOTONIC, &given_up_at);
    if (!strncmp(line, "state ", 6)) tell_state(atol(line + 6));
    else if (!strncmp(line, "exit", 4)) exit(0);
    else if (!strncmp(line, "give-up", 7))
      for (int t = 0; t < n_threads; t++) abort_member(&members[t]);
    else if (!strncmp(line, "abort ", 6))
      for (int t = 0; t < n_threads; t++)
        if (members[t].rank == atoi(line + 6)) abort_member(&members[t]);
  }
  return NULL;
}

static int entries(const char* path) {
  DIR* folder = opendir(path);
  int count = 0;
  while (readdir(folder)) count++;
  closedir(folder);
  return count;
}

static int held(void) { return entries("/proc/self/fd") + entries("/proc/self/task"); }

/* A communicator of this process alone: makes what the library keeps for the process. */
static void alone(void) {
  ncclUniqueId own_id;
  ncclComm_t own;
  cudaStream_t stream;
  float sum = 3;
  if (rscclStreamCreate(&stream) || ncclGetUniqueId(&own_id) || ncclCommInitRank(&own, 1, own_id, 0)) _exit(5);
  if (ncclAllReduce(&sum, &sum, 1, ncclFloat32, ncclSum, own, stream) || rscclStreamSynchronize(stream)) _exit(5);
  if (ncclCommDestroy(own) || rscclStreamDestroy(stream)) _exit(5);
}

static void make_or_take_id(const char* hex) {
  if (strcmp(hex, "-")) {
    for (int i = 0; i < NCCL_UNIQUE_ID_BYTES; i++) {
      unsigned byte = 0;
      sscanf(hex + 2 * i, "%2x", &byte);
      id.internal[i] = (char)byte;
    }
    return;
  }
  if (ncclGetUniqueId(&id)) _exit(5);
  for (int i = 0; i < NCCL_UNIQUE_ID_BYTES; i++) printf("%02x", (unsigned char)id.internal[i]);
  say("");
}

int main(int argc, char** argv) {
  if (argc < 6) return 2;
  int first = atoi(argv[1]);
  n_threads = atoi(argv[2]), n_ranks = atoi(argv[3]), seed = (uint32_t)strtoul(argv[5], NULL, 10);
  if (n_threads > MOST_THREADS || n_ranks > 64) return 2;
  pthread_t listener;
  pthread_create(&listener, NULL, obey, NULL);
  for (int t = 0; t < n_threads; t++) {
    members[t].rank = first + t;
    pthread_mutex_init(&members[t].lock, NULL);
  }
  alone();
  time_t deadline = time(NULL) + 20;
  while (entries("/proc/self/task") > 4 && time(NULL) < deadline) sched_yield();
  int before = held();
  make_or_take_id(argv[4]);
  say("BEGIN");
  for (int t = 0; t < n_threads; t++) pthread_create(&members[t].thread, NULL, run, &members[t]);
  for (int t = 0; t < n_threads; t++) pthread_join(members[t].thread, NULL);
  deadline = time(NULL) + 20;
  int left;
  while ((left = held() - before) > 0 && time(NULL) < deadline) sched_yield();
  if (left <= 0) say("CLEAN");
  else printf("LEAK of %d\n", left);
  fflush(stdout);
  atomic_store(&is_over, 1);
  _exit(0);
}

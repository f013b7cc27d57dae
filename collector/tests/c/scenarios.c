/* What a training process might do, one function per test. Linked to the stub library the usual way. */
#define _GNU_SOURCE
#include "stub.h"
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(what) do { if (!(what)) { fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what); exit(99); } } while (0)
#define OK(call) CHECK((call) == 0)
enum { INT8 = 0, FLOAT32 = 7, BFLOAT16 = 9, SUM = 0 };

static ncclComm_t comm_of(int id, int n_ranks, int rank) {
  ncclUniqueId unique = {{0}};
  ncclComm_t comm = NULL;
  unique.internal[0] = (char)id;
  OK(ncclCommInitRank(&comm, n_ranks, unique, rank));
  CHECK(comm);
  return comm;
}

static void all_reduce(ncclComm_t comm, size_t count) { OK(ncclAllReduce(NULL, NULL, count, FLOAT32, SUM, comm, NULL)); }

static void every_primitive(void) {
  ncclComm_t comm = comm_of(1, 8, 3);
  OK(ncclAllReduce(NULL, NULL, 100, FLOAT32, SUM, comm, NULL));
  OK(ncclBroadcast(NULL, NULL, 100, BFLOAT16, 2, comm, NULL));
  OK(ncclBcast(NULL, 10, INT8, 2, comm, NULL));
  OK(ncclReduce(NULL, NULL, 7, FLOAT32, SUM, 5, comm, NULL));
  OK(ncclAllGather(NULL, NULL, 8, FLOAT32, comm, NULL));
  OK(ncclReduceScatter(NULL, NULL, 9, FLOAT32, SUM, comm, NULL));
  OK(ncclSend(NULL, 11, FLOAT32, 4, comm, NULL));
  OK(ncclRecv(NULL, 12, FLOAT32, 6, comm, NULL));
  CHECK(stub_refused_events() == 0);
}

/* No summation group: its watcher is not there. */
/* What the hook in Python calls, which finds it by its name. */
typedef int (*tell_group)(uint64_t id, const char *name, const uint32_t *ranks, uint32_t n_ranks);

/* Groups are told before the library is called; one gets a better name, and what is no group is refused. */
static void rank_groups(void) {
  tell_group tell = (tell_group)dlsym(RTLD_DEFAULT, "ringscope_group");
  CHECK(tell);
  const uint32_t tp[] = {4, 5, 6, 7}, dp[] = {0, 4};
  CHECK(tell(11, "group 1 4-7", tp, 4) == 0);
  CHECK(tell(12, "dp 0,4", dp, 2) == 0);
  CHECK(tell(11, "tp 4-7", tp, 4) == 0);
  CHECK(tell(13, "none", NULL, 2) != 0);
  CHECK(tell(14, NULL, tp, 0) != 0);
  for (uint64_t id = 100; id < 400; id++) tell(id, "more", tp, 4);
}

static void no_watcher(void) {
  every_primitive();
  char line[4096];
  FILE* maps = fopen("/proc/self/maps", "r");
  while (fgets(line, sizeof line, maps)) CHECK(!strstr(line, "/libringscope_watcher.so"));
  fclose(maps);
}

static void newer_primitives(void) {
  ncclComm_t comm = comm_of(1, 8, 3);
  OK(ncclAlltoAll(NULL, NULL, 10, FLOAT32, comm, NULL));
  OK(ncclGather(NULL, NULL, 11, FLOAT32, 2, comm, NULL));
  OK(ncclScatter(NULL, NULL, 12, FLOAT32, 1, comm, NULL));
  OK(ncclPutSignal(NULL, 13, BFLOAT16, 5, NULL, 0, 1, 2, 3, comm, NULL));
  OK(ncclSignal(5, 1, 2, 3, comm, NULL));
  OK(ncclWaitSignal(0, NULL, comm, NULL));
  OK(ncclAllReduceConfig(NULL, NULL, 1, FLOAT32, SUM, comm, NULL, NULL));
  OK(ncclBroadcastConfig(NULL, NULL, 2, FLOAT32, 0, comm, NULL, NULL));
  OK(ncclReduceConfig(NULL, NULL, 3, FLOAT32, SUM, 0, comm, NULL, NULL));
  OK(ncclAllGatherConfig(NULL, NULL, 4, FLOAT32, comm, NULL, NULL));
  OK(ncclReduceScatterConfig(NULL, NULL, 5, FLOAT32, SUM, comm, NULL, NULL));
  OK(ncclAlltoAllConfig(NULL, NULL, 6, FLOAT32, comm, NULL, NULL));
  OK(ncclGatherConfig(NULL, NULL, 7, FLOAT32, 0, comm, NULL, NULL));
  OK(ncclScatterConfig(NULL, NULL, 8, FLOAT32, 0, comm, NULL, NULL));
  void *handle;
  OK(ncclMemAlloc(&handle, 8));
  OK(ncclCommRegister(comm, NULL, 8, &handle));
  OK(ncclCommWindowRegister(comm, NULL, 8, &handle, 0));
  OK(ncclCommDeregister(comm, handle));
  OK(ncclCommWindowDeregister(comm, handle));
  stub_fail_next(4);
  CHECK(ncclCommRegister(comm, NULL, 8, &handle) == 4);
  CHECK(stub_refused_events() == 0);
}

/* Ends a group without launching it. */
static void simulated(void) {
  ncclComm_t comm = comm_of(1, 8, 3);
  OK(ncclGroupStart());
  all_reduce(comm, 1);
  OK(ncclGroupStart());
  OK(ncclSend(NULL, 2, INT8, 1, comm, NULL));
  OK(ncclGroupSimulateEnd(NULL));
  all_reduce(comm, 4);
  OK(ncclGroupSimulateEnd(NULL));
  all_reduce(comm, 8);
  CHECK(ncclGroupSimulateEnd(NULL) == 5);
}

static ncclConfig_t config_of(int min_ctas, int max_ctas, int split_share, int shrink_share, const char *name) {
  int unset = -2147483647 - 1;
  ncclConfig_t config = {sizeof config, 0xcafebeef, 23203, 1, unset, min_ctas, max_ctas, NULL, split_share, unset, name, unset, unset, shrink_share, unset};
  return config;
}

static void kinship(void) {
  int unset = -2147483647 - 1, excluded[] = {7};
  ncclUniqueId ids[2] = {{{5}}, {{6}}};
  ncclConfig_t config = config_of(2, 16, 1, 1, "world"), plain = config_of(unset, 4, unset, unset, NULL);
  ncclComm_t world, split, second, shrunk, aborted, grown, joined;
  OK(ncclCommInitRankScalable(&world, 8, 3, 2, ids, &config));
  OK(ncclCommSplit(world, 4, 0, &split, NULL));                         /* child 1, inherits */
  OK(ncclCommSplit(world, 4, 0, &second, &plain));                      /* child 2 */
  OK(ncclCommShrink(world, excluded, 1, &shrunk, NULL, 0));             /* not counted */
  OK(ncclCommShrink(world, excluded, 1, &aborted, &plain, 1));
  OK(ncclCommGrow(world, 16, NULL, -1, &grown, NULL));                  /* child 3 */
  OK(ncclCommGrow(NULL, 16, &ids[1], 12, &joined, &plain));
  ncclComm_t all[] = {world, split, second, shrunk, aborted, grown, joined};
  for (int i = 0; i < 7; i++) all_reduce(all[i], 1u << i);
  stub_complete(STUB_HOLD, 2);
  all_reduce(split, 1000);
  OK(ncclCommRevoke(split, 0));
  CHECK(ncclAllReduce(NULL, NULL, 1, FLOAT32, SUM, split, NULL) == 5);
  stub_release();
  OK(ncclCommDestroy(split));
}

static void non_blocking(void) {
  int error = 0;
  ncclUniqueId id = {{1}};
  ncclComm_t comm, child = NULL, lost = NULL;
  stub_non_blocking(1);
  CHECK(ncclCommInitRank(&comm, 8, id, 6) == 7);
  OK(ncclCommGetAsyncError(comm, &error));
  CHECK(error == 7);
  do OK(ncclCommGetAsyncError(comm, &error)); while (error == 7);
  OK(error);
  CHECK(ncclCommSplit(comm, 1, 0, &child, NULL) == 7);
  CHECK(child == NULL);
  do OK(ncclCommGetAsyncError(comm, &error)); while (error == 7);
  CHECK(child != NULL);
  all_reduce(child, 3);
  CHECK(ncclCommSplit(comm, 2, 0, &lost, NULL) == 7);
  OK(ncclCommAbort(comm)); /* and nobody will ever know the child */
}

/* An init that goes on when the program ends; one of which the program never asks whether it is over; one that fails, and then is
 * aborted. */
static void non_blocking_inits(void) {
  int error = 0;
  ncclUniqueId ids[3] = {{{1}}, {{2}}, {{3}}};
  ncclComm_t comms[3];
  stub_non_blocking(1);
  for (int i = 0; i < 3; i++) CHECK(ncclCommInitRank(&comms[i], 8, ids[i], 6) == 7);
  OK(ncclCommGetAsyncError(comms[0], &error));
  CHECK(error == 7);
  stub_init_is_done(comms[1]);
  all_reduce(comms[1], 3);
  stub_async_error(6);
  OK(ncclCommGetAsyncError(comms[2], &error));
  CHECK(error == 6);
  stub_async_error(0);
  OK(ncclCommAbort(comms[2]));
}

static void until_done(ncclComm_t comm) {
  int error;
  do OK(ncclCommGetAsyncError(comm, &error)); while (error == 7);
  OK(error);
}

/* A program that takes a child out of where the library has put it, and that memory is gone when it asks for the parent. */
static ncclComm_t split_in_passing(ncclComm_t parent, int color) {
  ncclComm_t *place = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(place != MAP_FAILED);
  CHECK(ncclCommSplit(parent, color, 0, place, NULL) == 7);
  stub_split_is_done(parent);
  ncclComm_t child = *place;
  OK(munmap(place, 4096));
  until_done(parent);
  return child;
}

static void passing_place(void) {
  ncclUniqueId id = {{1}}, other_id = {{2}};
  ncclComm_t comm, other, lost;
  stub_non_blocking(1);
  CHECK(ncclCommInitRank(&comm, 8, id, 6) == 7);
  CHECK(ncclCommInitRank(&other, 8, other_id, 6) == 7);
  until_done(comm);
  until_done(other);
  ncclComm_t child = split_in_passing(comm, 1), second = split_in_passing(child, 2);
  all_reduce(child, 3);
  OK(ncclCommDestroy(comm));
  until_done(second);
  all_reduce(second, 5);
  /* Which of two that are alike this is, nobody can tell. */
  lost = split_in_passing(other, 1);
  split_in_passing(other, 2);
  all_reduce(lost, 7);
}

/* A communicator is made while a child that looks alike waits for the program to name it. */
static void made_beside_a_child(void) {
  ncclUniqueId id = {{1}};
  ncclComm_t comm;
  stub_non_blocking(1);
  CHECK(ncclCommInitRank(&comm, 8, id, 6) == 7);
  until_done(comm);
  ncclComm_t child = split_in_passing(comm, 1);
  stub_non_blocking(0);
  all_reduce(comm_of(2, 4, 3), 1);
  all_reduce(child, 3);
}

/* One of several copies of the library in the process: each gets the calls of its own communicators and users. */
static void copy(void) {
  int before = stub_operations(), groups = stub_group_starts();
  ncclComm_t comm = comm_of(1, 8, 3);
  all_reduce(comm, 1);
  OK(ncclGroupStart());
  all_reduce(comm, 2);
  OK(ncclGroupStart());
  OK(ncclSend(NULL, 4, INT8, 1, comm, NULL));
  OK(ncclGroupEnd());
  OK(ncclGroupEnd());
  OK(ncclBcast(NULL, 8, INT8, 1, comm, NULL)); /* calls itself through the exported name */
  CHECK(stub_operations() - before == 4);
  CHECK(stub_group_starts() - groups == 2);
  /* A communicator that nobody has seen made still reaches the caller's own copy. */
  struct { int words[64]; } unknown = {{0, 1}};
  all_reduce((ncclComm_t)&unknown, 1);
  CHECK(stub_operations() - before == 5);
}

static void missing(void) {
  ncclComm_t comm = comm_of(1, 8, 3);
  CHECK(ncclGroupSimulateEnd(NULL) == 2);
  all_reduce(comm, 1);
}

/* The process's first calls of all, from many threads at once. */
static pthread_barrier_t start;

static void *first_call(void *number) {
  pthread_barrier_wait(&start);
  OK(ncclGroupStart());
  OK(ncclGroupEnd());
  ncclComm_t comm = comm_of((int)(long)number, 8, 3);
  all_reduce(comm, 1);
  return NULL;
}

static void first_calls(void) {
  pthread_t ids[16];
  OK(pthread_barrier_init(&start, NULL, 16));
  for (long i = 0; i < 16; i++) OK(pthread_create(&ids[i], NULL, first_call, (void *)(i + 1)));
  for (int i = 0; i < 16; i++) OK(pthread_join(ids[i], NULL));
}

static void groups(void) {
  ncclComm_t comm = comm_of(1, 8, 3), other = comm_of(2, 4, 1);
  OK(ncclGroupStart());
  OK(ncclSend(NULL, 1, INT8, 1, comm, NULL));
  OK(ncclGroupStart());
  OK(ncclRecv(NULL, 2, INT8, 1, comm, NULL));
  OK(ncclGroupEnd());
  all_reduce(other, 1);
  OK(ncclGroupEnd());
  /* The library refuses the whole group. */
  OK(ncclGroupStart());
  OK(ncclSend(NULL, 4, INT8, 1, comm, NULL));
  OK(ncclRecv(NULL, 8, INT8, 1, comm, NULL));
  stub_fail_next(3);
  CHECK(ncclGroupEnd() == 3);
  /* It refuses one call, and with it the group. */
  OK(ncclGroupStart());
  OK(ncclSend(NULL, 16, INT8, 1, comm, NULL));
  stub_fail_next(4);
  CHECK(ncclRecv(NULL, 32, INT8, 1, comm, NULL) == 4);
  CHECK(ncclGroupEnd() == 4);
  /* A group that is not one. */
  CHECK(ncclGroupEnd() == 5);
  /* And all goes on. */
  OK(ncclSend(NULL, 64, INT8, 1, comm, NULL));
  stub_fail_next(4);
  CHECK(ncclSend(NULL, 128, INT8, 1, comm, NULL) == 4);
  /* ncclInProgress: taken. */
  OK(ncclGroupStart());
  OK(ncclSend(NULL, 0, INT8, 1, comm, NULL));
  stub_fail_next(7);
  CHECK(ncclGroupEnd() == 7);
}

static void open_group(void) {
  ncclComm_t comm = comm_of(1, 8, 3);
  OK(ncclGroupStart());
  OK(ncclSend(NULL, 1, INT8, 1, comm, NULL));
  OK(ncclRecv(NULL, 2, INT8, 1, comm, NULL));
  _exit(0);
}

static void *many_calls(void *argument) {
  ncclComm_t comm = argument;
  /* Four threads fit the ring: none is overwritten while its thread is not scheduled. */
  for (int i = 0; i < 340; i++) {
    all_reduce(comm, 1);
    OK(ncclGroupStart());
    OK(ncclSend(NULL, 1, INT8, 1, comm, NULL));
    OK(ncclRecv(NULL, 1, INT8, 1, comm, NULL));
    OK(ncclGroupEnd());
  }
  return NULL;
}

static void threads(void) {
  pthread_t ids[4];
  for (int i = 0; i < 4; i++) OK(pthread_create(&ids[i], NULL, many_calls, comm_of(i + 1, 8, i)));
  for (int i = 0; i < 4; i++) OK(pthread_join(ids[i], NULL));
}

/* Channels finish on other threads, before, while and after the calls return. */
static void racing_completion(void) {
  ncclComm_t comm = comm_of(1, 8, 3);
  stub_complete(STUB_THREADS, 4);
  for (int i = 0; i < 60; i++) {
    all_reduce(comm, 1);
    OK(ncclGroupStart());
    for (int j = 0; j < 2; j++) OK(ncclSend(NULL, 1, INT8, j, comm, NULL));
    OK(ncclGroupEnd());
    stub_release();
  }
}

static void held(void) {
  ncclComm_t comm = comm_of(1, 8, 3);
  stub_complete(STUB_HOLD, 3);
  all_reduce(comm, 5);
  stub_release();
  all_reduce(comm, 6);
  puts("ready");
  fflush(stdout);
  for (;;) pause();
}

static void trivial(void) {
  ncclComm_t alone = comm_of(1, 1, 0), comm = comm_of(2, 8, 3);
  all_reduce(alone, 10);
  all_reduce(comm, 0);
  OK(ncclGroupStart());
  all_reduce(alone, 10);
  OK(ncclSend(NULL, 0, INT8, 1, comm, NULL));
  OK(ncclGroupEnd());
}

static void splits(void) {
  ncclComm_t comm = comm_of(1, 8, 6), child = NULL, none = comm, grouped = NULL;
  ncclConfig_t config = {sizeof config, 0xcafebeef, 22809, 1, 0, 0, 0, NULL, 0, 0, "tensor-parallel", 0, 0, 0, 0};
  OK(ncclCommSplit(comm, 0, 0, &child, &config));
  OK(ncclCommSplit(comm, -1, 0, &none, NULL));
  CHECK(none == NULL);
  OK(ncclGroupStart());
  OK(ncclCommSplit(comm, 1, 0, &grouped, NULL));
  OK(ncclGroupEnd());
  all_reduce(child, 1);
  all_reduce(grouped, 2);
}

static void lifetimes(void) {
  ncclUniqueId id = {{9}};
  ncclComm_t comm = comm_of(1, 8, 0), failed = NULL, comms[3], grouped = NULL;
  stub_complete(STUB_HOLD, 2);
  all_reduce(comm, 1);
  OK(ncclCommFinalize(comm));
  OK(ncclCommDestroy(comm)); /* flushes: the operation completes inside */
  comm = comm_of(2, 8, 0);   /* malloc gives the same pointer again */
  all_reduce(comm, 2);
  all_reduce(comm, 2);
  OK(ncclCommAbort(comm));
  stub_release(); /* too late */
  stub_fail_next(2);
  CHECK(ncclCommInitRank(&failed, 8, id, 1) == 2);
  OK(ncclCommInitAll(comms, 3, NULL));
  stub_complete(STUB_INLINE, 2);
  for (int i = 0; i < 3; i++) all_reduce(comms[i], 1);
  OK(ncclGroupStart());
  OK(ncclCommInitRank(&grouped, 8, id, 1));
  OK(ncclGroupEnd());
  all_reduce(grouped, 3);
  all_reduce(grouped, 3);
  /* One that nobody has seen made: not even the stub may look into it. */
  CHECK(ncclAllReduce(NULL, NULL, 0, FLOAT32, SUM, (ncclComm_t)&id, NULL) == 0);
}

static void many_communicators(void) {
  for (int i = 0; i < 4140; i++) all_reduce(comm_of(1, 8, 0), 1);
}

/* The agent's side of the segment. */
static char *segment(void) {
  const char *dir = getenv("RINGSCOPE_DIR");
  DIR *entries = opendir(dir);
  CHECK(entries);
  for (struct dirent *entry; (entry = readdir(entries));) {
    if (!strstr(entry->d_name, ".seg")) continue;
    char path[4096];
    struct stat status;
    snprintf(path, sizeof path, "%s/%s", dir, entry->d_name);
    int fd = open(path, O_RDWR);
    OK(fstat(fd, &status));
    void *memory = mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(memory != MAP_FAILED);
    return memory;
  }
  CHECK(!"a segment");
  return NULL;
}

static volatile uint32_t *word(const char *offset_variable) {
  return (uint32_t *)(segment() + atol(getenv(offset_variable)));
}

/* More communicators than there are slots, one after the other, and no agent. */
static void communicators_made_and_destroyed(void) {
  for (int i = 0; i < 10000; i++) {
    ncclComm_t comm = comm_of(1, 8, 0);
    all_reduce(comm, 1);
    OK(ncclCommDestroy(comm));
  }
}

/* A group with calls on more communicators than a thread remembers. */
static void wide_group(void) {
  ncclComm_t comms[200];
  for (int i = 0; i < 200; i++) comms[i] = comm_of(1, 8, 0);
  for (int call = 0; call < 64; call++) {
    OK(ncclGroupStart());
    for (int i = 0; i < 200; i++) all_reduce(comms[i], 1);
    OK(ncclGroupEnd());
  }
}

static void call_in_handler(int signal) {
  (void)signal;
  OK(ncclGroupStart());
  OK(ncclGroupEnd());
}

/* A handler calls in the middle of the first calls, of which the very first opens the collector. */
static void interrupted(void) {
  struct sigaction action = {.sa_handler = call_in_handler, .sa_flags = SA_RESTART};
  OK(sigaction(SIGALRM, &action, NULL));
  struct itimerval often = {{0, 30}, {0, 30}}, never = {{0, 0}, {0, 0}};
  OK(setitimer(ITIMER_REAL, &often, NULL));
  ncclComm_t comm = comm_of(1, 8, 3);
  for (int i = 0; i < 1000; i++) all_reduce(comm, 1);
  OK(setitimer(ITIMER_REAL, &never, NULL));
}

/* The library gives the pointer in the call, and its place is another's before the group ends. */
static void place_taken_back(void) {
  ncclUniqueId id = {{1}};
  long page = sysconf(_SC_PAGESIZE);
  ncclComm_t *place = mmap(NULL, (size_t)page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(place != MAP_FAILED);
  stub_gives_at_once();
  OK(ncclGroupStart());
  OK(ncclCommInitRank(place, 8, id, 3));
  ncclComm_t comm = *place;
  OK(munmap(place, (size_t)page));
  OK(ncclGroupEnd());
  all_reduce(comm, 5);
}

/* Destroys that pass the collector, and new communicators at the same addresses. */
static void unseen_destroy(void) {
  void *library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_NOLOAD);
  CHECK(library);
  int (*destroy)(ncclComm_t) = (int (*)(ncclComm_t))dlsym(library, "ncclCommDestroy");
  CHECK(destroy);
  ncclComm_t comms[16];
  for (int i = 0; i < 16; i++) comms[i] = comm_of(1, 8, 0);
  for (int i = 0; i < 16; i++) all_reduce(comms[i], 1);
  for (int i = 0; i < 16; i++) OK(destroy(comms[i]));
  for (int i = 0; i < 16; i++) {
    ncclComm_t comm = comm_of(2, 4, 1);
    for (int j = 0; j < 10; j++) all_reduce(comm, 2);
  }
}

/* The agent has read the end of the second communicator, not of the others. */
static void slots_used_again(void) {
  static ncclComm_t comms[4096];
  stub_network(5, 1, 1000);
  for (int i = 0; i < 4096; i++) comms[i] = comm_of(1, 8, 0);
  for (int i = 0; i < 3; i++) {
    all_reduce(comms[i], 1);
    OK(ncclCommDestroy(comms[i]));
  }
  *word("READ_GENERATION_OFFSET") = 1;
  stub_network(6, 1, 10);
  all_reduce(comm_of(2, 4, 1), 5);
  all_reduce(comm_of(3, 4, 1), 7); /* in the place of the first */
}

/* Calls from several threads on one communicator, which they must serialise. */
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

static void *shared_calls(void *comm) {
  for (int i = 0; i < 2000; i++) {
    pthread_mutex_lock(&turn);
    all_reduce(comm, 1);
    pthread_mutex_unlock(&turn);
  }
  return NULL;
}

static void shared_communicator(void) {
  pthread_t ids[4];
  ncclComm_t comm = comm_of(1, 8, 3);
  for (int i = 0; i < 4; i++) OK(pthread_create(&ids[i], NULL, shared_calls, comm));
  for (int i = 0; i < 4; i++) OK(pthread_join(ids[i], NULL));
}

/* The same process id and start time, another program. */
static void execs(void) {
  all_reduce(comm_of(1, 8, 3), 1);
  if (getenv("AGAIN")) return;
  OK(setenv("AGAIN", "1", 1));
  execl("/proc/self/exe", "driver", "execs", NULL);
  CHECK(!"exec");
}

/* Who waits gets the low 8 bits of a status. */
static void fails(void) {
  all_reduce(comm_of(1, 8, 3), 1);
  exit(0x103);
}

static void *one_call(void *comm) {
  all_reduce(comm, 2);
  return NULL;
}

static void thread_exit(void) {
  pthread_t id;
  ncclComm_t comm = comm_of(1, 8, 3);
  stub_fail_next(STUB_EXIT_THREAD);
  OK(pthread_create(&id, NULL, one_call, comm));
  OK(pthread_join(id, NULL));
  all_reduce(comm, 3);
}

static void network(void) {
  ncclComm_t comm = comm_of(1, 8, 3);
  stub_network(5, 4, 1000);
  all_reduce(comm, 1);
  all_reduce(comm, 1);
  stub_network(6, 1, 7);
  OK(ncclSend(NULL, 1, INT8, 6, comm, NULL));
  /* A captured graph, launched three times: one call, three times the bytes. */
  stub_replays(3);
  OK(ncclSend(NULL, 1, INT8, 6, comm, NULL));
}

static void forks(void) {
  ncclComm_t comm = comm_of(1, 8, 3);
  all_reduce(comm, 1);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    all_reduce(comm, 100); /* not in the parent's segment, and none of its own yet */
    all_reduce(comm_of(2, 4, 1), 3);
    exit(0);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  child = fork();
  if (child == 0) exit(0); /* a child that communicates with nobody leaves nothing */
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  all_reduce(comm, 1);
}

static void wrap(void) {
  ncclComm_t comm = comm_of(1, 8, 3);
  for (int i = 0; i < 40000; i++) all_reduce(comm, 1);
  /* A group larger than the ring. */
  OK(ncclGroupStart());
  for (int i = 0; i < 20000; i++) OK(ncclSend(NULL, 1, INT8, 1, comm, NULL));
  OK(ncclGroupEnd());
  /* One record goes under before its operation completes. */
  stub_complete(STUB_HOLD, 1);
  OK(ncclReduce(NULL, NULL, 1, INT8, SUM, 0, comm, NULL));
  stub_complete(STUB_INLINE, 1);
  for (int i = 0; i < 16384; i++) all_reduce(comm, 1);
  stub_release();
}

/* The agent asks for all places of records. */
static void more_places(void) {
  ncclComm_t comm = comm_of(1, 8, 3);
  *word("WANTED_PLACES_OFFSET") = 16384;
  for (int i = 0; i < 40000; i++) all_reduce(comm, 1);
}

static void controlled(void) {
  ncclComm_t comm = comm_of(1, 8, 3);
  volatile uint32_t *control = word("CONTROL_OFFSET");
  stub_complete(STUB_HOLD, 2);
  all_reduce(comm, 1);
  CHECK(stub_mask() != 0);
  *control = 1;
  all_reduce(comm, 10);
  CHECK(stub_mask() == 0);
  ncclComm_t late = comm_of(2, 8, 3);
  CHECK(stub_mask() == 0);
  stub_release(); /* what was issued while on still completes */
  *control = 0;
  stub_complete(STUB_INLINE, 2);
  all_reduce(comm, 100);
  all_reduce(late, 1000);
  CHECK(stub_mask() != 0);
}

static void faulty(void) {
  ncclComm_t comm = comm_of(1, 8, 3);
  stub_complete(STUB_HOLD, 2);
  all_reduce(comm, 1);
  word("CONTROL_OFFSET")[1] = 3; /* as after a panic */
  stub_release();
  all_reduce(comm, 10);
  comm_of(2, 8, 3);
  word("CONTROL_OFFSET")[0] = 1;
  all_reduce(comm, 10);
  word("CONTROL_OFFSET")[0] = 0;
  all_reduce(comm, 10);
}

static void switched_off(void) {
  ncclComm_t comm = comm_of(1, 8, 3);
  *word("CONTROL_OFFSET") = 1;
  all_reduce(comm, 10);
}

static void record_path(ncclComm_t comm, int times) {
  for (int i = 0; i < times; i++) {
    all_reduce(comm, 1);
    OK(ncclGroupStart());
    OK(ncclSend(NULL, 1, INT8, 1, comm, NULL));
    OK(ncclRecv(NULL, 1, INT8, 1, comm, NULL));
    OK(ncclGroupEnd());
  }
}

static void no_system_call(void) {
  ncclComm_t comm = comm_of(1, 8, 3), other = comm_of(2, 8, 3);
  record_path(comm, 25000); /* the stub's queue, lazy binding, and each block of records once */
  record_path(other, 1);
  struct sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
  };
  struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
  OK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
  OK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
  record_path(comm, 25000);
  record_path(other, 25000);
  _exit(0);
}

/* Counted by the malloc of the program that runs this. */
extern volatile long allocations __attribute__((weak));

static void no_allocation(void) {
  CHECK(&allocations);
  ncclComm_t comm = comm_of(1, 8, 3), other = comm_of(2, 8, 3);
  record_path(comm, 1);
  stub_network(5, 2, 1000);
  long before = allocations;
  record_path(comm, 25000);
  record_path(other, 25000);
  CHECK(allocations == before);
  /* That the count works at all. */
  static void *volatile memory;
  memory = malloc(1);
  free(memory);
  CHECK(allocations == before + 1);
}

static void broadcast(ncclComm_t comm, cudaStream_t stream) { OK(ncclBroadcast(NULL, NULL, 1, INT8, 2, comm, stream)); }

/* Of a version that tells of a broadcast's call and no more. */
static void untold_broadcasts(void) {
  ncclComm_t comm = comm_of(1, 8, 3), other = comm_of(2, 8, 3), ended = comm_of(3, 8, 3);
  cudaStream_t stream = (cudaStream_t)4096;
  broadcast(comm, NULL);
  broadcast(comm, NULL);
  broadcast(comm, stream);
  all_reduce(other, 1);
  all_reduce(comm, 1); /* behind the first two alone */
  OK(ncclGroupStart());
  broadcast(comm, NULL);
  all_reduce(comm, 1); /* beside the one of its group */
  OK(ncclGroupEnd());
  broadcast(ended, NULL);
  OK(ncclCommDestroy(ended));
}

/* Broadcasts that are over at once have gone from the records when their communicator ends. */
static void overwritten_broadcasts(void) {
  ncclComm_t alone = comm_of(1, 1, 0), refused = comm_of(2, 8, 3), other = comm_of(3, 8, 3);
  broadcast(alone, NULL);
  stub_fail_next(5);
  CHECK(ncclBroadcast(NULL, NULL, 1, INT8, 2, refused, NULL) == 5);
  broadcast(refused, NULL);
  all_reduce(refused, 1); /* behind it */
  stub_fail_next(5);
  CHECK(ncclBroadcast(NULL, NULL, 1, INT8, 2, refused, NULL) == 5);
  for (int i = 0; i < 20000; i++) all_reduce(other, 1);
  broadcast(refused, NULL);
  OK(ncclCommDestroy(refused));
  OK(ncclCommDestroy(alone));
}

/* The first part of an all-to-all finishes before the second is launched, which never does. */
static void parts_of_one(void) {
  ncclComm_t comm = comm_of(1, 8, 3);
  stub_parts(2);
  OK(ncclAlltoAll(NULL, NULL, 10, FLOAT32, comm, NULL));
  stub_complete(STUB_HOLD, 2);
  OK(ncclAlltoAll(NULL, NULL, 10, FLOAT32, comm, NULL));
  CHECK(stub_refused_events() == 0);
}

#define SCENARIO(name) {#name, name}
static const struct { const char *name; void (*run)(void); } scenarios[] = {
    SCENARIO(every_primitive), SCENARIO(no_watcher), SCENARIO(rank_groups), SCENARIO(newer_primitives), SCENARIO(simulated), SCENARIO(kinship), SCENARIO(non_blocking), SCENARIO(non_blocking_inits), SCENARIO(passing_place), SCENARIO(made_beside_a_child),
    SCENARIO(copy), SCENARIO(first_calls), SCENARIO(missing), SCENARIO(groups), SCENARIO(open_group), SCENARIO(threads),
    SCENARIO(racing_completion), SCENARIO(held), SCENARIO(trivial), SCENARIO(splits), SCENARIO(lifetimes),
    SCENARIO(many_communicators), SCENARIO(network), SCENARIO(forks), SCENARIO(wrap), SCENARIO(more_places), SCENARIO(controlled),
    SCENARIO(switched_off), SCENARIO(slots_used_again), SCENARIO(communicators_made_and_destroyed), SCENARIO(wide_group), SCENARIO(place_taken_back), SCENARIO(interrupted), SCENARIO(unseen_destroy), SCENARIO(thread_exit), SCENARIO(execs), SCENARIO(fails), SCENARIO(faulty), SCENARIO(shared_communicator), SCENARIO(no_system_call), SCENARIO(no_allocation),
    SCENARIO(untold_broadcasts), SCENARIO(overwritten_broadcasts), SCENARIO(parts_of_one),
};

int run_scenario(const char *name);
int run_scenario(const char *name) {
  for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++)
    if (!strcmp(name, scenarios[i].name)) { scenarios[i].run(); return 0; }
  return 98;
}

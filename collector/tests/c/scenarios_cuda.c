/* What a training process does with streams, one function per test. */
#define _GNU_SOURCE
#include "scenarios_cuda.h"
#include "stub_stream_nccl.h"
#include <glob.h>
#include <pthread.h>
#include <sys/wait.h>

static ncclComm_t comm_of(int id) {
  ncclUniqueId unique = {{(char)id}};
  ncclComm_t comm = NULL;
  OK(ncclCommInitRank(&comm, 8, unique, 3));
  return comm;
}

static void all_reduce(ncclComm_t comm, stream_t stream) { OK(ncclAllReduce(NULL, NULL, 1, INT8, SUM, comm, stream)); }
static void send_to(ncclComm_t comm, stream_t stream) { OK(ncclSend(NULL, 1, INT8, 1, comm, stream)); }

static int n_threads(void) {
  int n = 0;
  DIR *entries = opendir("/proc/self/task");
  for (struct dirent *entry; (entry = readdir(entries));) n += entry->d_name[0] != '.';
  closedir(entries);
  return n;
}

static void in_order(void) {
  ncclComm_t comm = comm_of(1);
  CHECK(n_threads() == 1);
  stream_t stream = DRIVER(stub_stream);
  DRIVER(stub_hold, true);
  all_reduce(comm, stream);
  CHECK(n_threads() == 2);
  DRIVER(stub_finish, stream, 1);
  UNTIL(completed(ALL_REDUCE) == 1);
  all_reduce(comm, stream);
  all_reduce(comm, stream);
  int asked = DRIVER(stub_n_queries);
  UNTIL(DRIVER(stub_n_queries) > asked + 3);
  CHECK(completed(ALL_REDUCE) == 1);
  DRIVER(stub_finish, stream, 3);
  UNTIL(completed(ALL_REDUCE) == 3);
  all_reduce(comm, stream);
  CHECK(DRIVER(stub_n_sins) == 0);
}

/* Somebody cuts the segment, and the thread that asks events is the first that meets it. */
static void cut_under_events(void) {
  ncclComm_t comm = comm_of(1);
  stream_t stream = DRIVER(stub_stream);
  DRIVER(stub_hold, true);
  all_reduce(comm, stream);
  CHECK(n_threads() == 2);
  glob_t segments;
  char pattern[4096];
  snprintf(pattern, sizeof pattern, "%s/*.seg", getenv("RINGSCOPE_DIR"));
  OK(glob(pattern, 0, NULL, &segments));
  CHECK(segments.gl_pathc == 1);
  OK(truncate(segments.gl_pathv[0], 0));
  globfree(&segments);
  DRIVER(stub_finish, stream, 1);
  int asked = DRIVER(stub_n_queries);
  UNTIL(DRIVER(stub_n_queries) > asked || n_threads() == 1);
  /* It has been off since that. */
  for (int i = 0; i < 1000; i++) all_reduce(comm, stream);
  OK(ncclCommDestroy(comm));
}

/* Four events, each begun during another look, and the oldest not complete. */
static void oldest_only(void) {
  ncclComm_t comm = comm_of(1);
  stream_t stream = DRIVER(stub_stream);
  DRIVER(stub_hold, true);
  for (int i = 0; i < 4; i++) {
    all_reduce(comm, stream);
    int asked = DRIVER(stub_n_queries);
    UNTIL(DRIVER(stub_n_queries) > asked + 2);
  }
  CHECK(DRIVER(stub_n_creates) == 4);
  CHECK(DRIVER(stub_n_useless) == 0);
  DRIVER(stub_finish, stream, 2);
  UNTIL(completed(ALL_REDUCE) == 2);
  DRIVER(stub_finish, stream, 4);
  UNTIL(completed(ALL_REDUCE) == 4);
  CHECK(DRIVER(stub_n_useless) == 0);
}

static void two_streams(void) {
  ncclComm_t comm = comm_of(1);
  stream_t a = DRIVER(stub_stream), b = NULL; /* the legacy stream */
  DRIVER(stub_hold, true);
  all_reduce(comm, a);
  send_to(comm, b);
  DRIVER(stub_finish, b, 1);
  UNTIL(completed(SEND) == 1);
  CHECK(completed(ALL_REDUCE) == 0);
  DRIVER(stub_finish, a, 1);
  UNTIL(completed(ALL_REDUCE) == 1);
}

static void group(void) {
  ncclComm_t comm = comm_of(1);
  stream_t a = DRIVER(stub_stream), b = DRIVER(stub_stream);
  DRIVER(stub_hold, true);
  OK(ncclGroupStart());
  OK(ncclGroupStart());
  for (int i = 0; i < 5; i++) {
    send_to(comm, a);
    OK(ncclRecv(NULL, 1, INT8, 1, comm, b));
  }
  OK(ncclGroupEnd());
  all_reduce(comm, a);
  CHECK(DRIVER(stub_n_records) == 0);
  OK(ncclGroupEnd());
  CHECK(DRIVER(stub_n_records) == 2);
  DRIVER(stub_finish, b, 5);
  UNTIL(completed(RECV) == 5);
  CHECK(completed(SEND) == 0);
  DRIVER(stub_finish, a, 6);
  UNTIL(completed(SEND) == 5 && completed(ALL_REDUCE) == 1);
  /* One that fails has nothing to wait for. */
  OK(ncclGroupStart());
  send_to(comm, a);
  stub_fail_next(3);
  CHECK(ncclSend(NULL, 1, INT8, 1, comm, a) == 3);
  CHECK(ncclGroupEnd() == 3);
  CHECK(DRIVER(stub_n_records) == 2);
}

/* More streams than a group has sums for. */
enum { WIDE = 40 };
static void open_wide_group(ncclComm_t comm) {
  OK(ncclGroupStart());
  for (int i = 0; i < WIDE; i++) {
    stream_t stream = DRIVER(stub_stream);
    send_to(comm, stream);
    OK(ncclRecv(NULL, 1, INT8, 1, comm, stream));
  }
  CHECK(DRIVER(stub_n_records) == 0);
}

static void wide_group(void) {
  open_wide_group(comm_of(1));
  OK(ncclGroupEnd());
  CHECK(DRIVER(stub_n_records) == WIDE);
}

static void wide_group_that_fails(void) {
  ncclComm_t comm = comm_of(1);
  open_wide_group(comm);
  stub_fail_next(3);
  CHECK(ncclSend(NULL, 1, INT8, 1, comm, DRIVER(stub_stream)) == 3);
  CHECK(ncclGroupEnd() == 3);
  CHECK(DRIVER(stub_n_records) == 0);
  all_reduce(comm, DRIVER(stub_stream));
}

/* Groups whose calls are the first on their streams, in a process that has used more streams than there are places: each takes the
 * place of an idle stream, and none that of another one of its group. */
static void groups_on_new_streams(void) {
  ncclComm_t comm = comm_of(1);
  uint64_t n_calls = 0;
  for (; n_calls < 1500; n_calls++) {
    all_reduce(comm, DRIVER(stub_stream));
    UNTIL(completed(ALL_REDUCE) == n_calls + 1);
  }
  for (int i = 0; i < 20; i++) {
    OK(ncclGroupStart());
    for (int j = 0; j < 30; j++) all_reduce(comm, DRIVER(stub_stream));
    OK(ncclGroupEnd());
    n_calls += 30;
    UNTIL(completed(ALL_REDUCE) == n_calls);
  }
}

/* The stream of a call is the idle one that a stream which is new to another thread would get the place of. */
static void *first_calls(void *other) {
  for (int i = 0; i < 3000; i++) all_reduce(other, DRIVER(stub_stream));
  return NULL;
}
static ncclComm_t passing_comm;
static void calls_of_another_thread(void) {
  pthread_t id;
  OK(pthread_create(&id, NULL, first_calls, passing_comm));
  OK(pthread_join(id, NULL));
}
static void place_of_a_call(void) {
  ncclComm_t comm = comm_of(1);
  passing_comm = comm_of(2);
  stream_t stream = DRIVER(stub_stream);
  all_reduce(comm, stream);
  UNTIL(completed(ALL_REDUCE) == 1);
  stub_during_next(calls_of_another_thread);
  all_reduce(comm, stream);
  UNTIL(completed(ALL_REDUCE) == 2);
}

/* Of calls that no event has to tell the end of, none keeps its place. */
static void places_of_refused_calls(void) {
  ncclComm_t comm = comm_of(1);
  for (int i = 0; i < 1500; i++) {
    stub_fail_next(4);
    CHECK(ncclAllReduce(NULL, NULL, 1, INT8, SUM, comm, DRIVER(stub_stream)) == 4);
    OK(ncclAllReduce(NULL, NULL, 0, INT8, SUM, comm, DRIVER(stub_stream)));
  }
  all_reduce(comm, DRIVER(stub_stream));
}

static void in_progress(void) {
  int state = 0;
  stub_next_is_non_blocking();
  ncclComm_t comm = comm_of(1);
  stream_t stream = DRIVER(stub_stream);
  DRIVER(stub_hold, true);
  CHECK(ncclAllReduce(NULL, NULL, 1, INT8, SUM, comm, stream) == 7);
  OK(ncclCommGetAsyncError(comm, &state));
  CHECK(state == 7 && DRIVER(stub_n_records) == 0);
  stub_progress(comm);
  OK(ncclCommGetAsyncError(comm, &state));
  CHECK(state == 0 && DRIVER(stub_n_records) == 1);
  DRIVER(stub_finish, stream, 1);
  UNTIL(completed(ALL_REDUCE) == 1);
  OK(ncclGroupStart());
  for (int i = 0; i < 2; i++) CHECK(ncclSend(NULL, 1, INT8, 1, comm, stream) == 0);
  CHECK(ncclGroupEnd() == 7);
  CHECK(DRIVER(stub_n_records) == 1);
  stub_progress(comm);
  OK(ncclCommGetAsyncError(comm, &state));
  CHECK(DRIVER(stub_n_records) == 2);
  OK(ncclCommGetAsyncError(comm, &state));
  CHECK(DRIVER(stub_n_records) == 2);
  DRIVER(stub_finish, stream, 3);
  UNTIL(completed(SEND) == 2);
}

/* The thread that asks for the state is the one that would abort: behind what hangs it records nothing. */
static void hung_in_progress(void) {
  int state = 0;
  stub_next_is_non_blocking();
  ncclComm_t comm = comm_of(1);
  stream_t stream = DRIVER(stub_stream);
  DRIVER(stub_hold, true);
  for (int i = 0; i < 2; i++) {
    CHECK(ncclAllReduce(NULL, NULL, 1, INT8, SUM, comm, stream) == 7);
    stub_progress(comm);
    OK(ncclCommGetAsyncError(comm, &state));
    CHECK(DRIVER(stub_n_records) == 1);
    int asked = DRIVER(stub_n_queries);
    UNTIL(DRIVER(stub_n_queries) > asked + 30);
  }
  DRIVER(stub_finish, stream, 1);
  UNTIL(completed(ALL_REDUCE) == 1);
  /* The stream may be gone: nothing is recorded before another call is made on it. */
  OK(ncclCommGetAsyncError(comm, &state));
  CHECK(DRIVER(stub_n_records) == 1);
  CHECK(ncclAllReduce(NULL, NULL, 1, INT8, SUM, comm, stream) == 7);
  stub_progress(comm);
  OK(ncclCommGetAsyncError(comm, &state));
  CHECK(DRIVER(stub_n_records) == 2);
  DRIVER(stub_finish, stream, 3);
  UNTIL(completed(ALL_REDUCE) == 3);
}

static void capture(void) {
  ncclComm_t comm = comm_of(1), other = comm_of(2);
  stream_t captured = DRIVER(stub_stream), plain = DRIVER(stub_stream);
  DRIVER(stub_hold, true);
  all_reduce(other, plain); /* is asked about all the while */
  DRIVER(stub_begin_capture, captured);
  all_reduce(comm, captured);
  OK(ncclGroupStart());
  send_to(comm, captured);
  send_to(comm, captured);
  OK(ncclRecv(NULL, 1, INT8, 1, comm, plain));
  OK(ncclGroupEnd());
  stub_fail_next(4);
  CHECK(ncclAllReduce(NULL, NULL, 1, INT8, SUM, comm, captured) == 4);
  int asked = DRIVER(stub_n_queries);
  UNTIL(DRIVER(stub_n_queries) > asked + 3);
  CHECK(ncclCommDestroy(other) == 0); /* looks too, on this thread */
  CHECK(DRIVER(stub_end_capture, captured));
  CHECK(DRIVER(stub_n_sins) == 0);
  all_reduce(comm, captured);
  DRIVER(stub_hold, false);
  UNTIL(completed(ALL_REDUCE) == 1 && completed(RECV) == 1);
}

static void backlog(void) {
  ncclComm_t comm = comm_of(1);
  stream_t stream = DRIVER(stub_stream);
  DRIVER(stub_hold, true);
  for (int i = 0; i < 40000; i++) all_reduce(comm, stream);
  CHECK(DRIVER(stub_n_creates) == 4);
  CHECK(completed(ALL_REDUCE) == 0);
  DRIVER(stub_finish, stream, 40000);
  UNTIL(completed(ALL_REDUCE) == 40000);
}

static void busy_streams(void) {
  ncclComm_t comm = comm_of(1);
  DRIVER(stub_hold, true);
  for (int i = 0; i < 700; i++) all_reduce(comm, DRIVER(stub_stream));
  DRIVER(stub_hold, false);
}

static void passing_streams(void) {
  ncclComm_t comm = comm_of(1);
  for (uint64_t i = 1; i <= 1500; i++) {
    all_reduce(comm, DRIVER(stub_stream));
    UNTIL(completed(ALL_REDUCE) == i);
  }
  CHECK(DRIVER(stub_n_creates) <= 4 * 512);
}

static void refused_events(void) {
  ncclComm_t comm = comm_of(1);
  DRIVER(stub_refuse_events, true);
  for (int i = 0; i < 3; i++) all_reduce(comm, DRIVER(stub_stream));
  CHECK(n_threads() == 1);
}

static void refused_record(void) {
  ncclComm_t comm = comm_of(1);
  stream_t stream = DRIVER(stub_stream);
  DRIVER(stub_refuse_record);
  all_reduce(comm, stream);
  all_reduce(comm, stream);
  UNTIL(completed(ALL_REDUCE) == 2);
}

static void fork_with_events(void) {
  ncclComm_t comm = comm_of(1);
  stream_t stream = DRIVER(stub_stream);
  DRIVER(stub_hold, true);
  all_reduce(comm, stream);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    int before = DRIVER(stub_n_calls);
    all_reduce(comm, stream);
    CHECK(n_threads() == 1 && DRIVER(stub_n_calls) == before);
    DRIVER(stub_hold, false);
    exit(0);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  DRIVER(stub_finish, stream, 1);
  UNTIL(completed(ALL_REDUCE) == 1);
}

static void aborted(void) {
  ncclComm_t comm = comm_of(1);
  stream_t stream = DRIVER(stub_stream);
  DRIVER(stub_hold, true);
  for (int i = 0; i < 3; i++) all_reduce(comm, stream);
  OK(ncclCommAbort(comm));
  DRIVER(stub_hold, false); /* the kernels leave */
  ncclComm_t next = comm_of(2);
  all_reduce(next, stream);
}

static void destroyed(void) {
  ncclComm_t comm = comm_of(1);
  stream_t stream = DRIVER(stub_stream);
  DRIVER(stub_hold, true);
  for (int i = 0; i < 3; i++) all_reduce(comm, stream);
  DRIVER(stub_hold, false);
  OK(ncclCommDestroy(comm)); /* asks for no event itself: they are asked later, and the last at exit */
}

/* Calls of which no event tells the end. */
static uint64_t dropped_events(void) {
  return *(volatile uint64_t *)(segment() + atol(getenv("DROPPED_EVENTS_OFFSET")));
}

/* The device is reset while an event is pending; what is made afterwards is followed as before. */
static void reset(void) {
  ncclComm_t comm = comm_of(1);
  stream_t stream = DRIVER(stub_stream);
  all_reduce(comm, stream);
  UNTIL(completed(ALL_REDUCE) == 1);
  DRIVER(stub_hold, true);
  all_reduce(comm, stream);
  all_reduce(comm, stream);
  DRIVER(stub_reset);
  UNTIL(dropped_events() == 2);
  DRIVER(stub_hold, false);
  OK(ncclCommAbort(comm));
  comm = comm_of(2);
  for (int i = 0; i < 3; i++) all_reduce(comm, stream);
  CHECK(DRIVER(stub_n_stale) == 0);
}

/* A kernel hangs, and the launch queue behind it is full: a training thread waits in the library (odd room: in the driver, for the
 * event behind its call), with the driver's lock or without. */
static ncclComm_t hung_comm;
static volatile bool is_over;
static void *train(void *stream) {
  while (!is_over) ncclAllReduce(NULL, NULL, 1, INT8, SUM, hung_comm, stream);
  return NULL;
}

static pthread_t hang(int room, bool with_lock) {
  pthread_t id;
  is_over = false;
  hung_comm = comm_of(1);
  DRIVER(stub_hold, true);
  DRIVER(stub_bound_queue, room, with_lock);
  OK(pthread_create(&id, NULL, train, DRIVER(stub_stream)));
  UNTIL(DRIVER(stub_is_full));
  alarm(10);
  return id;
}

static void each_hang(int (*leave)(ncclComm_t)) {
  for (int room = 20; room < 22; room++)
    for (int with_lock = 0; with_lock < 2; with_lock++) {
      pthread_t id = hang(room, with_lock);
      is_over = true; /* what is called now is the last */
      OK(leave(hung_comm));
      DRIVER(stub_unhang);
      OK(pthread_join(id, NULL));
      DRIVER(stub_hold, false);
    }
}

static int revoke_it(ncclComm_t comm) { return ncclCommRevoke(comm, 0); }
static void hung_abort(void) { each_hang(ncclCommAbort); }
static void hung_revoke(void) { each_hang(revoke_it); }
static void hung_destroy(void) { each_hang(ncclCommDestroy); }
static void hung_exit(void) { hang(20, false); }
static void hung_exit_locked(void) { hang(20, true); }
static void hung_exit_in_driver(void) { hang(21, true); }

static void *many_calls(void *comm) {
  stream_t streams[2] = {DRIVER(stub_stream), DRIVER(stub_stream)};
  for (int i = 0; i < 5000; i++) {
    all_reduce(comm, streams[i & 1]);
    OK(ncclGroupStart());
    send_to(comm, streams[0]);
    send_to(comm, streams[1]);
    OK(ncclGroupEnd());
  }
  return NULL;
}

static void threads_with_events(void) {
  pthread_t ids[4];
  for (int i = 0; i < 4; i++) OK(pthread_create(&ids[i], NULL, many_calls, comm_of(i + 1)));
  for (int i = 0; i < 4; i++) OK(pthread_join(ids[i], NULL));
  CHECK(DRIVER(stub_n_sins) == 0);
}

/* Whatever is there of a driver. */
static void bare(void) {
  ncclComm_t comm = comm_of(1);
  all_reduce(comm, NULL);
  all_reduce(comm, NULL);
  CHECK(n_threads() == 1);
}

/* Counted by the malloc of the program that runs this. */
extern volatile long allocations __attribute__((weak));

static void no_allocation_with_events(void) {
  CHECK(&allocations);
  ncclComm_t comm = comm_of(1);
  stream_t stream = DRIVER(stub_stream);
  all_reduce(comm, stream);
  OK(ncclGroupStart());
  send_to(comm, stream);
  OK(ncclGroupEnd());
  UNTIL(completed(ALL_REDUCE) == 1);
  long before = allocations;
  for (int i = 0; i < 20000; i++) {
    all_reduce(comm, stream);
    OK(ncclGroupStart());
    send_to(comm, stream);
    OK(ncclGroupEnd());
  }
  UNTIL(completed(ALL_REDUCE) == 20001 && completed(SEND) == 20001);
  CHECK(allocations == before);
}

#define SCENARIO(name) {#name, name}
static const struct { const char *name; void (*run)(void); } scenarios[] = {
    SCENARIO(in_order), SCENARIO(cut_under_events), SCENARIO(oldest_only), SCENARIO(two_streams), SCENARIO(group), SCENARIO(wide_group), SCENARIO(wide_group_that_fails),
    SCENARIO(groups_on_new_streams), SCENARIO(place_of_a_call), SCENARIO(places_of_refused_calls), SCENARIO(in_progress),
    SCENARIO(capture), SCENARIO(backlog), SCENARIO(busy_streams), SCENARIO(passing_streams), SCENARIO(refused_events),
    SCENARIO(refused_record), SCENARIO(fork_with_events), SCENARIO(aborted), SCENARIO(destroyed),
    SCENARIO(threads_with_events), SCENARIO(bare),
    SCENARIO(hung_in_progress), SCENARIO(reset), SCENARIO(hung_abort), SCENARIO(hung_revoke), SCENARIO(hung_destroy), SCENARIO(hung_exit), SCENARIO(hung_exit_locked),
    SCENARIO(hung_exit_in_driver), SCENARIO(no_allocation_with_events),
};

int run_scenario(const char *name);
int run_scenario(const char *name) {
  for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++)
    if (!strcmp(name, scenarios[i].name)) { scenarios[i].run(); return 0; }
  return 98;
}

/* What a training process does with streams while device times are asked for, one function per test. Each writes down when the device
 * truly began and ended operations, by the host's clock. */
#define _GNU_SOURCE
#include "scenarios_cuda.h"
#include "stub_stream_nccl.h"
#include <pthread.h>
#include <sys/wait.h>
#include <time.h>

/* What control holds for two levels, and the events of a stream, without times and with. */
enum { COUNTERS = 2, EVENTS = 6, UNTIMED = 4, TIMED = 2 * 128 + 1 };

static ncclComm_t comm_of(int id) {
  ncclUniqueId unique = {{(char)id}};
  ncclComm_t comm = NULL;
  OK(ncclCommInitRank(&comm, 8, unique, 3));
  return comm;
}
static void all_reduce(ncclComm_t comm, stream_t stream) { OK(ncclAllReduce(NULL, NULL, 1, INT8, SUM, comm, stream)); }
static void send_to(ncclComm_t comm, stream_t stream) { OK(ncclSend(NULL, 1, INT8, 1, comm, stream)); }

/* How long the device is at work. */
static void work(long us) {
  struct timespec time = {0, us * 1000};
  nanosleep(&time, NULL);
}
static FILE *truth;
static void note(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  if (!truth) truth = fopen(getenv("TRUTH"), "w");
  CHECK(truth);
  fprintf(truth, "%lld\n", now.tv_sec * 1000000000LL + now.tv_nsec);
  fflush(truth);
}
/* The device gets through the first `n` pieces of work on the stream, between the two times that are noted. */
static void finish(stream_t stream, int n) {
  note();
  DRIVER(stub_finish, stream, n);
  note();
}
static void let_times_be_asked(void) {
  int asked = DRIVER(stub_n_queries);
  UNTIL(DRIVER(stub_n_queries) > asked + 3);
}

/* The third is under way at the end, the fourth has not begun. */
static void one_by_one(void) {
  ncclComm_t comm = comm_of(1);
  stream_t stream = DRIVER(stub_stream);
  DRIVER(stub_hold, true);
  for (int i = 0; i < 4; i++) {
    DRIVER(stub_launch, stream);
    all_reduce(comm, stream);
    work(3000);
    if (i < 3) finish(stream, 2 * i + 1);
    if (i < 2) let_times_be_asked();
    work(7000);
    if (i < 2) finish(stream, 2 * i + 2);
    if (i < 2) UNTIL(completed(ALL_REDUCE) == (uint64_t)i + 1);
    else let_times_be_asked();
  }
  CHECK(DRIVER(stub_n_sins) == 0);
}

static void run_late(ncclComm_t comm, stream_t stream, int n) {
  for (int i = 0; i < n; i++) {
    DRIVER(stub_launch, stream);
    all_reduce(comm, stream);
  }
  for (int i = 0; i < n; i++) {
    work(2000);
    finish(stream, 2 * i + 1);
    work(500);
    finish(stream, 2 * i + 2);
  }
}

/* All is enqueued long before the device runs; the stream is gone by then. */
static void late(void) {
  ncclComm_t comm = comm_of(1);
  stream_t stream = DRIVER(stub_stream);
  DRIVER(stub_hold, true);
  all_reduce(comm, stream);
  finish(stream, 0);
  finish(stream, 1);
  UNTIL(completed(ALL_REDUCE) == 1);
  for (int i = 0; i < 100; i++) {
    DRIVER(stub_launch, stream);
    all_reduce(comm, stream);
  }
  DRIVER(stub_destroy, stream);
  for (int i = 0; i < 100; i++) {
    work(2000);
    finish(stream, 2 * i + 2);
    work(500);
    finish(stream, 2 * i + 3);
  }
  UNTIL(completed(ALL_REDUCE) == 101);
  CHECK(DRIVER(stub_n_gone) == 0);
}

static void two_devices(void) {
  stub_next_device(4);
  ncclComm_t other = comm_of(1), comm = comm_of(2);
  stream_t elsewhere = DRIVER(stub_stream_of, 1);
  DRIVER(stub_hold, true);
  run_late(other, elsewhere, 40);
  run_late(comm, DRIVER(stub_stream), 40);
  UNTIL(completed(ALL_REDUCE) == 40);
  CHECK(DRIVER(stub_n_mixed) == 0);
}

static void two_streams(void) {
  ncclComm_t comm = comm_of(1);
  stream_t streams[2] = {DRIVER(stub_stream), DRIVER(stub_stream)};
  DRIVER(stub_hold, true);
  for (int i = 0; i < 20; i++) all_reduce(comm, streams[i & 1]);
  for (int i = 0; i < 20; i++) {
    stream_t stream = streams[i & 1];
    finish(stream, i / 2);
    work(1500);
    finish(stream, i / 2 + 1);
  }
  UNTIL(completed(ALL_REDUCE) == 20);
}

/* A group begins with what waits for its last input. */
static void group(void) {
  ncclComm_t comm = comm_of(1);
  stream_t stream = DRIVER(stub_stream);
  DRIVER(stub_hold, true);
  for (int i = 0; i < 20; i++) {
    OK(ncclGroupStart());
    all_reduce(comm, stream);
    DRIVER(stub_launch, stream);
    all_reduce(comm, stream);
    OK(ncclGroupEnd());
    work(2000);
    finish(stream, 3 * i + 1);
    work(1000);
    finish(stream, 3 * i + 3);
  }
  UNTIL(completed(ALL_REDUCE) == 40);
}

static void full(void) {
  ncclComm_t comm = comm_of(1);
  stream_t stream = DRIVER(stub_stream);
  DRIVER(stub_hold, true);
  for (int i = 0; i < 200; i++) all_reduce(comm, stream);
  DRIVER(stub_hold, false);
  UNTIL(completed(ALL_REDUCE) == 200);
  all_reduce(comm, stream);
}

static void capture(void) {
  ncclComm_t comm = comm_of(1);
  stream_t captured = DRIVER(stub_stream), plain = DRIVER(stub_stream);
  DRIVER(stub_hold, true);
  all_reduce(comm, plain);
  DRIVER(stub_begin_capture, captured);
  all_reduce(comm, captured);
  OK(ncclGroupStart());
  send_to(comm, captured);
  send_to(comm, captured);
  OK(ncclGroupEnd());
  let_times_be_asked();
  CHECK(DRIVER(stub_end_capture, captured));
  CHECK(DRIVER(stub_n_sins) == 0);
  DRIVER(stub_hold, false);
  UNTIL(completed(ALL_REDUCE) == 1);
}

/* A capture that begins in the middle of a group. */
static void capture_in_a_group(void) {
  ncclComm_t comm = comm_of(1);
  stream_t stream = DRIVER(stub_stream);
  OK(ncclGroupStart());
  all_reduce(comm, stream);
  int before = DRIVER(stub_n_records);
  DRIVER(stub_begin_capture, stream);
  stub_fail_next(4);
  CHECK(ncclSend(NULL, 1, INT8, 1, comm, stream) == 4);
  CHECK(ncclGroupEnd() == 4);
  CHECK(DRIVER(stub_n_records) == before);
  CHECK(DRIVER(stub_end_capture, stream));
  CHECK(DRIVER(stub_n_sins) == 0);
}

/* A nonblocking communicator, a call that is refused, and a group that fails. */
static void without_an_end(void) {
  stub_next_is_non_blocking();
  ncclComm_t slow = comm_of(1);
  int state;
  stream_t stream = DRIVER(stub_stream);
  CHECK(ncclAllReduce(NULL, NULL, 1, INT8, SUM, slow, stream) == 7);
  stub_progress(slow);
  OK(ncclCommGetAsyncError(slow, &state));
  UNTIL(completed(ALL_REDUCE) == 1);
  ncclComm_t comm = comm_of(2);
  stub_fail_next(4);
  CHECK(ncclAllReduce(NULL, NULL, 1, INT8, SUM, comm, stream) == 4);
  OK(ncclGroupStart());
  all_reduce(comm, stream);
  stub_fail_next(4);
  CHECK(ncclSend(NULL, 1, INT8, 1, comm, stream) == 4);
  CHECK(ncclGroupEnd() == 4);
  all_reduce(comm, stream);
}

/* Three calls, each of which the driver could have told times of, and one of its functions fails from the beginning. */
static void with_fault(int call) {
  ncclComm_t comm = comm_of(1);
  stream_t stream = DRIVER(stub_stream);
  DRIVER(stub_fail_times, call);
  for (uint64_t i = 1; i <= 3; i++) {
    all_reduce(comm, stream);
    UNTIL(completed(ALL_REDUCE) == i);
  }
}
static void fault_1(void) { with_fault(1); }
static void fault_2(void) { with_fault(2); }
static void fault_3(void) { with_fault(3); }
static void fault_4(void) { with_fault(4); }
/* It tells times that cannot be. */
static void fault_5(void) { with_fault(5); }
static void fault_6(void) { with_fault(6); }
/* The driver gives a part of the events; the rest when times are asked for again, and none twice. */
static void made_in_parts(void) {
  ncclComm_t comm = comm_of(1);
  stream_t stream = DRIVER(stub_stream);
  volatile uint32_t *control = (volatile uint32_t *)(segment() + atol(getenv("CONTROL_OFFSET")));
  DRIVER(stub_refuse_timed_after, 100);
  for (uint64_t i = 1; i <= 3; i++) {
    if (i > 1) *control = i == 2 ? COUNTERS : EVENTS;
    all_reduce(comm, stream);
    UNTIL(completed(ALL_REDUCE) == i);
    CHECK(DRIVER(stub_n_creates) == UNTIMED + (i < 3 ? 100 : TIMED));
  }
}
/* It told times of the first. */
static void fault_later(void) {
  ncclComm_t comm = comm_of(1);
  stream_t stream = DRIVER(stub_stream);
  for (uint64_t i = 1; i <= 3; i++) {
    all_reduce(comm, stream);
    UNTIL(completed(ALL_REDUCE) == i);
    DRIVER(stub_fail_times, 2);
  }
}

static void fork_with_times(void) {
  ncclComm_t comm = comm_of(1);
  stream_t stream = DRIVER(stub_stream);
  DRIVER(stub_hold, true);
  all_reduce(comm, stream);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    int before = DRIVER(stub_n_calls);
    all_reduce(comm, stream);
    CHECK(DRIVER(stub_n_calls) == before);
    exit(0);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  finish(stream, 0);
  work(1000);
  finish(stream, 1);
  UNTIL(completed(ALL_REDUCE) == 1);
}

static void aborted(void) {
  ncclComm_t comm = comm_of(1);
  stream_t stream = DRIVER(stub_stream);
  DRIVER(stub_hold, true);
  for (int i = 0; i < 3; i++) all_reduce(comm, stream);
  OK(ncclCommAbort(comm));
  DRIVER(stub_hold, false);
  comm = comm_of(2);
  all_reduce(comm, stream);
}

static void reset(void) {
  ncclComm_t comm = comm_of(1);
  stream_t stream = DRIVER(stub_stream);
  DRIVER(stub_hold, true);
  all_reduce(comm, stream);
  DRIVER(stub_reset);
  volatile uint64_t *dropped = (uint64_t *)(segment() + atol(getenv("DROPPED_EVENTS_OFFSET")));
  UNTIL(*dropped == 1);
  DRIVER(stub_hold, false);
  all_reduce(comm, stream);
  UNTIL(completed(ALL_REDUCE) == 1);
  CHECK(DRIVER(stub_n_stale) == 0);
}

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
static void threads(void) {
  pthread_t ids[4];
  for (int i = 0; i < 4; i++) OK(pthread_create(&ids[i], NULL, many_calls, comm_of(i + 1)));
  for (int i = 0; i < 4; i++) OK(pthread_join(ids[i], NULL));
  CHECK(DRIVER(stub_n_sins) == 0 && DRIVER(stub_n_mixed) == 0);
}

/* Counted by the malloc of the program that runs this. */
extern volatile long allocations __attribute__((weak));
static void no_allocation(void) {
  CHECK(&allocations);
  ncclComm_t comm = comm_of(1);
  stream_t stream = DRIVER(stub_stream);
  all_reduce(comm, stream);
  OK(ncclGroupStart());
  send_to(comm, stream);
  OK(ncclGroupEnd());
  UNTIL(completed(ALL_REDUCE) == 1);
  long before = allocations;
  for (int i = 0; i < 5000; i++) all_reduce(comm, stream);
  UNTIL(completed(ALL_REDUCE) == 5001);
  CHECK(allocations == before);
}

#define SCENARIO(name) {#name, name}
static const struct { const char *name; void (*run)(void); } scenarios[] = {
    SCENARIO(one_by_one), SCENARIO(late), SCENARIO(two_devices), SCENARIO(two_streams), SCENARIO(group), SCENARIO(full),
    SCENARIO(capture), SCENARIO(capture_in_a_group), SCENARIO(without_an_end), SCENARIO(fault_1), SCENARIO(fault_2),
    SCENARIO(fault_3), SCENARIO(fault_4), SCENARIO(fault_5), SCENARIO(fault_6), SCENARIO(fault_later), SCENARIO(made_in_parts),
    SCENARIO(fork_with_times), SCENARIO(aborted), SCENARIO(reset), SCENARIO(threads), SCENARIO(no_allocation),
};

int run_scenario(const char *name);
int run_scenario(const char *name) {
  for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++)
    if (!strcmp(name, scenarios[i].name)) { scenarios[i].run(); return 0; }
  return 98;
}

/* A library with a profiler on a driver with events, while somebody changes the level. */
#define _GNU_SOURCE
#include "scenarios_cuda.h"
#include "stub.h"
#include <pthread.h>

enum { MAX_RECORDS = 16384, COUNTERS = 2, CHANNELS = 3, STEPS = 4, TASKS = 0x1606, KERNEL_CHANNELS = 0x40, NETWORK = 0x18 };

static ncclComm_t comm;
static volatile uint32_t *control;

/* One communicator of a library that has loaded the driver. Nothing completes before it is told. */
static void begin(void) {
  ncclUniqueId unique = {{1}};
  CHECK(dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL));
  OK(ncclCommInitRank(&comm, 8, unique, 3));
  control = (volatile uint32_t *)(segment() + atol(getenv("CONTROL_OFFSET")));
  DRIVER(stub_hold, true);
  stub_complete(STUB_HOLD, 2);
}

static void all_reduce(stream_t stream) {
  DRIVER(stub_launch, stream);
  OK(ncclAllReduce(NULL, NULL, 1, INT8, SUM, comm, stream));
}
static void send_to(stream_t stream) {
  DRIVER(stub_launch, stream);
  OK(ncclSend(NULL, 1, INT8, 1, comm, stream));
}

/* Events have been asked often enough that one that is done would have been seen. */
static void let_events_be_asked(void) {
  int asked = DRIVER(stub_n_queries);
  UNTIL(DRIVER(stub_n_queries) > asked + 3);
}

static void one_by_one(void) {
  begin();
  stream_t stream = DRIVER(stub_stream), other = DRIVER(stub_stream);
  CHECK(stub_mask() == TASKS);
  send_to(other); /* is asked about all the while */
  all_reduce(stream);
  let_events_be_asked();
  all_reduce(stream);
  CHECK(DRIVER(stub_n_records) == 3);
  stub_release();
  CHECK(completed(ALL_REDUCE) == 0);
  DRIVER(stub_finish, stream, 1);
  UNTIL(completed(ALL_REDUCE) == 1);

  *control = CHANNELS; /* with one on its way that an event will confirm */
  all_reduce(stream);
  CHECK(stub_mask() == (TASKS | KERNEL_CHANNELS) && DRIVER(stub_n_records) == 3);
  DRIVER(stub_finish, stream, 3);
  UNTIL(completed(ALL_REDUCE) == 2);
  let_events_be_asked();
  CHECK(completed(ALL_REDUCE) == 2);
  stub_release();
  CHECK(completed(ALL_REDUCE) == 3);

  all_reduce(stream);
  *control = COUNTERS; /* with one on its way of which the profiler tells */
  all_reduce(stream);
  CHECK(stub_mask() == TASKS && DRIVER(stub_n_records) == 4);
  stub_release();
  CHECK(completed(ALL_REDUCE) == 4);
  DRIVER(stub_finish, stream, 5);
  UNTIL(completed(ALL_REDUCE) == 5);

  *control = STEPS;
  stub_network(2, 3, 100);
  all_reduce(stream);
  CHECK(stub_mask() == (TASKS | KERNEL_CHANNELS | NETWORK));
  stub_release();
  CHECK(completed(ALL_REDUCE) == 6);

  *control = 0; /* as at the start */
  all_reduce(stream);
  CHECK(stub_mask() == TASKS);
  DRIVER(stub_hold, false);
  UNTIL(completed(ALL_REDUCE) == 7 && completed(SEND) == 1);
  CHECK(DRIVER(stub_n_sins) == 0);
}

/* Who closes a call is settled when it is called, also in the midst of a group. */
static void in_a_group(void) {
  begin();
  stream_t a = DRIVER(stub_stream), b = DRIVER(stub_stream);
  OK(ncclGroupStart());
  send_to(a);
  *control = CHANNELS;
  send_to(a);
  send_to(b);
  OK(ncclGroupEnd());
  CHECK(DRIVER(stub_n_records) == 1);
  stub_release();
  CHECK(completed(SEND) == 1);
  DRIVER(stub_finish, a, 2);
  UNTIL(completed(SEND) == 3);

  OK(ncclGroupStart());
  send_to(a);
  *control = COUNTERS;
  send_to(a); /* the library is no longer asked for its channels */
  OK(ncclGroupEnd());
  CHECK(DRIVER(stub_n_records) == 2);
  stub_release();
  CHECK(completed(SEND) == 4);
  DRIVER(stub_finish, a, 4);
  UNTIL(completed(SEND) == 5);
}

/* Events do not work for a communicator, which then ends. */
static void unfit(void) {
  ncclUniqueId unique = {{2}};
  begin();
  stream_t stream = DRIVER(stub_stream);
  CHECK(stub_mask() == TASKS);
  DRIVER(stub_refuse_events, true);
  all_reduce(stream);
  CHECK(stub_mask() == (TASKS | KERNEL_CHANNELS));
  DRIVER(stub_refuse_events, false);
  ncclComm_t first = comm;
  OK(ncclCommInitRank(&comm, 8, unique, 3));
  CHECK(stub_mask() == (TASKS | KERNEL_CHANNELS));
  OK(ncclCommDestroy(first));
  CHECK(stub_mask() == TASKS);
  all_reduce(stream);
  CHECK(DRIVER(stub_n_records) == 1);
  DRIVER(stub_hold, false);
}

/* A function of the library itself, past the collector. */
#define PAST(name) ((__typeof__(&name))dlsym(dlopen("libnccl.so.2", RTLD_NOW | RTLD_NOLOAD), #name))

/* A communicator of which only the profiler tells comes and goes. */
static void unseen(void) {
  ncclUniqueId unique = {{2}};
  begin();
  CHECK(stub_mask() == TASKS);
  ncclComm_t other;
  OK(PAST(ncclCommInitRank)(&other, 8, unique, 3));
  CHECK(stub_mask() == (TASKS | KERNEL_CHANNELS));
  OK(PAST(ncclCommDestroy)(other));
  CHECK(stub_mask() == TASKS);
}

/* Its calls come where events closed others before. */
static void unseen_after_many(void) {
  ncclUniqueId unique = {{2}};
  begin();
  DRIVER(stub_hold, false);
  stub_complete(STUB_INLINE, 2);
  stream_t stream = DRIVER(stub_stream);
  for (int i = 0; i < MAX_RECORDS; i++) all_reduce(stream);
  ncclComm_t other;
  OK(PAST(ncclCommInitRank)(&other, 8, unique, 3));
  for (int i = 0; i < 100; i++) OK(PAST(ncclAllReduce)(NULL, NULL, 1, INT8, SUM, other, stream));
  UNTIL(completed(ALL_REDUCE) == MAX_RECORDS);
}

/* Calls pass the collector by on a communicator that was made through it. */
static void past_the_wrappers(void) {
  begin();
  stream_t stream = DRIVER(stub_stream);
  all_reduce(stream);
  CHECK(stub_mask() == TASKS);
  OK(PAST(ncclAllReduce)(NULL, NULL, 1, INT8, SUM, comm, stream)); /* nobody has asked for its channels */
  CHECK(stub_mask() == (TASKS | KERNEL_CHANNELS));
  OK(PAST(ncclAllReduce)(NULL, NULL, 1, INT8, SUM, comm, stream));
  stub_release();
  CHECK(completed(ALL_REDUCE) == 1);
  DRIVER(stub_hold, false);
  UNTIL(completed(ALL_REDUCE) == 2);
  ncclComm_t first = comm;
  OK(ncclCommInitRank(&comm, 8, (ncclUniqueId){{2}}, 3));
  OK(ncclCommDestroy(first));
  all_reduce(stream);
  CHECK(stub_mask() == TASKS);
}

static stream_t stream_of_calls;
static void *call_once_told(void *may_call) {
  begin();
  stream_of_calls = DRIVER(stub_stream);
  pthread_barrier_wait(may_call);
  pthread_barrier_wait(may_call);
  stub_fail_next(STUB_PAUSE);
  all_reduce(stream_of_calls);
  return NULL;
}

/* A thread that never calls the collector ends what the profiler alone told of, while another is in a call. */
static void lowered_from_outside(void) {
  ncclUniqueId unique = {{2}};
  pthread_barrier_t may_call;
  pthread_t caller;
  ncclComm_t other;
  pthread_barrier_init(&may_call, NULL, 2);
  pthread_create(&caller, NULL, call_once_told, &may_call);
  pthread_barrier_wait(&may_call);
  OK(PAST(ncclCommInitRank)(&other, 8, unique, 3));
  CHECK(stub_mask() == (TASKS | KERNEL_CHANNELS));
  pthread_barrier_wait(&may_call);
  stub_await_pause();
  OK(PAST(ncclCommDestroy)(other));
  stub_go_on();
  pthread_join(caller, NULL);
  stub_release();
  CHECK(completed(ALL_REDUCE) == 1);
  all_reduce(stream_of_calls);
  all_reduce(stream_of_calls);
  CHECK(stub_mask() == TASKS);
  DRIVER(stub_hold, false);
}

/* A graph that was captured while nobody asked for channels runs, and one that was while somebody did. */
static void runs_of_graphs(void) {
  begin();
  stream_t stream = DRIVER(stub_stream);
  stub_captured(1);
  OK(ncclAllReduce(NULL, NULL, 1, INT8, SUM, comm, stream));
  stub_run();
  stub_captured(0);
  *control = CHANNELS;
  ncclUniqueId unique = {{2}};
  OK(ncclCommInitRank(&comm, 8, unique, 3));
  all_reduce(stream);
  stub_captured(1);
  OK(ncclAllReduce(NULL, NULL, 1, INT8, SUM, comm, stream));
  stub_run();
  stub_run();
  CHECK(DRIVER(stub_n_records) == 0);
}

/* The profiler tells of all but broadcasts: those have events. */
static void untold_broadcasts(void) {
  begin();
  stream_t stream = DRIVER(stub_stream);
  *control = CHANNELS;
  all_reduce(stream);
  CHECK(DRIVER(stub_n_records) == 0);
  DRIVER(stub_launch, stream);
  OK(ncclBroadcast(NULL, NULL, 1, INT8, 2, comm, stream));
  CHECK(DRIVER(stub_n_records) == 1);
  let_events_be_asked(); /* so that the next one gets an event of its own */
  OK(ncclGroupStart());
  all_reduce(stream);
  DRIVER(stub_launch, stream);
  OK(ncclBroadcast(NULL, NULL, 1, INT8, 2, comm, stream));
  all_reduce(stream);
  OK(ncclGroupEnd());
  stub_release();
  CHECK(completed(ALL_REDUCE) == 3);
  let_events_be_asked();
  CHECK(completed(BROADCAST) == 0);
  DRIVER(stub_finish, stream, 2);
  UNTIL(completed(BROADCAST) == 1);
  DRIVER(stub_hold, false);
  UNTIL(completed(BROADCAST) == 2);
}

#define SCENARIO(name) {#name, name}
static const struct { const char *name; void (*run)(void); } scenarios[] = {SCENARIO(one_by_one), SCENARIO(in_a_group), SCENARIO(unfit), SCENARIO(unseen), SCENARIO(unseen_after_many), SCENARIO(past_the_wrappers), SCENARIO(lowered_from_outside), SCENARIO(runs_of_graphs), SCENARIO(untold_broadcasts)};

int run_scenario(const char *name);
int run_scenario(const char *name) {
  for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++)
    if (!strcmp(name, scenarios[i].name)) { scenarios[i].run(); return 0; }
  return 98;
}

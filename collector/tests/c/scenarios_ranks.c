/* One process that has several ranks, as a program that drives all GPUs of a host has. */
#define _GNU_SOURCE
#include "../plugin/c/control.h"
#include "stub.h"
#include <pthread.h>
#include <string.h>

#define OK(call) CHECK((call) == 0)
enum { FLOAT32 = 7, SUM = 0, RANKS = 4 };

static void all_reduce(ncclComm_t comm, size_t count) { OK(ncclAllReduce(NULL, NULL, count, FLOAT32, SUM, comm, NULL)); }

/* All ranks, and two halves of them: the library makes those of a group in any order. */
static void splits_of_all(void) {
  ncclComm_t all[RANKS], half[RANKS];
  OK(ncclCommInitAll(all, RANKS, NULL));
  stub_backwards(1);
  OK(ncclGroupStart());
  for (int i = 0; i < RANKS; i++) OK(ncclCommSplit(all[i], i % 2, 0, &half[i], NULL));
  OK(ncclGroupEnd());
  for (int i = 0; i < RANKS; i++) all_reduce(half[i], (size_t)i + 1);
}

static size_t count_of(uintptr_t thread, int rank) { return 2 * thread + (size_t)rank + 1; }

static void *make_all(void *argument) {
  uintptr_t thread = (uintptr_t)argument;
  ncclComm_t comms[2];
  OK(ncclCommInitAll(comms, 2, NULL));
  if (thread % 2) OK(ncclGroupStart());
  for (int rank = 0; rank < 2; rank++) all_reduce(comms[rank], count_of(thread, rank));
  if (thread % 2) OK(ncclGroupEnd());
  return NULL;
}

/* Threads that each make two ranks at the same time: nothing but their calls tells them apart. */
static void threads_of_all(void) {
  pthread_t threads[RANKS];
  stub_meet(RANKS);
  for (uintptr_t i = 0; i < RANKS; i++) OK(pthread_create(&threads[i], NULL, make_all, (void *)i));
  for (int i = 0; i < RANKS; i++) OK(pthread_join(threads[i], NULL));
}

static void *make_two(void *place) {
  OK(ncclCommInitAll(place, 2, NULL));
  return NULL;
}

/* Of two pairs that look alike one ends without a call, and its contexts after that: those fit nothing but the other pair. */
static void late_end(void) {
  ncclComm_t comms[2][2], third;
  pthread_t threads[2];
  stub_meet(2);
  for (int i = 0; i < 2; i++) OK(pthread_create(&threads[i], NULL, make_two, comms[i]));
  for (int i = 0; i < 2; i++) OK(pthread_join(threads[i], NULL));
  stub_finalize_late(1);
  for (int rank = 0; rank < 2; rank++) OK(ncclCommDestroy(comms[0][rank]));
  OK(ncclCommInitRank(&third, 3, (ncclUniqueId){{7}}, 2));
  stub_finalize_late(0);
  for (int rank = 0; rank < 2; rank++) all_reduce(comms[1][rank], (size_t)rank + 1);
}

/* Two children of one parent that look alike, of which the profiler hears late, and of the second one first. */
static void alike(void) {
  int error;
  ncclComm_t parent, children[2] = {NULL, NULL};
  OK(ncclCommInitRank(&parent, RANKS, (ncclUniqueId){{7}}, 1));
  all_reduce(parent, 1);
  stub_non_blocking(1);
  stub_announce_late(1);
  stub_backwards(getenv("BACKWARDS") != NULL);
  for (int i = 0; i < 2; i++) CHECK(ncclCommSplit(parent, 0, 0, &children[i], NULL) == 7);
  stub_splits_are_done(parent);
  OK(ncclCommGetAsyncError(parent, &error));
  OK(error);
  for (int i = 0; i < 2; i++) all_reduce(children[i], (size_t)i + 1);
  for (int i = 0; i < 2; i++) OK(ncclCommDestroy(children[i]));
}

static void *call_twice(void *comm) {
  all_reduce(comm, 1);
  stub_fail_next(STUB_PAUSE);
  all_reduce(comm, 2);
  return NULL;
}

/* While one thread is in a call that it made when calls were followed, another one turns that off, and on again. */
static void off_while_calling(void) {
  enum { ON = 2, OFF = 1 };
  ncclComm_t comms[2];
  pthread_t thread;
  OK(ncclCommInitAll(comms, 2, NULL));
  all_reduce(comms[0], 1);
  OK(pthread_create(&thread, NULL, call_twice, comms[1]));
  stub_await_pause();
  control(OFF);
  for (int i = 0; i < 4; i++) all_reduce(comms[0], 1);
  CHECK(stub_mask() != 0);
  stub_go_on();
  OK(pthread_join(thread, NULL));
  all_reduce(comms[0], 1);
  CHECK(stub_mask() == 0);
  control(ON);
  all_reduce(comms[0], 1);
  CHECK(stub_mask() != 0);
}

#define SCENARIO(name) {#name, name}
static const struct { const char *name; void (*run)(void); } scenarios[] = {
    SCENARIO(splits_of_all), SCENARIO(threads_of_all), SCENARIO(late_end), SCENARIO(alike), SCENARIO(off_while_calling),
};

int main(int argc, char **argv) {
  for (size_t i = 0; argc == 2 && i < sizeof scenarios / sizeof *scenarios; i++)
    if (!strcmp(argv[1], scenarios[i].name)) { scenarios[i].run(); return 0; }
  return 98;
}

/* A group of inits in a process that can have few threads: none of them begins, whether they block or not. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "job.h"

enum { RANKS = 64, FEW = 20 };

/* How many threads may still begin; -1 for any number. */
static atomic_int room = -1;

/* Stands before the C library's: a limit on processes does not hold for root, and one on memory ends the process. */
int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*), void* argument) {
  static int (*real)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  int left = atomic_load(&room);
  while (left > 0 && !atomic_compare_exchange_weak(&room, &left, left - 1)) {
  }
  if (!left) return EAGAIN;
  if (!real) *(void**)&real = dlsym(RTLD_NEXT, "pthread_create");
  return real(thread, attributes, run, argument);
}

static void expect_refusal(int blocking) {
  ncclComm_t comms[RANKS] = {0};
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = blocking;
  atomic_store(&room, FEW);
  CHECK(ncclGroupStart());
  for (int i = 0; i < RANKS; i++) {
    ncclResult_t code = ncclCommInitRankConfig(&comms[i], RANKS, id, i, &config);
    EXPECT(code == (blocking ? ncclSuccess : ncclInProgress));
  }
  EXPECT(ncclGroupEnd() == ncclSystemError && !atomic_load(&room));
  EXPECT(strstr(ncclGetLastError(NULL), "threads for a group's inits") && strstr(ncclGetLastError(NULL), "ulimit -u"));
  atomic_store(&room, -1);
  for (int i = 0; i < RANKS && !blocking; i++) {
    ncclResult_t state = ncclSuccess;
    comm = comms[i];
    CHECK(ncclCommGetAsyncError(comm, &state));
    EXPECT(state == ncclSystemError);
    CHECK(ncclCommDestroy(comm));
  }
}

int main(int argc, char** argv) {
  (void)argc;
  parse_arguments(argv);
  expect_refusal(1);
  expect_refusal(0);
  /* The id has not been used up, and threads can be had again. */
  ncclComm_t comms[RANKS];
  CHECK(ncclGroupStart());
  for (int i = 0; i < RANKS; i++) CHECK(ncclCommInitRank(&comms[i], RANKS, id, i));
  CHECK(ncclGroupEnd());
  for (int i = 0; i < RANKS; i++) CHECK(ncclCommDestroy(comms[i]));
  say_done();
  return 0;
}

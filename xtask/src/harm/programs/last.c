/* Processes that end with their last thread: the first one ends by pthread_exit after another has called (last exit), or in a
 * child of clone(), which ends only the thread that it began with (last clone). */
#include "harm.h"
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

long gpu_records(void);

static void *work(void *unused) {
  ncclComm_t comm = make_comm(0);
  for (int i = 0; i < 100; i++) all_reduce(comm, 1);
  figure("events", (double)gpu_records());
  return unused;
}

static int child(void *unused) {
  work(unused);
  return 7;
}

int main(int argc, char **argv) {
  static char stack[1 << 18] __attribute__((aligned(64)));
  int status = -1;
  if (argc > 1 && !strcmp(argv[1], "clone")) {
    waitpid(clone(child, stack + sizeof stack, SIGCHLD, NULL), &status, 0);
    printf("status %x\n", (unsigned)status);
    return 0;
  }
  pthread_t thread;
  pthread_create(&thread, NULL, work, NULL);
  pthread_join(thread, NULL);
  say("leaves");
  pthread_exit(NULL);
}

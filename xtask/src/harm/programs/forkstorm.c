/* Forks while another thread makes the process's first communicators; each child makes its own: forkstorm RUNS. */
#include "harm.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

static atomic_int go;

static void one(int number) {
  ncclComm_t comm = make_comm(number);
  all_reduce(comm, 1);
  ncclCommDestroy(comm);
}

static void *make(void *argument) {
  while (!atomic_load(&go)) {}
  for (int i = 0; i < 20; i++) one(i);
  return argument;
}

static int storm(void) {
  pthread_t thread;
  int bad = 0;
  pthread_create(&thread, NULL, make, NULL);
  atomic_store(&go, 1);
  for (int k = 0; k < 12; k++) {
    int child = fork(), status;
    if (!child) {
      alarm(5); /* a hang ends so */
      one(k);
      _exit(0);
    }
    waitpid(child, &status, 0);
    bad += status != 0;
  }
  pthread_join(thread, NULL);
  return bad;
}

int main(int argc, char **argv) {
  int runs = argc > 1 ? atoi(argv[1]) : 150, bad_runs = 0;
  for (int r = 0; r < runs; r++) {
    int run = fork(), status; /* the image of a process that has called nothing yet */
    if (!run) _exit(storm());
    waitpid(run, &status, 0);
    bad_runs += status != 0;
  }
  printf("%d runs, %d with a child that hung or died\n", runs, bad_runs);
  return 0;
}

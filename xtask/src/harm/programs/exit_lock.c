/* Children that are made while another thread holds the C library's lock of exit functions, as an unload does: for good, in the
 * child, which makes a communicator and calls. */
#include "harm.h"
#include <pthread.h>
#include <sys/wait.h>

enum { FUNCTIONS = 20000, CHILDREN = 10, CHILD_LIMIT_S = 2 };
void __cxa_finalize(void *);

static void nothing(void) {}

static void *hold(void *unused) {
  static char of_nobody;
  for (;;) __cxa_finalize(&of_nobody);
  return unused;
}

int main(void) {
  int version;
  pthread_t thread;
  if (ncclGetVersion(&version)) return 1;
  for (int i = 0; i < FUNCTIONS; i++) atexit(nothing);
  pthread_create(&thread, NULL, hold, NULL);
  for (int i = 0; i < CHILDREN; i++) {
    int status = -1, process = fork();
    if (!process) {
      alarm(CHILD_LIMIT_S);
      ncclComm_t comm = make_comm(i);
      for (int k = 0; k < 10; k++) all_reduce(comm, 1);
      _exit(0);
    }
    waitpid(process, &status, 0);
    printf("child %x\n", (unsigned)status);
  }
  fflush(stdout);
  _exit(0);
}

/* Calls the library as a job would, from the thread, process or moment that its argument names. Needs no libdl of its own
 * and nothing of one C library alone. */
#include "loading.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 16 };

#ifdef COPY
/* The program has a copy of what the linker says of itself, as it was when the program was loaded. */
#include <link.h>
int copied(void) { return _r_debug.r_state; }
#endif

#ifdef EARLY
static int early = -1;
__attribute__((constructor)) static void begin_early(void) { early = use(); }
#endif

static pthread_barrier_t barrier;

static void *at_once(void *unused) {
  (void)unused;
  pthread_barrier_wait(&barrier);
  return (void *)(long)use();
}

static int threads(void) {
  pthread_t thread[THREADS];
  int wrong = 0;
  pthread_barrier_init(&barrier, NULL, THREADS);
  for (int i = 0; i < THREADS; i++) pthread_create(&thread[i], NULL, at_once, NULL);
  for (int i = 0; i < THREADS; i++) {
    void *result = NULL;
    pthread_join(thread[i], &result);
    wrong |= (int)(long)result;
  }
  return wrong;
}

static int child(void) {
  pid_t pid = fork();
  if (pid == 0) {
    int wrong = use();
    /* In order, as a worker ends. */
    fflush(NULL);
    _exit(wrong);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 90;
}

static void *to_be_cancelled(void *wrong) {
  pthread_cancel(pthread_self());
  *(int *)wrong = use();
  pthread_testcancel();
  return NULL;
}

static int cancelled(void) {
  pthread_t thread;
  int wrong = 91;
  void *result = NULL;
  pthread_create(&thread, NULL, to_be_cancelled, &wrong);
  pthread_join(thread, &result);
  return result == PTHREAD_CANCELED ? wrong : 92;
}

int main(int argc, char **argv) {
  const char *way = argc > 1 ? argv[1] : "";
#ifdef EARLY
  if (!strcmp(way, "early")) return early;
#endif
  if (!strcmp(way, "plain")) return use();
  if (!strcmp(way, "threads")) return threads();
  if (!strcmp(way, "child")) return child();
  if (!strcmp(way, "cancelled")) return cancelled();
  return 99;
}

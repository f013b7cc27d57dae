/* A cancellation that is pending when a thread makes its first communicator, calls, or ends one: NCCL's stub has no point of
 * cancellation, so the thread goes on until its own. */
#include "harm.h"
#include <pthread.h>

static ncclComm_t kept;

static void *init(void *argument) {
  pthread_cancel(pthread_self());
  kept = make_comm(0);
  say("init done");
  pthread_testcancel();
  return argument;
}

static void *use(void *argument) {
  pthread_cancel(pthread_self());
  all_reduce(kept, 1);
  ncclCommDestroy(kept);
  say("destroy done");
  pthread_testcancel();
  return argument;
}

static void run(void *(*work)(void *)) {
  pthread_t thread;
  void *result = NULL;
  pthread_create(&thread, NULL, work, NULL);
  pthread_join(thread, &result);
  say(result == PTHREAD_CANCELED ? "cancelled" : "not cancelled");
}

int main(void) {
  run(init);
  run(use);
  ncclComm_t next = make_comm(1);
  all_reduce(next, 1);
  return ncclCommDestroy(next);
}

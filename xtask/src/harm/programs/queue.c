/* A watchdog gives a hung job up while the training thread waits for room in the GPU's launch queue: queue abort|revoke|destroy|exit.
 * How long that takes is the time from the call to its return, or to the process's end. */
#include "harm.h"
#include <pthread.h>

static ncclComm_t comm;

static void *train(void *argument) {
  for (int i = 0; i < 3000; i++) ncclAllReduce(NULL, NULL, 1024, FLOAT, SUM, comm, (void *)0x1000);
  return argument;
}

int main(int argc, char **argv) {
  const char *how = argc > 1 ? argv[1] : "abort";
  comm = make_comm(0);
  pthread_t thread;
  pthread_create(&thread, NULL, train, NULL);
  usleep(400000); /* until it waits */
  say(how);
  if (!strcmp(how, "exit")) exit(3);
  if (!strcmp(how, "_exit")) _exit(3);
  double begun = now_s();
  int result = !strcmp(how, "abort") ? ncclCommAbort(comm) : !strcmp(how, "revoke") ? ncclCommRevoke(comm, 0) : ncclCommDestroy(comm);
  printf("result %d\n", result);
  figure("seconds", now_s() - begun);
  if (!strcmp(how, "revoke")) pthread_join(thread, NULL);
  say("recovered");
  return 0;
}

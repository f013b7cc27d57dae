/* A worker of the summation service, with what a launch has set alone: pushes its number plus one, and says the sum. LEAVING_RANK
 * closes its connections in between; told to end it takes a second, as one does that holds much, and its status is 3. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "rsccl.h"
#include "rsum.h"

enum { COUNT = 100000, ROUNDS = 10, FIRST_FILE = 3, FILES = 1024 };

static void check(int code, const char* what) {
  if (code >= 0) return;
  fprintf(stderr, "%s: %s\n", what, rsum_last_error());
  exit(1);
}

static void end_late(int signal) {
  (void)signal;
  sleep(1);
  _exit(3);
}

static void leave(void) {
  signal(SIGTERM, end_late);
  for (int file = FIRST_FILE; file < FILES; file++) close(file);
  for (;;) pause();
}

int main(void) {
  static float own[COUNT], sum[COUNT];
  check(rsum_init(), "joining");
  int tensor = rsum_declare("gradient.0", COUNT, ncclFloat32, NULL);
  check(tensor, "declaring");
  for (int i = 0; i < COUNT; i++) own[i] = (float)(rsum_rank() + 1);
  const char* leaving = getenv("LEAVING_RANK");
  for (int round = 0; round < ROUNDS; round++) {
    if (round == ROUNDS / 2 && leaving && atoi(leaving) == rsum_rank()) leave();
    check(rsum_push_pull(tensor, own, sum, rsumSum), "summing");
  }
  printf("summed %g with %d servers\n", (double)sum[COUNT - 1], rsum_servers());
  check(rsum_shutdown(), "leaving");
  return 0;
}

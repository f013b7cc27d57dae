/* A worker of the summation service, with what a launch has set alone: pushes its number plus one, and says the sum. */
#include <stdio.h>
#include <stdlib.h>

#include "rsccl.h"
#include "rsum.h"

enum { COUNT = 100000, ROUNDS = 10 };

static void check(int code, const char* what) {
  if (code >= 0) return;
  fprintf(stderr, "%s: %s\n", what, rsum_last_error());
  exit(1);
}

int main(void) {
  static float own[COUNT], sum[COUNT];
  check(rsum_init(), "joining");
  int tensor = rsum_declare("gradient.0", COUNT, ncclFloat32, NULL);
  check(tensor, "declaring");
  for (int i = 0; i < COUNT; i++) own[i] = (float)(rsum_rank() + 1);
  for (int round = 0; round < ROUNDS; round++) check(rsum_push_pull(tensor, own, sum, rsumSum), "summing");
  printf("summed %g with %d servers\n", (double)sum[COUNT - 1], rsum_servers());
  check(rsum_shutdown(), "leaving");
  return 0;
}

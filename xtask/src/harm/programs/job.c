/* An ordinary job: job COMMUNICATORS CALLS [destroy] [hold SECONDS]. */
#include "harm.h"

int main(int argc, char **argv) {
  int n = argc > 1 ? atoi(argv[1]) : 1;
  long calls = argc > 2 ? atol(argv[2]) : 100000;
  int destroys = argc > 3 && !strcmp(argv[3], "destroy");
  for (int k = 0; k < n; k++) {
    ncclComm_t comm = make_comm(k);
    for (long i = 0; i < calls; i++) all_reduce(comm, 1);
    if (destroys && ncclCommDestroy(comm)) say("destroy failed");
  }
  say("job ok");
  return 0;
}

/* Communicators at once, each with calls of its own: many N CALLS. Then they end, and one more comes with 77 calls: none of them
 * is to be lost. many N CALLS churn: each ends before the next one comes. */
#include "harm.h"

int main(int argc, char **argv) {
  int n = argc > 1 ? atoi(argv[1]) : 1000, calls = argc > 2 ? atoi(argv[2]) : 3;
  if (argc > 3) {
    for (int i = 0; i < n; i++) {
      ncclComm_t comm = make_comm(i);
      for (int k = 0; k < calls; k++) all_reduce(comm, 10);
      if (ncclCommDestroy(comm)) say("destroy failed");
    }
    n = 0;
  }
  ncclComm_t *comms = calloc((size_t)n, sizeof *comms);
  for (int i = 0; i < n; i++) comms[i] = make_comm(i);
  for (int k = 0; k < calls; k++) for (int i = 0; i < n; i++) all_reduce(comms[i], 10);
  for (int i = 0; i < n; i++) if (ncclCommDestroy(comms[i])) say("destroy failed");
  ncclComm_t last = make_comm(1 << 20);
  for (int i = 0; i < 77; i++) all_reduce(last, 10);
  say("job ok");
  return 0;
}

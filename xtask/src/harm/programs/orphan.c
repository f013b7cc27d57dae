/* A rank with a child (a DataLoader's worker), which is killed; the child lives on. orphan: says the rank's number, waits for a
 * line on its input, kills the rank, says so, and waits for another line to end the child. */
#include "harm.h"
#include <signal.h>
#include <sys/wait.h>

int main(void) {
  int rank = fork();
  if (!rank) {
    ncclComm_t comm = make_comm(0);
    all_reduce(comm, 1);
    int child = fork();
    if (!child) {
      all_reduce(comm, 1);
      for (;;) pause();
    }
    printf("rank %d child %d\n", getpid(), child);
    fflush(stdout);
    for (;;) pause();
  }
  char line[64];
  if (!fgets(line, sizeof line, stdin)) return 1;
  kill(rank, SIGKILL);
  waitpid(rank, NULL, 0);
  say("killed");
  return !fgets(line, sizeof line, stdin);
}

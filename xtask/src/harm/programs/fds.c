/* A program that closes every descriptor after its first communicator, as a daemon does, and then uses the numbers itself: its
 * children have them all. */
#include "harm.h"
#include <fcntl.h>
#include <sys/wait.h>

static int n_open(void) {
  int n = 0;
  for (int fd = 3; fd < 700; fd++) n += fcntl(fd, F_GETFD) >= 0;
  return n;
}

int main(void) {
  ncclComm_t comm = make_comm(0);
  all_reduce(comm, 1);
  for (int fd = 3; fd < 1024; fd++) close(fd);
  while (open("/dev/null", O_RDONLY) < 600) {}
  printf("of 598 open: %d\n", n_open());
  fflush(stdout);
  for (int round = 0; round < 2; round++) {
    if (!fork()) {
      printf("child has %d\n", n_open());
      all_reduce(comm, 1);
      printf("child still has %d\n", n_open());
      fflush(stdout);
      _exit(0);
    }
    wait(NULL);
    all_reduce(comm, 1);
  }
  ncclCommDestroy(comm);
  comm = make_comm(1);
  all_reduce(comm, 1);
  printf("of 598 open: %d\n", n_open());
  return 0;
}

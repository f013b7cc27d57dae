/* Somebody cuts the live segment to nothing (`truncate -s 0`, a clean-up), or removes it, while the job calls: truncated cut|remove. */
#include "harm.h"
#include "level.h"
#include <sys/wait.h>

int main(int argc, char **argv) {
  ncclComm_t comm = make_comm(0);
  for (int i = 0; i < 1000; i++) all_reduce(comm, 1);
  int fd = open_segment(O_RDWR);
  if (argc > 1 && !strcmp(argv[1], "cut") && fd >= 0 && ftruncate(fd, 0)) say("cannot cut");
  if (argc > 1 && !strcmp(argv[1], "remove") && getenv("RINGSCOPE_DIR")) {
    char command[400];
    snprintf(command, sizeof command, "rm -rf %s", getenv("RINGSCOPE_DIR"));
    if (system(command)) say("cannot remove");
  }
  for (int i = 0; i < 200000; i++) all_reduce(comm, 1);
  if (!fork()) { all_reduce(comm, 1); ncclComm_t own = make_comm(2); all_reduce(own, 1); _exit(0); }
  int status;
  wait(&status);
  printf("child: %d\n", status);
  ncclComm_t other = make_comm(1);
  for (int i = 0; i < 1000; i++) all_reduce(other, 1);
  printf("destroyed: %d %d\n", ncclCommDestroy(comm), ncclCommDestroy(other));
  return 0;
}

/* Whether a file of RINGSCOPE_DIR is mapped, which on a disk could stop the thread that touches it. */
#include "harm.h"

int main(void) {
  ncclComm_t comm = make_comm(0);
  for (int i = 0; i < 100; i++) all_reduce(comm, 1);
  FILE *file = fopen("/proc/self/maps", "r");
  char line[600];
  const char *dir = getenv("RINGSCOPE_DIR");
  while (file && fgets(line, sizeof line, file)) if (dir && strstr(line, dir)) say("a file of a disk is mapped");
  return ncclCommDestroy(comm);
}

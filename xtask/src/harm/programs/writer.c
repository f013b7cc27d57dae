/* Calls at full speed whose count is their number, for a reader beside it: writer SECONDS. */
#include "harm.h"

int main(int argc, char **argv) {
  double until = now_s() + (argc > 1 ? atof(argv[1]) : 2);
  ncclComm_t comm = make_comm(0);
  for (size_t i = 0; i % 65536 || now_s() < until; i++) all_reduce(comm, i);
  return 0;
}

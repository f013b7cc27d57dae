/* A training thread that calls each millisecond: pace SECONDS. Tells its slowest call. */
#include "harm.h"

int main(int argc, char **argv) {
  double seconds = argc > 1 ? atof(argv[1]) : 4, begun = now_s(), slowest = 0;
  ncclComm_t comm = make_comm(0);
  say("called");
  while (now_s() - begun < seconds) {
    double before = now_s();
    all_reduce(comm, 1);
    double took = now_s() - before;
    if (took > slowest) slowest = took;
    usleep(1000);
  }
  figure("slowest_ms", slowest * 1e3);
  return 0;
}

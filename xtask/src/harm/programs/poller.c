/* What completion costs beside the training thread: poller COMMUNICATORS MICROSECONDS_BETWEEN_CALLS SECONDS. The process's CPU
 * time less the calling thread's. */
#include "harm.h"
#include <sys/resource.h>

long gpu_queries(void), gpu_records(void);

static double cpu_s(int who) {
  struct rusage u;
  getrusage(who, &u);
  return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

int main(int argc, char **argv) {
  if (argc < 4) return 2;
  int n = atoi(argv[1]), us = atoi(argv[2]);
  double seconds = atof(argv[3]);
  ncclComm_t comms[64];
  for (int i = 0; i < n; i++) comms[i] = make_comm(i);
  for (int k = 0; k < 1000; k++) ncclAllReduce(NULL, NULL, 10, FLOAT, SUM, comms[k % n], (void *)(0x1000L + k % n));
  double all = cpu_s(RUSAGE_SELF), own = cpu_s(RUSAGE_THREAD), begun = now_s();
  long queries = gpu_queries();
  for (int k = 0; now_s() < begun + seconds; k++) {
    ncclAllReduce(NULL, NULL, 10, FLOAT, SUM, comms[k % n], (void *)(0x1000L + k % n));
    usleep((useconds_t)us);
  }
  all = cpu_s(RUSAGE_SELF) - all;
  own = cpu_s(RUSAGE_THREAD) - own;
  figure("other_threads_percent", (all - own) / seconds * 100);
  figure("queries_per_s", (double)(gpu_queries() - queries) / seconds);
  return 0;
}

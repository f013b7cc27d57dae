/* Calls of ncclAllReduce in turns on N communicators, each on its own stream, one call each US microseconds (0: none after the first
 * of each) for five seconds. Prints: what other threads of the process took, per cent of a core; queries per second. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

enum { MAX_COMMS = 64, SECONDS = 5 };
typedef struct { char internal[128]; } ncclUniqueId;
int ncclCommInitRank(void **, int, ncclUniqueId, int);
int ncclAllReduce(const void *, void *, unsigned long, int, int, void *, void *);

static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec * 1e-9; }
static double others(void) {
  struct rusage all, own;
  getrusage(RUSAGE_SELF, &all);
  getrusage(RUSAGE_THREAD, &own);
  return (all.ru_utime.tv_sec - own.ru_utime.tv_sec) + (all.ru_stime.tv_sec - own.ru_stime.tv_sec)
      + (all.ru_utime.tv_usec - own.ru_utime.tv_usec + all.ru_stime.tv_usec - own.ru_stime.tv_usec) * 1e-6;
}

int main(int argc, char **argv) {
  void *comms[MAX_COMMS], *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (argc != 3 || !driver) return 2;
  volatile long *n_queries = dlsym(driver, "n_queries");
  int n = atoi(argv[1]) % (MAX_COMMS + 1);
  struct timespec pause = {0, atoi(argv[2]) * 1000L}, rest = {0, 10000000};
  ncclUniqueId id = {{1}};
  for (int i = 0; i < n; i++) {
    id.internal[1] = (char)i;
    if (ncclCommInitRank(&comms[i], 8, id, 0)) return 2;
    ncclAllReduce(0, 0, 10, 7, 0, comms[i], (void *)(0x1000L + i));
  }
  for (double until = now() + 0.2; now() < until;) nanosleep(&rest, NULL);
  double taken = others(), begun = now();
  long asked = *n_queries;
  for (int i = 0; now() < begun + SECONDS; i = (i + 1) % n) {
    if (pause.tv_nsec) ncclAllReduce(0, 0, 10, 7, 0, comms[i], (void *)(0x1000L + i));
    nanosleep(pause.tv_nsec ? &pause : &rest, NULL);
  }
  double seconds = now() - begun;
  printf("%.3f %.0f\n", (others() - taken) / seconds * 100, (*n_queries - asked) / seconds);
  return 0;
}

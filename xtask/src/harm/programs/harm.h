/* What the programs share: as much of nccl.h as they call, strings of the stub GPU, and how they say what they saw. A line
 * "figure NAME VALUE" is a figure that is held against a limit; every other line must be the same bare and with the collector. */
#ifndef HARM_H
#define HARM_H
#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct comm *ncclComm_t;
typedef struct { char internal[128]; } ncclUniqueId;
enum { IN_PROGRESS = 7, FLOAT = 7, SUM = 0 };

int ncclGetVersion(int *), ncclGetUniqueId(ncclUniqueId *);
int ncclCommInitRank(ncclComm_t *, int, ncclUniqueId, int), ncclCommInitAll(ncclComm_t *, int, const int *);
int ncclCommInitRankConfig(ncclComm_t *, int, ncclUniqueId, int, void *);
int ncclCommSplit(ncclComm_t, int, int, ncclComm_t *, void *);
int ncclCommGetAsyncError(ncclComm_t, int *), ncclCommFinalize(ncclComm_t);
int ncclCommDestroy(ncclComm_t), ncclCommAbort(ncclComm_t), ncclCommRevoke(ncclComm_t, int);
int ncclCommCount(ncclComm_t, int *), ncclCommUserRank(ncclComm_t, int *), ncclCommCuDevice(ncclComm_t, int *);
int ncclGroupStart(void), ncclGroupEnd(void);
int ncclAllReduce(const void *, void *, size_t, int, int, ncclComm_t, void *);
int ncclBroadcast(const void *, void *, size_t, int, int, ncclComm_t, void *);
int ncclSend(const void *, size_t, int, int, ncclComm_t, void *), ncclRecv(void *, size_t, int, int, ncclComm_t, void *);

static inline double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static inline void figure(const char *name, double value) {
  printf("figure %s %.6g\n", name, value);
  fflush(stdout);
}

static inline void say(const char *words) {
  puts(words);
  fflush(stdout);
}

/* A communicator of eight ranks; each number gives another id. */
static inline ncclComm_t make_comm(int number) {
  ncclUniqueId id = {{1, (char)number, (char)(number >> 8), (char)(number >> 16)}};
  ncclComm_t comm = NULL;
  if (ncclCommInitRank(&comm, 8, id, 0)) say("init failed");
  return comm;
}

static inline void all_reduce(ncclComm_t comm, size_t count) {
  if (ncclAllReduce(NULL, NULL, count, FLOAT, SUM, comm, NULL)) say("call failed");
}

static inline int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Sorts. */
static inline double median(double *values, int n) {
  qsort(values, (size_t)n, sizeof *values, by_value);
  return values[n / 2];
}
#endif

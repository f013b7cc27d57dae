/* Times calls of ncclAllReduce through the PLT. One round: a batch timed as a whole (for the median), then calls timed
 * one by one (for the tail). Answers each line on stdin with a line
 *   <ns per call of the batch> <p50, p99, p99.9 of single calls, timer subtracted, ns> <allocations>
 * so that two of these processes, with and without the collector, can take turns. The argument: `many`, calls on 200
 * communicators in turns; `two`, a second thread calls on its own one all the time; `rss`, prints the resident memory of 32
 * ranks on 32 threads, in kB, and ends. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

typedef struct { char internal[128]; } ncclUniqueId;
int ncclCommInitRank(void **, int, ncclUniqueId, int);
int ncclAllReduce(const void *, void *, unsigned long, int, int, void *, void *);

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
static volatile long allocations;
void *malloc(size_t n) { allocations++; return __libc_malloc(n); }
void *calloc(size_t n, size_t m) { allocations++; return __libc_calloc(n, m); }
void *realloc(void *p, size_t n) { allocations++; return __libc_realloc(p, n); }

#if defined(__x86_64__)
static inline uint64_t ticks(void) {
  uint32_t low, high;
  __asm__ volatile("lfence\n\trdtsc\n\tlfence" : "=a"(low), "=d"(high)::"memory");
  return (uint64_t)high << 32 | low;
}
#else
static inline uint64_t ticks(void) {
  uint64_t value;
  __asm__ volatile("isb\n\tmrs %0, cntvct_el0\n\tisb" : "=r"(value)::"memory");
  return value;
}
#endif

static uint64_t now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

enum { BATCH = 200000, SINGLES = 20000, MANY = 200, RANKS = 32, CALLS_OF_RANK = 20000 };
static void *comms[MANY], *stream = &comms;
static int n_comms = 1, next_comm;
static uint32_t singles[SINGLES];
static double ns_per_tick;

static inline void call(void) {
  ncclAllReduce(NULL, NULL, 1024, 7, 0, comms[next_comm], stream);
  if (++next_comm == n_comms) next_comm = 0;
}

static void *make(int id) {
  ncclUniqueId unique = {{(char)id}};
  void *comm = NULL;
  if (ncclCommInitRank(&comm, 8, unique, 0) != 0) exit(1);
  return comm;
}

static void *call_for_ever(void *comm) {
  for (;;) ncclAllReduce(NULL, NULL, 1024, 7, 0, comm, stream);
  return NULL;
}

static pthread_barrier_t all_ranks;

static void *rank(void *id) {
  void *comm = make((int)(long)id);
  for (int i = 0; i < CALLS_OF_RANK; i++) ncclAllReduce(NULL, NULL, 1024, 7, 0, comm, &comm);
  /* All are there at once, also where a call takes no time. */
  pthread_barrier_wait(&all_ranks);
  return NULL;
}

/* What is resident once 32 ranks have called, counted by pages: what `status` says is late by some hundred. */
static void print_resident(void) {
  pthread_t threads[RANKS];
  pthread_barrier_init(&all_ranks, NULL, RANKS);
  for (long i = 0; i < RANKS; i++) pthread_create(&threads[i], NULL, rank, (void *)i);
  for (int i = 0; i < RANKS; i++) pthread_join(threads[i], NULL);
  char line[256];
  FILE *rollup = fopen("/proc/self/smaps_rollup", "r");
  while (rollup && fgets(line, sizeof line, rollup))
    if (!strncmp(line, "Rss:", 4)) printf("%ld\n", atol(line + 4));
  exit(0);
}

static int ascending(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

static double at(double quantile) { return singles[(size_t)(quantile * (SINGLES - 1))] * ns_per_tick; }

/* Median cost of reading the timer twice. */
static double timer_ns(void) {
  for (int i = 0; i < SINGLES; i++) {
    uint64_t before = ticks();
    singles[i] = (uint32_t)(ticks() - before);
  }
  qsort(singles, SINGLES, sizeof *singles, ascending);
  return at(0.5);
}

static void one_round(void) {
  long allocated = allocations;
  for (int i = 0; i < BATCH / 20; i++) call();
  uint64_t start = now_ns();
  for (int i = 0; i < BATCH; i++) call();
  double batch = (double)(now_ns() - start) / BATCH;
  allocated = allocations - allocated;
  double timer = timer_ns();
  for (int i = 0; i < SINGLES; i++) {
    uint64_t before = ticks();
    call();
    singles[i] = (uint32_t)(ticks() - before);
  }
  qsort(singles, SINGLES, sizeof *singles, ascending);
  printf("%.4f %.4f %.4f %.4f %ld\n", batch, at(0.5) - timer, at(0.99) - timer, at(0.999) - timer, allocated);
  fflush(stdout);
}

/* Dies at the first system call of a million calls. */
static void without_system_calls(void) {
  struct sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
  };
  struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
  /* Once round the records: where they lie is asked of the system once. */
  for (int i = 0; i < BATCH / 10; i++) call();
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
  for (int i = 0; i < 1000000; i++) call();
  _exit(0);
}

int main(int argc, char **argv) {
  /* As NCCL does at its first communicator; the collector itself loads no driver. */
  void *cuda = argc > 1 && !strcmp(argv[1], "events") ? dlopen("libcuda.so.1", RTLD_NOW) : NULL;
  if (argc > 1 && !strcmp(argv[1], "events") && !cuda) return 2;
  if (argc > 1 && !strcmp(argv[1], "rss")) print_resident();
  if (argc > 1 && !strcmp(argv[1], "many")) n_comms = MANY;
  for (int i = 0; i < n_comms; i++) comms[i] = make(1);
  pthread_t other;
  if (argc > 1 && !strcmp(argv[1], "two")) pthread_create(&other, NULL, call_for_ever, make(2));
  uint64_t start = now_ns(), start_ticks = ticks();
  while (now_ns() - start < 50000000) {}
  ns_per_tick = (double)(now_ns() - start) / (double)(ticks() - start_ticks);
  if (argc > 1 && !strcmp(argv[1], "seccomp")) without_system_calls();
  call();
  long *n_records = cuda ? dlsym(cuda, "n_records") : NULL;
  if (cuda && getenv("LD_PRELOAD") && (!n_records || !*n_records)) {
    fprintf(stderr, "no event follows a call: the collector does without this driver\n");
    return 3;
  }
  for (char line[16]; fgets(line, sizeof line, stdin);) one_round();
  return 0;
}

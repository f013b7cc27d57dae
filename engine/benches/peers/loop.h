/* The loop that measures an all-reduce, the same for every library: a program includes this, says how its library sums,
 * and calls bench_serve. `cargo xtask bench collective` starts one process per rank and gives each the same orders
 * through a socket, so that the libraries take turns while all their processes stay alive, asleep in read().
 *
 *   ->  hello RANK N_RANKS
 *   <-  run BYTES BATCHES PER_BATCH WARM_UP LATE_US
 *   ->  done CPU_NS IDLE_CPU_NS RIGHT T T T ...        one T for each batch: nanoseconds per operation
 *   <-  quit
 *
 * Buffers are allocated for each order, filled, and so faulted in, before the clock runs. CPU_NS is processor time of
 * the whole process per operation; IDLE_CPU_NS what it used between two orders. With LATE_US the last rank sleeps that
 * long before each operation, so that the others wait for it. */
#ifndef BENCH_LOOP_H_
#define BENCH_LOOP_H_

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define BENCH_MOST_BATCHES 256

/* What a library does. `release` may be NULL for free(); `meet`, if there is one, waits for all ranks before a batch. */
typedef struct {
  void* (*allocate)(size_t bytes);
  void (*release)(void* buffer, size_t bytes);
  void (*all_reduce)(const float* in, float* out, size_t count);
  void (*meet)(void);
  int computes; /* whether `out` holds the sum afterwards */
} bench_library;

typedef struct {
  size_t bytes;
  long batches, per_batch, warm_up, late_us;
} bench_order;

static void bench_fail(const char* what) {
  fprintf(stderr, "%s\n", what);
  exit(3);
}

static int64_t bench_clock(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int64_t bench_cpu_ns(void) {
  struct rusage used;
  getrusage(RUSAGE_SELF, &used);
  return ((int64_t)used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000000 +
         ((int64_t)used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1000;
}

__attribute__((unused)) static void* bench_allocate(size_t bytes) {
  void* buffer = malloc(bytes);
  if (!buffer) bench_fail("no memory");
  return buffer;
}

static float bench_value(int rank, size_t index) { return (float)(rank + 1 + (int)(index % 7)); }

/* Whether every 997th element, and the last, is the sum. */
static int bench_is_right(const float* out, size_t count, int n_ranks) {
  for (size_t i = 0; i < count; i = (i + 997 < count || i == count - 1) ? i + 997 : count - 1) {
    float sum = 0;
    for (int rank = 0; rank < n_ranks; rank++) sum += bench_value(rank, i);
    if (out[i] != sum) return 0;
  }
  return 1;
}

static void bench_operation(const bench_library* library, const bench_order* order, int is_last, const float* in,
                            float* out) {
  if (order->late_us && is_last) {
    struct timespec pause = {order->late_us / 1000000, order->late_us % 1000000 * 1000};
    nanosleep(&pause, NULL);
  }
  library->all_reduce(in, out, order->bytes / sizeof(float));
}

static void bench_run(const bench_library* library, const bench_order* order, int rank, int n_ranks, int64_t idle_ns,
                      FILE* control) {
  size_t count = order->bytes / sizeof(float);
  float* in = (float*)library->allocate(order->bytes);
  float* out = (float*)library->allocate(order->bytes);
  for (size_t i = 0; i < count; i++) in[i] = bench_value(rank, i);
  memset(out, 0, order->bytes);

  double times[BENCH_MOST_BATCHES];
  int is_last = rank == n_ranks - 1;
  for (long i = 0; i < order->warm_up; i++) bench_operation(library, order, 0, in, out);
  int64_t cpu = bench_cpu_ns();
  for (long batch = 0; batch < order->batches; batch++) {
    if (library->meet) library->meet();
    int64_t start = bench_clock(CLOCK_MONOTONIC);
    for (long i = 0; i < order->per_batch; i++) bench_operation(library, order, is_last, in, out);
    times[batch] = (double)(bench_clock(CLOCK_MONOTONIC) - start) / (double)order->per_batch;
  }
  cpu = bench_cpu_ns() - cpu;
  int right = !library->computes || bench_is_right(out, count, n_ranks);
  fprintf(control, "done %.1f %lld %d", (double)cpu / (double)(order->batches * order->per_batch),
          (long long)idle_ns, right);
  for (long batch = 0; batch < order->batches; batch++) fprintf(control, " %.1f", times[batch]);
  fprintf(control, "\n");
  fflush(control);
  if (library->release) {
    library->release(in, order->bytes);
    library->release(out, order->bytes);
  } else {
    free(in);
    free(out);
  }
}

static FILE* bench_connect(int rank, int n_ranks) {
  const char* path = getenv("BENCH_SOCKET");
  struct sockaddr_un address;
  memset(&address, 0, sizeof address);
  address.sun_family = AF_UNIX;
  if (!path || strlen(path) >= sizeof address.sun_path) bench_fail("BENCH_SOCKET names no socket");
  strcpy(address.sun_path, path);
  int connection = socket(AF_UNIX, SOCK_STREAM, 0);
  if (connect(connection, (struct sockaddr*)&address, sizeof address)) bench_fail("cannot reach BENCH_SOCKET");
  FILE* control = fdopen(connection, "r+");
  setvbuf(control, NULL, _IOFBF, 1 << 14);
  fprintf(control, "hello %d %d\n", rank, n_ranks);
  fflush(control);
  return control;
}

/* Follows orders until told to quit, or until the socket closes. */
static void bench_serve(const bench_library* library, int rank, int n_ranks) {
  FILE* control = bench_connect(rank, n_ranks);
  char line[256];
  int64_t before = bench_cpu_ns();
  while (fgets(line, sizeof line, control)) {
    bench_order order;
    if (sscanf(line, "run %zu %ld %ld %ld %ld", &order.bytes, &order.batches, &order.per_batch, &order.warm_up,
               &order.late_us) != 5)
      break;
    if (order.batches > BENCH_MOST_BATCHES) bench_fail("too many batches");
    fseek(control, 0, SEEK_CUR); /* C wants it between reading and writing */
    bench_run(library, &order, rank, n_ranks, bench_cpu_ns() - before, control);
    before = bench_cpu_ns();
    fseek(control, 0, SEEK_CUR);
  }
  fclose(control);
}

/* Shares a few bytes that rank 0 knows through the file that BENCH_MEETING names. */
__attribute__((unused)) static void bench_share(int rank, void* bytes, size_t size) {
  const char* path = getenv("BENCH_MEETING");
  char fresh[512];
  if (!path) bench_fail("BENCH_MEETING names no file");
  if (rank == 0) {
    snprintf(fresh, sizeof fresh, "%s.new", path);
    FILE* file = fopen(fresh, "w");
    if (!file || fwrite(bytes, 1, size, file) != size || fclose(file) || rename(fresh, path))
      bench_fail("cannot write BENCH_MEETING");
    return;
  }
  FILE* file = NULL;
  for (int tries = 0; tries < 10000 && !(file = fopen(path, "r")); tries++) usleep(1000);
  if (!file || fread(bytes, 1, size, file) != size) bench_fail("nobody wrote BENCH_MEETING");
  fclose(file);
}

#endif

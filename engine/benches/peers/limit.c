/* What the memory allows: the copies and sums that an all-reduce over shared memory cannot do without, and nothing else:
 * no message, no flag, no waiting.
 *
 * All ranks' buffers lie in memory that every rank has mapped. Of S bytes and n ranks each rank owns S/n: it reads that
 * part of all n inputs and writes the sum, then copies the other n-1 parts from their owners' outputs, all n processes
 * at once. BENCH_STORE=stream writes around the caches; the limit is the better of the two.
 *
 * BENCH_RANK, BENCH_RANKS, BENCH_MEETING: prefix of the shared files, which lie in memory. */
#include <fcntl.h>
#include <immintrin.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "loop.h"

#define PAGE 4096

static int rank, n_ranks, streams;
static size_t mapped_bytes;
static float* shared;
static int n_allocated;
static unsigned n_orders, n_meetings;

/* A page for meetings, inputs of all ranks, outputs of all ranks. */
static float* part(int is_output, int of_rank, size_t count) {
  return shared + PAGE / sizeof(float) + ((size_t)(is_output ? n_ranks : 0) + (size_t)of_rank) * count;
}

static void map_file(size_t bytes) {
  char path[512];
  mapped_bytes = PAGE + 2 * (size_t)n_ranks * bytes;
  snprintf(path, sizeof path, "%s.%u", getenv("BENCH_MEETING"), n_orders++);
  int file = open(path, O_RDWR | O_CREAT, 0600);
  if (file < 0 || ftruncate(file, (off_t)mapped_bytes)) bench_fail("cannot make the shared file");
  shared = (float*)mmap(NULL, mapped_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (shared == MAP_FAILED) bench_fail("cannot map the shared file");
  n_meetings = 0;
}

static void forget_file(void) {
  char path[512];
  snprintf(path, sizeof path, "%s.%u", getenv("BENCH_MEETING"), n_orders - 1);
  unlink(path);
}

static void meet(void) {
  atomic_uint* arrived = (atomic_uint*)(void*)shared;
  atomic_fetch_add(arrived, 1);
  n_meetings++;
  while (atomic_load(arrived) < n_meetings * (unsigned)n_ranks) sched_yield();
  if (n_meetings == 1 && rank == 0) forget_file(); /* all have it mapped */
}

/* The first call of an order is for the input, the second for the output. */
static void* allocate(size_t bytes) {
  if (n_allocated++ == 0) map_file(bytes);
  return part(n_allocated == 2, rank, bytes / sizeof(float));
}

static void release(void* buffer, size_t bytes) {
  (void)buffer;
  (void)bytes;
  if (--n_allocated == 0) munmap(shared, mapped_bytes);
}

/* `into = a + b`, vectors of 32 bytes around the caches. */
__attribute__((target("avx2"))) static void add_stream(float* into, const float* a, const float* b, size_t count) {
  size_t i = 0;
  for (; i < count && ((uintptr_t)(into + i) & 31); i++) into[i] = a[i] + b[i];
  for (; i + 8 <= count; i += 8)
    _mm256_stream_ps(into + i, _mm256_add_ps(_mm256_loadu_ps(a + i), _mm256_loadu_ps(b + i)));
  for (; i < count; i++) into[i] = a[i] + b[i];
  _mm_sfence();
}

__attribute__((target("avx2"))) static void copy_stream(float* into, const float* from, size_t count) {
  size_t i = 0;
  for (; i < count && ((uintptr_t)(into + i) & 31); i++) into[i] = from[i];
  for (; i + 8 <= count; i += 8) _mm256_stream_ps(into + i, _mm256_loadu_ps(from + i));
  for (; i < count; i++) into[i] = from[i];
  _mm_sfence();
}

__attribute__((target("avx2"))) static void add(float* into, const float* a, const float* b, size_t count) {
  size_t i = 0;
  for (; i + 8 <= count; i += 8)
    _mm256_storeu_ps(into + i, _mm256_add_ps(_mm256_loadu_ps(a + i), _mm256_loadu_ps(b + i)));
  for (; i < count; i++) into[i] = a[i] + b[i];
}

/* Blocks of 16 KiB stay in the first cache while the inputs of all ranks are added to them. */
static void sum_own(size_t count) {
  enum { BLOCK = 4096 };
  float block[BLOCK];
  size_t start = count * (size_t)rank / (size_t)n_ranks, end = count * ((size_t)rank + 1) / (size_t)n_ranks;
  for (size_t at = start; at < end; at += BLOCK) {
    size_t len = end - at < BLOCK ? end - at : BLOCK;
    const float* first = part(0, 0, count) + at;
    for (int from = 1; from < n_ranks; from++) {
      const float* with = part(0, from, count) + at;
      int is_last = from == n_ranks - 1;
      float* into = is_last ? part(1, rank, count) + at : block;
      (is_last && streams ? add_stream : add)(into, first, with, len);
      first = block;
    }
  }
}

static void copy_others(size_t count) {
  for (int step = 1; step < n_ranks; step++) {
    size_t owner = (size_t)((rank + step) % n_ranks);
    size_t start = count * owner / (size_t)n_ranks, end = count * (owner + 1) / (size_t)n_ranks;
    float* into = part(1, rank, count) + start;
    const float* from = part(1, (int)owner, count) + start;
    if (streams) copy_stream(into, from, end - start);
    else memcpy(into, from, (end - start) * sizeof(float));
  }
}

static void work(const float* in, float* out, size_t count) {
  (void)in;
  (void)out;
  sum_own(count);
  copy_others(count);
}

int main(void) {
  rank = atoi(getenv("BENCH_RANK"));
  n_ranks = atoi(getenv("BENCH_RANKS"));
  streams = !strcmp(getenv("BENCH_STORE"), "stream");
  bench_library library = {allocate, release, work, meet, 0};
  bench_serve(&library, rank, n_ranks);
  return 0;
}

/* Threads that make, use and abort communicators of two ranks, while the process forks and its level changes every 20 ms:
 * storm SECONDS. */
#include "engine.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

static void say(const char *words) { puts(words); }
#include "level.h"

enum { THREADS = 3, RANKS = 2 };
static atomic_int ends;

static void exchange(float *buffer, ncclComm_t *comms, cudaStream_t *streams) {
  OK(ncclGroupStart());
  for (int i = 0; i < RANKS; i++) {
    OK(ncclSend(buffer + i * 4096, 64, ncclFloat, 1 - i, comms[i], streams[i]));
    OK(ncclRecv(buffer + i * 4096 + 2048, 64, ncclFloat, 1 - i, comms[i], streams[i]));
  }
  OK(ncclGroupEnd());
}

static void renew(cudaStream_t *stream) {
  rscclStreamSynchronize(*stream);
  rscclStreamDestroy(*stream);
  OK(rscclStreamCreate(stream));
}

static void *work(void *argument) {
  unsigned seed = (unsigned)(uintptr_t)argument * 77 + 1;
  float *buffer = calloc(4, 1 << 14);
  cudaStream_t streams[RANKS];
  for (int i = 0; i < RANKS; i++) OK(rscclStreamCreate(&streams[i]));
  while (!atomic_load(&ends)) {
    ncclComm_t comms[RANKS];
    OK(ncclCommInitAll(comms, RANKS, NULL));
    int n = rand_r(&seed) % 40, aborts = rand_r(&seed) % 5 == 0;
    for (int k = 0; k < n; k++) {
      OK(ncclGroupStart());
      for (int i = 0; i < RANKS; i++) OK(ncclAllReduce(buffer + i * 4096, buffer + i * 4096, 1000, ncclFloat, ncclSum, comms[i], streams[i]));
      OK(ncclGroupEnd());
      if (k % 3 == 0) exchange(buffer, comms, streams);
    }
    for (int i = 0; i < RANKS && !aborts; i++) OK(rscclStreamSynchronize(streams[i]));
    for (int i = 0; i < RANKS; i++) {
      if (aborts) ncclCommAbort(comms[i]);
      else OK(ncclCommDestroy(comms[i]));
    }
    for (int i = 0; i < RANKS && aborts; i++) renew(&streams[i]);
  }
  free(buffer);
  return NULL;
}

int main(int argc, char **argv) {
  pthread_t threads[THREADS];
  time_t end = time(NULL) + (argc > 1 ? atoi(argv[1]) : 5);
  int level = 0, status;
  for (long i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, (void *)(i + 1));
  while (time(NULL) < end) {
    usleep(20000);
    level = level % 4 + 1;
    ask_level(level);
    int child = fork();
    if (!child) _exit(0);
    waitpid(child, &status, 0);
    if (status) puts("a child failed");
  }
  atomic_store(&ends, 1);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  puts("ok");
  return 0;
}

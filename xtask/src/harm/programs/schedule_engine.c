/* A random schedule on the engine: schedule_engine SEED [HOW_MANY]. Threads, each with communicators of two ranks in this
 * process, that sum, exchange, split, abort and end, while the process forks and flips its level. */
#include "engine.h"
#include "random.h"
#include <pthread.h>
#include <string.h>

static void say(const char *words) { puts(words); }
#include "level.h"
#include "seeds.h"

enum { THREADS = 3, RANKS = 2, N = 64 };

struct thread { struct random random; uint64_t hash; cudaStream_t streams[RANKS]; };

static float *data_of(struct thread *t, int fresh) {
  static _Thread_local float data[RANKS][N];
  for (int r = 0; r < RANKS && fresh; r++) for (int i = 0; i < N; i++) data[r][i] = (float)below(&t->random, 100);
  return data[0];
}

static void wait_for(struct thread *t) {
  for (int i = 0; i < RANKS; i++) mix(&t->hash, (uint64_t)rscclStreamSynchronize(t->streams[i]));
}

static void use(struct thread *t, ncclComm_t *comms) {
  float *data = data_of(t, 1);
  int how = below(&t->random, 3);
  mix(&t->hash, (uint64_t)ncclGroupStart());
  for (int i = 0; i < RANKS; i++) {
    float *mine = data + i * N;
    if (how == 0) mix(&t->hash, (uint64_t)ncclAllReduce(mine, mine, N, ncclFloat, ncclSum, comms[i], t->streams[i]));
    if (how == 1) mix(&t->hash, (uint64_t)ncclBroadcast(mine, mine, N, ncclFloat, 1, comms[i], t->streams[i]));
    if (how == 2 && i == 0) mix(&t->hash, (uint64_t)ncclSend(mine, N, ncclFloat, 1, comms[i], t->streams[i]));
    if (how == 2 && i == 1) mix(&t->hash, (uint64_t)ncclRecv(mine, N, ncclFloat, 0, comms[i], t->streams[i]));
  }
  mix(&t->hash, (uint64_t)ncclGroupEnd());
  wait_for(t);
  for (int i = 0; i < RANKS * N; i++) mix(&t->hash, (uint64_t)data[i]);
}

static void end(struct thread *t, ncclComm_t *comms) {
  int aborts = below(&t->random, 4) == 0;
  for (int i = 0; i < RANKS; i++) mix(&t->hash, (uint64_t)(aborts ? ncclCommAbort(comms[i]) : ncclCommDestroy(comms[i])));
}

static void child(struct thread *t) {
  int process = fork(), status = -1;
  if (!process) {
    alarm(CHILD_LIMIT_S);
    _exit(0);
  }
  waitpid(process, &status, 0);
  mix(&t->hash, (uint64_t)status);
}

static void *work(void *argument) {
  struct thread *t = argument;
  for (int i = 0; i < RANKS; i++) OK(rscclStreamCreate(&t->streams[i]));
  for (int rounds = 1 + below(&t->random, 2); rounds > 0; rounds--) {
    ncclComm_t comms[RANKS], children[RANKS];
    mix(&t->hash, (uint64_t)ncclCommInitAll(comms, RANKS, NULL));
    for (int k = below(&t->random, 8); k >= 0; k--) {
      if (below(&t->random, 4) == 0) ask_level(below(&t->random, 6));
      if (below(&t->random, 8) == 0) child(t);
      use(t, comms);
    }
    if (below(&t->random, 2)) {
      OK(ncclGroupStart());
      for (int i = 0; i < RANKS; i++) OK(ncclCommSplit(comms[i], 0, i, &children[i], NULL));
      OK(ncclGroupEnd());
      use(t, children);
      end(t, children);
    }
    end(t, comms);
  }
  for (int i = 0; i < RANKS; i++) rscclStreamDestroy(t->streams[i]);
  return NULL;
}

static uint64_t schedule(uint64_t seed) {
  struct random random = {seed};
  struct thread threads[THREADS];
  pthread_t ids[THREADS];
  uint64_t hash = 14695981039346656037ull;
  int n = 1 + below(&random, THREADS);
  for (int i = 0; i < n; i++) threads[i] = (struct thread){.random = {next(&random)}, .hash = 1};
  for (int i = 0; i < n; i++) pthread_create(&ids[i], NULL, work, &threads[i]);
  for (int i = 0; i < n; i++) pthread_join(ids[i], NULL);
  for (int i = 0; i < n; i++) mix(&hash, threads[i].hash);
  return hash;
}

int main(int argc, char **argv) { return run_seeds(argc, argv); }

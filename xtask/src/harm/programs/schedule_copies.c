/* A random schedule in a program that has no NCCL: schedule_copies SEED [HOW_MANY]. Its threads load objects that were linked
 * with a copy each (schedule.c), run their steps, and unload them; the copy goes with the last of them, and comes again. */
#include "harm.h"
#include "random.h"

static int has_quiet_end(void) { return 1; }
#include "seeds.h"

enum { THREADS = 3, ROUNDS = 3, STEPS = 12 };
struct thread { struct random random; uint64_t hash; int number; };

static void *work(void *argument) {
  struct thread *t = argument;
  for (int i = 0; i < ROUNDS; i++) {
    uint64_t seed = next(&t->random);
    void *object = load(seed % 2 ? "libschedule_first.so" : "libschedule_second.so");
    if (!object) { puts(dlerror()); return NULL; }
    uint64_t (*steps)(uint64_t, int, int) = (uint64_t (*)(uint64_t, int, int))dlsym(object, "schedule_steps");
    mix(&t->hash, steps(seed, t->number, STEPS));
    mix(&t->hash, (uint64_t)unload(object));
  }
  mix_thread(&t->hash);
  return NULL;
}

static uint64_t schedule(uint64_t seed) {
  struct random random = {seed};
  struct thread threads[THREADS];
  pthread_t ids[THREADS];
  uint64_t hash = 14695981039346656037ull;
  int n = 1 + below(&random, THREADS);
  setenv("STUB_PROFILER", below(&random, 2) ? "1" : "0", 1);
  setenv("STUB_SPLIT_NOW", "1", 1); /* the thread that splits later would lose its code */
  setenv("STUB_BUSY_US", below(&random, 2) ? "50" : "0", 1);
  for (int i = 0; i < n; i++) threads[i] = (struct thread){.random = {next(&random)}, .hash = 1, .number = i};
  for (int i = 1; i < n; i++) pthread_create(&ids[i], NULL, work, &threads[i]);
  work(&threads[0]);
  for (int i = 1; i < n; i++) pthread_join(ids[i], NULL);
  for (int i = 0; i < n; i++) mix(&hash, threads[i].hash);
  return hash;
}

int main(int argc, char **argv) { return run_seeds(argc, argv); }

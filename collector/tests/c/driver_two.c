/* A program that loads several users of the library, each with RTLD_LOCAL and a copy of its own, and lets them work in
 * turns and at once. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

static const char *scenario;

static void *work(void *run) { return (void *)(long)((int (*)(const char *))run)(scenario); }

int main(int argc, char **argv) {
  void *users[8];
  int n_users = 0;
  scenario = argv[1];
  for (int i = 2; i < argc; i++) {
    void *user = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
    void *run = user ? dlsym(user, "run_scenario") : NULL;
    if (!run) { fprintf(stderr, "%s\n", dlerror()); return 96; }
    users[n_users++] = run;
    if (work(run)) return 95;
  }
  /* Those that were there before the others still get their own. */
  for (int round = 0; round < 2; round++)
    for (int i = 0; i < n_users; i++)
      if (work(users[i])) return 94;
  pthread_t threads[8];
  for (int i = 0; i < n_users; i++) pthread_create(&threads[i], NULL, work, users[i]);
  for (int i = 0; i < n_users; i++) {
    void *failed;
    pthread_join(threads[i], &failed);
    if (failed) return 93;
  }
  return 0;
}

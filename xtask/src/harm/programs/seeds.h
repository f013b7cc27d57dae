/* Runs each seed in a process of its own, forked before anything was called, and says what became of it: seed N HASH, seed N
 * signal S, or seed N hangs. A program defines `schedule`. */
#include <signal.h>
#include <sys/wait.h>

enum { SEED_LIMIT_S = 30, CHILD_LIMIT_S = 10 };

static uint64_t schedule(uint64_t seed);

static int run_seeds(int argc, char **argv) {
  uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 0, n = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
  for (uint64_t seed = first; seed < first + n; seed++) {
    int told[2], status;
    if (pipe(told)) return 1;
    int child = fork();
    if (!child) {
      close(told[0]);
      alarm(SEED_LIMIT_S);
      uint64_t hash = schedule(seed);
      if (write(told[1], &hash, sizeof hash) != sizeof hash) _exit(1);
      exit(0); /* with the exit handlers: the collector's are on trial too */
    }
    close(told[1]);
    uint64_t hash = 0;
    waitpid(child, &status, 0);
    int is_whole = read(told[0], &hash, sizeof hash) == sizeof hash;
    close(told[0]);
    printf("seed %llu ", (unsigned long long)seed);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) puts("hangs");
    else if (WIFSIGNALED(status)) printf("signal %d\n", WTERMSIG(status));
    else if (WEXITSTATUS(status) || !is_whole) printf("exit %d\n", WEXITSTATUS(status));
    else printf("%016llx\n", (unsigned long long)hash);
    fflush(stdout);
  }
  return 0;
}

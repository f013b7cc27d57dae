/* Runs each seed in a process of its own, forked before anything was called, and says what became of it: seed N HASH, seed N
 * signal S, seed N hangs or seed N exit S; before it what the process said. A program defines `schedule`. What the process had
 * besides the library must be as it was, down to its exit: that is part of the hash. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { SEED_LIMIT_S = 30, CHILD_LIMIT_S = 10, OWN_FDS = 4, MAX_WORDS = 40 };

static uint64_t schedule(uint64_t seed);
static uint64_t result = 14695981039346656037ull;
static int told[2];

/* The linker's lock orders what is loaded, unloaded and loaded again where it lay; a sanitizer does not see that lock. */
static int order;
static inline void *load(const char *name) {
  void *object = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  __atomic_fetch_add(&order, 1, __ATOMIC_ACQ_REL);
  return object;
}

static inline int unload(void *object) {
  __atomic_fetch_add(&order, 1, __ATOMIC_ACQ_REL);
  return dlclose(object);
}

/* Descriptors of the program's own, which nobody else may close, move or write to. */
static int own_fds[OWN_FDS];
static void open_own(void) {
  for (int i = 0; i < OWN_FDS; i++) {
    int fd = memfd_create("own", MFD_CLOEXEC);
    own_fds[i] = i % 2 ? fcntl(fd, F_DUPFD, 200 + i) : fd;
    if (i % 2) close(fd);
    if (write(own_fds[i], &i, sizeof i) != sizeof i) _exit(1);
  }
}

static void mix_own(uint64_t *hash) {
  for (int i = 0; i < OWN_FDS; i++) {
    struct stat found = {0};
    int word = -1;
    mix(hash, (uint64_t)fstat(own_fds[i], &found));
    mix(hash, (uint64_t)found.st_size);
    mix(hash, (uint64_t)pread(own_fds[i], &word, sizeof word, 0));
    mix(hash, (uint64_t)word);
  }
}

/* Handlers, mask and what is pending; SIGBUS without a handler of the program's is the collector's. */
static void mix_signals(uint64_t *hash) {
  sigset_t set;
  for (int signal = 1; signal < NSIG; signal++) {
    struct sigaction found = {0};
    if (signal == SIGBUS || sigaction(signal, NULL, &found)) continue;
    mix(hash, (uint64_t)found.sa_flags);
    mix(hash, found.sa_handler == SIG_DFL ? 0 : found.sa_handler == SIG_IGN ? 1 : 2);
  }
  pthread_sigmask(SIG_BLOCK, NULL, &set);
  for (int signal = 1; signal < NSIG; signal++) mix(hash, (uint64_t)sigismember(&set, signal));
  sigpending(&set);
  for (int signal = 1; signal < NSIG; signal++) if (signal != SIGPROF) mix(hash, (uint64_t)sigismember(&set, signal));
}

/* What a thread has of its own. */
static void mix_thread(uint64_t *hash) {
  int state = -1, type = -1;
  pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state);
  pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type);
  mix(hash, (uint64_t)state);
  mix(hash, (uint64_t)type);
}

static int is_of_collector(const char *setting) {
  static const char *const names[] = {"LD_", "RINGSCOPE_", "NCCL_PROFILER_PLUGIN=", "CONTROL_OFFSET="};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) if (!strncmp(setting, names[i], strlen(names[i]))) return 1;
  return 0;
}

static void mix_process(uint64_t *hash) {
  char folder[400] = "";
  mode_t mask = umask(0);
  umask(mask);
  mix(hash, mask);
  if (getcwd(folder, sizeof folder)) mix(hash, strlen(folder) > 0);
  for (char **setting = environ; *setting; setting++)
    for (const char *c = *setting; !is_of_collector(*setting) && *c; c++) mix(hash, (unsigned char)*c);
  mix(hash, (uint64_t)waitpid(-1, NULL, WNOHANG)); /* no child that the program does not know */
  mix(hash, (uint64_t)errno);
}

static int n_open(void) {
  int n = 0;
  DIR *folder = opendir("/proc/self/fd");
  while (folder && readdir(folder)) n++;
  if (folder) closedir(folder);
  return n;
}

/* Registered first, so it runs last of the program's. */
static void tell(void) {
  mix_own(&result);
  if (write(told[1], &result, sizeof result) != sizeof result) _exit(1);
}

static int exit_status(uint64_t hash) { return 1 + (int)(hash % 50); } /* a sanitizer's are above */

static void run_seed(uint64_t seed, int words) {
  dup2(words, 1);
  dup2(words, 2);
  close(told[0]);
  setpgid(0, 0);
  alarm(SEED_LIMIT_S);
  open_own();
  atexit(tell);
  int before = n_open();
  result = schedule(seed);
  mix_signals(&result);
  mix_thread(&result);
  mix_process(&result);
  if (has_quiet_end()) mix(&result, (uint64_t)(n_open() - before));
  exit(exit_status(seed)); /* with the exit handlers: the collector's are on trial too */
}

static void repeat_words(uint64_t seed, int words) {
  char line[300];
  FILE *file = fdopen(words, "r");
  rewind(file);
  for (int i = 0; i < MAX_WORDS && fgets(line, sizeof line, file); i++)
    if (*line != '\n') printf("seed %llu says %s%s", (unsigned long long)seed, line, strchr(line, '\n') ? "" : "\n");
  fclose(file);
}

static int run_seeds(int argc, char **argv) {
  uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 0, n = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
  for (uint64_t seed = first; seed < first + n; seed++) {
    int status, words = memfd_create("words", MFD_CLOEXEC);
    if (pipe(told) || words < 0) return 1;
    int child = fork();
    if (!child) run_seed(seed, words);
    close(told[1]);
    uint64_t hash = 0;
    waitpid(child, &status, 0);
    kill(-child, SIGKILL); /* what it has left: else it is waited for below */
    int is_whole = read(told[0], &hash, sizeof hash) == sizeof hash;
    close(told[0]);
    repeat_words(seed, words);
    printf("seed %llu ", (unsigned long long)seed);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) puts("hangs");
    else if (WIFSIGNALED(status)) printf("signal %d\n", WTERMSIG(status));
    else if (WEXITSTATUS(status) != exit_status(seed) || !is_whole) printf("exit %d\n", WEXITSTATUS(status));
    else printf("%016llx\n", (unsigned long long)hash);
    fflush(stdout);
  }
  return 0;
}

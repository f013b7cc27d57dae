/* What becomes of the segment when the program forks, closes what it finds, or ends. */
#define _GNU_SOURCE
#include "stub.h"
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(what) do { if (!(what)) { fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what); exit(99); } } while (0)
#define OK(call) CHECK((call) == 0)
enum { FLOAT32 = 7, SUM = 0 };

static ncclComm_t communicator(void) {
  ncclUniqueId unique = {{1}};
  ncclComm_t comm = NULL;
  OK(ncclCommInitRank(&comm, 8, unique, 3));
  return comm;
}

static void all_reduce(ncclComm_t comm, size_t count) { OK(ncclAllReduce(NULL, NULL, count, FLOAT32, SUM, comm, NULL)); }

/* Segments whose lock somebody holds. */
static int locked(void) {
  const char *dir = getenv("RINGSCOPE_DIR");
  DIR *entries = opendir(dir);
  CHECK(entries);
  int count = 0;
  for (struct dirent *entry; (entry = readdir(entries));) {
    if (!strstr(entry->d_name, ".seg")) continue;
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", dir, entry->d_name);
    int fd = open(path, O_RDONLY);
    CHECK(fd >= 0);
    count += flock(fd, LOCK_SH | LOCK_NB) != 0;
    close(fd);
  }
  closedir(entries);
  return count;
}

static void await(pid_t child) {
  int status;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void await_any(void) {
  int status;
  CHECK(wait(&status) > 0 && status == 0);
}

/* A rank is killed while the child that it forked lives on. */
static void killed_rank(void) {
  int ready[2], end[2];
  OK(pipe(ready));
  OK(pipe(end));
  pid_t rank = fork();
  if (rank == 0) {
    all_reduce(communicator(), 1);
    if (fork() == 0) {
      close(end[1]);
      CHECK(write(ready[1], "x", 1) == 1);
      char byte;
      _exit((int)read(end[0], &byte, 1));
    }
    pause();
  }
  char byte;
  CHECK(read(ready[0], &byte, 1) == 1);
  CHECK(locked() == 1);
  OK(kill(rank, SIGKILL));
  CHECK(waitpid(rank, NULL, 0) == rank);
  CHECK(locked() == 0);
}

/* The program closes all that it finds, and uses the numbers again; so does its child. */
static void closed_descriptors(void) {
  ncclComm_t comm = communicator();
  for (int fd = 3; fd < 1024; fd++) close(fd);
  for (int fd = -1; fd < 600;) CHECK((fd = open("/dev/null", O_RDONLY)) >= 0);
  pid_t child = fork();
  if (child == 0) {
    for (int fd = 3; fd <= 600; fd++) CHECK(fcntl(fd, F_GETFD) >= 0);
    _exit(0);
  }
  await(child);
  for (int fd = 3; fd <= 600; fd++) OK(close(fd));
  all_reduce(comm, 1);
  CHECK(locked() == 1);
}

/* The stub calls back in the middle of a call: the child that is forked there returns from it. */
static void forked_in_a_call(void) {
  ncclComm_t comm = communicator();
  pid_t parent = getpid();
  stub_fail_next(STUB_FORK);
  all_reduce(comm, 1);
  if (getpid() != parent) {
    all_reduce(comm, 10);
    all_reduce(communicator(), 100);
    _exit(0);
  }
  int status;
  CHECK(wait(&status) > 0 && status == 0);
  all_reduce(comm, 2);
}

static int in_shared_memory(void *comm) {
  all_reduce(comm, 10);
  _exit(0);
}

/* Children that share the parent's memory until they end. */
static void shared_memory(void) {
  static char stack[1 << 16];
  ncclComm_t comm = communicator();
  all_reduce(comm, 1);
  pid_t child = vfork();
  if (child == 0) _exit(0);
  await(child);
  child = clone(in_shared_memory, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, comm);
  await(child);
  all_reduce(comm, 100);
  CHECK(locked() == 1);
}

static void *in_thread(void *nothing) {
  (void)nothing;
  all_reduce(communicator(), 1);
  return NULL;
}

/* Children are forked while another thread makes the first communicator; none of them keeps the lock. */
static void forked_at_the_first_init(void) {
  int end[2];
  OK(pipe(end));
  pid_t parent = fork();
  if (parent == 0) {
    pthread_t thread;
    OK(pthread_create(&thread, NULL, in_thread, NULL));
    for (int i = 0; i < 16; i++) {
      if (fork()) continue;
      close(end[1]);
      char byte;
      _exit((int)read(end[0], &byte, 1));
    }
    OK(pthread_join(thread, NULL));
    _exit(0);
  }
  await(parent);
  CHECK(locked() == 0);
}

static long dirty_kilobytes(void) {
  FILE *file = fopen("/proc/self/smaps_rollup", "r");
  char line[256];
  long dirty = -1;
  while (fgets(line, sizeof line, file))
    if (!strncmp(line, "Private_Dirty:", 14)) dirty = atol(line + 14);
  fclose(file);
  return dirty;
}

static long dirty_of_a_child(void) {
  long *dirty = mmap(NULL, sizeof *dirty, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  pid_t child = fork();
  if (child == 0) {
    *dirty = dirty_kilobytes();
    _exit(0);
  }
  await(child);
  return *dirty;
}

/* A child that does nothing has hardly more memory of its own than it would have without the collector. */
static void idle_child(void) {
  long before = dirty_of_a_child();
  ncclComm_t comm = communicator();
  for (int i = 0; i < 1000; i++) all_reduce(comm, 1);
  CHECK(dirty_of_a_child() <= before + 50);
}

/* A child that the C library knows nothing of. */
static void raw_child(void) {
  ncclComm_t comm = communicator();
  all_reduce(comm, 1);
  pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
  if (child == 0) {
    all_reduce(comm, 10);
    all_reduce(communicator(), 100);
    _exit(0);
  }
  await(child);
  all_reduce(comm, 1);
}

/* The path of the only segment. */
static const char *segment_path(void) {
  static char path[4096];
  const char *dir = getenv("RINGSCOPE_DIR");
  DIR *entries = opendir(dir);
  CHECK(entries);
  for (struct dirent *entry; (entry = readdir(entries));)
    if (strstr(entry->d_name, ".seg")) snprintf(path, sizeof path, "%s/%s", dir, entry->d_name);
  closedir(entries);
  return path;
}

/* Somebody cuts the segment of a process that runs. */
static void cut_segment(void) {
  ncclComm_t comm = communicator();
  all_reduce(comm, 1);
  OK(truncate(segment_path(), 0));
  for (int i = 0; i < 1000; i++) all_reduce(comm, 1);
  /* The library tells nothing more. */
  CHECK(stub_mask() == 0);
  ncclComm_t other = communicator();
  all_reduce(other, 1);
  pid_t parent = getpid();
  stub_fail_next(STUB_FORK);
  all_reduce(comm, 1);
  if (getpid() != parent) _exit(0);
  await_any();
  OK(ncclCommDestroy(comm));
  pid_t child = fork();
  if (child == 0) {
    all_reduce(communicator(), 1);
    exit(0);
  }
  await(child);
}

enum { MANY = 100 };
static pthread_barrier_t all_have_called;

static void *calls_and_waits(void *comm) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  OK(pthread_mutex_lock(&lock));
  all_reduce(comm, 1);
  OK(pthread_mutex_unlock(&lock));
  pthread_barrier_wait(&all_have_called);
  return NULL;
}

/* From now on the file system has no page to give. */
static void fill(void) {
  static char bytes[4096];
  int fd = open(getenv("RINGSCOPE_DIR"), O_TMPFILE | O_RDWR, 0600);
  CHECK(fd >= 0);
  while (write(fd, bytes, sizeof bytes) > 0) {}
}

/* More threads call than the file system has pages for: no reason to be off. */
static void threads_without_pages(void) {
  ncclComm_t comm = communicator();
  all_reduce(comm, 1);
  fill();
  OK(pthread_barrier_init(&all_have_called, NULL, MANY));
  pthread_t threads[MANY];
  for (int i = 0; i < MANY; i++) OK(pthread_create(&threads[i], NULL, calls_and_waits, comm));
  for (int i = 0; i < MANY; i++) OK(pthread_join(threads[i], NULL));
  all_reduce(comm, 1);
  CHECK(stub_mask() != 0);
}

/* The same with more calls than it has pages for, by a library that does not tell which record an event is for. */
static void records_without_pages(void) {
  ncclComm_t comm = communicator();
  all_reduce(comm, 1);
  fill();
  for (int i = 0; i < 20000; i++) all_reduce(comm, 1);
  CHECK(stub_mask() != 0);
}

/* A page of the program's own that is not there. */
static volatile char *missing_page(void) {
  int fd = open(getenv("RINGSCOPE_DIR"), O_TMPFILE | O_RDWR, 0600);
  CHECK(fd >= 0);
  volatile char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  CHECK(page != MAP_FAILED);
  return page;
}

static volatile char *missing;
static volatile int caught;

static void on_bus_error(int signal, siginfo_t *info, void *context) {
  (void)context;
  sigset_t blocked;
  OK(sigprocmask(SIG_BLOCK, NULL, &blocked));
  CHECK(signal == SIGBUS && info->si_addr == (void *)missing);
  CHECK(sigismember(&blocked, SIGBUS) && sigismember(&blocked, SIGUSR1));
  CHECK(mmap((void *)missing, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == missing);
  caught++;
}

/* The program handles its own bus errors, and has it so that a process ends by them where it does not. */
static void own_bus_error(void) {
  struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO};
  sigaddset(&action.sa_mask, SIGUSR1);
  pid_t child = fork();
  if (child == 0) {
    all_reduce(communicator(), 1);
    *missing_page() = 1;
    _exit(0);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
  child = fork();
  if (child == 0) {
    all_reduce(communicator(), 1);
    raise(SIGBUS);
    _exit(0);
  }
  CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
  OK(sigaction(SIGBUS, &action, NULL));
  ncclComm_t comm = communicator();
  missing = missing_page();
  *missing = 1;
  CHECK(caught == 1 && *missing == 1);
  sigset_t blocked;
  OK(sigprocmask(SIG_BLOCK, NULL, &blocked));
  CHECK(!sigismember(&blocked, SIGBUS));
  all_reduce(comm, 1);
}

/* Files may not be as long as a segment. */
static void short_files(void) {
  struct rlimit limit = {1000 << 10, 1000 << 10};
  OK(setrlimit(RLIMIT_FSIZE, &limit));
  all_reduce(communicator(), 1);
}

static void one_call(void) { all_reduce(communicator(), 1); }

static void many_calls(void) {
  ncclComm_t comms[4];
  for (int i = 0; i < 4; i++) comms[i] = communicator();
  for (int i = 0; i < 100000; i++) all_reduce(comms[i % 4], 1);
}

/* A thousand communicators that live at the same time, each with a call. */
static void many_communicators(void) {
  for (int i = 0; i < 1000; i++) all_reduce(communicator(), 1);
}

/* Ranks that make and destroy a thousand communicators each, then a file of the job's that takes half of the file system,
 * written as memory is: what is missing is a bus error. */
static void crowded_folder(void) {
  pid_t ranks[8];
  for (int i = 0; i < 8; i++) {
    if ((ranks[i] = fork()) != 0) continue;
    for (int j = 0; j < 1000; j++) {
      ncclComm_t comm = communicator();
      all_reduce(comm, 1);
      OK(ncclCommDestroy(comm));
    }
    _exit(0);
  }
  for (int i = 0; i < 8; i++) await(ranks[i]);
  const char *dir = getenv("RINGSCOPE_DIR");
  struct statvfs system;
  OK(statvfs(dir, &system));
  CHECK(system.f_blocks - system.f_bfree <= system.f_blocks / 4);
  size_t half = system.f_blocks / 2 * system.f_frsize;
  int fd = open(dir, O_TMPFILE | O_RDWR, 0600);
  CHECK(fd >= 0);
  OK(ftruncate(fd, (off_t)half));
  char *own = mmap(NULL, half, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  CHECK(own != MAP_FAILED);
  memset(own, 1, half);
}

/* The process keeps in memory whatever it maps. */
static void locked_memory(void) {
  OK(mlockall(MCL_FUTURE));
  all_reduce(communicator(), 1);
}

#define SCENARIO(name) {#name, name}
static const struct { const char *name; void (*run)(void); } scenarios[] = {
    SCENARIO(killed_rank), SCENARIO(closed_descriptors), SCENARIO(forked_in_a_call), SCENARIO(shared_memory),
    SCENARIO(forked_at_the_first_init), SCENARIO(idle_child), SCENARIO(raw_child), SCENARIO(cut_segment),
    SCENARIO(own_bus_error), SCENARIO(short_files), SCENARIO(threads_without_pages), SCENARIO(records_without_pages), SCENARIO(one_call), SCENARIO(many_calls),
    SCENARIO(many_communicators), SCENARIO(crowded_folder), SCENARIO(locked_memory),
};

int main(int argc, char **argv) {
  for (size_t i = 0; argc == 2 && i < sizeof scenarios / sizeof *scenarios; i++)
    if (!strcmp(argv[1], scenarios[i].name)) { scenarios[i].run(); return 0; }
  return 98;
}

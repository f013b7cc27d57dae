/* Many ranks: RANKS HOSTS NICS processes|threads [SPLIT [MORE]]. Each host has RANKS / HOSTS ranks, one after another. The ranks make a
 * communicator, sum over it, split it into groups of SPLIT (8) ranks, sum over those and destroy all. Prints one line
 *   ranks=.. hosts=.. init_ms=.. sum_ms=.. split_ms=.. sum2_ms=.. destroy_ms=.. rss_kib=.. rss_max_kib=.. init_bytes=.. fds=.. fds_split=..
 * where times are from the moment at which all may begin until the last has ended, rss is each rank's mean and fds rank 0's
 * descriptors for a communicator. MORE splits of the same groups are made, summed over and kept until the end. FILES in the
 * environment is the hard limit of open files. With SCALE_KINDS set, stderr says of what kinds they are. init_bytes is what went over loopback meanwhile, from all processes of the machine. */
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "job.h"

enum { INIT, SUM, SPLIT, SUM2, DESTROY, PHASES, COUNT = 1000 };
static const char* const PHASE[PHASES] = {"init", "sum", "split", "sum2", "destroy"};

struct board {
  pthread_barrier_t barrier;
  double began[PHASES], ended[PHASES];
  unsigned long long bytes_before, bytes_after;
  int fds_before, fds_init, fds_split;
  long rss_kib[];
};

static struct board* board;
static int hosts, nics, by_threads, split_size = 8, more;
static pthread_mutex_t environment = PTHREAD_MUTEX_INITIALIZER;

static double now_ms(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

static void give_up(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  char text[1024];
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  printf("%s\n", text);
  fflush(stdout);
  _exit(3);
}

#define MUST(call)                                                                        \
  do {                                                                                    \
    ncclResult_t code_ = (call);                                                          \
    if (code_ != ncclSuccess && code_ != ncclInProgress)                                  \
      give_up("FAILED rank %d %s: %d %s", me, #call, code_, ncclGetLastError(NULL));      \
  } while (0)

static long rss_kib(void) {
  FILE* file = fopen("/proc/self/status", "r");
  char line[256];
  long kib = 0;
  while (file && fgets(line, sizeof line, file)) sscanf(line, "VmRSS: %ld", &kib);
  if (file) fclose(file);
  return kib;
}

static int open_files(void) {
  DIR* folder = opendir("/proc/self/fd");
  int count = 0;
  while (folder && readdir(folder)) count++;
  if (folder) closedir(folder);
  return count;
}

/* Of what kinds this process's descriptors are. */
static void say_kinds(const char* when) {
  enum { TCP, LISTENING, UNIX, EVENT, MEMORY, OTHER, KINDS };
  static const char* const NAMES[KINDS] = {"tcp", "listening", "unix", "events", "memory", "other"};
  DIR* folder = getenv("SCALE_KINDS") ? opendir("/proc/self/fd") : NULL;
  if (!folder) return;
  int counts[KINDS] = {0};
  for (struct dirent* entry; (entry = readdir(folder));) {
    char name[64], path[256], target[256] = "";
    snprintf(name, sizeof name, "%.20s", entry->d_name);
    snprintf(path, sizeof path, "/proc/self/fd/%s", name);
    if (readlink(path, target, sizeof target - 1) < 0) continue;
    int domain = 0, listening = 0;
    socklen_t size = sizeof domain, size2 = sizeof listening;
    getsockopt(atoi(name), SOL_SOCKET, SO_DOMAIN, &domain, &size);
    getsockopt(atoi(name), SOL_SOCKET, SO_ACCEPTCONN, &listening, &size2);
    int kind = listening                     ? LISTENING
               : domain == AF_INET           ? TCP
               : domain == AF_UNIX           ? UNIX
               : strstr(target, "eventfd")   ? EVENT
               : strstr(target, "memfd")     ? MEMORY
                                             : OTHER;
    counts[kind]++;
  }
  closedir(folder);
  fprintf(stderr, "%s:", when);
  for (int kind = 0; kind < KINDS; kind++) fprintf(stderr, " %s=%d", NAMES[kind], counts[kind]);
  fprintf(stderr, "\n");
}

/* Listeners that nobody needs are closed by another thread: where NAME is set, so many descriptors more than before are waited
 * for, for a while. */
static int few_files(int before, const char* name) {
  time_t deadline = time(NULL) + 20;
  while (getenv(name) && open_files() - before > atoi(getenv(name)) && time(NULL) < deadline) sched_yield();
  return open_files();
}

static unsigned long long loopback_bytes(void) {
  FILE* file = fopen("/proc/net/dev", "r");
  char line[512];
  unsigned long long bytes = 0;
  while (file && fgets(line, sizeof line, file)) sscanf(line, " lo: %llu", &bytes);
  if (file) fclose(file);
  return bytes;
}

static void begin(int me, int phase) {
  pthread_barrier_wait(&board->barrier);
  if (me == 0) board->began[phase] = now_ms();
  pthread_barrier_wait(&board->barrier);
}

static void end(int me, int phase) {
  pthread_barrier_wait(&board->barrier);
  if (me == 0) board->ended[phase] = now_ms();
}

/* Asks more and more seldom: a thousand threads that ask every millisecond take both cores from what they wait for. */
static void wait_for(int me, ncclComm_t one) {
  ncclResult_t state = ncclInProgress;
  for (useconds_t pause_us = 1000; by_threads && state == ncclInProgress; pause_us *= pause_us < 32000 ? 2 : 1) {
    MUST(ncclCommGetAsyncError(one, &state));
    if (state == ncclInProgress) usleep(pause_us);
  }
  if (by_threads && state != ncclSuccess) give_up("FAILED rank %d: %d %s", me, state, ncclGetLastError(one));
}

/* Each rank gives its number plus i; a group of consecutive ranks from FIRST. */
static void sum(int me, ncclComm_t one, int first, int n, cudaStream_t own) {
  long long values[COUNT];
  for (int i = 0; i < COUNT; i++) values[i] = me + i;
  MUST(ncclAllReduce(values, values, COUNT, ncclInt64, ncclSum, one, own));
  MUST(rscclStreamSynchronize(own));
  for (int i = 0; i < COUNT; i++) {
    long long expected = (long long)n * (2 * first + n - 1) / 2 + (long long)n * i;
    if (values[i] != expected) give_up("WRONG rank %d at %d: %lld, not %lld", me, i, values[i], expected);
  }
}

static void dress(int host) {
  char name[32], list[1024];
  snprintf(name, sizeof name, "host-%d", host);
  int used = 0;
  for (int nic = 0; nic < nics; nic++)
    used += snprintf(list + used, sizeof list - (size_t)used, "%smlx5_%d=127.%d.%d.%d", nic ? "," : "", nic,
                     1 + host / 200, 1 + host % 200, nic + 1);
  setenv("RSCCL_HOST", name, 1);
  setenv("RSCCL_NICS", list, 1);
}

static void run(int me) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = !by_threads;
  ncclComm_t whole, group = NULL;
  cudaStream_t own;
  MUST(rscclStreamCreate(&own));
  begin(me, INIT);
  pthread_mutex_lock(&environment);
  dress(me / (n_ranks / hosts));
  if (me == 0) board->bytes_before = loopback_bytes(), board->fds_before = open_files(), say_kinds("before");
  MUST(ncclCommInitRankConfig(&whole, n_ranks, id, me, &config));
  pthread_mutex_unlock(&environment);
  wait_for(me, whole);
  end(me, INIT);
  if (me == 0) board->bytes_after = loopback_bytes(), board->fds_init = few_files(board->fds_before, "FEW"), say_kinds("init");
  begin(me, SUM);
  sum(me, whole, 0, n_ranks, own);
  end(me, SUM);
  board->rss_kib[me] = by_threads ? rss_kib() / n_ranks : rss_kib();
  int fds = open_files();
  begin(me, SPLIT);
  MUST(ncclCommSplit(whole, me / split_size, me, &group, &config));
  wait_for(me, whole);
  wait_for(me, group);
  end(me, SPLIT);
  if (me == 0) board->fds_split = few_files(fds, "FEW_OF_SPLIT") - fds, say_kinds("split");
  int first = me / split_size * split_size;
  begin(me, SUM2);
  sum(me, group, first, first + split_size > n_ranks ? n_ranks - first : split_size, own);
  end(me, SUM2);
  ncclComm_t* kept = calloc((size_t)more + 1, sizeof *kept);
  for (int i = 0; i < more; i++) {
    MUST(ncclCommSplit(whole, me / split_size, me, &kept[i], &config));
    wait_for(me, whole);
    wait_for(me, kept[i]);
    sum(me, kept[i], first, first + split_size > n_ranks ? n_ranks - first : split_size, own);
  }
  begin(me, DESTROY);
  for (int i = 0; i < more; i++) MUST(ncclCommDestroy(kept[i]));
  free(kept);
  MUST(ncclCommDestroy(group));
  MUST(ncclCommDestroy(whole));
  end(me, DESTROY);
  MUST(rscclStreamDestroy(own));
}

static void* run_thread(void* me) {
  run((int)(long)me);
  return NULL;
}

static void start_threads(void) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 256 * 1024);
  pthread_t* threads = calloc((size_t)n_ranks, sizeof *threads);
  for (long me = 0; me < n_ranks; me++)
    if (pthread_create(&threads[me], &attributes, run_thread, (void*)me)) give_up("FAILED to start thread %ld", me);
  for (int me = 0; me < n_ranks; me++) pthread_join(threads[me], NULL);
  free(threads);
}

static void start_processes(void) {
  pid_t* ranks = calloc((size_t)n_ranks, sizeof *ranks);
  for (int me = 0; me < n_ranks; me++) {
    ranks[me] = fork();
    if (ranks[me] < 0) give_up("FAILED to fork rank %d: %s", me, strerror(errno));
    if (ranks[me] == 0) {
      run(me);
      exit(0);
    }
  }
  int failed = 0, status;
  pid_t ended;
  while ((ended = wait(&status)) > 0) {
    for (int me = 0; me < n_ranks; me++) {
      if (ranks[me] == ended) ranks[me] = 0;
    }
    if (status == 0 || failed) continue;
    failed = 1;
    for (int me = 0; me < n_ranks; me++)
      if (ranks[me] > 0) kill(ranks[me], SIGKILL);
  }
  free(ranks);
  if (failed) exit(3);
}

int main(int argc, char** argv) {
  (void)comm, (void)stream;
  if (argc < 5) give_up("usage: scale RANKS HOSTS NICS processes|threads [SPLIT [MORE]]");
  n_ranks = atoi(argv[1]), hosts = atoi(argv[2]), nics = atoi(argv[3]);
  by_threads = strcmp(argv[4], "threads") == 0;
  if (argc > 5) split_size = atoi(argv[5]);
  if (argc > 6) more = atoi(argv[6]);
  if (getenv("FILES")) {
    rlim_t files = (rlim_t)atoi(getenv("FILES"));
    struct rlimit limit = {files, files};
    if (setrlimit(RLIMIT_NOFILE, &limit)) give_up("FAILED to limit open files: %s", strerror(errno));
  }
  size_t size = sizeof *board + (size_t)n_ranks * sizeof(long);
  board = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  pthread_barrierattr_t attributes;
  pthread_barrierattr_init(&attributes);
  pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_barrier_init(&board->barrier, &attributes, (unsigned)n_ranks);
  dress(0);
  CHECK(ncclGetUniqueId(&id));
  if (by_threads)
    start_threads();
  else
    start_processes();
  long total = 0, most = 0;
  for (int me = 0; me < n_ranks; me++) {
    total += board->rss_kib[me];
    if (board->rss_kib[me] > most) most = board->rss_kib[me];
  }
  printf("ranks=%d hosts=%d nics=%d by=%s", n_ranks, hosts, nics, argv[4]);
  for (int phase = 0; phase < PHASES; phase++)
    printf(" %s_ms=%.0f", PHASE[phase], board->ended[phase] - board->began[phase]);
  printf(" rss_kib=%ld rss_max_kib=%ld init_bytes=%llu fds=%d fds_split=%d\n", total / n_ranks, most,
         board->bytes_after - board->bytes_before, board->fds_init - board->fds_before, board->fds_split);
  return 0;
}

/* One rank of an experiment. It reads commands from stdin, one a line, and answers each with one line on stdout, which
 * begins with "ok" or "error". It knows nothing of ringscope: `ringscope run` starts it as any program.
 *
 *   id                          a new unique id, in hexadecimal
 *   init ID N_RANKS RANK NAME   a communicator
 *   op PRIMITIVE COUNT ROOT     one operation on COUNT floats, waited for and its result checked; nanoseconds
 *   timed PRIMITIVE COUNT ROOT  the same from a barrier on, an all-reduce of one float
 *   issue PRIMITIVE COUNT       the same, but neither waited for nor checked
 *   wait                        until all that was issued is done; nanoseconds
 *   flow PRIMITIVE COUNT PERIOD_US N   issues one every PERIOD_US, N in all, then waits
 *   sockets                     LOCAL REMOTE ACKED RECEIVED; of every TCP connection, in bytes as the kernel counts
 *   pid                         this process
 *   destroy                     the communicator
 */
#include <arpa/inet.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "told.h"

enum { MAX_FDS = 4096, PATTERN = 13 };

static int rank, n_ranks;
static ncclComm_t comm;
static float *from, *into;
static size_t room;

/* What rank r holds at element i: small whole numbers, so that sums are exact. */
static float value(int r, size_t i) { return (float)(r + 1) * (float)(1 + i % PATTERN); }

static void hold(size_t count) {
  size_t wanted = count * (size_t)n_ranks;
  if (wanted > room) {
    from = realloc(from, wanted * sizeof *from);
    into = realloc(into, wanted * sizeof *into);
    room = wanted;
  }
  for (size_t i = 0; i < wanted; i++) {
    from[i] = value(rank, i);
    into[i] = -1;
  }
}

static ncclResult_t neighbours(size_t count) {
  ncclGroupStart();
  ncclSend(from, count, ncclFloat32, (rank + 1) % n_ranks, comm, stream);
  ncclRecv(into, count, ncclFloat32, (rank + n_ranks - 1) % n_ranks, comm, stream);
  return ncclGroupEnd();
}

static ncclResult_t call(const char* name, size_t count, int root) {
  ncclDataType_t type = ncclFloat32;
  if (!strcmp(name, "all_reduce")) return ncclAllReduce(from, into, count, type, ncclSum, comm, stream);
  if (!strcmp(name, "reduce")) return ncclReduce(from, into, count, type, ncclSum, root, comm, stream);
  if (!strcmp(name, "broadcast")) return ncclBroadcast(from, into, count, type, root, comm, stream);
  if (!strcmp(name, "all_gather")) return ncclAllGather(from, into, count, type, comm, stream);
  if (!strcmp(name, "reduce_scatter")) return ncclReduceScatter(from, into, count, type, ncclSum, comm, stream);
  if (!strcmp(name, "send")) return neighbours(count);
  if (!strcmp(name, "all_to_all")) return ncclAlltoAll(from, into, count, type, comm, stream);
  if (!strcmp(name, "gather")) return ncclGather(from, into, count, type, root, comm, stream);
  if (!strcmp(name, "scatter")) return ncclScatter(from, into, count, type, root, comm, stream);
  return ncclInvalidUsage;
}

/* Element i of the result on this rank. */
static float expected(const char* name, size_t count, int root, size_t i) {
  size_t own = (size_t)rank * count + i;
  float weights = (float)(n_ranks * (n_ranks + 1) / 2);
  if (!strcmp(name, "all_reduce") || !strcmp(name, "reduce")) return weights * value(0, i);
  if (!strcmp(name, "reduce_scatter")) return weights * value(0, own);
  if (!strcmp(name, "broadcast")) return value(root, i);
  if (!strcmp(name, "send")) return value((rank + n_ranks - 1) % n_ranks, i);
  if (!strcmp(name, "scatter")) return value(root, own);
  if (!strcmp(name, "all_to_all")) return value((int)(i / count), (size_t)rank * count + i % count);
  return value((int)(i / count), i % count); /* all_gather, gather */
}

static int check(const char* name, size_t count, int root) {
  int is_rooted = !strcmp(name, "reduce") || !strcmp(name, "gather");
  int is_wide = !strcmp(name, "all_gather") || !strcmp(name, "all_to_all") || !strcmp(name, "gather");
  if (is_rooted && rank != root) return 0;
  for (size_t i = 0; i < count * (is_wide ? (size_t)n_ranks : 1); i++) {
    float wanted = expected(name, count, root, i);
    if (into[i] != wanted) {
      printf("error rank %d: element %zu of %s is %g, not %g\n", rank, i, name, into[i], wanted);
      return 1;
    }
  }
  return 0;
}

static void measure(const char* name, size_t count, int root) {
  long long start = now_ns();
  if (failed(call(name, count, root)) || failed(rscclStreamSynchronize(stream))) return;
  long long took = now_ns() - start;
  if (!check(name, count, root)) printf("ok %lld\n", took);
}

static void operation(const char* name, size_t count, int root) {
  hold(count);
  measure(name, count, root);
}

static void timed(const char* name, size_t count, int root) {
  hold(count);
  if (!failed(call("all_reduce", 1, 0)) && !failed(rscclStreamSynchronize(stream))) measure(name, count, root);
}

static void flow(const char* name, size_t count, long period_us, long n) {
  hold(count);
  /* All begin at once: who began later would be later in each. */
  if (failed(call("all_reduce", 1, 0)) || failed(rscclStreamSynchronize(stream))) return;
  long long start = now_ns();
  for (long i = 0; i < n; i++) {
    long long due = start + i * period_us * 1000LL;
    struct timespec until = {due / 1000000000LL, due % 1000000000LL};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
    if (failed(call(name, count, 0))) return;
  }
  if (!failed(rscclStreamSynchronize(stream))) printf("ok %lld\n", now_ns() - start);
}

static void init(const char* hex, const char* name) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.commName = name;
  if (!failed(ncclCommInitRankConfig(&comm, n_ranks, of_hex(hex), rank, &config))) printf("ok\n");
}

static int address(int fd, int (*ask)(int, struct sockaddr*, socklen_t*), char* text, size_t size) {
  struct sockaddr_in found;
  socklen_t length = sizeof found;
  if (ask(fd, (struct sockaddr*)&found, &length) || found.sin_family != AF_INET) return 0;
  char ip[INET_ADDRSTRLEN];
  inet_ntop(AF_INET, &found.sin_addr, ip, sizeof ip);
  snprintf(text, size, "%s:%u", ip, ntohs(found.sin_port));
  return 1;
}

static void sockets(void) {
  printf("ok ");
  for (int fd = 0; fd < MAX_FDS; fd++) {
    char local[64], remote[64];
    struct tcp_info info;
    socklen_t length = sizeof info;
    memset(&info, 0, sizeof info);
    if (!address(fd, getpeername, remote, sizeof remote) || !address(fd, getsockname, local, sizeof local)) continue;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length)) continue;
    printf("%s %s %llu %llu;", local, remote,
           (unsigned long long)info.tcpi_bytes_acked, (unsigned long long)info.tcpi_bytes_received);
  }
  printf("\n");
}

static void obey(char* line) {
  char hex[512] = "", word[64] = "", name[64] = "";
  size_t count = 0;
  int root = 0;
  long period_us = 0, n = 0;
  if (!strncmp(line, "id", 2)) return unique_id();
  if (sscanf(line, "init %511s %d %d %63s", hex, &n_ranks, &rank, name) == 4) return init(hex, name);
  if (sscanf(line, "op %63s %zu %d", word, &count, &root) == 3) return operation(word, count, root);
  if (sscanf(line, "timed %63s %zu %d", word, &count, &root) == 3) return timed(word, count, root);
  if (sscanf(line, "flow %63s %zu %ld %ld", word, &count, &period_us, &n) == 4) return flow(word, count, period_us, n);
  if (!strncmp(line, "sockets", 7)) return sockets();
  if (sscanf(line, "issue %63s %zu", word, &count) == 2) {
    hold(count);
    if (!failed(call(word, count, 0))) printf("ok\n");
  } else if (!strncmp(line, "wait", 4)) {
    long long start = now_ns();
    if (!failed(rscclStreamSynchronize(stream))) printf("ok %lld\n", now_ns() - start);
  } else if (!strncmp(line, "pid", 3)) {
    printf("ok %d\n", (int)getpid());
  } else if (!strncmp(line, "destroy", 7)) {
    if (!failed(ncclCommDestroy(comm))) printf("ok\n");
    comm = NULL;
  } else {
    printf("error no such command: %s", line);
  }
}

int main(void) {
  static char line[1024];
  return serve(line, sizeof line, obey);
}

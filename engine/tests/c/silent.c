/* One rank that does what it is told: silent.c RANK N_RANKS. It reads a command a line from the standard input, and answers
 * each with a line. Nothing that a command starts is waited for, so that another one can look at it, or abort it.
 *
 *   id                    makes a unique id, whose root lives in this process: ID hex
 *   know HEX              takes an id: KNOWN
 *   init [N_RANKS]        begins an init that does not block, of so many ranks where the rank is mistaken: INIT code
 *   made                  waits until the init is over: MADE code
 *   all_reduce COUNT [f32|i32] [sum|max], all_gather COUNT, broadcast COUNT ROOT, send COUNT PEER, recv COUNT PEER
 *                         CALLED code
 *   split COLOR           begins a split that does not block: SPLIT code
 *   shrink RANK           begins a shrink that does not block, without that rank and with NCCL_SHRINK_ABORT: SHRINK code
 *   parent                waits until that is over for what has been split or shrunk, and says what
 *                         ncclCommGetAsyncError says of it then: PARENT code
 *   asks TIMES            asks so often what has become of all that, and says what it is then:
 *                         STATE waits|idle code, the second being what ncclCommGetAsyncError says
 *   error TIMES           asks until ncclCommGetAsyncError says something else than "in progress" and "success", at most so
 *                         often: ERROR code text
 *   done                  waits for all that was called: DONE code
 *   abort, revoke         ABORTED code, REVOKED code
 *   destroy               begins ncclCommDestroy in a thread of its own: DESTROYING
 *   destroyed TIMES       asks so often whether that has returned, and waits a moment between: DESTROYED or STILL
 *   ticks                 processor time that it has had: TICKS ms
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "rsccl.h"
#include "rsccl_stream.h"
#include "id.h"

enum { LARGEST = 1 << 21, WORDS = 4, LINE = 512 };

static int rank, n_ranks;
static ncclComm_t comm, child;
static cudaStream_t stream;
static ncclUniqueId id;
static float send_values[LARGEST], recv_values[LARGEST];
static _Atomic int destroyed;

static void make_id(void) {
  ncclGetUniqueId(&id);
  printf("ID ");
  for (int i = 0; i < NCCL_UNIQUE_ID_BYTES; i++) printf("%02x", (unsigned char)id.internal[i]);
  puts("");
}

static void* destroy(void* unused) {
  (void)unused;
  ncclCommDestroy(comm);
  atomic_store(&destroyed, 1);
  return NULL;
}

static ncclResult_t state(void) {
  ncclResult_t code = ncclSuccess;
  ncclCommGetAsyncError(child ? child : comm, &code);
  return code;
}

/* Long enough that other processes have had their turn. */
static void rest(void) {
  struct timespec moment = {0, 1000000};
  nanosleep(&moment, NULL);
}

static void ask(long times) {
  ncclResult_t busy = ncclSuccess, code = ncclSuccess;
  for (long at = 0; at < times; at++, rest()) {
    busy = rscclStreamQuery(stream);
    code = state();
  }
  printf("STATE %s %d\n", busy == ncclInProgress ? "waits" : "idle", code);
}

static void await_error(long times) {
  ncclResult_t code = state();
  for (long at = 0; at < times && (code == ncclSuccess || code == ncclInProgress); at++, rest()) code = state();
  printf("ERROR %d %s\n", code, ncclGetLastError(comm));
}

static ncclConfig_t in_the_background(void) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}

static void init(int n) {
  ncclConfig_t config = in_the_background();
  printf("INIT %d\n", ncclCommInitRankConfig(&comm, n, id, rank, &config));
}

static void made(void) {
  ncclResult_t code = state();
  while (code == ncclInProgress) rest(), code = state();
  printf("MADE %d\n", code);
}

static ncclResult_t call(char* words[WORDS]) {
  size_t count = strtoul(words[1], NULL, 10);
  ncclDataType_t type = words[2] && !strcmp(words[2], "i32") ? ncclInt32 : ncclFloat32;
  ncclRedOp_t op = words[3] && !strcmp(words[3], "max") ? ncclMax : ncclSum;
  int other = words[2] ? atoi(words[2]) : 0;
  if (!strcmp(words[0], "all_reduce")) return ncclAllReduce(send_values, recv_values, count, type, op, comm, stream);
  if (!strcmp(words[0], "all_gather")) return ncclAllGather(send_values, recv_values, count, ncclFloat32, comm, stream);
  if (!strcmp(words[0], "broadcast"))
    return ncclBroadcast(send_values, recv_values, count, ncclFloat32, other, comm, stream);
  if (!strcmp(words[0], "send")) return ncclSend(send_values, count, ncclFloat32, other, comm, stream);
  if (!strcmp(words[0], "recv")) return ncclRecv(recv_values, count, ncclFloat32, other, comm, stream);
  return ncclInvalidArgument;
}

static void obey(char* words[WORDS]) {
  const char* what = words[0];
  long number = words[1] ? atol(words[1]) : 0;
  if (!strcmp(what, "id")) make_id();
  else if (!strcmp(what, "know")) { parse_id(&id, words[1]); puts("KNOWN"); }
  else if (!strcmp(what, "init")) init(words[1] ? (int)number : n_ranks);
  else if (!strcmp(what, "made")) made();
  else if (!strcmp(what, "asks")) ask(number);
  else if (!strcmp(what, "error")) await_error(number);
  else if (!strcmp(what, "done")) printf("DONE %d\n", rscclStreamSynchronize(stream));
  else if (!strcmp(what, "abort")) printf("ABORTED %d\n", ncclCommAbort(comm));
  else if (!strcmp(what, "revoke")) printf("REVOKED %d\n", ncclCommRevoke(comm, 0));
  else if (!strcmp(what, "ticks")) printf("TICKS %ld\n", clock() / (CLOCKS_PER_SEC / 1000));
  else if (!strcmp(what, "split")) {
    ncclConfig_t config = in_the_background();
    printf("SPLIT %d\n", ncclCommSplit(comm, (int)number, rank, &child, &config));
  } else if (!strcmp(what, "shrink")) {
    ncclConfig_t config = in_the_background();
    int excluded = (int)number;
    printf("SHRINK %d\n", ncclCommShrink(comm, &excluded, 1, &child, &config, NCCL_SHRINK_ABORT));
  } else if (!strcmp(what, "parent")) {
    ncclResult_t code = ncclInProgress;
    for (; code == ncclInProgress; rest()) ncclCommGetAsyncError(comm, &code);
    printf("PARENT %d\n", code);
  } else if (!strcmp(what, "destroy")) {
    pthread_t thread;
    pthread_create(&thread, NULL, destroy, NULL);
    puts("DESTROYING");
  } else if (!strcmp(what, "destroyed")) {
    for (long at = 0; at < number && !atomic_load(&destroyed); at++) rest();
    puts(atomic_load(&destroyed) ? "DESTROYED" : "STILL");
  } else printf("CALLED %d\n", call(words));
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  rank = atoi(argv[1]);
  n_ranks = atoi(argv[2]);
  if (rscclStreamCreate(&stream)) return 2;
  for (size_t at = 0; at < LARGEST; at++) send_values[at] = 1;
  char line[LINE];
  while (fgets(line, sizeof line, stdin)) {
    char *words[WORDS] = {NULL}, *rest_of_line = line;
    line[strcspn(line, "\n")] = 0;
    for (int at = 0; at < WORDS && rest_of_line; at++) words[at] = strsep(&rest_of_line, " ");
    obey(words);
    fflush(stdout);
  }
  return 0;
}

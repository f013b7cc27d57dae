/* Communicators from birth to death: in the background, split, shrunk, revoked, aborted, several at once. */
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "job.h"

/* Waits until what runs in the background is over; its result. */
static ncclResult_t settled(ncclComm_t which) {
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress) {
    CHECK(ncclCommGetAsyncError(which, &state));
    sched_yield();
  }
  return state;
}

static void expect_sum(ncclComm_t which, cudaStream_t on, int value, int sum) {
  CHECK(ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, which, on));
  CHECK(rscclStreamSynchronize(on));
  EXPECT(value == sum);
}

/* An all-reduce that cannot end well, whether the failure is known before or after it is issued. */
static void expect_failure(void) {
  int value = 1;
  ncclResult_t code = ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, comm, stream);
  if (code == ncclSuccess) code = rscclStreamSynchronize(stream);
  EXPECT(code == ncclRemoteError);
}

static int sum_of_ranks(int step) {
  int sum = 0;
  for (int r = rank % step; r < n_ranks; r += step) sum += r;
  return sum;
}

static void expect_size(ncclComm_t which, int count, int own) {
  int said = -1;
  CHECK(ncclCommCount(which, &said));
  EXPECT(said == count);
  CHECK(ncclCommUserRank(which, &said));
  EXPECT(said == own);
}

/* Init, split, shrink and finalize return at once; the communicator is of use when it is no longer in progress. */
static void background(void) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  EXPECT(ncclCommInitRankConfig(&comm, n_ranks, id, rank, &config) == ncclInProgress);
  EXPECT(comm != NULL && settled(comm) == ncclSuccess);
  expect_sum(comm, stream, rank, sum_of_ranks(1));
  ncclComm_t child, none;
  EXPECT(ncclCommSplit(comm, rank % 2, rank, &child, NULL) == ncclInProgress);
  EXPECT(settled(child) == ncclSuccess && settled(comm) == ncclSuccess);
  expect_sum(child, stream, rank, sum_of_ranks(2));
  EXPECT(ncclCommFinalize(child) == ncclInProgress);
  EXPECT(settled(child) == ncclSuccess);
  CHECK(ncclCommDestroy(child));
  EXPECT(ncclCommSplit(comm, rank ? 5 : NCCL_SPLIT_NOCOLOR, 0, &none, NULL) == ncclInProgress);
  EXPECT((none == NULL) == (rank == 0));
  EXPECT(settled(comm) == ncclSuccess && (!none || settled(none) == ncclSuccess));
  CHECK(ncclCommDestroy(none));
  if (rank) {
    int first = 0;
    EXPECT(ncclCommShrink(comm, &first, 1, &child, NULL, NCCL_SHRINK_DEFAULT) == ncclInProgress);
    EXPECT(settled(child) == ncclSuccess);
    expect_size(child, n_ranks - 1, rank - 1);
    expect_sum(child, stream, rank, sum_of_ranks(1));
    CHECK(ncclCommDestroy(child));
  }
  expect_sum(comm, stream, 1, n_ranks);
  CHECK(ncclGroupStart());
  EXPECT(ncclCommSplit(comm, 0, -rank, &child, &config) == ncclInProgress);
  EXPECT(ncclGroupEnd() == ncclInProgress);
  EXPECT(settled(child) == ncclSuccess);
  expect_size(child, n_ranks, n_ranks - 1 - rank);
  CHECK(ncclCommDestroy(child));
  CHECK(ncclCommDestroy(comm));
}

/* A child of the last rank gives back what it has inherited: it says nothing, and takes nothing from its parent. */
static void forked(void) {
  CHECK(ncclCommInitRank(&comm, n_ranks, id, rank));
  expect_sum(comm, stream, rank, sum_of_ranks(1));
  if (rank == n_ranks - 1) {
    int said[2], status = 0;
    char letter;
    EXPECT(pipe(said) == 0);
    pid_t child = fork();
    if (child == 0) {
      dup2(said[1], STDERR_FILENO);
      close(said[1]);
      int value = 3, wrong = ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, comm, NULL) != ncclInvalidUsage;
      wrong += strstr(ncclGetLastError(NULL), "this process was forked from a member of the group") == NULL;
      wrong += ncclCommAbort(comm) != ncclSuccess || ncclCommAbort(comm) != ncclInvalidArgument;
      /* Streams of the parent have no thread here; what the child makes has one. */
      wrong += stream != NULL && rscclStreamSynchronize(stream) != ncclInvalidUsage;
      wrong += ncclGetUniqueId(&id) != ncclSuccess || ncclCommInitRank(&comm, 1, id, 0) != ncclSuccess;
      wrong += ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, comm, NULL) != ncclSuccess;
      wrong += rscclStreamSynchronize(NULL) != ncclSuccess || value != 3 || ncclCommDestroy(comm) != ncclSuccess;
      _exit(wrong);
    }
    close(said[1]);
    EXPECT(read(said[0], &letter, 1) == 0);
    close(said[0]);
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
  }
  expect_sum(comm, stream, rank, sum_of_ranks(1));
  CHECK(ncclCommDestroy(comm));
}

/* The other ranks never come: only the abort ends it. */
static void abort_init(void) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  int value = 0;
  ncclResult_t state;
  EXPECT(ncclCommInitRankConfig(&comm, 2, id, 0, &config) == ncclInProgress);
  CHECK(ncclCommGetAsyncError(comm, &state));
  EXPECT(state == ncclInProgress);
  EXPECT(ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, comm, stream) == ncclInvalidArgument);
  EXPECT(strstr(ncclGetLastError(NULL), "is not ready"));
  EXPECT(ncclCommCount(comm, &value) == ncclInvalidArgument);
  CHECK(ncclCommAbort(comm));
  EXPECT(ncclCommGetAsyncError(comm, &state) == ncclInvalidArgument);
  /* An init that fails in the background tells so, and its handle can be given back. */
  memset(&id, 0, sizeof id);
  EXPECT(ncclCommInitRankConfig(&comm, 2, id, 0, &config) == ncclInProgress);
  EXPECT(settled(comm) == ncclInvalidArgument);
  EXPECT(strstr(ncclGetLastError(comm), "unique id"));
  CHECK(ncclCommDestroy(comm));
  EXPECT(ncclCommDestroy(comm) == ncclInvalidArgument);
}

/* The last rank is killed in the middle; the others go on without it. */
static void shrink_dead(void) {
  CHECK(ncclCommInitRank(&comm, n_ranks, id, rank));
  expect_sum(comm, stream, 1, n_ranks);
  int dead = n_ranks - 1, value = 1;
  if (rank == dead) {
    /* Once all have their sums. */
    for (int r = 0; r < dead; r++) CHECK(ncclRecv(&value, 1, ncclInt32, r, comm, stream));
    CHECK(rscclStreamSynchronize(stream));
    raise(SIGKILL);
  }
  CHECK(ncclSend(&value, 1, ncclInt32, dead, comm, stream));
  (void)rscclStreamSynchronize(stream);
  expect_failure();
  ncclComm_t rest;
  EXPECT(ncclCommShrink(comm, &dead, 1, &rest, NULL, NCCL_SHRINK_DEFAULT) == ncclRemoteError);
  CHECK(ncclCommShrink(comm, &dead, 1, &rest, NULL, NCCL_SHRINK_ABORT));
  CHECK(ncclCommAbort(comm));
  expect_size(rest, n_ranks - 1, rank);
  expect_sum(rest, stream, rank, sum_of_ranks(1) - dead);
  CHECK(ncclCommDestroy(rest));
}

/* Rank 0 revokes what the others wait in; then all split the revoked communicator. */
static void revoke_it(void) {
  CHECK(ncclCommInitRank(&comm, n_ranks, id, rank));
  int value = 1;
  if (rank) {
    expect_failure();
    EXPECT(strstr(ncclGetLastError(comm), "rank 0") && strstr(ncclGetLastError(comm), "revoked"));
  }
  EXPECT(ncclCommRevoke(comm, 7) == ncclInvalidArgument);
  CHECK(ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT));
  EXPECT(settled(comm) == ncclSuccess);
  EXPECT(ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, comm, stream) != ncclSuccess);
  EXPECT(ncclCommFinalize(comm) == ncclInvalidUsage);
  ncclComm_t child;
  CHECK(ncclCommSplit(comm, 0, rank, &child, NULL));
  expect_sum(child, stream, rank, sum_of_ranks(1));
  CHECK(ncclCommDestroy(child));
  CHECK(ncclCommDestroy(comm));
}

static void* abort_it(void* argument) {
  (void)argument;
  CHECK(ncclCommAbort(comm));
  return NULL;
}

/* Another thread aborts an operation that rank 0 never joins. */
static void abort_operation(void) {
  CHECK(ncclCommInitRank(&comm, n_ranks, id, rank));
  int value = 1;
  expect_sum(comm, stream, 1, n_ranks);
  if (rank) {
    pthread_t other;
    CHECK(ncclRecv(&value, 1, ncclInt32, 0, comm, stream));
    CHECK(rscclStreamSynchronize(stream));
    CHECK(ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, comm, stream));
    EXPECT(rscclStreamQuery(stream) == ncclInProgress);
    EXPECT(!pthread_create(&other, NULL, abort_it, NULL));
    EXPECT(rscclStreamSynchronize(stream) == ncclRemoteError);
    EXPECT(strstr(ncclGetLastError(NULL), "aborted"));
    pthread_join(other, NULL);
  } else {
    /* Rank 1 goes on when rank 0 has its sum, which the abort would take from it. */
    CHECK(ncclSend(&value, 1, ncclInt32, 1, comm, stream));
    while (settled(comm) == ncclSuccess) sched_yield();
    CHECK(ncclCommAbort(comm));
  }
}

/* On rank 1's stream an operation that rank 0 never joins is before another communicator's: whose abort does not wait for it. */
static void abort_behind(void) {
  CHECK(ncclCommInitRank(&comm, n_ranks, id, rank));
  ncclComm_t child;
  CHECK(ncclCommSplit(comm, 0, rank, &child, NULL));
  int value = 1, other = 1;
  expect_sum(comm, stream, 1, n_ranks);
  if (rank) {
    CHECK(ncclRecv(&value, 1, ncclInt32, 0, comm, stream));
    CHECK(rscclStreamSynchronize(stream));
    CHECK(ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, comm, stream));
    CHECK(ncclAllReduce(&other, &other, 1, ncclInt32, ncclSum, child, stream));
    CHECK(ncclCommAbort(child));
    EXPECT(rscclStreamQuery(stream) == ncclInProgress);
    CHECK(ncclCommAbort(comm));
    EXPECT(rscclStreamSynchronize(stream) == ncclRemoteError);
    EXPECT(other == 1);
  } else {
    CHECK(ncclSend(&value, 1, ncclInt32, 1, comm, stream));
    while (settled(comm) == ncclSuccess) sched_yield();
    CHECK(ncclCommAbort(child));
    CHECK(ncclCommAbort(comm));
  }
}

/* More than a stream takes at once. */
enum { FULL = 16384, MANY = FULL + 1000 };
static ncclComm_t pair[2];
static cudaStream_t pair_streams[2];
static _Atomic int called[2];

static void* call_many(void* argument) {
  int which = *(int*)argument, value = 1;
  for (; called[which] < MANY; called[which]++)
    CHECK(ncclAllReduce(&value, &value, 1, ncclInt32, ncclMax, pair[which], pair_streams[which]));
  CHECK(rscclStreamSynchronize(pair_streams[which]));
  EXPECT(value == 1);
  return NULL;
}

/* A thread whose stream is full waits for another thread's calls, which are taken meanwhile. */
static void full_stream(void) {
  CHECK(ncclCommInitAll(pair, 2, NULL));
  for (int i = 0; i < 2; i++) CHECK(rscclStreamCreate(&pair_streams[i]));
  int first = 0, second = 1;
  pthread_t other;
  EXPECT(!pthread_create(&other, NULL, call_many, &first));
  while (called[0] < FULL) sched_yield();
  call_many(&second);
  pthread_join(other, NULL);
  for (int i = 0; i < 2; i++) CHECK(ncclCommDestroy(pair[i]));
}

/* Each parity issues in another order, on a stream per communicator and then in groups on one stream. */
static void several(void) {
  CHECK(ncclCommInitRank(&comm, n_ranks, id, rank));
  enum { COMMS = 4, ROUNDS = 50, COUNT = 5000 };
  ncclComm_t comms[COMMS];
  cudaStream_t streams[COMMS];
  static int values[COMMS][COUNT];
  for (int i = 0; i < COMMS; i++) {
    CHECK(ncclCommSplit(comm, 0, i % 2 ? rank : -rank, &comms[i], NULL));
    CHECK(rscclStreamCreate(&streams[i]));
  }
  for (int round = 0; round < ROUNDS; round++) {
    int grouped = round % 2;
    for (int i = 0; i < COMMS; i++)
      for (int at = 0; at < COUNT; at++) values[i][at] = rank + i + at;
    if (grouped) CHECK(ncclGroupStart());
    for (int turn = 0; turn < COMMS; turn++) {
      int i = rank % 2 ? COMMS - 1 - turn : turn;
      CHECK(ncclAllReduce(values[i], values[i], COUNT, ncclInt32, ncclSum, comms[i], grouped ? stream : streams[i]));
    }
    if (grouped) CHECK(ncclGroupEnd());
    for (int i = 0; i < COMMS; i++) CHECK(rscclStreamSynchronize(grouped ? stream : streams[i]));
    for (int i = 0; i < COMMS; i++)
      for (int at = 0; at < COUNT; at++) EXPECT(values[i][at] == sum_of_ranks(1) + n_ranks * (i + at));
  }
  for (int i = 0; i < COMMS; i++) {
    CHECK(ncclCommDestroy(comms[i]));
    CHECK(rscclStreamDestroy(streams[i]));
  }
  CHECK(ncclCommDestroy(comm));
}

static int open_files(void) {
  int count = 0;
  DIR* folder = opendir("/proc/self/fd");
  EXPECT(folder);
  while (readdir(folder)) count++;
  closedir(folder);
  return count;
}

/* What was made of a communicator leaves nothing open; a root's thread may take a moment to end. */
static void leaks(void) {
  CHECK(ncclCommInitRank(&comm, n_ranks, id, rank));
  expect_sum(comm, stream, 1, n_ranks);
  int before = open_files();
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  for (int round = 0; round < 30; round++) {
    ncclComm_t child;
    int last = n_ranks - 1;
    config.blocking = round % 2;
    ncclResult_t code = ncclCommSplit(comm, 0, rank, &child, &config);
    EXPECT(code == (round % 2 ? ncclSuccess : ncclInProgress) && settled(child) == ncclSuccess);
    expect_sum(child, stream, 1, n_ranks);
    if (round % 3) CHECK(ncclCommDestroy(child));
    else {
      CHECK(rscclStreamSynchronize(stream));
      CHECK(ncclCommAbort(child));
    }
    while (settled(comm) != ncclSuccess) sched_yield();
    if (rank == last) continue;
    CHECK(ncclCommShrink(comm, &last, 1, &child, NULL, NCCL_SHRINK_DEFAULT));
    expect_sum(child, stream, 1, n_ranks - 1);
    CHECK(ncclCommDestroy(child));
  }
  time_t deadline = time(NULL) + 20;
  while (open_files() > before && time(NULL) < deadline) sched_yield();
  EXPECT(open_files() == before);
  CHECK(ncclCommDestroy(comm));
}

/* Rank 0 leaves. The last rank dies when it is told to, and rank 1, which waits for it, hears of that. */
static void late_death(void) {
  CHECK(ncclCommInitRank(&comm, n_ranks, id, rank));
  expect_sum(comm, stream, 1, n_ranks);
  int value = 1, last = n_ranks - 1;
  if (!rank) {
    CHECK(ncclCommDestroy(comm));
  } else if (rank == last) {
    (void)getchar();
    raise(SIGKILL);
  } else {
    puts("SUMMED");
    fflush(stdout);
    CHECK(ncclRecv(&value, 1, ncclInt32, last, comm, stream));
    ncclResult_t code = rscclStreamSynchronize(stream);
    printf("ERROR %d %s\n", code, ncclGetLastError(comm));
  }
}

/* The same, where the last rank waits for rank 1 too, aborts that in a child, and goes on with the parent. */
static void late_abort(void) {
  CHECK(ncclCommInitRank(&comm, n_ranks, id, rank));
  ncclComm_t child;
  cudaStream_t other;
  CHECK(rscclStreamCreate(&other));
  CHECK(ncclCommSplit(comm, 0, rank, &child, NULL));
  expect_sum(child, stream, 1, n_ranks);
  int value = 1, last = n_ranks - 1;
  if (!rank) {
    CHECK(ncclCommDestroy(child));
  } else if (rank == last) {
    CHECK(ncclRecv(&value, 1, ncclInt32, 1, child, stream));
    (void)getchar();
    CHECK(ncclCommAbort(child));
  } else {
    CHECK(ncclRecv(&value, 1, ncclInt32, last, child, stream));
    ncclResult_t code = rscclStreamSynchronize(stream);
    printf("ERROR %d %s\n", code, ncclGetLastError(child));
    CHECK(ncclCommDestroy(child));
  }
  expect_sum(comm, other, 1, n_ranks);
  CHECK(ncclCommDestroy(comm));
}

static void limit_files(rlim_t soft, rlim_t hard) {
  struct rlimit limit = {soft, hard};
  EXPECT(!setrlimit(RLIMIT_NOFILE, &limit));
}

/* More communicators than the soft limit of open files has room for. */
static void many_files(void) {
  struct rlimit limit;
  EXPECT(!getrlimit(RLIMIT_NOFILE, &limit));
  limit_files(64, limit.rlim_max);
  CHECK(ncclCommInitRank(&comm, n_ranks, id, rank));
  enum { CHILDREN = 12 };
  ncclComm_t children[CHILDREN];
  for (int i = 0; i < CHILDREN; i++) CHECK(ncclCommSplit(comm, 0, rank, &children[i], NULL));
  EXPECT(open_files() > 64);
  for (int i = 0; i < CHILDREN; i++) CHECK(ncclCommDestroy(children[i]));
  CHECK(ncclCommDestroy(comm));
}

/* Until a communicator has no room in rank 0's hard limit (FILES): it says so, and the others that they cannot go on. */
static void too_many_files(void) {
  rlim_t files = atoi(getenv("FILES"));
  if (!rank) limit_files(files, files);
  CHECK(ncclCommInitRank(&comm, n_ranks, id, rank));
  ncclResult_t code = ncclSuccess;
  while (code == ncclSuccess) {
    ncclComm_t child;
    code = ncclCommSplit(comm, 0, rank, &child, NULL);
  }
  printf("ERROR %d %s\n", code, ncclGetLastError(NULL));
}

/* One process is all ranks. */
static void init_all(void) {
  enum { ALL = 3 };
  ncclComm_t comms[ALL];
  cudaStream_t streams[ALL];
  int devices[ALL] = {2, 0, 1}, twice[ALL] = {0, 0, 1}, values[ALL];
  EXPECT(ncclCommInitAll(comms, ALL, twice) == ncclInvalidArgument);
  EXPECT(ncclCommInitAll(comms, 0, NULL) == ncclInvalidArgument);
  for (int round = 0; round < 2; round++) {
    CHECK(ncclCommInitAll(comms, ALL, round ? devices : NULL));
    CHECK(ncclGroupStart());
    for (int i = 0; i < ALL; i++) {
      values[i] = 1 << i;
      expect_size(comms[i], ALL, i);
      if (!round) CHECK(rscclStreamCreate(&streams[i]));
      CHECK(ncclAllReduce(&values[i], &values[i], 1, ncclInt32, ncclSum, comms[i], streams[i]));
    }
    CHECK(ncclGroupEnd());
    for (int i = 0; i < ALL; i++) {
      CHECK(rscclStreamSynchronize(streams[i]));
      EXPECT(values[i] == 7);
      CHECK(ncclCommDestroy(comms[i]));
    }
  }
}

/* Every mistake has a code, and a text that names it. */
#define MISTAKE(call, code, text)                                                            \
  do {                                                                                       \
    ncclResult_t said_ = (call);                                                             \
    if (said_ != (code) || !strstr(ncclGetLastError(NULL), (text))) {                        \
      printf("WRONG line %d: %d %s\n", __LINE__, said_, ncclGetLastError(NULL));             \
      exit(4);                                                                               \
    }                                                                                        \
  } while (0)

static void mistakes(void) {
  ncclUniqueId ids[2];
  memcpy(&ids[0], &id, sizeof id);
  memset(&ids[1], 0, sizeof id);
  MISTAKE(ncclCommInitRankScalable(&comm, n_ranks, rank, 0, ids, NULL), ncclInvalidArgument, "nId 0");
  MISTAKE(ncclCommInitRankScalable(&comm, n_ranks, rank, 1, NULL, NULL), ncclInvalidArgument, "commIds is NULL");
  CHECK(ncclCommInitRankScalable(&comm, n_ranks, rank, n_ranks > 1 ? 2 : 1, ids, NULL));
  int v[64] = {0}, n = n_ranks;
  const ncclResult_t argument = ncclInvalidArgument, usage = ncclInvalidUsage;
  MISTAKE(ncclGetUniqueId(NULL), argument, "uniqueId is NULL");
  MISTAKE(ncclGetVersion(NULL), argument, "version is NULL");
  MISTAKE(ncclCommInitRank(NULL, n, id, 0), argument, "comm is NULL");
  MISTAKE(ncclCommInitRank(&comm, n, id, n), argument, "rank");
  MISTAKE(ncclCommInitRank(&comm, 0, id, 0), argument, "rank 0 of 0");
  MISTAKE(ncclAllReduce(v, v, 4, ncclInt32, ncclSum, NULL, stream), argument, "no communicator");
  MISTAKE(ncclAllReduce(v, v, 4, ncclInt32, ncclSum, (ncclComm_t)v, stream), argument, "no communicator");
  MISTAKE(ncclAllReduce(v, v, 4, ncclInt32, ncclSum, comm, (cudaStream_t)v), argument, "no stream");
  MISTAKE(ncclAllReduce(NULL, v, 4, ncclInt32, ncclSum, comm, stream), argument, "sendbuff is NULL");
  MISTAKE(ncclAllReduce(v, NULL, 4, ncclInt32, ncclSum, comm, stream), argument, "recvbuff is NULL");
  MISTAKE(ncclAllReduce(v, v, 4, (ncclDataType_t)12, ncclSum, comm, stream), argument, "12 is not an ncclDataType_t");
  MISTAKE(ncclAllReduce(v, v, 4, ncclInt32, (ncclRedOp_t)99, comm, stream), argument, "99 is no ncclRedOp_t");
  MISTAKE(ncclAllReduce(v, v, (size_t)-1, ncclInt32, ncclSum, comm, stream), argument, "exceeds any memory");
  MISTAKE(ncclBroadcast(v, v, 4, ncclInt32, n, comm, stream), argument, "root");
  MISTAKE(ncclReduce(v, v, 4, ncclInt32, ncclSum, -1, comm, stream), argument, "root -1");
  MISTAKE(ncclGather(v, v + 32, 4, ncclInt32, n, comm, stream), argument, "root");
  MISTAKE(ncclScatter(v, v + 32, 4, ncclInt32, -2, comm, stream), argument, "root -2");
  MISTAKE(ncclSend(v, 4, ncclInt32, n, comm, stream), argument, "peer");
  MISTAKE(ncclRecv(v, 4, ncclInt32, -1, comm, stream), argument, "peer -1");
  MISTAKE(ncclAllReduce(v, v + 1, 4, ncclInt32, ncclSum, comm, stream), argument, "overlap");
  MISTAKE(ncclAllGather(v + 1 + rank * 4, v, 4, ncclInt32, comm, stream), argument, "overlap");
  MISTAKE(ncclReduceScatter(v, v + 1 + rank * 4, 4, ncclInt32, ncclSum, comm, stream), argument, "overlap");
  MISTAKE(ncclAlltoAll(v, v + 2, 4, ncclInt32, comm, stream), argument, "overlap");
  MISTAKE(ncclCommSplit(comm, -2, 0, &comm, NULL), argument, "color -2");
  MISTAKE(ncclCommSplit(comm, 0, 0, NULL, NULL), argument, "newcomm is NULL");
  ncclComm_t child;
  int twice[2] = {n - 1, n - 1};
  MISTAKE(ncclCommShrink(comm, NULL, 1, &child, NULL, 0), argument, "excludeRanksList is NULL");
  MISTAKE(ncclCommShrink(comm, &n, 1, &child, NULL, 0), argument, "is no rank");
  MISTAKE(ncclCommShrink(comm, twice, 2, &child, NULL, 0), argument, "twice");
  MISTAKE(ncclCommShrink(comm, &rank, 1, &child, NULL, 0), usage, "do not call ncclCommShrink");
  MISTAKE(ncclCommShrink(comm, twice, 1, &child, NULL, 4), argument, "shrinkFlags 4");
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 3;
  MISTAKE(ncclCommSplit(comm, 0, 0, &child, &config), argument, "blocking is 3");
  ncclRedOp_t op;
  MISTAKE(ncclRedOpCreatePreMulSum(&op, NULL, ncclInt32, ncclScalarHostImmediate, comm), argument, "scalar is NULL");
  MISTAKE(ncclRedOpCreatePreMulSum(&op, v, ncclInt32, (ncclScalarResidence_t)2, comm), argument, "residence 2");
  MISTAKE(ncclRedOpDestroy(ncclAvg, comm), argument, "built in");
  CHECK(ncclRedOpCreatePreMulSum(&op, v, ncclInt32, ncclScalarHostImmediate, comm));
  MISTAKE(ncclAllReduce(v, v, 4, ncclFloat32, op, comm, stream), argument, "was made for");
  void* handle;
  ncclWindow_t window;
  MISTAKE(ncclCommRegister(comm, NULL, 4, &handle), argument, "nothing to register");
  MISTAKE(ncclCommWindowRegister(comm, v, sizeof v, &window, 8), argument, "winFlags 8");
  CHECK(ncclCommWindowRegister(comm, v, sizeof v, &window, NCCL_WIN_COLL_SYMMETRIC));
  CHECK(ncclCommWindowDeregister(comm, window));
  CHECK(ncclCommRegister(comm, v, sizeof v, &handle));
  CHECK(ncclCommDeregister(comm, handle));
  MISTAKE(ncclGroupEnd(), usage, "without ncclGroupStart");
  /* A failed call fails its group, and nothing of the group is done. */
  v[0] = 5;
  CHECK(ncclGroupStart());
  CHECK(ncclAllReduce(v, v, 1, ncclInt32, ncclSum, comm, stream));
  MISTAKE(ncclSend(v, 4, ncclInt32, n, comm, stream), argument, "peer");
  MISTAKE(ncclGroupEnd(), argument, "peer");
  /* Neither is a communicator ended under the calls of a group. */
  CHECK(ncclGroupStart());
  CHECK(ncclAllReduce(v, v, 1, ncclInt32, ncclSum, comm, stream));
  MISTAKE(ncclCommDestroy(comm), usage, "call it after ncclGroupEnd");
  MISTAKE(ncclCommFinalize(comm), usage, "call it after ncclGroupEnd");
  MISTAKE(ncclGroupEnd(), usage, "ncclCommDestroy in a group");
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  CHECK(ncclGroupStart());
  CHECK(ncclAllReduce(v, v, 1, ncclInt32, ncclSum, comm, stream));
  CHECK(ncclGroupSimulateEnd(&info));
  EXPECT(n == 1 ? info.estimatedTime == NCCL_UNDEF_FLOAT : info.estimatedTime > 0);
  info.magic = 0;
  CHECK(ncclGroupStart());
  CHECK(ncclAllReduce(v, v, 1, ncclInt32, ncclSum, comm, stream));
  MISTAKE(ncclGroupSimulateEnd(&info), argument, "NCCL_SIM_INFO_INITIALIZER");
  MISTAKE(ncclGroupSimulateEnd(&info), usage, "without ncclGroupStart");
  CHECK(rscclStreamSynchronize(stream));
  EXPECT(v[0] == 5);
  expect_sum(comm, stream, rank, sum_of_ranks(1));
  CHECK(ncclCommFinalize(comm));
  MISTAKE(ncclAllReduce(v, v, 1, ncclInt32, ncclSum, comm, stream), usage, "has been finalized");
  MISTAKE(ncclCommFinalize(comm), usage, "has been finalized");
  CHECK(ncclCommDestroy(comm));
  MISTAKE(ncclCommDestroy(comm), argument, "no communicator");
}

/* The calls of a group on two communicators and one stream, which half of the ranks make the other way round, on one buffer: one
 * communicator after the other, and the same one first on all ranks. */
static void in_turn(void) {
  static int values[100000];
  ncclComm_t second;
  CHECK(ncclCommInitRank(&comm, n_ranks, id, rank));
  CHECK(ncclCommSplit(comm, 0, rank, &second, NULL));
  for (int round = 0; round < 50; round++) {
    int count = round % 2 ? 1 : 100000;
    for (int i = 0; i < count; i++) values[i] = 1;
    CHECK(ncclGroupStart());
    for (int i = 0; i < 2; i++)
      CHECK(ncclAllReduce(values, values, count, ncclInt32, ncclSum, (rank + i) % 2 ? second : comm, stream));
    CHECK(ncclGroupEnd());
    CHECK(rscclStreamSynchronize(stream));
    for (int i = 0; i < count; i++) EXPECT(values[i] == n_ranks * n_ranks);
  }
  CHECK(ncclCommDestroy(second));
  CHECK(ncclCommDestroy(comm));
}

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  static const struct { const char* name; void (*run)(void); } commands[] = {
      {"background", background}, {"abort-init", abort_init}, {"shrink-dead", shrink_dead}, {"revoke", revoke_it},
      {"abort-operation", abort_operation}, {"several", several}, {"forked", forked}, {"init-all", init_all}, {"mistakes", mistakes},
      {"leaks", leaks}, {"abort-behind", abort_behind}, {"full-stream", full_stream},
      {"late-death", late_death}, {"late-abort", late_abort}, {"many-files", many_files}, {"too-many-files", too_many_files}, {"in-turn", in_turn}};
  parse_arguments(argv);
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
    if (!strcmp(argv[4], commands[i].name)) {
      commands[i].run();
      say_done();
      return 0;
    }
  return 2;
}

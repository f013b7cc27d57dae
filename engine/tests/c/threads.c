/* A group of inits in a process that can have few threads: none of them begins, whether they block or not. */
#include <sys/resource.h>
#include <unistd.h>

#include "job.h"

enum { RANKS = 64, ROOM_BYTES = 64 << 20 };

/* Threads need memory for their stacks, whoever the user is: room for a few of them is left. */
static void limit_memory(void) {
  unsigned long pages = 0;
  FILE* file = fopen("/proc/self/statm", "r");
  EXPECT(file && fscanf(file, "%lu", &pages) == 1);
  fclose(file);
  rlim_t bytes = pages * (rlim_t)sysconf(_SC_PAGESIZE) + ROOM_BYTES;
  EXPECT(!setrlimit(RLIMIT_AS, &(struct rlimit){.rlim_cur = bytes, .rlim_max = RLIM_INFINITY}));
}

static void unlimit_memory(void) {
  EXPECT(!setrlimit(RLIMIT_AS, &(struct rlimit){.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY}));
}

static void expect_refusal(int blocking) {
  ncclComm_t comms[RANKS] = {0};
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = blocking;
  limit_memory();
  CHECK(ncclGroupStart());
  for (int i = 0; i < RANKS; i++) {
    ncclResult_t code = ncclCommInitRankConfig(&comms[i], RANKS, id, i, &config);
    EXPECT(code == (blocking ? ncclSuccess : ncclInProgress));
  }
  EXPECT(ncclGroupEnd() == ncclSystemError);
  EXPECT(strstr(ncclGetLastError(NULL), "threads for a group's inits") && strstr(ncclGetLastError(NULL), "ulimit -u"));
  unlimit_memory();
  for (int i = 0; i < RANKS && !blocking; i++) {
    ncclResult_t state = ncclSuccess;
    comm = comms[i];
    CHECK(ncclCommGetAsyncError(comm, &state));
    EXPECT(state == ncclSystemError);
    CHECK(ncclCommDestroy(comm));
  }
}

int main(int argc, char** argv) {
  (void)argc;
  parse_arguments(argv);
  expect_refusal(1);
  expect_refusal(0);
  /* The id has not been used up, and there is memory again. */
  ncclComm_t comms[RANKS];
  CHECK(ncclGroupStart());
  for (int i = 0; i < RANKS; i++) CHECK(ncclCommInitRank(&comms[i], RANKS, id, i));
  CHECK(ncclGroupEnd());
  for (int i = 0; i < RANKS; i++) CHECK(ncclCommDestroy(comms[i]));
  say_done();
  return 0;
}

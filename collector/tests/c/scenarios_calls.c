/* In which order ranks call, what they wait in, and what the library answers. Each communicator here is another rank. */
#define _GNU_SOURCE
#include "stub.h"
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define CHECK(what) do { if (!(what)) { fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what); exit(99); } } while (0)
#define OK(call) CHECK((call) == 0)
enum { INT8 = 0, FLOAT32 = 7, SUM = 0, MAX = 2 };

static ncclComm_t rank(int rank) {
  ncclUniqueId unique = {{1}};
  ncclComm_t comm = NULL;
  OK(ncclCommInitRank(&comm, 8, unique, rank));
  return comm;
}

static void all_reduce(ncclComm_t comm, size_t count, int op) { OK(ncclAllReduce(NULL, NULL, count, FLOAT32, op, comm, NULL)); }

static volatile uint32_t *control(void) {
  const char *dir = getenv("RINGSCOPE_DIR");
  DIR *entries = opendir(dir);
  CHECK(entries);
  for (struct dirent *entry; (entry = readdir(entries));) {
    if (!strstr(entry->d_name, ".seg")) continue;
    char path[4096];
    struct stat status;
    snprintf(path, sizeof path, "%s/%s", dir, entry->d_name);
    int fd = open(path, O_RDWR);
    OK(fstat(fd, &status));
    void *memory = mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(memory != MAP_FAILED);
    return (uint32_t *)((char *)memory + atol(getenv("CONTROL_OFFSET")));
  }
  CHECK(!"a segment");
  return NULL;
}

/* What every rank calls alike. In the group `first` and `second` are in the order of the rank. */
static void program(ncclComm_t comm, int is_swapped, int custom_op) {
  for (int i = 0; i < 60; i++) all_reduce(comm, 100 + (size_t)i, SUM);
  OK(ncclBroadcast(NULL, NULL, 7, INT8, 2, comm, NULL));
  OK(ncclGroupStart());
  for (int i = 0; i < 6; i++) all_reduce(comm, (size_t)(is_swapped ? 6 - i : i + 1), MAX);
  OK(ncclSend(NULL, 1, INT8, is_swapped, comm, NULL)); /* is not in that order */
  OK(ncclGroupEnd());
  all_reduce(comm, 5, custom_op);
  for (int i = 0; i < 61; i++) OK(ncclAllGather(NULL, NULL, 9, FLOAT32, comm, NULL));
}

static void same_calls(void) {
  program(rank(0), 0, 5);
  program(rank(1), 1, 9); /* the handle of an op of one's own is another one on each rank */
}

/* Each differs from the first rank in one thing of its second call. */
static void other_calls(void) {
  for (int i = 0; i < 7; i++) {
    ncclComm_t comm = rank(i);
    all_reduce(comm, 1, SUM);
    switch (i) {
    case 0: OK(ncclReduce(NULL, NULL, 2, FLOAT32, SUM, 0, comm, NULL)); break;
    case 1: OK(ncclBroadcast(NULL, NULL, 2, FLOAT32, 0, comm, NULL)); break;
    case 2: OK(ncclReduce(NULL, NULL, 3, FLOAT32, SUM, 0, comm, NULL)); break;
    case 3: OK(ncclReduce(NULL, NULL, 2, INT8, SUM, 0, comm, NULL)); break;
    case 4: OK(ncclReduce(NULL, NULL, 2, FLOAT32, MAX, 0, comm, NULL)); break;
    case 5: OK(ncclReduce(NULL, NULL, 2, FLOAT32, SUM, 1, comm, NULL)); break;
    default: OK(ncclReduce(NULL, NULL, 2, FLOAT32, SUM, 0, comm, NULL));
    }
    all_reduce(comm, 3, SUM);
  }
  ncclComm_t swapped = rank(7);
  OK(ncclReduce(NULL, NULL, 2, FLOAT32, SUM, 0, swapped, NULL));
  all_reduce(swapped, 1, SUM);
  all_reduce(swapped, 3, SUM);
}

/* The first rank calls plainly. The others have made the same calls, whatever came between them. */
static void what_counts(void) {
  ncclComm_t plain = rank(0), other = rank(1);
  for (size_t i = 1; i <= 6; i++) all_reduce(plain, i, SUM);
  all_reduce(other, 1, SUM);
  stub_fail_next(4);
  CHECK(ncclAllReduce(NULL, NULL, 2, FLOAT32, SUM, other, NULL) == 4); /* refused, but made */
  OK(ncclGroupStart());
  all_reduce(other, 77, SUM);
  OK(ncclGroupSimulateEnd(NULL)); /* never launched */
  stub_captured(1);
  all_reduce(other, 88, SUM); /* a template */
  OK(ncclGroupStart());
  all_reduce(other, 89, SUM);
  OK(ncclGroupEnd());
  stub_captured(0);
  all_reduce(other, 3, SUM);
  *control() = 1;
  all_reduce(other, 4, SUM); /* made while nobody records */
  *control() = 0;
  OK(ncclGroupStart());
  all_reduce(other, 5, SUM);
  OK(ncclGroupEnd());
  all_reduce(other, 6, SUM);
}

static void peers(void) {
  ncclComm_t one = rank(0), two = rank(1);
  for (size_t i = 1; i <= 3; i++) OK(ncclSend(NULL, i, INT8, 1, one, NULL));
  for (size_t i = 1; i <= 3; i++) OK(ncclRecv(NULL, i, INT8, 0, two, NULL));
  OK(ncclSend(NULL, 5, FLOAT32, 2, one, NULL));
  OK(ncclRecv(NULL, 6, FLOAT32, 0, two, NULL));
}

static void many_peers(void) {
  ncclComm_t comm = rank(0);
  for (int i = 0; i < 6000; i++) OK(ncclSend(NULL, 1, INT8, i, comm, NULL));
}

static void places(void) {
  int streams[2];
  ncclComm_t comm = rank(0);
  for (int i = 0; i < 3; i++) OK(ncclAllReduce(NULL, NULL, 1, INT8, MAX, comm, &streams[i % 2]));
  OK(ncclAllGather(NULL, NULL, 1, INT8, comm, NULL));
  for (int i = 0; i < 2; i++) {
    OK(ncclGroupStart());
    OK(ncclSend(NULL, 1, INT8, 1, comm, NULL));
    OK(ncclRecv(NULL, 1, INT8, 1, comm, NULL));
    OK(ncclGroupEnd());
  }
}

static void errors(void) {
  int error;
  ncclUniqueId id = {{9}};
  ncclComm_t failed = NULL, call = rank(0), async = rank(1), group = rank(2);
  stub_fail_next(2);
  CHECK(ncclCommInitRank(&failed, 8, id, 1) == 2);
  stub_fail_next(4);
  CHECK(ncclAllReduce(NULL, NULL, 1, INT8, SUM, call, NULL) == 4);
  OK(ncclCommGetAsyncError(async, &error));
  stub_async_error(6);
  for (int i = 0; i < 3; i++) OK(ncclCommGetAsyncError(async, &error));
  stub_async_error(0);
  OK(ncclCommGetAsyncError(async, &error)); /* said last that was an error: it stays */
  OK(ncclGroupStart());
  all_reduce(group, 1, SUM);
  stub_fail_next(3);
  CHECK(ncclGroupEnd() == 3);
}

static void *one_call(void *comm) {
  all_reduce(comm, 1, SUM);
  return NULL;
}

/* More threads than entries, one after the other: those that have ended make room. */
static void many_threads(void) {
  ncclComm_t comm = rank(0);
  for (int i = 0; i < 300; i++) {
    pthread_t id;
    OK(pthread_create(&id, NULL, one_call, comm));
    OK(pthread_join(id, NULL));
  }
}

static void waits_in_init(void) { stub_fail_next(STUB_WAIT); rank(3); }
static void waits_in_destroy(void) {
  ncclComm_t comm = rank(3);
  all_reduce(comm, 1, SUM);
  stub_fail_next(STUB_WAIT);
  ncclCommDestroy(comm);
}
static void waits_in_group(void) {
  ncclComm_t comm = rank(3);
  OK(ncclGroupStart());
  all_reduce(comm, 1, SUM);
  stub_fail_next(STUB_WAIT);
  ncclGroupEnd();
}
static void waits_in_call(void) {
  ncclComm_t comm = rank(3);
  all_reduce(comm, 1, SUM);
  stub_fail_next(STUB_WAIT);
  all_reduce(comm, 1, SUM);
}

#define SCENARIO(name) {#name, name}
static const struct { const char *name; void (*run)(void); } scenarios[] = {
    SCENARIO(same_calls), SCENARIO(other_calls), SCENARIO(what_counts), SCENARIO(peers), SCENARIO(many_peers),
    SCENARIO(places), SCENARIO(errors), SCENARIO(many_threads), SCENARIO(waits_in_init), SCENARIO(waits_in_destroy),
    SCENARIO(waits_in_group), SCENARIO(waits_in_call),
};

int main(int argc, char **argv) {
  for (size_t i = 0; argc == 2 && i < sizeof scenarios / sizeof *scenarios; i++)
    if (!strcmp(argv[1], scenarios[i].name)) { scenarios[i].run(); return 0; }
  return 98;
}

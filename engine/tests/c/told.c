/* A rank of the tests of profiler plugins: told.c RANK N_RANKS ID_HEX, and a word a line on its standard input, each answered by
 * a line. The plugin tells it when an event begins; with GATED, the plugin waits there until the word "open". */
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "job.h"

enum { COUNT = 65536 };

static int gate[2], begun[2];
static pthread_t aborting;

static void* do_abort(void* none) {
  CHECK(ncclCommAbort(comm));
  return none;
}

static void offer(const char* name, int descriptor) {
  char text[16];
  snprintf(text, sizeof text, "%d", descriptor);
  setenv(name, text, 1);
}

static void obey(const char* word, float* from, float* to) {
  struct timespec now;
  char byte;
  if (!strcmp(word, "broadcast")) CHECK(ncclBroadcast(from, to, COUNT, ncclFloat32, 0, comm, stream));
  else if (!strcmp(word, "all_reduce")) CHECK(ncclAllReduce(from, to, COUNT, ncclFloat32, ncclSum, comm, stream));
  else if (!strcmp(word, "many"))
    for (int i = 0; i < 6000; i++) CHECK(ncclAllReduce(from, to, 1, ncclFloat32, ncclSum, comm, stream));
  else if (!strcmp(word, "group")) {
    CHECK(ncclGroupStart());
    for (int i = 0; i < 3; i++) CHECK(ncclAllReduce(from, to, COUNT, ncclFloat32, ncclSum, comm, stream));
    CHECK(ncclGroupEnd());
  } else if (!strcmp(word, "sync")) CHECK(rscclStreamSynchronize(stream));
  else if (!strcmp(word, "drain")) rscclStreamSynchronize(stream); /* with whatever error */
  else if (!strcmp(word, "begun")) EXPECT(read(begun[0], &byte, 1) == 1);
  else if (!strcmp(word, "open")) close(gate[1]);
  else if (!strcmp(word, "abort")) CHECK(ncclCommAbort(comm));
  else if (!strcmp(word, "revoke")) CHECK(ncclCommRevoke(comm, 0));
  else if (!strcmp(word, "begin_abort")) EXPECT(!pthread_create(&aborting, NULL, do_abort, NULL));
  else if (!strcmp(word, "end_abort")) EXPECT(!pthread_join(aborting, NULL));
  else if (!strcmp(word, "nothing")) {
    CHECK(ncclGroupStart());
    CHECK(ncclSend(from, 0, ncclFloat32, (rank + 1) % n_ranks, comm, stream));
    CHECK(ncclRecv(to, 0, ncclFloat32, (rank + n_ranks - 1) % n_ranks, comm, stream));
    CHECK(ncclGroupEnd());
  } else if (!strcmp(word, "own")) {
    ncclComm_t own;
    ncclUniqueId own_id;
    CHECK(ncclGetUniqueId(&own_id));
    CHECK(ncclCommInitRank(&own, 1, own_id, 0));
    CHECK(ncclCommDestroy(own));
  } else if (!strcmp(word, "destroy")) CHECK(ncclCommDestroy(comm));
  else if (!strcmp(word, "now")) {
    clock_gettime(CLOCK_MONOTONIC, &now);
    printf("%lld\n", now.tv_sec * 1000000000LL + now.tv_nsec);
    return;
  } else EXPECT(!"a known word");
  printf("%s\n", word);
}

int main(int argc, char** argv) {
  if (argc < 4 || pipe(gate) || pipe(begun)) return 2;
  setvbuf(stdout, NULL, _IOLBF, 0);
  offer("PLUGIN_BEGUN", begun[1]);
  if (getenv("GATED")) offer("PLUGIN_GATE", gate[0]);
  parse_arguments(argv);
  CHECK(ncclCommInitRank(&comm, n_ranks, id, rank));
  float* from = calloc((size_t)n_ranks * COUNT, sizeof(float));
  float* to = calloc((size_t)n_ranks * COUNT, sizeof(float));
  char line[64];
  while (fgets(line, sizeof line, stdin)) {
    line[strcspn(line, "\n")] = 0;
    obey(line, from, to);
  }
  return 0;
}

/* One rank of a job in which something goes wrong: faults.c RANK N_RANKS ID_HEX COMMAND.
 *
 * Commands:
 *   script     the steps of the environment's SCRIPT, separated by spaces, each waited for:
 *                all_reduce:COUNT:TYPE:OP  reduce:COUNT:TYPE:OP:ROOT  reduce_scatter:COUNT:TYPE:OP
 *                all_gather:COUNT:TYPE     broadcast:COUNT:TYPE:ROOT  scatter:COUNT:TYPE:ROOT  send:COUNT:PEER  recv:COUNT:PEER
 *                pause                     says PAUSED and does nothing for ever
 *                late:MS                   does nothing for so many milliseconds
 *                alive                     says ALIVE
 *                ask                       says ASK and waits for a byte on the standard input
 *   chaos      primitives of random sizes, results checked, until an error; says INIT before init and READY after it
 *   many       as many all-reduces of 1 MiB as the environment's ROUNDS, results checked; says INIT before init, READY
 *              after the first, and DONE; with HELD in the environment, says HELD before the first and waits for a byte
 *   id-chaos, id-many   the same; makes the unique id itself, and says it first
 *
 * An error is said as "ERROR code text". Then the communicator is aborted or destroyed, the process makes another one,
 * and says CLEAN if it has as many open files and threads as before the first.
 */
#include <dirent.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "rsccl.h"
#include "rsccl_stream.h"
#include "id.h"

enum { LARGEST = 1 << 18 };

static int rank, n_ranks;
static ncclComm_t comm;
static cudaStream_t stream;
static float send_values[LARGEST], recv_values[LARGEST];

static void fail(const char* what, ncclResult_t code) {
  printf("WRONG %s: %d %s\n", what, code, ncclGetLastError(NULL));
  fflush(stdout);
  _exit(4);
}

static void say(const char* text) {
  puts(text);
  fflush(stdout);
}

static int entries(const char* path) {
  DIR* folder = opendir(path);
  int count = 0;
  while (readdir(folder)) count++;
  closedir(folder);
  return count;
}

static int held(void) { return entries("/proc/self/fd") + entries("/proc/self/task"); }

/* A communicator of this process alone: whether the process is of use. */
static void alone(void) {
  ncclUniqueId id;
  ncclComm_t own;
  float value = 3;
  ncclResult_t code = ncclGetUniqueId(&id);
  if (!code) code = ncclCommInitRank(&own, 1, id, 0);
  if (!code) code = ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, own, stream);
  if (!code) code = rscclStreamSynchronize(stream);
  if (!code) code = ncclCommDestroy(own);
  if (code || value != 3) fail("alone", code);
}

static int word(char** rest, const char* const names[], int otherwise) {
  char* text = strsep(rest, ":");
  if (!text) return otherwise;
  for (int at = 0; names[at]; at++)
    if (!strcmp(text, names[at])) return at;
  return atoi(text);
}

static ncclResult_t step(char* text) {
  static const char* const types[] = {"i8", "u8", "i32", "u32", "i64", "u64", "f16", "f32", "f64", NULL};
  static const char* const ops[] = {"sum", "prod", "max", "min", "avg", NULL};
  static const char* const none[] = {NULL};
  char* rest = text;
  char* name = strsep(&rest, ":");
  if (!strcmp(name, "pause")) {
    say("PAUSED");
    for (;;) pause();
  }
  if (!strcmp(name, "alive")) return say("ALIVE"), ncclSuccess;
  if (!strcmp(name, "ask")) return say("ASK"), getchar() == EOF ? ncclInternalError : ncclSuccess;
  size_t count = (size_t)word(&rest, none, 1);
  if (!strcmp(name, "late")) return usleep((useconds_t)count * 1000), ncclSuccess;
  void *from = send_values, *to = recv_values;
  if (!strcmp(name, "send")) return ncclSend(from, count, ncclFloat32, word(&rest, none, 0), comm, stream);
  if (!strcmp(name, "recv")) return ncclRecv(to, count, ncclFloat32, word(&rest, none, 0), comm, stream);
  ncclDataType_t type = (ncclDataType_t)word(&rest, types, ncclFloat32);
  if (!strcmp(name, "all_gather")) return ncclAllGather(from, to, count, type, comm, stream);
  if (!strcmp(name, "scatter")) return ncclScatter(from, to, count, type, word(&rest, none, 0), comm, stream);
  if (!strcmp(name, "broadcast")) return ncclBroadcast(from, to, count, type, word(&rest, none, 0), comm, stream);
  ncclRedOp_t op = (ncclRedOp_t)word(&rest, ops, ncclSum);
  if (!strcmp(name, "all_reduce")) return ncclAllReduce(from, to, count, type, op, comm, stream);
  if (!strcmp(name, "reduce_scatter")) return ncclReduceScatter(from, to, count, type, op, comm, stream);
  if (!strcmp(name, "reduce")) return ncclReduce(from, to, count, type, op, word(&rest, none, 0), comm, stream);
  fail(name, ncclInvalidArgument);
  return ncclInvalidArgument;
}

static ncclResult_t script(void) {
  const char* given = getenv("SCRIPT");
  char* steps = strdup(given ? given : "");
  ncclResult_t code = ncclSuccess;
  char* rest = steps;
  for (char* one; !code && (one = strsep(&rest, " "));) {
    code = step(one);
    if (!code) code = rscclStreamSynchronize(stream);
  }
  free(steps);
  return code;
}

static uint32_t next_random(uint32_t* state) { return *state = *state * 1664525u + 1013904223u; }

static void expect(int right, const char* what) {
  if (!right) fail(what, ncclSuccess);
}

/* Small whole numbers, so that every order of adding gives the same. */
static float value(int of_rank, size_t at, uint32_t round) {
  return (float)((unsigned)of_rank * 3u + (unsigned)(at % 7) + round % 5u);
}

static float sum(size_t at, uint32_t round) {
  float all = 0;
  for (int r = 0; r < n_ranks; r++) all += value(r, at, round);
  return all;
}

static ncclResult_t chaos_round(uint32_t round, uint32_t* state) {
  static const size_t most[] = {1, 100, 5000, LARGEST / 8};
  uint32_t kind = next_random(state) >> 16;
  size_t count = 1 + (next_random(state) >> 8) % most[(kind >> 3) % 4];
  int root = (int)((next_random(state) >> 16) % (unsigned)n_ranks);
  for (size_t at = 0; at < count * (size_t)n_ranks && at < LARGEST; at++) {
    send_values[at] = value(rank, at, round);
    recv_values[at] = -1;
  }
  ncclResult_t code;
  switch (kind % 5) {
    case 0: code = ncclAllReduce(send_values, recv_values, count, ncclFloat32, ncclSum, comm, stream); break;
    case 1: code = ncclAllGather(send_values, recv_values, count, ncclFloat32, comm, stream); break;
    case 2: code = ncclReduceScatter(send_values, recv_values, count, ncclFloat32, ncclSum, comm, stream); break;
    case 3: code = ncclBroadcast(send_values, recv_values, count, ncclFloat32, root, comm, stream); break;
    default: code = ncclAlltoAll(send_values, recv_values, count, ncclFloat32, comm, stream);
  }
  if (!code) code = rscclStreamSynchronize(stream);
  if (code) return code;
  size_t blocks = kind % 5 == 1 || kind % 5 == 4 ? (size_t)n_ranks : 1;
  for (size_t at = 0; at < count * blocks; at++) {
    int from = (int)(at / count);
    size_t in_block = at % count;
    float got = recv_values[at];
    switch (kind % 5) {
      case 0: expect(got == sum(at, round), "all_reduce"); break;
      case 1: expect(got == value(from, in_block, round), "all_gather"); break;
      case 2: expect(got == sum((size_t)rank * count + at, round), "reduce_scatter"); break;
      case 3: expect(got == value(root, at, round), "broadcast"); break;
      default: expect(got == value(from, (size_t)rank * count + in_block, round), "all_to_all");
    }
  }
  return ncclSuccess;
}

static ncclResult_t chaos(void) {
  const char* seed = getenv("SEED");
  uint32_t state = seed ? (uint32_t)strtoul(seed, NULL, 10) : 1;
  for (uint32_t round = 0;; round++) {
    ncclResult_t code = chaos_round(round, &state);
    if (code) return code;
  }
}

static ncclResult_t many(void) {
  const char* rounds = getenv("ROUNDS");
  if (getenv("HELD")) {
    say("HELD");
    if (getchar() == EOF) return ncclInternalError;
  }
  for (uint32_t round = 0; round < (rounds ? strtoul(rounds, NULL, 10) : 1); round++) {
    for (size_t at = 0; at < LARGEST; at++) {
      send_values[at] = value(rank, at, round);
      recv_values[at] = -1;
    }
    ncclResult_t code = ncclAllReduce(send_values, recv_values, LARGEST, ncclFloat32, ncclSum, comm, stream);
    if (!code) code = rscclStreamSynchronize(stream);
    if (code) return code;
    for (size_t at = 0; at < LARGEST; at++) expect(recv_values[at] == sum(at, round), "all_reduce");
    if (round == 0) say("READY");
  }
  say("DONE");
  return ncclSuccess;
}

static void make_id(ncclUniqueId* id) {
  ncclResult_t code = ncclGetUniqueId(id);
  if (code) fail("ncclGetUniqueId", code);
  for (int i = 0; i < NCCL_UNIQUE_ID_BYTES; i++) printf("%02x", (unsigned char)id->internal[i]);
  say("");
}

static void end(int before, int failed) {
  if (comm) {
    ncclResult_t code = failed && rank % 2 ? ncclCommAbort(comm) : ncclCommDestroy(comm);
    if (code) fail("the end", code);
  }
  alone();
  rscclStreamDestroy(stream);
  /* The threads of a bootstrap root end on their own. */
  time_t deadline = time(NULL) + 20;
  int left;
  while ((left = held() - before) > 0 && time(NULL) < deadline) sched_yield();
  if (left <= 0) say("CLEAN");
  else printf("LEAK of %d\n", left);
}

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  ncclUniqueId id;
  rank = atoi(argv[1]);
  n_ranks = atoi(argv[2]);
  if (rscclStreamCreate(&stream)) return 2;
  alone();
  rscclStreamDestroy(stream);
  time_t deadline = time(NULL) + 20;
  while (entries("/proc/self/task") > 3 && time(NULL) < deadline) sched_yield();
  int before = held();
  rscclStreamCreate(&stream);
  const char* command = argv[4];
  int makes_id = !strncmp(command, "id-", 3);
  if (makes_id) make_id(&id);
  else parse_id(&id, argv[3]);
  if (makes_id) command += 3;
  int is_script = !strcmp(command, "script"), is_many = !strcmp(command, "many");
  if (!is_script) say("INIT");
  ncclResult_t code = ncclCommInitRank(&comm, n_ranks, id, rank);
  if (!is_script && !is_many && !code) say("READY");
  if (!code) code = is_script ? script() : is_many ? many() : chaos();
  if (code) printf("ERROR %d %s\n", code, ncclGetLastError(comm));
  fflush(stdout);
  end(before, code != ncclSuccess);
  return 0;
}

/* Calls of the library as a framework makes them, and the thread that asks for asynchronous errors. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fault_job.h"

/* The communicators of this process, for the watchdog. */
static struct {
  ncclComm_t comm;
  char name[NAME_BYTES];
  ncclResult_t said;
} known[MOST_COMMS];
static pthread_mutex_t known_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic long long last_progress_ns;

enum { FAILED_STATUS = 3, ABORTED_STATUS = 5 };

void note_progress(void) { atomic_store(&last_progress_ns, monotonic_ns()); }

static void remember(const group_t* group) {
  pthread_mutex_lock(&known_lock);
  for (int at = 0; at < MOST_COMMS; at++)
    if (!known[at].comm) {
      known[at].comm = group->comm;
      known[at].said = ncclSuccess;
      snprintf(known[at].name, NAME_BYTES, "%s", group->name);
      break;
    }
  pthread_mutex_unlock(&known_lock);
  say("communicator", "\"name\":\"%s\",\"comm\":\"%p\",\"comm_rank\":%d,\"n_ranks\":%d", group->name, (void*)group->comm,
      group->rank, group->n_ranks);
}

static void forget(ncclComm_t comm) {
  pthread_mutex_lock(&known_lock);
  for (int at = 0; at < MOST_COMMS; at++)
    if (known[at].comm == comm) known[at].comm = NULL;
  pthread_mutex_unlock(&known_lock);
}

/* A call that fails ends the process as an exception does, without taking leave, unless it is to stay. */
void check(const char* function, ncclResult_t code, const group_t* group) {
  if (code == ncclSuccess) return;
  const char* text = ncclGetLastError(group ? group->comm : NULL);
  say("error", "\"function\":\"%s\",\"communicator\":\"%s\",\"code\":%d,\"text\":\"%s\"", function, group ? group->name : "",
      code, quoted(text));
  if (!options.exits_on_error) wait_for_ever();
  _exit(FAILED_STATUS);
}

void synchronize(void) { check("rscclStreamSynchronize", rscclStreamSynchronize(stream), NULL); }

void init_group(group_t* group, const char* name, int rank, int n_ranks, int makes_id) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  snprintf(group->name, NAME_BYTES, "%s", name);
  config.commName = group->name;
  group->rank = rank;
  group->n_ranks = n_ranks;
  ncclUniqueId id = meet(name, makes_id);
  check("ncclCommInitRankConfig", ncclCommInitRankConfig(&group->comm, n_ranks, id, rank, &config), NULL);
  remember(group);
}

void split_group(group_t* group, const group_t* parent, int color, int key, const char* name) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  snprintf(group->name, NAME_BYTES, "%s", name);
  config.commName = group->name;
  check("ncclCommSplit", ncclCommSplit(parent->comm, color, key, &group->comm, &config), parent);
  if (!group->comm) return;
  check("ncclCommUserRank", ncclCommUserRank(group->comm, &group->rank), group);
  check("ncclCommCount", ncclCommCount(group->comm, &group->n_ranks), group);
  remember(group);
}

void destroy_group(group_t* group) {
  if (!group->comm) return;
  forget(group->comm);
  check("ncclCommDestroy", ncclCommDestroy(group->comm), NULL);
  group->comm = NULL;
}

void abort_all(void) {
  for (int at = 0; at < MOST_COMMS; at++) {
    pthread_mutex_lock(&known_lock);
    ncclComm_t comm = known[at].comm;
    known[at].comm = NULL;
    pthread_mutex_unlock(&known_lock);
    if (comm) ncclCommAbort(comm);
  }
}

static void ask(void) {
  pthread_mutex_lock(&known_lock);
  for (int at = 0; at < MOST_COMMS; at++) {
    ncclResult_t code = ncclSuccess;
    if (!known[at].comm || ncclCommGetAsyncError(known[at].comm, &code) != ncclSuccess || code == known[at].said) continue;
    known[at].said = code;
    say("async_error", "\"communicator\":\"%s\",\"code\":%d,\"text\":\"%s\"", known[at].name, code,
        quoted(ncclGetLastError(known[at].comm)));
  }
  pthread_mutex_unlock(&known_lock);
}

static void* watch(void* unused) {
  (void)unused;
  for (;; sleep_ms(options.watchdog_ms)) {
    ask();
    long long still_ms = (monotonic_ns() - atomic_load(&last_progress_ns)) / 1000000;
    if (options.abort_after_ms > 0 && still_ms > options.abort_after_ms) {
      say("aborting", "\"still_ms\":%lld", still_ms);
      abort_all();
      say("aborted", "\"by\":\"watchdog\"");
      _exit(ABORTED_STATUS);
    }
    if (options.die_after_ms > 0 && still_ms > options.die_after_ms && !is_victim()) {
      say("dying", "\"still_ms\":%lld", still_ms);
      abort();
    }
  }
  return NULL;
}

void start_watchdog(void) {
  pthread_t thread;
  note_progress();
  if (options.watchdog_ms > 0 && pthread_create(&thread, NULL, watch, NULL)) exit(2);
}

/* A summation service of one worker: nothing is summed, but a watcher is told as the engine tells it. */
#define V 5
#include "../plugin/c/abi.h"
#include "rsum.h"
#include "rsum_observer.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

enum { N_TENSORS = 8 };

static const rsumObserver_v1_t* observer;
static void* context;
static uint64_t counts[N_TENSORS], rounds[N_TENSORS], group_number = 77;
static int n_tensors, n_handles, has_begun, tensor_of[64];

static uint64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000ull + time.tv_nsec;
}

/* The engine's communicator, of which the profiler tells; nobody made it by a call that could be seen. */
void stub_announce(void) {
  static int mask;
  void *profiler_context, *library = dlopen(getenv("RSUM_OBSERVER"), RTLD_NOW | RTLD_LOCAL);
  table *profiler = dlsym(library, TEXT(SYMBOL));
  profiler->init(&profiler_context, group_number, &mask, NULL, 2, 3, 1, NULL);
}

static void begin(void) {
  const char* hosts[] = {"node-1", "node-2"};
  rsumObserverService_v1 services[] = {{.rank = 2, .host = "cpu-1", .optimal_share_ppm = 500000, .share_ppm = 510000, .owned_bytes = 51},
                                       {.rank = 0, .host = "node-1", .owned_bytes = 49},
                                       {.rank = 1, .host = "node-2"}};
  const char* large = getenv("N_SERVICES");
  rsumObserverGroup_v1 group = {
      .size = sizeof group, .group = group_number, .session = 5, .membership_epoch = 1, .comm = 0x5000, .role = rsumRoleWorker, .index = 1,
      .n_workers = 2, .n_servers = 1, .n_services = large ? atoi(large) : 3, .staleness_bound = UINT64_MAX, .n_tensors = n_tensors,
      .services = services, .worker_hosts = hosts};
  if (observer && observer->begin(&context, &group)) observer = NULL;
  has_begun = 1;
}

int rsum_init(void) {
  const char* path = getenv("RSUM_OBSERVER");
  void* library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
  observer = library ? dlsym(library, "rsumObserver_v1") : NULL;
  return 0;
}

int rsum_declare(const char* name, uint64_t count, int datatype, const rsum_options_t* options) {
  (void)name, (void)datatype, (void)options;
  counts[n_tensors] = count;
  return n_tensors++;
}

static void finish(int tensor, int result) {
  rsumObserverFinished_v1 finished = {.size = sizeof finished, .tensor = tensor, .result = result, .round = rounds[tensor]++,
                                      .bytes = 4 * counts[tensor], .submitted_ns = now() - 1000000, .now_ns = now()};
  if (observer) observer->finished(context, &finished);
}

static int submit(int tensor) {
  if (tensor < 0 || tensor >= n_tensors) return -1;
  if (!has_begun) begin();
  tensor_of[n_handles] = tensor;
  return n_handles++;
}

int rsum_push_pull(int tensor, const void* send, void* recv, int operation) {
  (void)send, (void)recv, (void)operation;
  if (submit(tensor) < 0) return 4;
  /* The others never come. */
  if (getenv("STUCK") && rounds[tensor]) _Exit(0);
  finish(tensor, 0);
  return 0;
}

int rsum_push_pull_async(int tensor, const void* send, void* recv, int operation) {
  (void)send, (void)recv, (void)operation;
  return submit(tensor);
}

int rsum_push_pull_on_stream(int tensor, const void* send, void* recv, int operation, void* stream) {
  (void)send, (void)recv, (void)operation;
  return stream ? -1 - 5 : submit(tensor);
}

int rsum_push_async(int tensor, const void* send, int operation) {
  (void)send, (void)operation;
  return submit(tensor);
}

int rsum_pull_async(int push, void* recv) {
  (void)push, (void)recv;
  return 0;
}

int rsum_wait(int handle) {
  finish(tensor_of[handle], 0);
  return 0;
}

/* A round that no caller of ours submitted, as one that came by dlsym. */
void stub_unseen_round(int tensor) { finish(tensor, 0); }

void stub_sample(void) {
  rsumObserverStage_v1 stages[] = {{.name = "push", .waiting_parts = 2, .entered_parts = 9}, {.name = "pull", .left_parts = 4}};
  rsumObserverTraffic_v1 traffic[3 * rsumKeyClasses] = {[4] = {.push_issued_bytes = 100, .push_completed_bytes = 90, .local_bytes = 10}};
  rsumObserverContributor_v1 contributors[] = {{.contributions = 3, .bytes = 30}, {.contributions = 2, .late_ns = 12, .last_arrival_ns = now()}};
  uint32_t workers[] = {1};
  rsumObserverWait_v1 waits[] = {{.key = 8, .for_push = 1, .round = 2, .tensor = "gradient.a.rather.long.name.that.is.cut.to.fit.here", .first_arrival_ns = now(), .workers = workers, .n_workers = 1}};
  uint64_t staleness[] = {7, 1};
  rsumObserverSample_v1 sample = {.size = sizeof sample, .now_ns = now(), .n_stages = 2, .n_services = 3, .n_contributors = 2, .n_waits = 1,
                                  .stages = stages, .traffic = traffic, .contributors = contributors, .waits = waits,
                                  .finished_rounds = 6, .summed_bytes = 600, .staleness = staleness, .n_staleness = 2};
  uint64_t hashes[] = {0x11, 0x22};
  rsumObserverComparison_v1 comparison = {.count = 2, .every = 5, .steps = 10, .at_ns = now(), .n_parameters = 3, .n_different = 1, .equal_steps = 5,
                                          .different_steps = 10, .different_at_ns = now(), .parameter = "fc.bias", .hashes = hashes, .n_workers = 2};
  sample.comparison = &comparison;
  /* An engine that knows nothing of comparisons: what lies behind its sample is not the watcher's to read. */
  if (getenv("OLDER_ENGINE")) {
    sample.size = offsetof(rsumObserverSample_v1, comparison);
    sample.comparison = (const rsumObserverComparison_v1*)1;
  }
  rsumObserverRound_v1 round = {.size = sizeof round, .key = 8, .made = 1, .round = 1, .fingerprint = 0xabc, .contributors = 2, .last_arriver = 1};
  if (!observer) return;
  observer->sample(context, &sample);
  observer->round(context, &round);
}

/* The group ends: 1 left, 2 suspended, 3 failed. */
void stub_end(int how) {
  if (observer) observer->end(context, how, how == rsumEndFailed ? 2 : -1, how == rsumEndFailed ? "rank 2 (cpu-1) is gone" : "");
  context = NULL;
  has_begun = 0;
  group_number++;
}

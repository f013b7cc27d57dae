/* A watcher of summation groups: writes a line for each thing that it is told into the file that OBSERVED names. */
#include "rsum_observer.h"

#include <stdio.h>
#include <stdlib.h>

/* As abi.rs asserts. */
_Static_assert(sizeof(rsumObserverService_v1) == 48, "service");
_Static_assert(sizeof(rsumObserverGroup_v1) == 128 && offsetof(rsumObserverGroup_v1, services) == 112, "group");
_Static_assert(sizeof(rsumObserverStage_v1) == 64, "stage");
_Static_assert(sizeof(rsumObserverTraffic_v1) == 40, "traffic");
_Static_assert(sizeof(rsumObserverContributor_v1) == 56, "contributor");
_Static_assert(sizeof(rsumObserverWait_v1) == 48 && offsetof(rsumObserverWait_v1, workers) == 32, "wait");
_Static_assert(sizeof(rsumObserverComparison_v1) == 96 && offsetof(rsumObserverComparison_v1, parameter) == 72, "comparison");
_Static_assert(sizeof(rsumObserverSample_v1) == 152 && offsetof(rsumObserverSample_v1, comparison) == 144, "sample");
_Static_assert(sizeof(rsumObserverRound_v1) == 64 && offsetof(rsumObserverRound_v1, now_ns) == 56, "round");
_Static_assert(sizeof(rsumObserverFinished_v1) == 48, "finished");
_Static_assert(sizeof(rsumObserver_v1_t) == 48, "table");

static int begin(void** context, const rsumObserverGroup_v1* group) {
  const char* path = getenv("OBSERVED");
  FILE* file = *context ? *context : fopen(path ? path : "/dev/null", "a");
  if (!file) return 1;
  *context = file;
  fprintf(file, "begin role=%d index=%u workers=%u servers=%u tensors=%llu parts=%llu services=%u host=%s sizes=%d\n",
          group->role, group->index, group->n_workers, group->n_servers, (unsigned long long)group->n_tensors,
          (unsigned long long)group->n_parts, group->n_services, group->worker_hosts[0],
          group->size == sizeof *group && group->group != 0);
  fflush(file);
  return 0;
}

static void sample(void* context, const rsumObserverSample_v1* sample) {
  unsigned long long pushed = 0;
  for (unsigned i = 0; i < sample->n_services * rsumKeyClasses; i++) pushed += sample->traffic[i].push_completed_bytes;
  fprintf(context, "sample stages=%u contributors=%u waits=%u pushed=%llu rounds=%llu sizes=%d staleness=", sample->n_stages,
          sample->n_contributors, sample->n_waits, pushed, (unsigned long long)sample->finished_rounds,
          sample->size == sizeof *sample);
  for (uint64_t i = 0; i < sample->n_staleness; i++) fprintf(context, i ? ",%llu" : "%llu", (unsigned long long)sample->staleness[i]);
  fputc('\n', context);
}

static void round_(void* context, const rsumObserverRound_v1* round) {
  fprintf(context, "round made=%u key=%u round=%llu fingerprint=%llx contributors=%u\n", round->made, round->key,
          (unsigned long long)round->round, (unsigned long long)round->fingerprint, round->contributors);
}

static void finished(void* context, const rsumObserverFinished_v1* finished) {
  fprintf(context, "finished tensor=%u round=%llu bytes=%llu result=%d\n", finished->tensor,
          (unsigned long long)finished->round, (unsigned long long)finished->bytes, finished->result);
}

static void end(void* context, int how, int lost_rank, const char* why) {
  fprintf(context, "end how=%d lost=%d why=%s\n", how, lost_rank, why);
  fflush(context);
}

const rsumObserver_v1_t rsumObserver_v1 = {"observer", begin, sample, round_, finished, end};

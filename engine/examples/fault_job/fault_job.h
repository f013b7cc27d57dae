/* A training job in which something goes wrong: one process for each rank, over NCCL's C API. See main.c for its arguments. */
#ifndef FAULT_JOB_H_
#define FAULT_JOB_H_

#include <stddef.h>
#include <stdint.h>

#include "rsccl.h"
#include "rsccl_stream.h"

enum { MOST_RANKS = 1024, MOST_COMMS = 32, NAME_BYTES = 64 };

/* What a rank was told. */
typedef struct {
  int rank, n_ranks;
  const char* dir;
  const char* job;
  /* Ranks of a tensor-parallel group, stages of a pipeline; the rest of the ranks are replicas. */
  int n_tensor, n_stages;
  long steps, at, pause_ms, step_ms, watchdog_ms, abort_after_ms, die_after_ms;
  /* Of slowness: how much, how often; how far ranks differ anyway; in how many parts a step computes, or 0. */
  long percent, every, spread_percent, layers, pieces;
  size_t bytes;
  uint64_t seed;
  const char* fault;
  int n_victims, victims[MOST_RANKS];
  int exits_on_error;
} options_t;

/* A communicator, by the name that it was made with. A rank that has no part in one has none. */
typedef struct {
  char name[NAME_BYTES];
  ncclComm_t comm;
  int rank, n_ranks;
} group_t;

/* The communicators of an epoch. `grads` has the replicas of this rank's part of the model. */
typedef struct {
  int epoch;
  group_t world, tensor, stages, grads;
} groups_t;

extern options_t options;
extern groups_t groups;
extern cudaStream_t stream;

/* say.c: one line of JSON for each event, on the standard output; written whole, at once. */
long long monotonic_ns(void);
/* `format` gives the members after the common ones, and may be empty: `"step":3`. */
void say(const char* event, const char* format, ...) __attribute__((format(printf, 2, 3)));
/* `text` as the inside of a JSON string; valid until the thread's next call. */
const char* quoted(const char* text);
void sleep_us(long us);
void sleep_ms(long ms);
void work_us(long us);
_Noreturn void wait_for_ever(void);
/* The same for all ranks, seeds and names that are the same. */
uint64_t random_of(const char* name, uint64_t number);

/* meet.c: unique ids through files of the job's folder. */
ncclUniqueId meet(const char* name, int makes_it);

/* library.c: calls of the library, and who looks after them. */
void check(const char* function, ncclResult_t code, const group_t* group);
void synchronize(void);
void init_group(group_t* group, const char* name, int rank, int n_ranks, int makes_id);
void split_group(group_t* group, const group_t* parent, int color, int key, const char* name);
void destroy_group(group_t* group);
void abort_all(void);
void start_watchdog(void);
/* A step has been taken, or another sign that the job goes on. */
void note_progress(void);

/* job.c: what healthy ranks do. */
void form(int n_ranks, int epoch);
void part(void);
void train(void);
/* By how much the pieces of this rank's last step took longer than one call did. */
extern long pieces_longer_us;

/* faults.c: what the others do, and what looks like it. */
typedef struct {
  const char* name;
  /* Whether nothing is wrong. */
  int is_harmless;
  int min_victims;
  const char* what;
} kind_t;

extern const kind_t kinds[], slow_kinds[];
const kind_t* find_kind(const char* name);
int is_victim_rank(int rank);
int is_victim(void);
/* That the fault, or what looks like one, is about to happen. */
void tell(long step, const char* where);
/* Whether this rank's fault is `name`, and it is to happen in this step. */
int fails_now(const char* name, long step);
/* Before the calls of a step, by all ranks. False: the job is to end. */
int between_steps(long step);
/* Before the call `place` of a step. */
void before_call(long step, int place);
/* How the victim calls where its call is another one. Nothing: as usual. */
typedef struct {
  int skips, is_gather;
  ncclDataType_t type;
  size_t count;
  ncclRedOp_t op;
} reduction_t;
reduction_t reduction(long step, size_t count);
/* Around the job: who comes late, who ends late, and what else was made. */
void before_meeting(void);
void before_parting(void);
void part_extras(void);
/* The root that it takes. */
int root(long step, int usual);

enum { PLACES = 5 };

/* slow.c: how long ranks compute. */
int is_slow_kind(void);
/* Whether a step sums in one call as well, whatever --pieces says. */
int sums_at_once_too(void);
/* One of so many parts of a step. */
void compute(long step, int parts);
/* Before the calls of a step, by all ranks. */
void slow_step(long step);
void part_slow(void);
/* By how much the step takes longer because of the fault. */
long slower_us(long step);

#endif

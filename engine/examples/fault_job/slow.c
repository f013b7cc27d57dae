/* What makes a job slow, and what only looks like it: how long each rank computes in each step. All of it follows from the
 * arguments, so every rank also knows by how much the job is slower than it would be without the fault. */
#define _GNU_SOURCE
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fault_job.h"

enum {
  /* Of so many steps one is slow, at random. */
  ONE_OF = 5,
  /* Steps until a rank that gets slower and slower is as slow as it will be. */
  GROWTH_STEPS = 100,
  /* A spell of these is over within a second. */
  SPELL_STEPS = 8,
  SPELL_PERCENT = 200,
  WARM_UP_STEPS = 8,
  WARM_UP_MS = 250,
  UNEVEN_PERCENT = 30,
  LATER_STAGE_PERCENT = 60,
  MORE_BATCHES = 3,
  EVALUATED = 20,
  EVALUATION_MS = 100,
  BURST_MS = 1000,
  EXPERTS = 2,
  TOKENS = 1024,
};

const kind_t slow_kinds[] = {
    {"slow_steady", 0, 1, "computes for longer in every step, by --percent"},
    {"slow_busy", 0, 1, "the same, with a busy processor"},
    {"slow_growing", 0, 1, "computes for longer and longer over a hundred steps, up to --percent"},
    {"slow_intermittent", 0, 1, "computes for longer in one of five steps, at random, by --percent"},
    {"slow_periodic", 0, 1, "pauses for --pause-ms in each --every-th step"},
    {"stopped_duty", 0, 1, "is stopped by SIGSTOP for 0.4 s of each 0.5 s"},
    {"cpu_quota", 0, 1, "may use a processor for a third of the time, by a cgroup of its own; needs root"},
    {"uneven_work", 0, 1, "is given more batches, each with a call among two ranks; --percent more in all"},
    {"other_role", 0, 1, "computes for longer from the first step on, by --percent, and calls what no other rank calls"},
    {"small_pieces", 0, 0, "sums in --pieces small collectives, and then once more in one large one; nobody is slow"},
    {"uneven_batches", 1, 0, "all ranks compute for up to 30 % more or less, at random in each step"},
    {"warm_up", 1, 1, "computes for long in its first steps, as one that compiles"},
    {"first_steps", 1, 0, "all ranks compute for long in their first steps, each for another time"},
    {"evaluation_phase", 1, 0, "all ranks do something else for some seconds, then rank 0 alone for --pause-ms"},
    {"unequal_stages", 1, 0, "later stages of the pipeline compute for longer, by design; needs --job 3d"},
    {"noisy_neighbour", 1, 0, "on all ranks something else is busy for a second"},
    {"overlapped", 1, 0, "ranks compute while they still wait for what rank 0 tells them, which itself waits for nobody"},
    {"remade", 1, 0, "all ranks make their communicators anew"},
    {"short_spell", 1, 1, "computes for longer for less than a second"},
    {NULL, 0, 0, NULL},
};

static group_t experts, own;

static int is(const char* name) { return !strcmp(options.fault, name); }

int sums_at_once_too(void) { return is("small_pieces"); }

int is_slow_kind(void) {
  for (const kind_t* kind = slow_kinds; kind->name; kind++)
    if (is(kind->name)) return 1;
  return 0;
}

static uint64_t random_in(const char* name, int rank, long step) {
  return random_of(name, (uint64_t)step * MOST_RANKS + (uint64_t)rank);
}

static long usual_us(int rank, long step) {
  long usual = options.step_ms * 1000;
  if (is("uneven")) return usual * (1 + rank % 4);
  if (is("uneven_batches")) return usual / 100 * (100 - UNEVEN_PERCENT + (long)(random_in("batch", rank, step) % (2 * UNEVEN_PERCENT)));
  if (is("unequal_stages")) usual += usual / 100 * LATER_STAGE_PERCENT * (rank / options.n_tensor % options.n_stages);
  if (is("first_steps") && step < WARM_UP_STEPS) usual += (long)(random_in("first", rank, step) % (2000 * WARM_UP_MS));
  return usual + (long)(random_in("compute", rank, step) % (uint64_t)(usual * options.spread_percent / 100 + 1));
}

/* What the fault, or what looks like one, adds. */
static long more_us(int rank, long step) {
  long share = options.step_ms * 10 * options.percent, since = step - options.at;
  if (!is_victim_rank(rank)) return 0;
  if (is("warm_up")) return step < WARM_UP_STEPS ? WARM_UP_MS * 1000 : 0;
  if (since < 0) return 0;
  if (is("slow_steady") || is("slow_busy") || is("uneven_work") || is("other_role")) return share;
  if (is("slow_growing")) return share * (since < GROWTH_STEPS ? since : GROWTH_STEPS) / GROWTH_STEPS;
  if (is("slow_intermittent")) return random_in("slow", rank, step) % ONE_OF ? 0 : share;
  if (is("slow_periodic")) return since % options.every ? 0 : options.pause_ms * 1000;
  if (is("short_spell")) return since < SPELL_STEPS ? options.step_ms * 10 * SPELL_PERCENT : 0;
  return 0;
}

/* All wait for the slowest in each step. */
long slower_us(long step) {
  if (is("small_pieces")) return pieces_longer_us;
  long usual = 0, slowest = 0;
  for (int rank = 0; rank < options.n_ranks; rank++) {
    long own = usual_us(rank, step), all = own + more_us(rank, step);
    if (own > usual) usual = own;
    if (all > slowest) slowest = all;
  }
  return slowest - usual;
}

void compute(long step, int parts) {
  long usual = usual_us(options.rank, step) / parts, more = more_us(options.rank, step) / parts;
  if (is("uneven_work")) more = 0;
  if (is("cpu_quota") && is_victim()) return work_us(usual);
  /* At once: each sleep takes a little longer than it is told to, which is nobody's fault. */
  sleep_us(is("slow_busy") ? usual : usual + more);
  if (is("slow_busy")) work_us(more);
}

/* Two ranks share their experts, and gather what each has for the other. Who is given more batches computes for each. */
static void share_experts(long step) {
  static float tokens[TOKENS], all[EXPERTS * TOKENS];
  char name[NAME_BYTES];
  if (step == 0) {
    snprintf(name, sizeof name, "experts-%d", options.rank / EXPERTS);
    split_group(&experts, &groups.world, options.rank / EXPERTS, options.rank, name);
  }
  int has_more = 0;
  for (int expert = 0; expert < EXPERTS; expert++)
    if (more_us(options.rank / EXPERTS * EXPERTS + expert, step)) has_more = 1;
  for (int batches = has_more ? 1 + MORE_BATCHES : 1; batches > 0; batches--) {
    if (batches > 1) sleep_us(more_us(options.rank, step) / MORE_BATCHES);
    check("ncclAllGather", ncclAllGather(tokens, all, TOKENS, ncclFloat32, experts.comm, stream), &experts);
    synchronize();
  }
}

static const char stops[] = "while kill -STOP $0; do sleep 0.4; kill -CONT $0; sleep 0.1; done 2>&-";

/* As a container's limit: of version 1 of cgroups, or of version 2. */
static const char limits[] =
    "cd /sys/fs/cgroup/cpu 2>&- || cd /sys/fs/cgroup; mkdir ringscope-$0 && cd ringscope-$0 || exit 1\n"
    "if test -e cpu.max; then echo 33000 100000 >cpu.max\n"
    "else echo 100000 >cpu.cfs_period_us; echo 33000 >cpu.cfs_quota_us; fi\n"
    "echo $0 >cgroup.procs; cd ..; while kill -0 $0; do sleep 0.2; done 2>&-; rmdir ringscope-$0";

/* Who holds the parameters keeps a sum of its own. */
static void keep_sum(long step) {
  static float value[2];
  char name[NAME_BYTES];
  snprintf(name, sizeof name, "own-%d", options.rank);
  if (step == 0) init_group(&own, name, 0, 1, 1);
  check("ncclReduce", ncclReduce(value, value + 1, 1, ncclFloat32, ncclSum, 0, own.comm, stream), &own);
  synchronize();
}

/* From outside, as an operator or a scheduler does it, and without what this process has loaded. It ends with this process. */
static void have_done(const char* script) {
  char pid[16];
  snprintf(pid, sizeof pid, "%d", (int)getpid());
  char* arguments[] = {"sh", "-c", (char*)script, pid, NULL};
  char* environment[] = {"PATH=/usr/bin:/bin", NULL};
  pid_t helper;
  if (posix_spawn(&helper, "/bin/sh", NULL, NULL, arguments, environment)) perror("/bin/sh"), exit(2);
}

static void meet_all(void) {
  static float value[2] = {1, 0};
  check("ncclAllReduce", ncclAllReduce(value, value + 1, 1, ncclFloat32, ncclSum, groups.world.comm, stream), &groups.world);
  synchronize();
}

static void evaluate(void) {
  for (int at = 0; at < EVALUATED; at++) {
    sleep_ms(EVALUATION_MS + (long)(random_in("evaluate", options.rank, at) % EVALUATION_MS));
    meet_all();
  }
  if (options.rank == 0) sleep_ms(options.pause_ms);
  meet_all();
}

static void* be_busy(void* unused) {
  work_us(BURST_MS * 1000L);
  return unused;
}

static void burst(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, be_busy, NULL) || pthread_detach(thread)) exit(2);
}

void slow_step(long step) {
  int is_first = step == options.at;
  if (is("warm_up")) is_first = step == 0;
  if (is("uneven_work")) share_experts(step);
  if (is("other_role") && is_victim()) keep_sum(step);
  if (!is_slow_kind() || !is_first) return;
  if (!find_kind(options.fault)->min_victims || is_victim()) tell(step, "compute");
  if (is("stopped_duty") && is_victim()) have_done(stops);
  if (is("cpu_quota") && is_victim()) have_done(limits);
  if (is("evaluation_phase")) evaluate();
  if (is("noisy_neighbour")) burst();
  if (is("remade")) part(), form(options.n_ranks, 1);
}

void part_slow(void) {
  destroy_group(&experts);
  destroy_group(&own);
}

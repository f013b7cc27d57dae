/* One rank of a training job in which something goes wrong, or seems to. See help(). */
#define _GNU_SOURCE
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fault_job.h"

enum { SLOW_PAUSE_MS = 500 };

options_t options;
cudaStream_t stream;

static const char* const help_text =
    "One rank of a training job in which something goes wrong, or seems to.\n"
    "\n"
    "  fault_job --rank R --ranks N --dir FOLDER [options]\n"
    "\n"
    "  --rank R            this process's rank\n"
    "  --ranks N           ranks of the job\n"
    "  --dir FOLDER        a folder that all ranks see, empty at the start; ids of communicators meet there\n"
    "  --job SHAPE         dp (replicas alone), 2d (tensor x data) or 3d (tensor x pipeline x data); default dp\n"
    "  --tensor N          ranks of a tensor-parallel group in 2d and 3d; default 2\n"
    "  --stages N          stages of a pipeline in 3d; default 2\n"
    "  --steps N           steps; default 10\n"
    "  --bytes N           bytes of a step's gradients; default 262144\n"
    "  --step-ms N         time that a step computes, about; default 20\n"
    "  --seed N            what is random follows from it, the same on all ranks; default 1\n"
    "  --fault KIND        what happens (see --list); default none\n"
    "  --victim R[,R...]   the ranks that it happens to; for a lost host, all of its ranks\n"
    "  --at STEP           when; before which call of the step follows from the seed; default 5\n"
    "  --pause-ms N        how long pauses take, harmless ones among them; default 3000 to 8000 by the seed, of kinds of slowness 500\n"
    "  --percent N         by how much a slow rank computes for longer, of --step-ms; default 30\n"
    "  --every N           which steps of slow_periodic pause; default 20\n"
    "  --spread-percent N  by how much ranks compute for different times anyway, at random; default 25\n"
    "  --layers N          computes in so many parts, each before an all-reduce of its tensor-parallel group that it waits for, as\n"
    "                      for what rank 0 says; default 0: all of it before the step's first call\n"
    "  --pieces N          sums up the gradients in so many all-reduces and waits for each; default 1\n"
    "  --watchdog-ms N     how often ncclCommGetAsyncError is asked; default 100; 0: never\n"
    "  --abort-after-ms N  as a framework's watchdog, abort all communicators and end with status 5 where no step has been\n"
    "                      taken for so long; default 0: never\n"
    "  --die-after-ms N    the same, but end by SIGABRT, as PyTorch's watchdog does by default, and not in the victims, which\n"
    "                      have no call that their watchdog could watch; default 0: never\n"
    "  --on-error WHAT     exit (as an exception does, with status 3, without destroying anything) or wait; default exit\n"
    "  --list              print the kinds, one JSON object a line, and end\n"
    "\n"
    "Give all ranks the same arguments but for --rank. In 2d and 3d the ranks must be a multiple of tensor (x stages).\n"
    "Set RSCCL_FAITHFUL=2.28 for faults as NCCL shows them.\n"
    "\n"
    "It prints one JSON object a line, each with event, rank, pid, monotonic_ns and wall_ns:\n"
    "  start          the process runs                       communicator   one is made: name, comm, comm_rank, n_ranks\n"
    "  formed         all communicators of an epoch are made  step           a step is done; slower_us: by how much longer it\n"
    "                                                                        took because of a slow rank, in a slow kind\n"
    "  fault, twin    KIND is about to happen here: kind, step, where\n"
    "  error          a call has failed: function, communicator, code, text\n"
    "  async_error    what ncclCommGetAsyncError says has changed: communicator, code, text\n"
    "  wrong          a result is not what it should be      link           how many sockets hear nothing any more\n"
    "  aborting, aborted, dying, destroyed                          end            the rank ends in order: status\n";

_Noreturn static void refuse(const char* what) {
  fprintf(stderr, "fault_job: %s; see --help\n", what);
  exit(2);
}

static long number(const char* text, long least) {
  char* end;
  long value = strtol(text, &end, 10);
  if (end == text || *end || value < least) refuse("a number is too small, or none");
  return value;
}

static void set_victims(char* text) {
  for (char* one; (one = strsep(&text, ","));) {
    if (options.n_victims == MOST_RANKS) refuse("--victim: too many");
    options.victims[options.n_victims++] = (int)number(one, 0);
  }
}

static void list_kinds(const kind_t* kind) {
  for (; kind->name; kind++)
    printf("{\"kind\":\"%s\",\"is_harmless\":%s,\"min_victims\":%d,\"what\":\"%s\"}\n", kind->name,
           kind->is_harmless ? "true" : "false", kind->min_victims, kind->what);
}

static void list(void) {
  list_kinds(kinds);
  list_kinds(slow_kinds);
  exit(0);
}

enum { RANK = 1, RANKS, DIR_, JOB, TENSOR, STAGES, STEPS, BYTES, STEP_MS, SEED, FAULT, VICTIM, AT, PAUSE, WATCHDOG, ABORT, DIE, ON_ERROR,
       PERCENT, EVERY, SPREAD, LAYERS, PIECES };

static const struct option names[] = {
    {"rank", 1, NULL, RANK},       {"ranks", 1, NULL, RANKS},         {"dir", 1, NULL, DIR_},
    {"job", 1, NULL, JOB},         {"tensor", 1, NULL, TENSOR},       {"stages", 1, NULL, STAGES},
    {"steps", 1, NULL, STEPS},     {"bytes", 1, NULL, BYTES},         {"step-ms", 1, NULL, STEP_MS},
    {"seed", 1, NULL, SEED},       {"fault", 1, NULL, FAULT},         {"victim", 1, NULL, VICTIM},
    {"at", 1, NULL, AT},           {"pause-ms", 1, NULL, PAUSE},      {"watchdog-ms", 1, NULL, WATCHDOG},
    {"abort-after-ms", 1, NULL, ABORT}, {"die-after-ms", 1, NULL, DIE}, {"on-error", 1, NULL, ON_ERROR},
    {"percent", 1, NULL, PERCENT}, {"every", 1, NULL, EVERY},         {"spread-percent", 1, NULL, SPREAD},
    {"layers", 1, NULL, LAYERS},   {"pieces", 1, NULL, PIECES},
    {"list", 0, NULL, 'l'},        {"help", 0, NULL, 'h'},            {NULL, 0, NULL, 0},
};

static void set(int option, char* value) {
  switch (option) {
    case RANK: options.rank = (int)number(value, 0); break;
    case RANKS: options.n_ranks = (int)number(value, 1); break;
    case DIR_: options.dir = value; break;
    case JOB: options.job = value; break;
    case TENSOR: options.n_tensor = (int)number(value, 1); break;
    case STAGES: options.n_stages = (int)number(value, 1); break;
    case STEPS: options.steps = number(value, 0); break;
    case BYTES: options.bytes = (size_t)number(value, 4); break;
    case STEP_MS: options.step_ms = number(value, 0); break;
    case SEED: options.seed = (uint64_t)number(value, 0); break;
    case FAULT: options.fault = value; break;
    case VICTIM: set_victims(value); break;
    case AT: options.at = number(value, 0); break;
    case PAUSE: options.pause_ms = number(value, 1); break;
    case WATCHDOG: options.watchdog_ms = number(value, 0); break;
    case ABORT: options.abort_after_ms = number(value, 0); break;
    case DIE: options.die_after_ms = number(value, 0); break;
    case PERCENT: options.percent = number(value, 1); break;
    case EVERY: options.every = number(value, 1); break;
    case SPREAD: options.spread_percent = number(value, 0); break;
    case LAYERS: options.layers = number(value, 0); break;
    case PIECES: options.pieces = number(value, 1); break;
    case ON_ERROR:
      if (strcmp(value, "exit") && strcmp(value, "wait")) refuse("--on-error: exit or wait");
      options.exits_on_error = !strcmp(value, "exit");
      break;
    case 'l': list(); break;
    case 'h': fputs(help_text, stdout); exit(0);
    default: refuse("an unknown option");
  }
}

static void parse(int argc, char** argv) {
  options = (options_t){.rank = -1, .job = "dp", .n_tensor = 2, .n_stages = 2, .steps = 10, .bytes = 262144, .step_ms = 20,
                        .seed = 1, .fault = "none", .at = 5, .watchdog_ms = 100, .exits_on_error = 1, .percent = 30,
                        .every = 20, .spread_percent = 25, .pieces = 1};
  for (int option; (option = getopt_long(argc, argv, "", names, NULL)) != -1;) set(option, optarg);
}

static void check_options(void) {
  int is_2d = !strcmp(options.job, "2d"), is_3d = !strcmp(options.job, "3d");
  const kind_t* kind = find_kind(options.fault);
  if (!is_2d && !is_3d && strcmp(options.job, "dp")) refuse("--job: dp, 2d or 3d");
  if (!is_2d && !is_3d) options.n_tensor = 1;
  if (!is_3d) options.n_stages = 1;
  if (!options.dir || options.rank < 0 || !options.n_ranks) refuse("give --rank, --ranks and --dir");
  if (options.n_ranks < 0 || options.n_ranks > MOST_RANKS) refuse("--ranks: more than a job may have, or fewer than one");
  if (options.rank >= options.n_ranks) refuse("--rank: not below --ranks; the first rank is 0");
  if (options.n_ranks % (options.n_tensor * options.n_stages)) refuse("--ranks: not a multiple of tensor (x stages)");
  if (!options.pause_ms && is_slow_kind()) options.pause_ms = SLOW_PAUSE_MS;
  if (!kind) refuse("--fault: an unknown kind, see --list");
  if (options.n_victims < kind->min_victims) refuse("--victim: this kind needs one");
  for (int at = 0; at < options.n_victims; at++)
    if (options.victims[at] >= options.n_ranks) refuse("--victim: no rank of this job");
  if (options.n_victims == options.n_ranks && strstr(options.fault, "init")) refuse("--victim: nobody is left");
  if (!strcmp(options.fault, "unequal_stages") && !is_3d) refuse("unequal_stages: needs --job 3d");
  if (!strcmp(options.fault, "uneven_work") && options.n_ranks % 2) refuse("uneven_work: needs an even number of ranks");
  if (!strcmp(options.fault, "elastic") && options.n_ranks <= options.n_tensor * options.n_stages)
    refuse("elastic: needs two replicas");
}

int main(int argc, char** argv) {
  parse(argc, argv);
  check_options();
  say("start", "\"job\":\"%s\",\"n_ranks\":%d,\"kind\":\"%s\"", options.job, options.n_ranks, options.fault);
  check("rscclStreamCreate", rscclStreamCreate(&stream), NULL);
  start_watchdog();
  before_meeting();
  form(options.n_ranks, 0);
  train();
  before_parting();
  part_extras();
  part();
  say("end", "\"status\":0");
  return 0;
}

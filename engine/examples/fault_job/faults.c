/* What goes wrong, and what only looks like it. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fault_job.h"
#include "link.h"

enum { PATH_BYTES = 4096, MANY = 8, LEAST_PAUSE_MS = 3000, PAUSE_SPREAD_MS = 5000, LARGE_BYTES = 16 << 20 };

const kind_t kinds[] = {
    {"stop", 0, 1, "stops itself by SIGSTOP before a call"},
    {"kill", 0, 1, "kills itself by SIGKILL before a call; with all ranks of a host as victims, the host is lost"},
    {"crash", 0, 1, "ends by SIGABRT before a call"},
    {"exit", 0, 1, "exits before a call without destroying its communicators"},
    {"exit_destroy", 0, 1, "destroys its communicators and exits, long before the others are done"},
    {"skip_one", 0, 1, "leaves one call out and goes on with the next"},
    {"busy_loop", 0, 1, "computes for ever instead of calling"},
    {"sleep", 0, 1, "sleeps for ever instead of calling"},
    {"blocked_read", 0, 1, "reads a pipe that nobody writes to, as a data loader does"},
    {"blocked_lock", 0, 1, "waits for a lock that another of its threads does not give back"},
    {"other_primitive", 0, 1, "calls ncclAllGather where the others call ncclAllReduce"},
    {"other_count", 0, 1, "calls with half of the elements"},
    {"other_type", 0, 1, "calls with another data type: of the same size where the seed is even, else of a smaller one"},
    {"other_op", 0, 1, "calls with another reduction operator"},
    {"other_root", 0, 1, "takes another rank for the root of a broadcast"},
    {"swapped_order", 0, 1, "calls on two communicators in the other order"},
    {"send_alone", 0, 1, "sends to the next rank, which does not receive"},
    {"recv_alone", 0, 1, "receives from the next rank, which does not send"},
    {"send_size", 0, 1, "sends half of what the next rank receives"},
    {"never_comes", 0, 1, "does not come to the job's first communicator"},
    {"init_missing", 0, 1, "does not come to the making of a further communicator"},
    {"init_other_count", 0, 1, "comes to the making of a further communicator with another number of ranks"},
    {"split_missing", 0, 1, "does not come to a split"},
    {"pair_init", 0, 1, "makes two communicators with the next rank, which makes them in the other order"},
    {"destroy_stuck", 0, 1, "destroys a communicator on which the others still call; waits there for the ranks of its host"},
    {"abort", 0, 1, "aborts its communicators while the others wait, and lives on"},
    {"raise", 0, 1, "has an error of its own, and goes to destroy its communicators"},
    {"stream_busy", 0, 1, "goes on calling on a stream that is busy for ever with something else"},
    {"group_open", 0, 1, "begins a group, calls in it, and never ends it"},
    {"link_dead", 0, 1, "loses all that comes to it over the network; needs ranks on several hosts"},
    {"none", 1, 0, "nothing: the healthy job"},
    {"late", 1, 1, "comes late to the first communicator"},
    {"slow_start", 1, 1, "computes for long in its first step, as one that compiles"},
    {"pauses", 1, 0, "all ranks pause now and then"},
    {"checkpoint", 1, 1, "writes a file and sleeps while the others wait"},
    {"evaluation", 1, 1, "computes for a while alone"},
    {"uneven", 1, 0, "ranks compute for different times"},
    {"early_end", 1, 0, "the job ends in order before its last step"},
    {"staggered_end", 1, 0, "ranks end one after another"},
    {"elastic", 1, 0, "all destroy their communicators, the last replica leaves, and the others go on with new ones"},
    {"unused_comm", 1, 0, "all make a communicator that nobody uses"},
    {"many_comms", 1, 0, "all make many communicators and use them in turn"},
    {NULL, 0, 0, NULL},
};

static group_t extras[MANY];

const kind_t* find_kind(const char* name) {
  const kind_t* const all[] = {kinds, slow_kinds};
  for (int of = 0; of < 2; of++)
    for (const kind_t* kind = all[of]; kind->name; kind++)
      if (!strcmp(kind->name, name)) return kind;
  return NULL;
}

static int is(const char* name) { return !strcmp(options.fault, name); }

int is_victim_rank(int rank) {
  for (int at = 0; at < options.n_victims; at++)
    if (options.victims[at] == rank) return 1;
  return 0;
}

int is_victim(void) { return is_victim_rank(options.rank); }

/* The rank that the first victim has to do with. */
static int partner(void) { return options.n_victims ? (options.victims[0] + 1) % options.n_ranks : -1; }

int fails_now(const char* name, long step) { return step == options.at && is(name) && is_victim(); }

static long pause_ms(void) {
  if (options.pause_ms > 0) return options.pause_ms;
  return LEAST_PAUSE_MS + (long)(random_of("pause", 0) % PAUSE_SPREAD_MS);
}

void tell(long step, const char* where) {
  const kind_t* kind = find_kind(options.fault);
  say(kind->is_harmless ? "twin" : "fault", "\"kind\":\"%s\",\"step\":%ld,\"where\":\"%s\"", kind->name, step, where);
}

/* ---- Instead of a call. */

static void read_for_ever(void) {
  char path[PATH_BYTES], byte;
  snprintf(path, sizeof path, "%s/samples-%d.fifo", options.dir, options.rank);
  unlink(path);
  if (mkfifo(path, 0600)) perror(path);
  int pipe = open(path, O_RDWR | O_CLOEXEC);
  while (read(pipe, &byte, 1) != 1) {
  }
}

static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;

static void* hold(void* is_held) {
  pthread_mutex_lock(&held);
  pthread_barrier_wait(is_held);
  wait_for_ever();
}

static void lock_for_ever(void) {
  pthread_t thread;
  pthread_barrier_t is_held;
  pthread_barrier_init(&is_held, NULL, 2);
  if (pthread_create(&thread, NULL, hold, &is_held)) return;
  pthread_barrier_wait(&is_held);
  pthread_mutex_lock(&held);
}

static void keep_busy(void* unused) {
  (void)unused;
  wait_for_ever();
}

static void open_group(void) {
  group_t* group = &groups.grads;
  static float value[2];
  check("ncclGroupStart", ncclGroupStart(), NULL);
  check("ncclAllReduce", ncclAllReduce(value, value + 1, 1, ncclFloat32, ncclSum, group->comm, stream), group);
  wait_for_ever();
}

static void leave(int status) {
  part();
  say("end", "\"status\":%d", status);
  exit(status);
}

static void destroy_early(void) {
  destroy_group(&groups.world);
  say("destroyed", "\"communicator\":\"world\"");
  wait_for_ever();
}

static void give_up(void) {
  abort_all();
  say("aborted", "\"by\":\"itself\"");
  wait_for_ever();
}

static void fail_instead_of_calling(void) {
  if (is("stop")) raise(SIGSTOP);
  if (is("kill")) raise(SIGKILL);
  if (is("crash")) abort();
  if (is("exit")) exit(1);
  if (is("exit_destroy")) leave(0);
  if (is("busy_loop"))
    for (;;) work_us(1000000);
  if (is("sleep")) wait_for_ever();
  if (is("blocked_read")) read_for_ever();
  if (is("blocked_lock")) lock_for_ever();
  if (is("destroy_stuck")) destroy_early();
  if (is("abort")) give_up();
  if (is("raise")) leave(1);
  if (is("stream_busy")) check("rscclStreamCall", rscclStreamCall(stream, keep_busy, NULL), NULL);
  if (is("group_open")) open_group();
  if (is("link_dead")) say("link", "\"sockets\":%d", drop_what_comes());
}

static const char* const instead_of_a_call[] = {"stop",         "kill",          "crash", "exit",  "exit_destroy", "busy_loop",
                                                "sleep",        "blocked_read",  "abort", "raise", "blocked_lock", "group_open",
                                                "stream_busy",  "destroy_stuck", "link_dead", NULL};

/* Before which call of the step: the same on all ranks. */
static int place_of_fault(void) {
  int place = (int)(random_of("place", (uint64_t)options.at) % PLACES);
  return place == 2 && !groups.stages.comm ? 3 : place;
}

void before_call(long step, int place) {
  static int has_failed;
  if (has_failed || step != options.at || !is_victim() || place != place_of_fault()) return;
  for (const char* const* kind = instead_of_a_call; *kind; kind++) {
    if (!is(*kind)) continue;
    has_failed = 1;
    static const char* const places[PLACES] = {"broadcast", "tensor", "stages", "grads", "loss"};
    tell(step, places[place]);
    fail_instead_of_calling();
  }
}

/* ---- Another call. */

reduction_t reduction(long step, size_t count) {
  reduction_t how = {0, 0, ncclFloat32, count, ncclSum};
  if (step != options.at || !is_victim()) return how;
  if (is("skip_one")) how.skips = 1;
  else if (is("other_primitive")) how.is_gather = 1;
  else if (is("other_count")) how.count = count / 2 + 1;
  else if (is("other_type")) how.type = options.seed % 2 ? ncclFloat16 : ncclInt32;
  else if (is("other_op")) how.op = ncclMax;
  else {
    /* Told here, where it is not told elsewhere: the two calls before are made in the other order. */
    if (is("swapped_order")) tell(step, "loss before grads");
    return how;
  }
  tell(step, "grads");
  return how;
}

int root(long step, int usual) {
  if (!fails_now("other_root", step)) return usual;
  tell(step, "broadcast");
  return (usual + 1) % groups.world.n_ranks;
}

/* ---- Messages and communicators beside the usual ones. */

static void message(long step) {
  static float* large;
  group_t* world = &groups.world;
  size_t count = LARGE_BYTES / sizeof(float);
  int first = options.n_victims && options.victims[0] == options.rank, second = options.rank == partner();
  if (!first && !(second && is("send_size"))) return;
  if (!large) large = calloc(count, sizeof(float));
  if (!large) exit(2);
  if (first) tell(step, "message");
  if (first && is("recv_alone"))
    check("ncclRecv", ncclRecv(large, count, ncclFloat32, partner(), world->comm, stream), world);
  else if (first)
    check("ncclSend", ncclSend(large, is("send_size") ? count / 2 : count, ncclFloat32, partner(), world->comm, stream), world);
  else check("ncclRecv", ncclRecv(large, count, ncclFloat32, options.victims[0], world->comm, stream), world);
  synchronize();
}

static void init_extra(long step) {
  int first = 0;
  while (is_victim_rank(first)) first++;
  if (!is_victim()) return init_group(&extras[0], "extra", options.rank, options.n_ranks, options.rank == first);
  tell(step, "init");
  if (is("init_missing")) wait_for_ever();
  init_group(&extras[0], "extra", options.rank, options.n_ranks + 1, 0);
}

static void split_extra(long step) {
  if (is_victim()) {
    tell(step, "split");
    wait_for_ever();
  }
  split_group(&extras[0], &groups.world, 0, options.rank, "extra");
}

/* Each makes the id of the communicator that it makes first. */
static void make_pairs(long step) {
  int first = options.n_victims && options.victims[0] == options.rank, second = options.rank == partner();
  if (first) tell(step, "init");
  if (first) init_group(&extras[0], "pair-a", 0, 2, 1);
  if (first || second) init_group(&extras[1], "pair-b", first ? 0 : 1, 2, second);
  if (second) init_group(&extras[0], "pair-a", 1, 2, 0);
}

/* ---- What looks like a fault. */

static void checkpoint(long step) {
  char path[PATH_BYTES];
  tell(step, "checkpoint");
  snprintf(path, sizeof path, "%s/checkpoint-%d", options.dir, options.rank);
  FILE* file = fopen(path, "wb");
  if (file) fprintf(file, "step %ld\n", step), fclose(file);
  sleep_ms(pause_ms());
}

static int shrink_job(long step) {
  int left = options.n_ranks - options.n_tensor * options.n_stages;
  tell(step, "restart");
  part();
  if (options.rank >= left) return 0;
  form(left, 1);
  return 1;
}

static void use_one_of_many(long step) {
  static float value[2] = {1, 0};
  char name[NAME_BYTES];
  for (int at = 0; at < MANY && step == 0; at++) {
    snprintf(name, sizeof name, "extra-%d", at);
    split_group(&extras[at], &groups.world, 0, options.rank, name);
  }
  group_t* group = &extras[step % MANY];
  check("ncclAllReduce", ncclAllReduce(value, value + 1, 1, ncclFloat32, ncclSum, group->comm, stream), group);
}

void part_extras(void) {
  for (int at = 0; at < MANY; at++) destroy_group(&extras[at]);
  part_slow();
}

int between_steps(long step) {
  int is_now = step == options.at;
  if (is("many_comms")) use_one_of_many(step);
  if (is("pauses") && step % 3 == 2) sleep_ms((long)(200 + random_of("pause", (uint64_t)step) % 1000));
  if (is("slow_start") && step == 0 && is_victim()) tell(step, "compute"), work_us(pause_ms() * 1000);
  if (!is_now) return 1;
  if (is("send_alone") || is("recv_alone") || is("send_size")) message(step);
  if (is("init_missing") || is("init_other_count")) init_extra(step);
  if (is("split_missing")) split_extra(step);
  if (is("pair_init")) make_pairs(step);
  if (is("unused_comm")) split_group(&extras[0], &groups.world, 0, options.rank, "unused");
  if (is("checkpoint") && is_victim()) checkpoint(step);
  if (is("evaluation") && is_victim()) tell(step, "compute"), work_us(pause_ms() * 1000);
  if (is("early_end")) return 0;
  return is("elastic") ? shrink_job(step) : 1;
}

void before_meeting(void) {
  if (is("never_comes") && is_victim()) tell(-1, "init"), wait_for_ever();
  if (is("late") && is_victim()) tell(-1, "init"), sleep_ms(pause_ms());
}

void before_parting(void) {
  if (is("staggered_end")) sleep_ms(options.rank * 50L);
}

/* One rank of a training step. What it computes is pretended, by sleeping until a given instant; what it tells the other
 * ranks is real. It reads commands from stdin, one a line, and answers each with one line on stdout, which begins with
 * "ok" or "error".
 *
 *   rank RANK N_RANKS               who it is
 *   layout BYTES...                 a layout: the messages of a step, in the order in which they are ready
 *   id                              a new unique id, in hexadecimal
 *   init ALGORITHM ID               a communicator: ring or hierarchical
 *   join                            the summation group that the environment names
 *   step WAY LAYOUT AT READY...     a step that begins at AT; message i is ready READY[i] later. WAY is ring, hierarchical
 *                                   or summation; LAYOUT counts from 0. Answers the time from AT until all sums are
 *                                   there, which are then checked
 *   now                             the clock
 *   leave                           all that it is in
 *
 * Times are nanoseconds; the clock is CLOCK_MONOTONIC, which all processes of the machine share. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../told.h"
#include "rsum.h"

enum { MAX_LAYOUTS = 8, MAX_MESSAGES = 1024, MAX_LINE = 1 << 16, PATTERN = 13 };
enum { RING, HIERARCHICAL, SUMMATION, N_WAYS };

struct layout {
  int n;
  size_t counts[MAX_MESSAGES], offsets[MAX_MESSAGES], total;
  int tensors[MAX_MESSAGES], handles[MAX_MESSAGES];
};

static const char* const WAYS[N_WAYS] = {"ring", "hierarchical", "summation"};
static int rank, n_ranks, n_layouts, is_member;
static struct layout layouts[MAX_LAYOUTS];
static ncclComm_t comms[SUMMATION];
static float *from, *into;
static size_t room;

static int sum_failed(int code) {
  if (code == 0) return 0;
  printf("error %d summation: %s\n", code, rsum_last_error());
  return 1;
}

static void sleep_until(long long at) {
  struct timespec until = {at / 1000000000LL, at % 1000000000LL};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL)) {
  }
}

static int way(const char* name) {
  for (int i = 0; i < N_WAYS; i++)
    if (!strcmp(name, WAYS[i])) return i;
  return -1;
}

static void add_layout(char* words) {
  if (n_layouts == MAX_LAYOUTS) {
    printf("error more than %d layouts\n", MAX_LAYOUTS);
    return;
  }
  struct layout* l = &layouts[n_layouts];
  for (char* word = strtok(words, " \n"); word && l->n < MAX_MESSAGES; word = strtok(NULL, " \n")) {
    l->counts[l->n] = strtoull(word, NULL, 10) / sizeof(float);
    l->offsets[l->n] = l->total;
    l->total += l->counts[l->n++];
  }
  if (l->total > room) {
    room = l->total;
    from = realloc(from, room * sizeof *from);
    into = realloc(into, room * sizeof *into);
    /* Small whole numbers, so that sums are exact. */
    for (size_t i = 0; i < room; i++) from[i] = (float)(rank + 1) * (float)(1 + i % PATTERN);
  }
  n_layouts++;
  printf("ok\n");
}

static void init(const char* algorithm, const char* hex) {
  int which = way(algorithm);
  if (which < 0 || which == SUMMATION) {
    printf("error no such algorithm: %s\n", algorithm);
    return;
  }
  /* Settings are read when a communicator is made. */
  setenv("RSCCL_ALGO", algorithm, 1);
  if (!failed(ncclCommInitRank(&comms[which], n_ranks, of_hex(hex), rank))) printf("ok\n");
}

static void join(void) {
  if (sum_failed(rsum_init())) return;
  is_member = 1;
  for (int l = 0; l < n_layouts; l++) {
    for (int i = 0; i < layouts[l].n; i++) {
      char name[64];
      snprintf(name, sizeof name, "gradient.%d.%d", l, i);
      layouts[l].tensors[i] = rsum_declare(name, layouts[l].counts[i], ncclFloat32, NULL);
      if (layouts[l].tensors[i] < 0 && sum_failed(1)) return;
    }
  }
  printf("ok\n");
}

static int begin(int which, struct layout* l, int i) {
  float *send = from + l->offsets[i], *recv = into + l->offsets[i];
  if (which != SUMMATION)
    return failed(ncclAllReduce(send, recv, l->counts[i], ncclFloat32, ncclSum, comms[which], stream));
  l->handles[i] = rsum_push_pull_async(l->tensors[i], send, recv, rsumSum);
  return l->handles[i] < 0 && sum_failed(1);
}

static int wait_for_all(int which, struct layout* l) {
  if (which != SUMMATION) return failed(rscclStreamSynchronize(stream));
  for (int i = 0; i < l->n; i++)
    if (sum_failed(rsum_wait(l->handles[i]))) return 1;
  return 0;
}

static int is_right(struct layout* l) {
  float ranks = (float)(n_ranks * (n_ranks + 1) / 2);
  for (size_t i = 0; i < l->total; i++) {
    float wanted = ranks * (float)(1 + i % PATTERN);
    if (into[i] != wanted) {
      printf("error rank %d: element %zu is %g, not %g\n", rank, i, into[i], wanted);
      return 0;
    }
  }
  return 1;
}

static void step(int which, struct layout* l, long long at, char* readies) {
  for (size_t i = 0; i < l->total; i++) into[i] = -1;
  for (int i = 0; i < l->n; i++) {
    char* word = strtok(i ? NULL : readies, " \n");
    if (!word) {
      printf("error %d messages are ready, and there are %d\n", i, l->n);
      return;
    }
    sleep_until(at + strtoll(word, NULL, 10));
    if (begin(which, l, i)) return;
  }
  if (wait_for_all(which, l)) return;
  long long took = now_ns() - at;
  if (is_right(l)) printf("ok %lld\n", took);
}

static void leave(void) {
  for (int i = 0; i < SUMMATION; i++) {
    if (comms[i] && failed(ncclCommDestroy(comms[i]))) return;
    comms[i] = NULL;
  }
  if (is_member && sum_failed(rsum_shutdown())) return;
  is_member = 0;
  printf("ok\n");
}

static void obey(char* line) {
  char word[64] = "", name[512] = "";
  int l = 0, rest = 0;
  long long at = 0;
  if (sscanf(line, "rank %d %d", &rank, &n_ranks) == 2) {
    printf("ok\n");
  } else if (!strncmp(line, "layout ", 7)) {
    add_layout(line + 7);
  } else if (sscanf(line, "init %63s %511s", word, name) == 2) {
    init(word, name);
  } else if (sscanf(line, "step %63s %d %lld %n", word, &l, &at, &rest) == 3) {
    int which = way(word);
    if (which < 0 || l < 0 || l >= n_layouts) printf("error no such way or layout: %s %d\n", word, l);
    else step(which, &layouts[l], at, line + rest);
  } else if (!strncmp(line, "id", 2)) {
    unique_id();
  } else if (!strncmp(line, "join", 4)) {
    join();
  } else if (!strncmp(line, "now", 3)) {
    printf("ok %lld\n", now_ns());
  } else if (!strncmp(line, "leave", 5)) {
    leave();
  } else {
    printf("error no such command: %s", line);
  }
}

int main(void) {
  static char line[MAX_LINE];
  return serve(line, sizeof line, obey);
}

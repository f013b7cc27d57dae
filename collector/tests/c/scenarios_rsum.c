/* Calls of the summation service, one scenario each. */
#include "rsum.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/wait.h>

enum { FLOAT32 = 7 };

void stub_unseen_round(int tensor);
void stub_sample(void);
void stub_end(int how);
void stub_announce(void);

static float buffer[100];
/* One that the service refuses. */
#define NO_STREAM buffer

static int push_pull(int tensor) { return rsum_push_pull(tensor, buffer, buffer, rsumSum); }

static int has_watcher(void) {
  char line[4096];
  int found = 0;
  FILE* maps = fopen("/proc/self/maps", "r");
  while (fgets(line, sizeof line, maps)) found |= strstr(line, "/libringscope_watcher.so") != NULL;
  fclose(maps);
  return found;
}

int main(int argc, char** argv) {
  const char* scenario = argc > 1 ? argv[1] : "";
  if (rsum_init()) return 1;
  if (has_watcher()) return 6;
  if (rsum_declare("gradient.a", 100, FLOAT32, NULL) != 0 || rsum_declare("gradient.b", 10, FLOAT32, NULL) != 1) return 2;
  if (!strcmp(scenario, "calls")) {
    /* Before the group has begun, then after. */
    if (push_pull(0) || push_pull(0) || push_pull(1)) return 3;
    if (push_pull(5) == 0) return 4;
    int both = rsum_push_pull_async(1, buffer, buffer, rsumSum);
    int push = rsum_push_async(0, buffer, rsumAverage);
    if (rsum_pull_async(push, buffer) || rsum_wait(both) || rsum_wait(push)) return 5;
    stub_unseen_round(1);
    stub_sample();
    stub_end(1);
  } else if (!strcmp(scenario, "announced")) {
    stub_announce();
    if (push_pull(0)) return 3;
    stub_end(1);
  } else if (!strcmp(scenario, "stream")) {
    if (push_pull(0)) return 3;
    int staged = rsum_push_pull_on_stream(0, buffer, buffer, rsumSum, NULL);
    if (staged < 0 || rsum_push_pull_on_stream(1, buffer, buffer, rsumSum, NO_STREAM) >= 0) return 4;
    if (rsum_wait(staged) || push_pull(1)) return 5;
    stub_end(1);
  } else if (!strcmp(scenario, "failure")) {
    if (push_pull(0)) return 3;
    rsum_push_pull_async(0, buffer, buffer, rsumSum);
    rsum_push_pull_async(1, buffer, buffer, rsumSum);
    stub_sample();
    stub_end(3);
  } else if (!strcmp(scenario, "again") || !strcmp(scenario, "lost")) {
    if (push_pull(0)) return 3;
    int lost = rsum_push_pull_async(0, buffer, buffer, rsumSum);
    stub_sample();
    stub_end(scenario[0] == 'l' ? 3 : 2);
    if (push_pull(0) || push_pull(0) || lost < 0) return 4;
  } else if (!strcmp(scenario, "fork")) {
    if (push_pull(0)) return 3;
    rsum_push_pull_async(0, buffer, buffer, rsumSum);
    pid_t child = fork();
    int status;
    if (child == 0) _exit(push_pull(0));
    if (waitpid(child, &status, 0) != child || status) return 4;
    if (push_pull(0)) return 5;
  } else if (!strcmp(scenario, "child_group")) {
    if (push_pull(0) || rsum_push_pull_async(0, buffer, buffer, rsumSum) < 0 || !has_watcher()) return 3;
    pid_t child = fork();
    int status;
    if (child == 0) {
      /* What it has of its parent's group is over; the next call makes one of its own. */
      stub_end(1);
      _exit(push_pull(0) || push_pull(0));
    }
    if (waitpid(child, &status, 0) != child || status) return 4;
    if (push_pull(0)) return 5;
  } else if (!strcmp(scenario, "stuck")) {
    setenv("STUCK", "1", 1);
    if (push_pull(0)) return 3;
    return push_pull(0) ? 4 : 5;
  } else if (!strcmp(scenario, "large")) {
    if (push_pull(0) || push_pull(1)) return 3;
  } else {
    return 9;
  }
  return 0;
}

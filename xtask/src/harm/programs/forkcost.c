/* What a child of a rank costs, as a DataLoader's workers: forkcost WORKERS. All live at once, each tells how much memory it
 * made its own and how many pages it faulted in; then what fork, _exit and wait take. */
#include "harm.h"
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

struct told { double dirty_kb, faults; };

static double private_dirty_kb(void) {
  FILE *file = fopen("/proc/self/smaps_rollup", "r");
  char line[256];
  double value = -1;
  while (file && fgets(line, sizeof line, file)) if (!strncmp(line, "Private_Dirty:", 14)) value = atof(line + 14);
  if (file) fclose(file);
  return value;
}

int main(int argc, char **argv) {
  int n = argc > 1 ? atoi(argv[1]) : 128;
  ncclComm_t comm = make_comm(0);
  for (int i = 0; i < 100; i++) all_reduce(comm, 1);
  struct told *told = mmap(NULL, (size_t)n * sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  int gate[2];
  if (pipe(gate)) return 1;
  for (int i = 0; i < n; i++) {
    if (fork()) continue;
    struct rusage usage;
    char byte;
    getrusage(RUSAGE_SELF, &usage);
    told[i].faults = (double)usage.ru_minflt;
    told[i].dirty_kb = private_dirty_kb();
    close(gate[1]);
    _exit(read(gate[0], &byte, 1) != 0);
  }
  usleep(300000);
  close(gate[1]);
  for (int i = 0, status; i < n; i++) if (wait(&status) < 0 || status) say("a worker failed");
  double dirty = 0, faults = 0, times[301];
  for (int i = 0; i < n; i++) dirty += told[i].dirty_kb, faults += told[i].faults;
  figure("child_dirty_kb", dirty / n);
  figure("child_faults", faults / n);
  for (int i = 0; i < 301; i++) {
    double begun = now_s();
    int child = fork();
    if (!child) _exit(0);
    waitpid(child, NULL, 0);
    times[i] = (now_s() - begun) * 1e6;
  }
  figure("fork_us", median(times, 301));
  return 0;
}

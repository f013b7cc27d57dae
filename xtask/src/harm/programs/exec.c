/* What it takes to start /bin/true: median of 501, in this program's own environment. */
#include "harm.h"
#include <spawn.h>
#include <sys/wait.h>

extern char **environ;

int main(void) {
  char *arguments[] = {"/bin/true", NULL};
  static double times[501];
  for (int i = 0; i < 501; i++) {
    pid_t child;
    int status;
    double begun = now_s();
    posix_spawn(&child, arguments[0], NULL, NULL, arguments, environ);
    waitpid(child, &status, 0);
    times[i] = (now_s() - begun) * 1e6;
    if (status) say("failed");
  }
  figure("exec_us", median(times, 501));
  return 0;
}

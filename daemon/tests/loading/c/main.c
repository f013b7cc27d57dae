/* A training program: RANK PIPES [FLAG LIBRARY]…. Trains with each of its frameworks, says so, and waits to be told to
 * end, so that others can look at it while its communicators live. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int framework_train(int rank, const char* pipe);
int framework_end(void);

typedef int (*train_t)(int, const char*);
typedef int (*end_t)(void);

int main(int argc, char** argv) {
  end_t ends[8];
  int n = 0, rank = atoi(argv[1]);
  char pipe[4096];
#ifdef LINKED
  snprintf(pipe, sizeof pipe, "%s0", argv[2]);
  if (framework_train(rank, pipe)) return 1;
  ends[n++] = framework_end;
#endif
  for (int i = 3; i + 1 < argc && n < 8; i += 2) {
    int deep = strcmp(argv[i], "deepbind") == 0 ? RTLD_DEEPBIND : 0;
    void* handle = dlopen(argv[i + 1], RTLD_NOW | RTLD_LOCAL | deep);
    if (!handle) {
      fprintf(stderr, "%s\n", dlerror());
      return 2;
    }
    snprintf(pipe, sizeof pipe, "%s%d", argv[2], n);
    if (((train_t)dlsym(handle, "framework_train"))(rank, pipe)) return 1;
    ends[n++] = (end_t)dlsym(handle, "framework_end");
  }
  printf("TRAINED\n");
  fflush(stdout);
  getchar();
  for (int i = 0; i < n; i++)
    if (ends[i]()) return 1;
  return 0;
}

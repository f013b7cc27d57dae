/* Asks a real library for answers that it has without a GPU, and calls functions with nothing but NULL, each in a process
 * of its own. Prints what it gets: with and without the collector it must be the same. The generated symbols.h has
 *   #define EXPORTED "ncclX", ...    what the library exports
 *   #define CALLED   "ncclX", ...    what is called with NULL */
#define _GNU_SOURCE
#include "symbols.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *exported[] = {EXPORTED}, *called[] = {CALLED};
#define LENGTH(array) (sizeof(array) / sizeof *(array))

typedef struct { char internal[128]; } ncclUniqueId;
typedef struct ncclComm *ncclComm_t;
int ncclGetVersion(int *);
int ncclGetUniqueId(ncclUniqueId *);
const char *ncclGetErrorString(int);
const char *ncclGetLastError(ncclComm_t);
int ncclCommInitRank(ncclComm_t *, int, ncclUniqueId, int);
int ncclGroupStart(void);
int ncclGroupEnd(void);

/* More than any function takes: what is in registers, and what lies on the stack. */
struct nothing { long words[32]; };
typedef int function_t(long, long, long, long, long, long, struct nothing);

static void call(const char *name) {
  function_t *function = (function_t *)dlsym(RTLD_DEFAULT, name);
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) _exit(100 + function(0, 0, 0, 0, 0, 0, (struct nothing){{0}}));
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) printf("%s: signal %d\n", name, WTERMSIG(status));
  else printf("%s: %d\n", name, WEXITSTATUS(status) - 100);
}

int main(void) {
  for (size_t i = 0; i < LENGTH(exported); i++) {
    Dl_info info = {0};
    void *function = dlsym(RTLD_DEFAULT, exported[i]);
    if (!function || !dladdr(function, &info)) { printf("%s is missing\n", exported[i]); continue; }
    /* To stderr, because this may differ. */
    const char *base = strrchr(info.dli_fname, '/');
    fprintf(stderr, "%s %s\n", exported[i], base ? base + 1 : info.dli_fname);
  }
  for (size_t i = 0; i < LENGTH(called); i++) call(called[i]);
  int version = 0, result = ncclGetVersion(&version);
  printf("version %d %d\n", result, version);
  for (int i = 0; i < 10; i++) printf("error %d %s\n", i, ncclGetErrorString(i));
  printf("last error %s\n", ncclGetLastError(NULL));
  ncclUniqueId id = {{0}}, zero = {{0}};
  result = ncclGetUniqueId(&id);
  printf("id %d %d\n", result, memcmp(&id, &zero, sizeof id) != 0);
  ncclComm_t comm = NULL;
  result = ncclCommInitRank(&comm, 2, id, 1);
  printf("init %d %d\n", result, comm != NULL);
  printf("last error %s\n", ncclGetLastError(NULL));
  result = ncclGroupStart();
  printf("group %d\n", result);
  result = ncclCommInitRank(&comm, 2, id, 0);
  printf("init %d %d\n", result, comm != NULL);
  result = ncclGroupEnd();
  printf("group %d %d\n", result, comm != NULL);
  fflush(stdout);
  _exit(0);
}

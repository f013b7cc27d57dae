/* Two copies of NCCL (as two frameworks bring them), each with a profiler of its own; one is finished and unloaded, then the
 * level changes, and changes again: copies FIRST.so SECOND.so keep|close. */
#include "harm.h"
#include "level.h"
#include <dlfcn.h>

static void *function(void *object, const char *name) {
  void *found = dlsym(object, name);
  if (!found) { printf("no %s\n", name); exit(1); }
  return found;
}

struct copy { void *object; ncclComm_t comm; };

static struct copy load(const char *path) {
  struct copy copy = {dlopen(path, RTLD_NOW | RTLD_LOCAL), NULL};
  if (!copy.object) { puts(dlerror()); exit(1); }
  int (*init)(ncclComm_t *, int, ncclUniqueId, int) = function(copy.object, "ncclCommInitRank");
  ncclUniqueId id = {{3}};
  printf("init: %d\n", init(&copy.comm, 2, id, 1));
  return copy;
}

static void call(struct copy *copy) {
  int (*all)(const void *, void *, size_t, int, int, ncclComm_t, void *) = function(copy->object, "ncclAllReduce");
  for (int i = 0; i < 10; i++) if (all(NULL, NULL, 10, FLOAT, SUM, copy->comm, NULL)) say("call failed");
}

int main(int argc, char **argv) {
  if (argc < 4) return 2;
  struct copy a = load(argv[1]), b = load(argv[2]);
  call(&a);
  call(&b);
  if (!strcmp(argv[3], "close")) {
    printf("destroyed: %d\n", ((int (*)(ncclComm_t))function(b.object, "ncclCommDestroy"))(b.comm));
    dlclose(b.object);
    say("the second is gone");
  }
  for (int level = 1; level <= 4; level++) {
    ask_level(level);
    call(&a);
  }
  printf("destroyed: %d\n", ((int (*)(ncclComm_t))function(a.object, "ncclCommDestroy"))(a.comm));
  return 0;
}

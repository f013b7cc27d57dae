/* A split that does not block: the child is awaited by its pointer, the place of the pointer is given back, and the parent is
 * asked later, as a watchdog does: late stack|heap|unmapped. */
#include "harm.h"
#include <sched.h>
#include <sys/mman.h>

static ncclComm_t world, kept;

static void wait_for(ncclComm_t volatile *child) {
  if (ncclCommSplit(world, 0, 0, (ncclComm_t *)child, NULL) != IN_PROGRESS) say("not in progress");
  while (!*child) sched_yield();
  kept = *child;
}

__attribute__((noinline)) static void on_stack(void) {
  volatile ncclComm_t child = NULL;
  wait_for(&child);
}

__attribute__((noinline)) static void overwrite(void) {
  volatile char bytes[4096];
  memset((void *)bytes, 0x41, sizeof bytes);
}

int main(int argc, char **argv) {
  const char *where = argc > 1 ? argv[1] : "stack";
  world = make_comm(0);
  if (!strcmp(where, "stack")) {
    on_stack();
    overwrite();
  } else if (!strcmp(where, "heap")) {
    void *place = calloc(1, 64);
    wait_for(place);
    free(place);
    memset(malloc(64), 0x41, 64);
  } else {
    void *place = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    wait_for(place);
    munmap(place, 4096);
  }
  int state = -1;
  for (int i = 0; i < 200 && state; i++) {
    usleep(1000);
    ncclCommGetAsyncError(world, &state);
  }
  printf("parent: %d\n", state);
  for (int i = 0; i < 10; i++) all_reduce(kept, 1), all_reduce(world, 1);
  printf("destroyed: %d %d\n", ncclCommDestroy(kept), ncclCommDestroy(world));
  return 0;
}

/* Two copies of the library in one process: COPIES PLUGIN SCENARIO COPY-A COPY-B. */
#include "control.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

/* What the level `steps` asks. */
enum { STEPS = 0x165e };

struct copy { void *object; void (*up)(const char *, uint64_t); void (*call)(void); void (*down)(void); int (*asked)(void); };
static const char *plugin;

static void *symbol(void *object, const char *name) {
  void *found = dlsym(object, name);
  CHECK(found);
  return found;
}
static struct copy load(const char *path) {
  struct copy copy = {.object = dlopen(path, RTLD_NOW | RTLD_LOCAL)};
  CHECK(copy.object);
  *(void **)&copy.up = symbol(copy.object, "up");
  *(void **)&copy.call = symbol(copy.object, "call");
  *(void **)&copy.down = symbol(copy.object, "down");
  *(void **)&copy.asked = symbol(copy.object, "asked");
  return copy;
}

static void both(char **paths) {
  struct copy a = load(paths[0]), b = load(paths[1]);
  a.up(plugin, 1);
  b.up(plugin, 2);
  control(4);
  a.call();
  fprintf(stderr, "%x %x", a.asked(), b.asked());
}

/* One copy is unloaded after the end of its only communicator. */
static void unloaded(char **paths) {
  struct copy a = load(paths[0]), b = load(paths[1]);
  a.up(plugin, 1);
  b.up(plugin, 2);
  b.down();
  CHECK(dlclose(b.object) == 0 && !dlopen(paths[1], RTLD_NOW | RTLD_NOLOAD));
  control(4);
  a.call();
  fprintf(stderr, "%x", a.asked());
}

static atomic_int is_over;
static void *come_and_go(void *path) {
  for (int i = 0; i < 300; i++) {
    struct copy copy = load(path);
    copy.up(plugin, 2);
    copy.call();
    copy.down();
    CHECK(dlclose(copy.object) == 0);
  }
  is_over = 1;
  return NULL;
}

/* One copy comes and goes while the level changes. */
static void churn(char **paths) {
  pthread_t thread;
  struct copy a = load(paths[0]);
  a.up(plugin, 1);
  CHECK(pthread_create(&thread, NULL, come_and_go, paths[1]) == 0);
  for (uint32_t word = 0; !is_over; word++) {
    control(2 + word % 3);
    a.call();
  }
  CHECK(pthread_join(thread, NULL) == 0);
  control(4);
  /* Whoever followed an older word may still be at it; a call after that follows this one. */
  for (int i = 0; i < 5000 && a.asked() != STEPS; i++) {
    a.call();
    usleep(1000);
  }
  fprintf(stderr, "%x", a.asked());
}

int main(int argc, char **argv) {
  static const struct { const char *name; void (*run)(char **paths); } scenarios[] = {
      {"both", both}, {"unloaded", unloaded}, {"churn", churn},
  };
  CHECK(argc == 5);
  plugin = argv[1];
  for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++)
    if (!strcmp(argv[2], scenarios[i].name)) { scenarios[i].run(argv + 3); return 0; }
  return 97;
}

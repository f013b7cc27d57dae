/* As much of a copy of the library as speaks version V of the profiler interface; its activation mask is its own. */
#include "abi.h"
#include <dlfcn.h>

static table *plugin;
static void *context;
static int mask;

/* A communicator begins. */
void up(const char *path, uint64_t hash) {
  plugin = dlsym(dlopen(path, RTLD_NOW | RTLD_LOCAL), TEXT(SYMBOL));
#if V <= 3
  (void)hash;
  plugin->init(&context, &mask);
#elif V == 4
  plugin->init(&context, &mask, "copy", hash, 1, 2, 0, NULL);
#else
  plugin->init(&context, hash, &mask, "copy", 1, 2, 0, NULL);
#endif
}
void call(void) {
#if V >= 5
  descriptor it = {.kind = COLL_API, .coll_api = {.func = "AllReduce", .count = 10, .type = "ncclFloat32"}};
  void *handle = NULL;
  plugin->start(context, &handle, &it);
  if (handle) plugin->stop(handle);
#endif
}
void down(void) { plugin->finalize(context); }
int asked(void) { return mask; }

// The library's function does not return: it throws, ends its thread or is cancelled. With -DLIBRARY the library, without it
// the program, whose first argument says how.
#include <pthread.h>
#include <string.h>

extern "C" {
int ncclGroupStart(void);
extern char unwinds_by;
}

#ifdef LIBRARY
char unwinds_by;
extern "C" int ncclGetVersion(int *version) { *version = 22907; return 0; }
int ncclGroupStart(void) {
  if (unwinds_by == 't') throw 42;
  if (unwinds_by == 'e') pthread_exit((void *)7);
  if (unwinds_by == 'c') {
    pthread_cancel(pthread_self());
    pthread_testcancel();
  }
  return 0;
}
#else
static int n_ended;

struct Guard { ~Guard() { n_ended++; } };

static void *call(void *) {
  Guard guard;
  try {
    ncclGroupStart();
  } catch (int thrown) {
    return (void *)(long)thrown;
  }
  return nullptr;
}

int main(int argc, char **argv) {
  const char *ways = argc > 1 ? argv[1] : "";
  const char *known = "rtec";
  void *const expected[] = {nullptr, (void *)42, (void *)7, PTHREAD_CANCELED};
  for (int i = 0; ways[i]; i++) {
    pthread_t thread;
    void *result = nullptr;
    const char *way = strchr(known, ways[i]);
    if (!way) return 91;
    unwinds_by = *way;
    pthread_create(&thread, nullptr, call, nullptr);
    pthread_join(thread, &result);
    if (result != expected[way - known] || n_ended != i + 1) return 92;
  }
  return 0;
}
#endif

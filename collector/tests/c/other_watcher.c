/* A watcher that finds the collector's tables to be of another version. */
#include <stddef.h>

const void* ringscope_watcher(const void* collector) {
  (void)collector;
  return NULL;
}

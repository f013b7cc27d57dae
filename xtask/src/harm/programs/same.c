/* A communicator that ends past the wrappers (a handle of the library, as ctypes has it), and another one at its address. */
#include "harm.h"
#include <dlfcn.h>

int main(void) {
  void *library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_NOLOAD);
  int (*destroy)(ncclComm_t) = library ? dlsym(library, "ncclCommDestroy") : NULL;
  ncclUniqueId id = {{1}};
  ncclComm_t first, second;
  if (!destroy || ncclCommInitRank(&first, 8, id, 0)) return 1;
  for (int i = 0; i < 3; i++) all_reduce(first, 1);
  destroy(first);
  id.internal[5] = 9;
  ncclCommInitRank(&second, 4, id, 1);
  for (int i = 0; i < 10; i++) all_reduce(second, 1);
  return 0;
}

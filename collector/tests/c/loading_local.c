/* Calls the library by way of an object that is opened with RTLD_LOCAL, which brings it. */
#include <dlfcn.h>

int main(int argc, char **argv) {
  void *user = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : 0;
  int (*use)(void) = user ? (int (*)(void))dlsym(user, "use") : 0;
  /* The first call of each function, and one more. */
  return use ? use() + use() : 91;
}

/* A program that loads the library's user with RTLD_LOCAL, as Python does on `import torch`, and unloads it. */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv) {
  void *framework = argc == 3 ? dlopen(argv[2], RTLD_NOW | RTLD_LOCAL) : NULL;
  int (*run)(const char *) = framework ? (int (*)(const char *))dlsym(framework, "run_scenario") : NULL;
  if (!run) { fprintf(stderr, "%s\n", dlerror()); return 96; }
  int result = run(argv[1]);
  if (dlclose(framework) || dlopen(argv[2], RTLD_NOW | RTLD_NOLOAD)) { fputs("it is still loaded\n", stderr); return 95; }
  return result;
}

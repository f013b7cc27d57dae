/* A network plugin (version 11) that hands everything on to the one whose path is in STALE_OF, but takes the memory of one receive
   back while the other end may still write there. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "nccl_net.h"

enum { RECEIVES_BEFORE = 200 };

NetV11 ncclNetPlugin_v11;
static NetV11 of;
static _Atomic int receives;
static void* _Atomic stale;

static Code irecv(void* comm, int n, void** data, size_t* sizes, int* tags, void** memory, void** parents, void** request) {
  if (stale) {
    *request = NULL; /* no receive any more */
    return OK;
  }
  Code code = of.irecv(comm, n, data, sizes, tags, memory, parents, request);
  if (code == OK && *request && ++receives == RECEIVES_BEFORE) {
    stale = memory[0];
    return of.dereg_mr(comm, memory[0]);
  }
  return code;
}

static Code dereg_mr(void* comm, void* memory) { return memory == stale ? OK : of.dereg_mr(comm, memory); }

__attribute__((constructor)) static void load(void) {
  const char* path = getenv("STALE_OF");
  void* library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
  NetV11* table = library ? dlsym(library, "ncclNetPlugin_v11") : NULL;
  if (!table) {
    fprintf(stderr, "STALE_OF names no network plugin: %s\n", path ? dlerror() : "it is not set");
    exit(1);
  }
  of = ncclNetPlugin_v11 = *table;
  ncclNetPlugin_v11.irecv = irecv;
  ncclNetPlugin_v11.dereg_mr = dereg_mr;
}

/* What the programs on the engine share. */
#define _GNU_SOURCE
#include <rsccl.h>
#include <rsccl_stream.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define OK(x)                                                     \
  do {                                                            \
    ncclResult_t result_ = (x);                                   \
    if (result_) { printf("%s -> %d\n", #x, result_); exit(1); } \
  } while (0)

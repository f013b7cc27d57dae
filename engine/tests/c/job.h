/* What the ranks of the integration tests share: NAME RANK N_RANKS ID_HEX COMMAND. */
#ifndef JOB_H_
#define JOB_H_

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef WITH_NVIDIA_HEADER
#include <nccl.h>
#else
#include "rsccl.h"
#endif
#include "rsccl_stream.h"
#include "id.h"

#define CHECK(call)                                                                                  \
  do {                                                                                               \
    ncclResult_t code_ = (call);                                                                     \
    if (code_ != ncclSuccess) {                                                                      \
      printf("FAILED %d line %d %s: %s\n", code_, __LINE__, #call, ncclGetLastError(NULL));          \
      exit(3);                                                                                       \
    }                                                                                                \
  } while (0)
#define EXPECT(condition)                                  \
  do {                                                     \
    if (!(condition)) {                                    \
      printf("WRONG line %d: %s\n", __LINE__, #condition); \
      exit(4);                                             \
    }                                                      \
  } while (0)

static int rank, n_ranks;
static ncclUniqueId id;
static ncclComm_t comm;
static cudaStream_t stream;

static inline void parse_arguments(char** argv) {
  rank = atoi(argv[1]);
  n_ranks = atoi(argv[2]);
  parse_id(&id, argv[3]);
  CHECK(rscclStreamCreate(&stream));
}

static inline void say_done(void) {
  printf("DONE\n");
  fflush(stdout);
}

#endif

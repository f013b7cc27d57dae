/* What the ranks of all experiments do alike: they read commands from stdin, one a line, and answer each with one line on stdout,
 * which begins with "ok" or "error". */
#pragma once

#include <stdio.h>
#include <time.h>

#include "rsccl.h"
#include "rsccl_stream.h"

static cudaStream_t stream;

static int failed(ncclResult_t code) {
  if (code == ncclSuccess) return 0;
  printf("error %d %s: %s\n", code, ncclGetErrorString(code), ncclGetLastError(NULL));
  return 1;
}

static long long now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void unique_id(void) {
  ncclUniqueId id;
  if (failed(ncclGetUniqueId(&id))) return;
  printf("ok ");
  for (int i = 0; i < NCCL_UNIQUE_ID_BYTES; i++) printf("%02x", (unsigned char)id.internal[i]);
  printf("\n");
}

static ncclUniqueId of_hex(const char* hex) {
  ncclUniqueId id;
  for (int i = 0; i < NCCL_UNIQUE_ID_BYTES; i++) {
    unsigned byte = 0;
    sscanf(hex + 2 * i, "%2x", &byte);
    id.internal[i] = (char)byte;
  }
  return id;
}

/* Obeys line after line, of so many bytes at most. */
static int serve(char* line, int size, void (*obey)(char* line)) {
  if (failed(rscclStreamCreate(&stream))) return 1;
  while (fgets(line, size, stdin)) {
    obey(line);
    fflush(stdout);
  }
  return 0;
}

/* A unique id as text, as one rank hands it to another. Include it after nccl.h or rsccl.h. */
#ifndef ID_H_
#define ID_H_

#include <stdio.h>

static inline void parse_id(ncclUniqueId* id, const char* hex) {
  for (int i = 0; i < NCCL_UNIQUE_ID_BYTES; i++) {
    unsigned byte = 0;
    sscanf(hex + 2 * i, "%2x", &byte);
    id->internal[i] = (char)byte;
  }
}

#endif

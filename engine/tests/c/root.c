/* The root of a communicator, for ranks that cannot ask each other: says the unique id in hexadecimal, and stays for so many ranks'
   joining until it is ended. */
#include <stdio.h>
#include <unistd.h>

#include "rsccl.h"

int main(void) {
  ncclUniqueId id;
  ncclResult_t code = ncclGetUniqueId(&id);
  if (code != ncclSuccess) {
    printf("FAILED %d %s\n", code, ncclGetLastError(NULL));
    return 1;
  }
  printf("ID ");
  for (unsigned i = 0; i < sizeof id.internal; i++) printf("%02x", (unsigned char)id.internal[i]);
  printf("\n");
  fflush(stdout);
  for (;;) pause();
}

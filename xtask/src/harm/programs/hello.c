/* A program that has nothing to do with NCCL. */
#include <stdio.h>

int main(void) {
  puts("hello");
  return 0;
}

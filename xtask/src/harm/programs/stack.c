/* How much of a thread's stack of 16 KiB a program that has called can use: by trying, each time in a child. */
#include "harm.h"
#include <alloca.h>
#include <pthread.h>
#include <sys/wait.h>

static long n_bytes;

static void *use(void *argument) {
  volatile char *bytes = alloca((size_t)n_bytes);
  for (long i = n_bytes - 1; i >= 0; i -= 64) bytes[i] = 1;
  return argument;
}

static int fits(long n) {
  int child = fork(), status;
  if (!child) {
    pthread_attr_t attributes;
    pthread_t thread;
    n_bytes = n;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 16384);
    if (pthread_create(&thread, &attributes, use, NULL)) _exit(2);
    pthread_join(thread, NULL);
    _exit(0);
  }
  waitpid(child, &status, 0);
  return status == 0;
}

int main(void) {
  long low = 0, high = 16384;
  ncclComm_t comm = make_comm(0);
  all_reduce(comm, 1);
  while (high - low > 64) {
    long middle = (low + high) / 2;
    if (fits(middle)) low = middle;
    else high = middle;
  }
  figure("usable_bytes", (double)low);
  return ncclCommDestroy(comm);
}

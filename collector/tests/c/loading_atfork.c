/* Loading the collector asks for no handler of forks: who forks may have their lock, and wait for who loads. The first call does,
 * and a child that is made in the middle of that is none of its parent's, also where the kernel wipes no pages:
 * loading_atfork [unwiped]. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int n_asked, is_unwiped, status = -1;
static int (*call)(void);

/* As before Linux 4.14. */
int madvise(void *start, size_t length, int advice) {
  if (advice == MADV_WIPEONFORK && is_unwiped) return errno = EINVAL, -1;
  return (int)syscall(SYS_madvise, start, length, advice);
}

int __register_atfork(void (*before)(void), void (*parent)(void), void (*child)(void), void *object) {
  (void)before, (void)parent, (void)child, (void)object;
  if (n_asked++ || !call) return 0;
  pid_t process = fork();
  if (!process) {
    alarm(10);
    call();
    _exit(0);
  }
  waitpid(process, &status, 0);
  return 0;
}

int main(int argc, char **argv) {
  is_unwiped = argc > 1 && *argv[1];
  void *collector = dlopen(getenv("RINGSCOPE_COLLECTOR"), RTLD_NOW);
  if (!collector || n_asked) return 1;
  call = (int (*)(void))dlsym(collector, "ncclGroupStart");
  call();
  return n_asked ? status : 2;
}

/* Forks a child while another thread is in the middle of dlopen: there the linker stays so. The first argument says who calls
 * the library: "child", or "both", where the process itself has called before; "thread" is no child, but another thread of a
 * process that has called before; "ended" is a child that waits for a lock of the linker's, which another thread had, and is ended by
 * a signal. With a second one the library comes with an object that is opened with RTLD_LOCAL. */
#define _GNU_SOURCE
#include "loading.h"
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static sem_t is_inside, may_go_on;
static __thread int is_opening;

void *__libc_calloc(size_t, size_t);

/* The linker takes its memory here. */
void *calloc(size_t n, size_t size) {
  if (is_opening && _r_debug.r_state != RT_CONSISTENT) {
    is_opening = 0;
    sem_post(&is_inside);
    sem_wait(&may_go_on);
  }
  return __libc_calloc(n, size);
}

static void *open_another(void *unused) {
  is_opening = 1;
  return dlopen("libouter.so", RTLD_NOW) ? unused : NULL;
}

/* The linker holds a lock meanwhile that it takes to open, too. */
static int is_looking(struct dl_phdr_info *object, size_t size, void *unused) {
  (void)object, (void)size, (void)unused;
  sem_post(&is_inside);
  sem_wait(&may_go_on);
  return 1;
}

static void *look(void *unused) {
  dl_iterate_phdr(is_looking, NULL);
  return unused;
}

int main(int argc, char **argv) {
  void *user = argc > 2 ? dlopen(argv[2], RTLD_NOW | RTLD_LOCAL) : dlopen(NULL, RTLD_NOW);
  int (*use)(void) = user ? (int (*)(void))dlsym(user, "use") : NULL;
  int (*begin)(void) = user ? (int (*)(void))dlsym(user, "begin") : NULL;
  int (*stop)(void) = user ? (int (*)(void))dlsym(user, "stop") : NULL;
  if (argc < 2 || !use || !begin || !stop) return 91;
  int is_thread = !strcmp(argv[1], "thread");
  int is_ended = !strcmp(argv[1], "ended");
  if ((is_thread || !strcmp(argv[1], "both")) && begin()) return 92;
  pthread_t thread;
  sem_init(&is_inside, 0, 0);
  sem_init(&may_go_on, 0, 0);
  pthread_create(&thread, NULL, is_ended ? look : open_another, &thread);
  sem_wait(&is_inside);
  if (is_thread) {
    alarm(20);
    if (stop()) return 96;
    sem_post(&may_go_on);
    pthread_join(thread, NULL);
    return use();
  }
  pid_t child = fork();
  if (child == 0 && is_ended) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(1);
    _exit(use());
  }
  if (child == 0) {
    alarm(20); /* a hang ends so */
    _exit(_r_debug.r_state == RT_CONSISTENT ? 93 : use());
  }
  int status = 0;
  if (is_ended) {
    alarm(20);
    waitpid(child, &status, 0);
    sem_post(&may_go_on);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? 0 : 97;
  }
  void *opened = NULL;
  sem_post(&may_go_on);
  waitpid(child, &status, 0);
  pthread_join(thread, &opened);
  if (!opened) return 94;
  if (!WIFEXITED(status)) return 95;
  return WEXITSTATUS(status) ? WEXITSTATUS(status) : use();
}

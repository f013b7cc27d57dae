/* Eight ranks that make and destroy COMMUNICATORS each; while all live, a file of the job's that takes half of the file system of
 * HARM_DIR, written as data loaders do it: a page that is missing is a bus error. */
#include "harm.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <sys/wait.h>

enum { RANKS = 8 };

static void rank(int communicators, int done, int go) {
  for (int i = 0; i < communicators; i++) {
    ncclComm_t comm = make_comm(i);
    all_reduce(comm, 1);
    ncclCommDestroy(comm);
  }
  char byte = 0;
  _exit(write(done, &byte, 1) != 1 || read(go, &byte, 1) != 0);
}

static int write_half(const char *dir) {
  struct statvfs system;
  if (statvfs(dir, &system)) return 1;
  size_t half = (size_t)(system.f_blocks / 2 * system.f_frsize);
  int fd = open(dir, O_TMPFILE | O_RDWR, 0600);
  if (fd < 0 || ftruncate(fd, (off_t)half)) return 1;
  char *own = mmap(NULL, half, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (own == MAP_FAILED) return 1;
  memset(own, 1, half);
  figure("used_percent", 100.0 * (double)(system.f_blocks - system.f_bfree) / (double)system.f_blocks);
  return 0;
}

int main(int argc, char **argv) {
  int done[2], go[2], bad = 0;
  if (argc != 2 || pipe(done) || pipe(go)) return 98;
  for (int i = 0; i < RANKS; i++) {
    if (fork() == 0) {
      close(go[1]);
      rank(atoi(argv[1]), done[1], go[0]);
    }
  }
  close(done[1]);
  for (int i = 0; i < RANKS; i++) {
    char byte;
    bad += read(done[0], &byte, 1) != 1;
  }
  if (write_half(getenv("HARM_DIR"))) say("no file");
  close(go[1]);
  for (int i = 0; i < RANKS; i++) {
    int status = 1;
    wait(&status);
    bad += status != 0;
  }
  if (bad) say("a rank failed");
  return bad != 0;
}

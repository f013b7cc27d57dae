/* Writes the word by which an agent asks a collector for a level, where there is a segment. */
#include <fcntl.h>
#include <glob.h>

/* The newest segment of this process, opened; -1 without one. */
static inline int open_segment(int flags) {
  const char *dir = getenv("RINGSCOPE_DIR");
  char pattern[400];
  glob_t found;
  if (!dir) return -1;
  snprintf(pattern, sizeof pattern, "%s/%d-*.seg", dir, getpid());
  if (glob(pattern, 0, NULL, &found)) return -1;
  int fd = open(found.gl_pathv[found.gl_pathc - 1], flags | O_CLOEXEC);
  globfree(&found);
  return fd;
}

static inline void ask_level(int level) {
  const char *offset = getenv("CONTROL_OFFSET");
  int fd = open_segment(O_RDWR);
  uint32_t word = (uint32_t)level;
  if (fd < 0) return;
  if (!offset || pwrite(fd, &word, sizeof word, atol(offset)) != sizeof word) say("cannot ask");
  close(fd);
}

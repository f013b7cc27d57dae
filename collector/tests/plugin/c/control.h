/* The agent's side of the segment: how much it asks for. */
#include <fcntl.h>
#include <glob.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CHECK(what) do { if (!(what)) { fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what); exit(99); } } while (0)

static void control(uint32_t word) {
  char pattern[512];
  glob_t found;
  snprintf(pattern, sizeof pattern, "%s/*.seg", getenv("RINGSCOPE_DIR"));
  CHECK(glob(pattern, 0, NULL, &found) == 0 && found.gl_pathc == 1);
  int file = open(found.gl_pathv[0], O_RDWR);
  CHECK(pwrite(file, &word, sizeof word, atol(getenv("CONTROL_OFFSET"))) == sizeof word);
  close(file);
  globfree(&found);
}

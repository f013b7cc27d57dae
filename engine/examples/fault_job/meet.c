/* Where ranks get the unique ids of their communicators from: one of them leaves it in the job's folder. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fault_job.h"

enum { PATH_BYTES = 4096, LOOK_MS = 5 };

static void fail(const char* path) {
  perror(path);
  exit(2);
}

/* Under another name first: who reads it reads all of it. */
static ncclUniqueId leave(const char* path) {
  char before[PATH_BYTES + 8];
  ncclUniqueId id;
  check("ncclGetUniqueId", ncclGetUniqueId(&id), NULL);
  snprintf(before, sizeof before, "%s.new", path);
  FILE* file = fopen(before, "wb");
  if (!file || fwrite(&id, sizeof id, 1, file) != 1 || fclose(file) || rename(before, path)) fail(before);
  return id;
}

ncclUniqueId meet(const char* name, int makes_it) {
  char path[PATH_BYTES];
  int start = snprintf(path, sizeof path, "%s/id-", options.dir);
  if (start < 0 || (size_t)start + strlen(name) >= sizeof path) exit(2);
  /* Names have the epoch after a slash. */
  for (char* at = strcpy(path + start, name); (at = strchr(at, '/'));) *at = '-';
  if (makes_it) return leave(path);
  ncclUniqueId id;
  FILE* file;
  while (!(file = fopen(path, "rb"))) sleep_ms(LOOK_MS);
  if (fread(&id, sizeof id, 1, file) != 1) fail(path);
  fclose(file);
  return id;
}

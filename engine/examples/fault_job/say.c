/* What a rank says, and how it passes its time. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fault_job.h"

enum { LINE_BYTES = 2048, TEXT_BYTES = 1024 };

static long long ns_of(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return now.tv_sec * 1000000000LL + now.tv_nsec;
}

long long monotonic_ns(void) { return ns_of(CLOCK_MONOTONIC); }

void say(const char* event, const char* format, ...) {
  char line[LINE_BYTES];
  int used = snprintf(line, sizeof line, "{\"event\":\"%s\",\"rank\":%d,\"pid\":%d,\"monotonic_ns\":%lld,\"wall_ns\":%lld", event,
                      options.rank, (int)getpid(), monotonic_ns(), ns_of(CLOCK_REALTIME));
  if (*format) {
    line[used++] = ',';
    va_list arguments;
    va_start(arguments, format);
    used += vsnprintf(line + used, sizeof line - (size_t)used - 3, format, arguments);
    va_end(arguments);
  }
  /* What is too long is cut: names and texts are bounded, so that it does not come to that. */
  if (used > LINE_BYTES - 3) used = LINE_BYTES - 3;
  line[used++] = '}';
  line[used++] = '\n';
  for (char* rest = line; used > 0;) {
    ssize_t written = write(STDOUT_FILENO, rest, (size_t)used);
    if (written <= 0) return;
    rest += written;
    used -= (int)written;
  }
}

const char* quoted(const char* text) {
  static _Thread_local char result[TEXT_BYTES];
  size_t used = 0;
  for (const char* at = text ? text : ""; *at && used + 3 < sizeof result; at++) {
    if (*at == '"' || *at == '\\') result[used++] = '\\';
    result[used++] = (unsigned char)*at < ' ' ? ' ' : *at;
  }
  result[used] = 0;
  return result;
}

void sleep_us(long us) {
  struct timespec left = {us / 1000000, us % 1000000 * 1000};
  while (us > 0 && nanosleep(&left, &left)) {
  }
}

void sleep_ms(long ms) { sleep_us(ms * 1000); }

/* Work of a processor, as computing is. */
void work_us(long us) {
  volatile double value = 1;
  for (long long end = monotonic_ns() + us * 1000LL; monotonic_ns() < end;)
    for (int at = 0; at < 1000; at++) value = value * 1.0000001 + 1e-9;
}

_Noreturn void wait_for_ever(void) {
  for (;;) sleep_ms(3600000);
}

/* FNV-1a over the name, then the finish of splitmix64. */
uint64_t random_of(const char* name, uint64_t number) {
  uint64_t hash = 0xcbf29ce484222325ULL ^ options.seed * 0x9e3779b97f4a7c15ULL;
  for (; *name; name++) hash = (hash ^ (unsigned char)*name) * 0x100000001b3ULL;
  hash ^= number * 0xbf58476d1ce4e5b9ULL;
  hash = (hash ^ hash >> 30) * 0xbf58476d1ce4e5b9ULL;
  hash = (hash ^ hash >> 27) * 0x94d049bb133111ebULL;
  return hash ^ hash >> 31;
}

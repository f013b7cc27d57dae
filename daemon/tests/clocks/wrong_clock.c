/* Preloaded: a wall clock that is WRONG_CLOCK_AHEAD_NS ahead, as libfaketime makes one. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

typedef int read_clock(clockid_t, struct timespec *);

int clock_gettime(clockid_t id, struct timespec *at)
{
    static read_clock *real;
    if (!real)
        real = (read_clock *)dlsym(RTLD_NEXT, "clock_gettime");
    int status = real(id, at);
    if (status == 0 && id == CLOCK_REALTIME) {
        const char *ahead_ns = getenv("WRONG_CLOCK_AHEAD_NS");
        long long ns = at->tv_sec * 1000000000LL + at->tv_nsec + (ahead_ns ? atoll(ahead_ns) : 0);
        at->tv_sec = ns / 1000000000LL;
        at->tv_nsec = ns % 1000000000LL;
    }
    return status;
}

/* Preloaded: clocks of a machine of its own, as libfaketime makes them. The wall clock was WRONG_CLOCK_AHEAD_NS ahead at
 * WRONG_CLOCK_SINCE_NS, and all clocks gain WRONG_CLOCK_PPM millionths since then. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

typedef int read_clock(clockid_t, struct timespec *);

static long long number(const char *name)
{
    const char *text = getenv(name);
    return text ? atoll(text) : 0;
}

static long long ns_of(struct timespec at)
{
    return at.tv_sec * 1000000000LL + at.tv_nsec;
}

int clock_gettime(clockid_t id, struct timespec *at)
{
    static read_clock *real;
    if (!real)
        real = (read_clock *)dlsym(RTLD_NEXT, "clock_gettime");
    int status = real(id, at);
    if (status == 0 && (id == CLOCK_REALTIME || id == CLOCK_MONOTONIC)) {
        struct timespec now;
        real(CLOCK_REALTIME, &now);
        long long passed_ns = ns_of(now) - number("WRONG_CLOCK_SINCE_NS");
        long long ns = ns_of(*at) + passed_ns / 1000000 * number("WRONG_CLOCK_PPM");
        if (id == CLOCK_REALTIME)
            ns += number("WRONG_CLOCK_AHEAD_NS");
        at->tv_sec = ns / 1000000000LL;
        at->tv_nsec = ns % 1000000000LL;
    }
    return status;
}

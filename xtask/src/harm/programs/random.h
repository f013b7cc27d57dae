/* Numbers that a seed determines (splitmix64), and a hash of what happened (FNV-1a, by words). */
#include <stdint.h>

struct random { uint64_t state; };

static inline uint64_t next(struct random *random) {
  uint64_t z = (random->state += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

static inline int below(struct random *random, int n) { return (int)(next(random) % (uint64_t)n); }

static inline void mix(uint64_t *hash, uint64_t value) { *hash = (*hash ^ value) * 1099511628211ull; }

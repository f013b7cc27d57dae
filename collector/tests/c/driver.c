/* A program that is linked to the library, as a C++ trainer is. It counts allocations. */
#include <stddef.h>

extern int run_scenario(const char *name);
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
volatile long allocations;

void *malloc(size_t n) { allocations++; return __libc_malloc(n); }
void *calloc(size_t n, size_t m) { allocations++; return __libc_calloc(n, m); }
void *realloc(void *p, size_t n) { allocations++; return __libc_realloc(p, n); }

int main(int argc, char **argv) { return argc == 2 ? run_scenario(argv[1]) : 97; }

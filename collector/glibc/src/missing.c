/* Functions that glibc did not export in 2.17: programs had them from libc_nonshared.a, and newer ones from libc.so.6 under
 * a newer version. Structures are the kernel's on these machines, with and without 64 in the name. */

#if defined __x86_64__
enum { STAT_VERSION = 1 };
#elif defined __aarch64__
enum { STAT_VERSION = 0 };
#else
#error "which version of struct stat?"
#endif

extern int __xstat64(int version, const char *path, void *answer);
extern int __lxstat64(int version, const char *path, void *answer);
extern int __fxstat64(int version, int file, void *answer);
extern int __fxstatat64(int version, int folder, const char *path, void *answer, int flags);
extern int __register_atfork(void (*before)(void), void (*parent)(void), void (*child)(void), void *object);
extern int __cxa_atexit(void (*function)(void *), void *argument, void *object);
extern void *__dso_handle __attribute__((visibility("hidden")));

int stat64(const char *path, void *answer) { return __xstat64(STAT_VERSION, path, answer); }
int lstat64(const char *path, void *answer) { return __lxstat64(STAT_VERSION, path, answer); }
int fstat64(int file, void *answer) { return __fxstat64(STAT_VERSION, file, answer); }
int fstatat64(int folder, const char *path, void *answer, int flags) {
    return __fxstatat64(STAT_VERSION, folder, path, answer, flags);
}
int stat(const char *path, void *answer) { return stat64(path, answer); }
int lstat(const char *path, void *answer) { return lstat64(path, answer); }
int fstat(int file, void *answer) { return fstat64(file, answer); }
int fstatat(int folder, const char *path, void *answer, int flags) { return fstatat64(folder, path, answer, flags); }

int atexit(void (*function)(void)) { return __cxa_atexit((void (*)(void *))function, 0, __dso_handle); }

int pthread_atfork(void (*before)(void), void (*parent)(void), void (*child)(void)) {
    return __register_atfork(before, parent, child, __dso_handle);
}

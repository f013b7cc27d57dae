/* What is preloaded into every process of a job. It needs nothing: no library, no symbol version, no memory of threads, no
 * constructor; so it loads into any program, of musl's too, at no cost. Each function jumps through a slot. The first call
 * of one opens the collector, whose function takes the slot from then on; where there is no collector, the function that
 * the program would have got without us does.
 *
 * It must never do more: what runs here runs before anything of ours knows how the process stands. */

#define HIDDEN __attribute__((visibility("hidden")))
#define EXPORT __attribute__((visibility("default")))
#define WEAK __attribute__((weak))

/* All of the outside world. Each may be absent. */
extern WEAK void *dlopen(const char *path, int mode);
extern WEAK int dlclose(void *handle);
extern WEAK void *dlsym(void *handle, const char *name);
extern WEAK int dladdr(const void *address, void *answer);
/* In libc.so.6 before 2.34, also where a program has no libdl. */
extern WEAK void *__libc_dlopen_mode(const char *path, int mode);
extern WEAK void *__libc_dlsym(void *handle, const char *name);
extern WEAK char *secure_getenv(const char *name);
extern WEAK const char *gnu_get_libc_version(void);
extern WEAK int pthread_setcancelstate(int state, int *old);
struct signals;
extern WEAK int pthread_sigmask(int how, const struct signals *set, struct signals *old);
struct action;
extern WEAK int sigaction(int signal, const struct action *action, struct action *old);
extern WEAK int __register_atfork(void (*before)(void), void (*parent)(void), void (*child)(void), void *object);
struct time {
    long s, ns;
};
extern WEAK int getpid(void);
/* What the linker says of itself, `state` is 0 while it changes nothing. Source: `link.h`, `struct r_debug`. */
struct debug {
    int version;
    void *map;
    unsigned long brk;
    int state;
    void *linker;
};
extern WEAK struct debug _r_debug;
/* Since 2.32. */
extern WEAK char __libc_single_threaded;
extern WEAK int nanosleep(const struct time *length, struct time *rest);

/* The same in glibc and musl, on all machines. */
enum { RTLD_LAZY = 1, RTLD_NOW = 2, RTLD_NOLOAD = 4 };
#define RTLD_NEXT ((void *)-1L)
enum { PTHREAD_CANCEL_DISABLE = 1, SIG_BLOCK = 0, SIG_SETMASK = 2, LAST_SIGNAL = 64 };
/* Of glibc, alike on all machines. */
struct signals {
    unsigned long words[128 / sizeof(unsigned long)];
};
/* The handler is 0 where the signal does what it does by default, 1 where it is ignored. */
struct action {
    unsigned long handler;
    struct signals mask;
    int flags;
    void *restorer;
};
/* For __libc_dlopen_mode: the caller is the library itself. */
#define RTLD_DLOPEN ((int)0x80000000)

/* What is returned where nobody has the function; without us the program would not have found it. */
enum { SYSTEM_ERROR = 2, NO_HANDLE = -1 };

/* A slot and what is said of it. The assembly below knows that the slot comes first. */
struct function {
    const void *slot;
    const char *name;
    int answer;
};

#define FUNCTION(name, answer)    \
    extern HIDDEN char first_##name[]; \
    HIDDEN struct function function_##name = {first_##name, #name, answer};
#include "functions.h"
#undef FUNCTION

/* The entries: through the slot, which at first leads to first_*, and that to `first` with the function's place in a register
 * that holds no argument. */
#if defined __x86_64__
#define FUNCTION(name, answer)                                                                                          \
    __asm__(".pushsection .text.entry,\"ax\",@progbits\n"                                                               \
            ".balign 16\n.globl " #name "\n.type " #name ",@function\n"                                                 \
            #name ":\n endbr64\n notrack jmp *function_" #name "(%rip)\n.size " #name ", . - " #name "\n"               \
            ".balign 16\n.hidden first_" #name "\n.globl first_" #name "\n"                                             \
            "first_" #name ":\n endbr64\n lea function_" #name "(%rip), %r11\n jmp first\n.popsection\n");
/* Keeps all that can hold an argument; rax counts the vector registers of a variadic call, r10 is the static chain. */
__asm__(".pushsection .text.entry,\"ax\",@progbits\n.balign 16\n.type first,@function\nfirst:\n.cfi_startproc\n"
        " push %rbp\n.cfi_def_cfa_offset 16\n.cfi_offset %rbp,-16\n mov %rsp, %rbp\n.cfi_def_cfa_register %rbp\n"
        " and $-64, %rsp\n sub $192, %rsp\n"
        " mov %rdi, (%rsp)\n mov %rsi, 8(%rsp)\n mov %rdx, 16(%rsp)\n mov %rcx, 24(%rsp)\n"
        " mov %r8, 32(%rsp)\n mov %r9, 40(%rsp)\n mov %rax, 48(%rsp)\n mov %r10, 56(%rsp)\n"
        " movaps %xmm0, 64(%rsp)\n movaps %xmm1, 80(%rsp)\n movaps %xmm2, 96(%rsp)\n movaps %xmm3, 112(%rsp)\n"
        " movaps %xmm4, 128(%rsp)\n movaps %xmm5, 144(%rsp)\n movaps %xmm6, 160(%rsp)\n movaps %xmm7, 176(%rsp)\n"
        " mov %r11, %rdi\n mov 8(%rbp), %rsi\n call find\n mov %rax, %r11\n"
        " mov (%rsp), %rdi\n mov 8(%rsp), %rsi\n mov 16(%rsp), %rdx\n mov 24(%rsp), %rcx\n"
        " mov 32(%rsp), %r8\n mov 40(%rsp), %r9\n mov 48(%rsp), %rax\n mov 56(%rsp), %r10\n"
        " movaps 64(%rsp), %xmm0\n movaps 80(%rsp), %xmm1\n movaps 96(%rsp), %xmm2\n movaps 112(%rsp), %xmm3\n"
        " movaps 128(%rsp), %xmm4\n movaps 144(%rsp), %xmm5\n movaps 160(%rsp), %xmm6\n movaps 176(%rsp), %xmm7\n"
        " leave\n.cfi_def_cfa %rsp, 8\n notrack jmp *%r11\n.cfi_endproc\n.size first, . - first\n.popsection\n");
#elif defined __aarch64__
/* hint 34 is `bti c`, which older assemblers do not know. x16 and x17 are free between a call and its function. */
#define FUNCTION(name, answer)                                                                                          \
    __asm__(".pushsection .text.entry,\"ax\",@progbits\n"                                                               \
            ".balign 16\n.globl " #name "\n.type " #name ",%function\n"                                                 \
            #name ":\n hint #34\n adrp x16, function_" #name "\n ldr x16, [x16, :lo12:function_" #name "]\n br x16\n"   \
            ".size " #name ", . - " #name "\n.balign 16\n.hidden first_" #name "\n.globl first_" #name "\n"             \
            "first_" #name ":\n hint #34\n adrp x17, function_" #name "\n add x17, x17, :lo12:function_" #name "\n"     \
            " b first\n.popsection\n");
/* Keeps all that can hold an argument; x8 is the place of a returned struct. */
__asm__(".pushsection .text.entry,\"ax\",@progbits\n.balign 16\n.type first,%function\nfirst:\n.cfi_startproc\n"
        " stp x29, x30, [sp, #-224]!\n.cfi_def_cfa_offset 224\n.cfi_offset x29,-224\n.cfi_offset x30,-216\n mov x29, sp\n"
        " stp x0, x1, [sp, #16]\n stp x2, x3, [sp, #32]\n stp x4, x5, [sp, #48]\n stp x6, x7, [sp, #64]\n"
        " str x8, [sp, #80]\n stp q0, q1, [sp, #96]\n stp q2, q3, [sp, #128]\n stp q4, q5, [sp, #160]\n"
        " stp q6, q7, [sp, #192]\n mov x0, x17\n mov x1, x30\n bl find\n mov x16, x0\n"
        " ldp x0, x1, [sp, #16]\n ldp x2, x3, [sp, #32]\n ldp x4, x5, [sp, #48]\n ldp x6, x7, [sp, #64]\n"
        " ldr x8, [sp, #80]\n ldp q0, q1, [sp, #96]\n ldp q2, q3, [sp, #128]\n ldp q4, q5, [sp, #160]\n"
        " ldp q6, q7, [sp, #192]\n ldp x29, x30, [sp], #224\n.cfi_restore x29\n.cfi_restore x30\n"
        ".cfi_def_cfa_offset 0\n br x16\n.cfi_endproc\n.size first, . - first\n.popsection\n");
#else
#error "no entries for this machine"
#endif
#include "functions.h"
#undef FUNCTION

static int answer_system_error(void) { return SYSTEM_ERROR; }
static int answer_no_handle(void) { return NO_HANDLE; }

/* From the first byte of this object to its last. */
extern HIDDEN const char __ehdr_start[], _end[];

/* Whether an address is of this object. The collector asks, whose search for the library finds these functions too. */
EXPORT int ringscope_preload_holds(const void *address) {
    return (const char *)address >= __ehdr_start && (const char *)address < _end;
}

static void wait_a_millisecond(void) {
    static const struct time a_millisecond = {0, 1000000};
    if (nanosleep) nanosleep(&a_millisecond, 0);
}

/* What `dladdr` answers. */
struct object {
    const char *file;
    void *base;
    const char *symbol;
    void *address;
};

/* The linker's functions, wherever they are: in glibc's libc since 2.34 and in musl, else in a library of their own. */
static struct {
    void *(*open)(const char *, int);
    int (*close)(void *);
    void *(*find)(void *, const char *);
    int (*object_of)(const void *, void *);
    int is_known;
} linker = {dlopen, dlclose, dlsym, dladdr, 0};

/* Whether the linker is in the middle of something for good: a child that is made while another thread maps an object has
 * its tables as they stood, and is ended by whatever it opens, also by what it has. Where it is another thread of ours,
 * `dladdr` waits until it is done: for a lock that such a thread holds and a fork makes anew. The tries are for others that
 * begin at once. A program may have a copy of what the linker says, which stays as it was at the start. */
enum { MAX_LOOKS = 8 };
/* This child has let the linker go on with half of its tables. */
static int is_half;
static int is_stuck(void) {
    if (__atomic_load_n(&is_half, __ATOMIC_RELAXED)) return 1;
    if (!&_r_debug) return 0;
    int (*object_of)(const void *, void *) = dladdr;
    if (!object_of && __atomic_load_n(&linker.is_known, __ATOMIC_ACQUIRE)) object_of = linker.object_of;
    for (int i = 0; i < MAX_LOOKS; i++) {
        if (__atomic_load_n(&_r_debug.state, __ATOMIC_ACQUIRE) == 0) return 0;
        struct object object;
        if (!object_of) wait_a_millisecond();
        else if (!object_of(&_r_debug, &object) || object.base != _r_debug.linker) return 0;
    }
    return 1;
}

/* Lets a child that is stuck ask for what is loaded: nobody is left who would bring to an end what the linker is in the
 * middle of, and the child's own `dlopen` of something new would write the same. */
static void unstick(void) {
    if (!is_stuck() || !&_r_debug) return;
    /* For all else it stays stuck. */
    __atomic_store_n(&is_half, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&_r_debug.state, 0, __ATOMIC_RELEASE);
}

/* Finds them; threads that do so at once write the same. */
static int know_linker(void) {
    if ((dlopen && dlsym) || __atomic_load_n(&linker.is_known, __ATOMIC_ACQUIRE)) return 1;
    if (is_stuck()) return 0;
    void *libdl = __libc_dlopen_mode && __libc_dlsym ? __libc_dlopen_mode("libdl.so.2", RTLD_NOW | RTLD_DLOPEN) : 0;
    if (!libdl) return 0;
    linker.open = (void *(*)(const char *, int))__libc_dlsym(libdl, "dlopen");
    linker.close = (int (*)(void *))__libc_dlsym(libdl, "dlclose");
    linker.find = (void *(*)(void *, const char *))__libc_dlsym(libdl, "dlsym");
    linker.object_of = (int (*)(const void *, void *))__libc_dlsym(libdl, "dladdr");
    if (!linker.open || !linker.find) return 0;
    __atomic_store_n(&linker.is_known, 1, __ATOMIC_RELEASE);
    return 1;
}

/* The function that comes after this object where everybody looks. The collector asks: for an object that was opened
 * and not preloaded, nothing comes next. */
EXPORT void *ringscope_preload_next(const char *name) {
    void *found = know_linker() ? linker.find(RTLD_NEXT, name) : 0;
    /* The linker looks who calls it: the call may not become a jump. */
    __asm__ volatile("" : "+r"(found));
    return found && !ringscope_preload_holds(found) ? found : 0;
}

static int hold_cancellation(void) {
    int state = 0;
    if (pthread_setcancelstate) pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    return state;
}

static void release_cancellation(int state) {
    if (pthread_setcancelstate) pthread_setcancelstate(state, &state);
}

/* A handler that interrupts the opening and calls would wait for what its own thread is at. What has no handler comes through, so
 * that who hangs here can be ended, and so do faults: SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV and SIGSYS have these numbers on all
 * machines. */
static void hold_signals(struct signals *before) {
    struct signals handled;
    for (unsigned i = 0; i < sizeof handled.words / sizeof *handled.words; i++) handled.words[i] = 0;
    for (int signal = 1; sigaction && signal <= LAST_SIGNAL; signal++) {
        struct action action;
        if (sigaction(signal, 0, &action) == 0 && action.handler > 1) handled.words[0] |= 1UL << (signal - 1);
    }
    handled.words[0] &= ~(1UL << 3 | 1UL << 4 | 1UL << 6 | 1UL << 7 | 1UL << 10 | 1UL << 30);
    if (pthread_sigmask) pthread_sigmask(SIG_BLOCK, &handled, before);
}

static void release_signals(const struct signals *before) {
    if (pthread_sigmask) pthread_sigmask(SIG_SETMASK, before, 0);
}

#define FUNCTION(name, answer) &function_##name,
static struct function *const all[] = {
#include "functions.h"
};
#undef FUNCTION

/* From now on every call goes to the collector, without a word to the linker, whose lock another thread may hold for long:
 * a job that hangs in an import can be aborted. */
static void take_all(void *opened) {
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
        const void *found = linker.find(opened, all[i]->name);
        if (found) __atomic_store_n(&all[i]->slot, found, __ATOMIC_RELEASE);
    }
}

/* Threads that are opening the collector now, the process that they are of, and that there is none for good. */
static int n_opening, opening_pid, is_none;
/* Forks that are under way, counted until the collector is open: from then on it counts for itself, and what is written here
 * costs each fork a page. */
static int n_forking;
/* The collector. */
static void *opened;

/* A child that is made while another thread opens the collector has half of it, and locks that nobody gives back: the fork
 * waits until it is open, which takes about a millisecond. Not for ever, for the thread may wait for what the forking one
 * holds. */
enum { MAX_WAITS = 100 };
static void wait_for(const int *others) {
    for (int i = 0; i < MAX_WAITS && __atomic_load_n(others, __ATOMIC_SEQ_CST) != 0; i++) wait_a_millisecond();
}

static void before_fork(void) {
    if (__atomic_load_n(&opened, __ATOMIC_ACQUIRE)) return;
    int state = hold_cancellation();
    __atomic_add_fetch(&n_forking, 1, __ATOMIC_SEQ_CST);
    wait_for(&n_opening);
    release_cancellation(state);
}

static void after_fork(void) {
    int forking = __atomic_load_n(&n_forking, __ATOMIC_SEQ_CST);
    while (forking > 0 && !__atomic_compare_exchange_n(&n_forking, &forking, forking - 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {}
}

static void in_child(void) {
    if (n_forking) n_forking = 0;
}

/* A fork that has begun before is not seen: it is given the time to end. */
static void watch_forks(void) {
    static int is_watching;
    if (!__register_atfork || __atomic_exchange_n(&is_watching, 1, __ATOMIC_ACQ_REL)) return;
    __register_atfork(before_fork, after_fork, in_child, 0);
    if (!&__libc_single_threaded || !__libc_single_threaded) wait_a_millisecond();
}

/* Whether this is a child that was made in the middle of an opening all the same. */
static int has_half(void) {
    return __atomic_load_n(&n_opening, __ATOMIC_ACQUIRE) != 0 && __atomic_load_n(&opening_pid, __ATOMIC_ACQUIRE) != getpid();
}

/* The collector; opened by the first who asks, or found to be none: for good, unless it is only not to be opened now. */
static void *collector(int *is_later) {
    void *known = __atomic_load_n(&opened, __ATOMIC_ACQUIRE);
    /* Not opened again: a child may be stuck that has it. */
    if (known) return known;
    /* A program of another C library, or with more rights than its user, gets none. */
    if (__atomic_load_n(&is_none, __ATOMIC_ACQUIRE) || !gnu_get_libc_version || !secure_getenv || !getpid) return 0;
    const char *path = secure_getenv("RINGSCOPE_COLLECTOR");
    if (has_half()) return 0;
    if (!path || *path != '/') {
        __atomic_store_n(&is_none, 1, __ATOMIC_RELEASE);
        return 0;
    }
    *is_later = is_stuck();
    if (*is_later || !know_linker()) return 0;
    struct signals before;
    hold_signals(&before);
    watch_forks();
    __atomic_store_n(&opening_pid, getpid(), __ATOMIC_RELEASE);
    __atomic_add_fetch(&n_opening, 1, __ATOMIC_ACQ_REL);
    /* Threads that race get the same handle. It is never closed. */
    known = linker.open(path, RTLD_NOW);
    __atomic_sub_fetch(&n_opening, 1, __ATOMIC_SEQ_CST);
    /* What waited knows nothing of the collector's own handlers: it ends before the collector is called. */
    wait_for(&n_forking);
    if (known) {
        take_all(known);
        __atomic_store_n(&opened, known, __ATOMIC_RELEASE);
    } else {
        __atomic_store_n(&is_none, 1, __ATOMIC_RELEASE);
    }
    release_signals(&before);
    return known;
}

/* The function in what the caller's object needs, as after dlopen(RTLD_LOCAL). Asked each time, for 0.3 to 1.8 us: once the
 * object is closed another may come to lie in its place, with its `link_map` at the same address too, and nothing but the
 * linker with its lock tells them apart. A kept answer would lead into what is gone; to hold the object would keep it open. */
static const void *of_caller(const char *name, const void *caller) {
    struct object object;
    if (!know_linker() || !linker.object_of || !linker.object_of(caller, &object) || !object.file) return 0;
    unstick();
    void *opened = linker.open(object.file, RTLD_LAZY | RTLD_NOLOAD);
    if (!opened) return 0;
    const void *found = linker.find(opened, name);
    /* The last close frees what another thread of a parent had begun to free. */
    if (linker.close && !is_stuck()) linker.close(opened);
    return found && !ringscope_preload_holds(found) ? found : 0;
}

static const void *find_uncancelled(struct function *function, const void *caller) {
    int is_later = 0;
    void *opened = collector(&is_later);
    const void *found = opened ? linker.find(opened, function->name) : 0;
    if (!found) found = ringscope_preload_next(function->name);
    if (found) {
        if (!is_later) __atomic_store_n(&function->slot, found, __ATOMIC_RELEASE);
        return found;
    }
    /* Another caller may get another one: not kept. */
    found = of_caller(function->name, caller);
    if (found) return found;
    return (const void *)(function->answer == NO_HANDLE ? answer_no_handle : answer_system_error);
}

/* Where a call of this function goes that returns to `caller`. A thread that is to be cancelled is not in here. */
HIDDEN __attribute__((used)) const void *find(struct function *function, const void *caller) {
    int state = hold_cancellation();
    const void *found = find_uncancelled(function, caller);
    release_cancellation(state);
    return found;
}

/* The profiler interface of version V, 1 to 7, as far as the tests speak it. Layouts as NCCL documents them in the headers
 * of its profiler plugins. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
  GROUP = 0x1, COLL = 0x2, P2P = 0x4, PROXY_OP = 0x8, PROXY_STEP = 0x10, PROXY_CTRL = 0x20, KERNEL_CH = 0x40,
  NET_PLUGIN = 0x80, GROUP_API = 0x100, COLL_API = 0x200, P2P_API = 0x400, KERNEL_LAUNCH = 0x800, CE_COLL = 0x1000,
};

#if V == 1
typedef uint8_t word;
#define WORD(number, text) (number)
#else
typedef const char *word;
#define WORD(number, text) (text)
#endif
#if V <= 3
#define NAMED const char *name; uint64_t hash;
#else
#define NAMED
#endif
#if V >= 5
typedef uint64_t kind_type;
#define IN_GROUP void *group;
#else
typedef uint8_t kind_type;
#define IN_GROUP
#endif
#if V >= 7
#define TAGGED uint64_t tag;
#define SYMMETRIC const char *variant; bool is_symmetric; uint64_t tag;
#else
#define TAGGED
#define SYMMETRIC
#endif
#if V == 1
#define REST word type; uint32_t op; size_t traffic; uint8_t n_channels, n_warps; word algo, proto; int is_collnet, is_nvls;
#elif V == 2
#define REST word type; size_t traffic; uint8_t n_channels, n_warps; word algo, proto;
#else
#define REST word type; uint8_t n_channels, n_warps; word algo, proto;
#endif
#if V >= 4
#define P2P_CHANNELS uint8_t n_channels;
#else
#define P2P_CHANNELS
#endif

typedef struct {
  kind_type kind;
  void *parent;
  int rank;
  union {
    struct { NAMED uint64_t seq; word func; const void *send; void *recv; size_t count; int root; REST IN_GROUP SYMMETRIC } coll;
    struct { NAMED word func; void *buffer; word type; size_t count; int peer; P2P_CHANNELS IN_GROUP TAGGED } p2p;
    struct { int pid; uint8_t channel; int peer, n_steps, chunk, is_send; } proxy;
    struct { int step; } step;
    struct { uint8_t channel; uint64_t timer; } kernel;
    struct { bool captured; int depth; } group;
    struct { const char *func; size_t count; const char *type; int root; void *stream; bool captured; TAGGED } coll_api;
    struct { const char *func; size_t count; const char *type; void *stream; bool captured; TAGGED } p2p_api;
  };
} descriptor;

static const size_t SIZES[] = {0, 120, 128, 120, 104, 112, 112, 136};
_Static_assert(sizeof(descriptor) == (V == 1 || V == 3 ? 120 : V == 2 ? 128 : V == 4 ? 104 : V == 7 ? 136 : 112), "as NCCL's");

typedef struct { size_t value; int steps; } state_args;

typedef struct {
  const char *name;
#if V <= 3
  int (*init)(void **, int *);
#elif V == 4
  int (*init)(void **, int *, const char *, uint64_t, int, int, int, void *);
#else
  int (*init)(void **, uint64_t, int *, const char *, int, int, int, void *);
#endif
  int (*start)(void *, void **, descriptor *);
  int (*stop)(void *);
  int (*record)(void *, int, state_args *);
  int (*finalize)(void *);
} table;

#define GLUE2(a, b) a##b
#define GLUE(a, b) GLUE2(a, b)
#define SYMBOL GLUE(ncclProfiler_v, V)
#define TEXT2(a) #a
#define TEXT(a) TEXT2(a)

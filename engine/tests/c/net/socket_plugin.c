/* A network plugin as somebody else may write one: over sockets of 127.0.0.1, for VERSION 8, 9, 10 or 11 of the interface.
   It does only what the interface promises: nothing moves but in test(), every third send or receive is refused once, a
   connection takes several calls, and memory that was not registered is an error. FAIL_AFTER: bytes after which it fails.
   NOTHING_THERE: it does not begin. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "nccl_net.h"

#ifndef FAIL_AFTER
#define FAIL_AFTER (1ull << 62)
#endif

typedef struct Comm Comm;
typedef struct {
  Comm* comm;
  int is_used;
  char* data;
  size_t size, moved; /* of a receive, the size is what its head says, once that has come */
  size_t room;
  uint64_t head;
  size_t head_moved;
} Request;
struct Comm {
  int fd, is_send, calls;
  Request requests[MAX_REQUESTS];
  unsigned first, next; /* in flight, in their order */
  uint64_t bytes;
};
typedef struct { char *start; size_t size; } Memory;

static Logger say;

static int open_socket(void) {
  return socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

static Code begin(Logger logger) {
  say = logger;
  say(LOG_INFO, 0x10, __FILE__, __LINE__, "NET/Plugin: sockets of this machine alone");
#ifdef NOTHING_THERE
  say(LOG_WARN, ~0ul, __FILE__, __LINE__, "NET/Sockets : a setting that makes no sense");
  say(LOG_INFO, 0x10, __FILE__, __LINE__, "NET/Sockets : no device can be used: there is none");
  return SYSTEM_ERROR;
#endif
  return OK;
}

static Code devices(int* count) {
  *count = 2;
  return OK;
}

static char* const names[] = {"mlx5_0", "mlx5_1"};

static Code listen_on(int device, void* handle, void** listening) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t len = sizeof at;
  if (device < 0 || device > 1) return INTERNAL_ERROR;
  int* fd = malloc(sizeof *fd);
  *fd = open_socket();
  if (bind(*fd, (void*)&at, sizeof at) || listen(*fd, 8) || getsockname(*fd, (void*)&at, &len)) return SYSTEM_ERROR;
  memset(handle, 0, HANDLE_BYTES);
  memcpy(handle, &at, sizeof at);
  *listening = fd;
  return OK;
}

static Comm* made(int fd, int is_send) {
  Comm* comm = calloc(1, sizeof *comm);
  int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  comm->fd = fd;
  comm->is_send = is_send;
  return comm;
}

/* Where a connection stands lies in the handle, behind the address, as in NCCL's own networks. */
static Code connect_to(int device, void* handle, void** comm) {
  struct { struct sockaddr_in at; int fd_plus_1, calls; } *stage = handle;
  (void)device;
  *comm = NULL;
  if (!stage->fd_plus_1) {
    int fd = open_socket();
    stage->fd_plus_1 = fd + 1;
    if (connect(fd, (void*)&stage->at, sizeof stage->at) && errno != EINPROGRESS) return SYSTEM_ERROR;
    return OK;
  }
  struct pollfd ready = {.fd = stage->fd_plus_1 - 1, .events = POLLOUT};
  if (poll(&ready, 1, 0) == 1 && ++stage->calls > 3) *comm = made(ready.fd, 1);
  return OK;
}

static Code accept_from(void* listening, void** comm, void** offload) {
  (void)offload;
  int fd = accept4(*(int*)listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
  *comm = fd < 0 ? NULL : made(fd, 0);
  return fd < 0 && errno != EAGAIN ? SYSTEM_ERROR : OK;
}

static Code reg_mr(void* comm, void* data, size_t size, int type, void** memory) {
  Memory* made = malloc(sizeof *made);
  (void)comm;
  if (type != PTR_HOST) return INTERNAL_ERROR;
  *made = (Memory){data, size};
  *memory = made;
  return OK;
}

static Code dereg_mr(void* comm, void* memory) {
  (void)comm;
  free(memory);
  return OK;
}

static int is_registered(const Memory* memory, const char* data, size_t size) {
  return memory && data >= memory->start && data + size <= memory->start + memory->size;
}

static Code request(Comm* comm, void* data, size_t size, const Memory* memory, void** request) {
  *request = NULL;
  if (!is_registered(memory, data, size)) {
    say(LOG_WARN, 0x10, __FILE__, __LINE__, "memory that was not registered");
    return INTERNAL_ERROR;
  }
  if (++comm->calls % 3 == 0 || comm->next - comm->first == MAX_REQUESTS) return OK;
  Request* made = &comm->requests[comm->next++ % MAX_REQUESTS];
  if (made->is_used) return INTERNAL_ERROR;
  *made = (Request){.comm = comm, .is_used = 1, .data = data, .size = size, .room = size, .head = size};
  *request = made;
  return OK;
}

/* Moves bytes of the oldest request; 1 once it is done. */
static int move(Comm* comm, Request* one) {
  while (one->head_moved < sizeof one->head || one->moved < one->size) {
    int is_head = one->head_moved < sizeof one->head;
    char* at = is_head ? (char*)&one->head + one->head_moved : one->data + one->moved;
    size_t rest = is_head ? sizeof one->head - one->head_moved : one->size - one->moved;
    ssize_t n = comm->is_send ? send(comm->fd, at, rest, MSG_NOSIGNAL) : recv(comm->fd, at, rest, 0);
    if (n < 0 && errno == EAGAIN) return 0;
    if (n <= 0) return -1;
    *(is_head ? &one->head_moved : &one->moved) += (size_t)n;
    if (is_head && !comm->is_send && one->head_moved == sizeof one->head) {
      if (one->head > one->room) return -1;
      one->size = one->head;
    }
  }
  comm->bytes += one->size;
  return 1;
}

static Code test(void* request, int* done, int* size) {
  Request* one = request;
  Comm* comm = one->comm;
  *done = 0;
  if (!one->is_used) return INTERNAL_ERROR;
  int moved = 1;
  while (moved > 0 && comm->first != comm->next) {
    moved = move(comm, &comm->requests[comm->first % MAX_REQUESTS]);
    if (comm->bytes > FAIL_AFTER) moved = -1;
    if (moved > 0) comm->first++;
  }
  if (one->moved < one->size || one->head_moved < sizeof one->head) {
    if (moved >= 0) return OK;
    say(LOG_WARN, 0x10, __FILE__, __LINE__, "the wire is cut, 100%% of it");
    return REMOTE_ERROR;
  }
  *done = 1;
  if (size) *size = (int)one->size;
  one->is_used = 0;
  return OK;
}

static Code flush(void* comm, int n, void** data, int* sizes, void** memory, void** request) {
  (void)comm, (void)n, (void)data, (void)sizes, (void)memory;
  *request = NULL;
  return OK;
}

static Code close_comm(void* comm) {
  close(((Comm*)comm)->fd);
  free(comm);
  return OK;
}

static Code close_listen(void* listening) {
  close(*(int*)listening);
  free(listening);
  return OK;
}

#if VERSION == 8
#define PROPERTIES PropertiesV8
#define SIZE int
#else
#define SIZE size_t
#if VERSION == 11
#define PROPERTIES PropertiesV11
#else
#define PROPERTIES PropertiesV9
#endif
#endif

static Code properties(int device, PROPERTIES* told) {
  memset(told, 0, sizeof *told);
#if VERSION == 11
  PropertiesV9* to = &told->v9;
  told->max_multi_request_size = 1;
#else
  PROPERTIES* to = told;
#endif
  to->name = names[device];
  to->ptr_support = PTR_HOST;
  to->speed = 10000;
  to->port = 1;
  to->max_comms = 1024;
  to->max_recvs = 1;
  return OK;
}

#if VERSION >= 10
#define EVENTS , void* event
#define EVENT_LIST , void** events
#define IGNORE(x) (void)x
#else
#define EVENTS
#define EVENT_LIST
#define IGNORE(x)
#endif

static Code isend(void* comm, void* data, SIZE size, int tag, void* memory EVENTS, void** made) {
  (void)tag;
  IGNORE(event);
  return request(comm, data, (size_t)size, memory, made);
}

static Code irecv(void* comm, int n, void** data, SIZE* sizes, int* tags, void** memory EVENT_LIST, void** made) {
  (void)tags;
  IGNORE(events);
  return n == 1 ? request(comm, data[0], (size_t)sizes[0], memory[0], made) : INTERNAL_ERROR;
}

#if VERSION == 11
static _Atomic int contexts;
static Code init(void** context, uint64_t comm, Config* config, Logger logger, Profiler profiler) {
  (void)comm, (void)config, (void)profiler;
  *context = (void*)&contexts;
  contexts++;
  return begin(logger);
}
static Code finalize(void* context) {
  if (context != (void*)&contexts || contexts-- <= 0) return INTERNAL_ERROR;
  return OK;
}
static Code listen_in(void* context, int device, void* handle, void** listening) {
  return context == (void*)&contexts && contexts > 0 ? listen_on(device, handle, listening) : INTERNAL_ERROR;
}
static Code connect_in(void* context, int device, void* handle, void** comm, void** offload) {
  (void)offload;
  return context == (void*)&contexts && contexts > 0 ? connect_to(device, handle, comm) : INTERNAL_ERROR;
}
#define LISTEN listen_in
#define INIT init
#define CONNECT connect_in
#else
#define LISTEN listen_on
#if VERSION == 10
#define INIT init
static Code init(Logger logger, Profiler profiler) {
  (void)profiler;
  return begin(logger);
}
static Code connect_v(int device, Config* config, void* handle, void** comm, void** offload) {
  (void)config, (void)offload;
  return connect_to(device, handle, comm);
}
#else
#define INIT begin
static Code connect_v(int device, void* handle, void** comm, void** offload) {
  (void)offload;
  return connect_to(device, handle, comm);
}
#endif
#define CONNECT connect_v
#endif

#define PASTE(a, b) a##b
#define NAMED(a, b) PASTE(a, b)
NAMED(NetV, VERSION) NAMED(ncclNetPlugin_v, VERSION) = {
    .name = "Sockets", .init = INIT, .devices = devices, .properties = properties, .listen = LISTEN, .connect = CONNECT,
    .accept = accept_from, .reg_mr = reg_mr, .dereg_mr = dereg_mr, .isend = isend, .irecv = irecv, .iflush = flush,
    .test = test, .close_send = close_comm, .close_recv = close_comm, .close_listen = close_listen,
#if VERSION == 11
    .finalize = finalize,
#endif
};

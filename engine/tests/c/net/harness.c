/* Calls a network plugin as NCCL does, by one version of the interface: harness PLUGIN VERSION server|client|both PORT [PEER].
   Both ends in one process ("both"), or one in each of two (the handle goes over a socket at PORT of the server).
   Each message's bytes tell which it is, so that one that is lost, torn, doubled or out of order shows. Says OK, or what is
   wrong. LOOPS: how often all sizes are sent. STALE: the receiver gives its memory back while it is written to.
   PATIENCE: seconds without anything moving. NO_FLUSH: receives are not flushed. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "nccl_net.h"

#define DIE(...) (printf(__VA_ARGS__), printf("\n"), fflush(stdout), exit(1))
#define CHECK(call)                                                    \
  do {                                                                 \
    Code code_ = (call);                                               \
    if (code_ != OK) DIE("FAILED %d %s: %s", code_, #call, last_words); \
  } while (0)
#define EXPECT(truth) \
  do { if (!(truth)) DIE("WRONG %s (line %d)", #truth, __LINE__); } while (0)

static char last_words[1024] = "no words";
static int version, devices;
static const void* table;
static void* context;
static PropertiesV9 about;
static double patience = 60;

static void say(int level, unsigned long flags, const char* file, int line, const char* format, ...) {
  va_list list;
  (void)flags, (void)file, (void)line;
  va_start(list, format);
  char text[1024];
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  if (level <= LOG_WARN) strcpy(last_words, text);
  if (getenv("VERBOSE") || level <= LOG_WARN) fprintf(stderr, "%s\n", text);
}

static double now(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return (double)at.tv_sec + (double)at.tv_nsec * 1e-9;
}

#define V8 ((const NetV8*)table)
#define V9 ((const NetV9*)table)
#define V10 ((const NetV10*)table)
#define V11 ((const NetV11*)table)
/* A function that all versions have alike. */
#define OF(field) (version == 8 ? V8->field : version == 9 ? V9->field : version == 10 ? V10->field : V11->field)

static Code begin(void) {
  Config config = {-1};
  switch (version) {
    case 8: return V8->init(say);
    case 9: return V9->init(say);
    case 10: return V10->init(say, NULL);
    default: return V11->init(&context, 0x1234abcd, &config, say, NULL);
  }
}

static Code properties(int device, PropertiesV9* told) {
  PropertiesV8 old;
  PropertiesV11 newest;
  Code code;
  switch (version) {
    case 8:
      code = V8->properties(device, &old);
      *told = (PropertiesV9){old.name, old.pci_path, old.guid, old.ptr_support, old.reg_is_global, 0, old.speed, old.port,
                             old.latency, old.max_comms, old.max_recvs, old.device_type, old.device_version,
                             {1, {device}}, 1 << 30, 1 << 30};
      return code;
    case 9: return V9->properties(device, told);
    case 10: return V10->properties(device, told);
    default:
      code = V11->properties(device, &newest);
      *told = newest.v9;
      EXPECT(code != OK || newest.max_multi_request_size >= 1);
      return code;
  }
}

static Code listen_on(int device, void* handle, void** listening) {
  switch (version) {
    case 8: return V8->listen(device, handle, listening);
    case 9: return V9->listen(device, handle, listening);
    case 10: return V10->listen(device, handle, listening);
    default: return V11->listen(context, device, handle, listening);
  }
}

static Code connect_to(int device, void* handle, void** comm) {
  void* offload = NULL;
  Config config = {-1};
  switch (version) {
    case 8: return V8->connect(device, handle, comm, &offload);
    case 9: return V9->connect(device, handle, comm, &offload);
    case 10: return V10->connect(device, &config, handle, comm, &offload);
    default: return V11->connect(context, device, handle, comm, &offload);
  }
}

static Code isend(void* comm, void* data, size_t size, void* memory, void** request) {
  switch (version) {
    case 8: return V8->isend(comm, data, (int)size, 0, memory, request);
    case 9: return V9->isend(comm, data, size, 0, memory, request);
    case 10: return V10->isend(comm, data, size, 0, memory, NULL, request);
    default: return V11->isend(comm, data, size, 0, memory, NULL, request);
  }
}

static Code irecv(void* comm, void* data, size_t size, void* memory, void** request) {
  int small = (int)size, tag = 0;
  void* event = NULL;
  switch (version) {
    case 8: return V8->irecv(comm, 1, &data, &small, &tag, &memory, request);
    case 9: return V9->irecv(comm, 1, &data, &size, &tag, &memory, request);
    case 10: return V10->irecv(comm, 1, &data, &size, &tag, &memory, &event, request);
    default: return V11->irecv(comm, 1, &data, &size, &tag, &memory, &event, request);
  }
}

static const size_t sizes[] = {0, 1, 7, 64, 127, 128, 4095, 4096, 4097, 8192, 8193, 65536, 100003, 524288, 1 << 20};
enum { N_SIZES = sizeof sizes / sizeof *sizes, SLOTS = 8, SLOT = 1 << 20 };

static unsigned char value(unsigned message, size_t at) {
  return (unsigned char)(message * 131 + at * 7 + at / 251);
}

typedef struct {
  int is_send;
  void *comm, *memory;
  char* data;
  void* requests[SLOTS];
  unsigned begun, done, total;
  double since, cpu;
} End;

static void prepare(End* end, int is_send, void* comm, unsigned total) {
  void* again;
  *end = (End){.is_send = is_send, .comm = comm, .total = total, .since = now()};
  end->data = mmap(NULL, SLOTS * SLOT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT(end->data != MAP_FAILED);
  CHECK(OF(reg_mr)(comm, end->data, SLOTS * SLOT, PTR_HOST, &end->memory));
  /* A part of what is registered, as NCCL does it for each operation. */
  CHECK(OF(reg_mr)(comm, end->data + 5000, 100, PTR_HOST, &again));
  CHECK(OF(dereg_mr)(comm, again));
}

static size_t size_of(unsigned message) { return sizes[message % N_SIZES]; }

/* Goes on as far as it can; 1 once all is done. */
static int go_on(End* end) {
  while (end->begun < end->total && end->begun - end->done < SLOTS) {
    unsigned slot = end->begun % SLOTS;
    char* data = end->data + slot * SLOT;
    size_t size = size_of(end->begun);
    if (end->is_send)
      for (size_t i = 0; i < size; i++) data[i] = (char)value(end->begun, i);
    else memset(data, 0xee, size < SLOT ? size + 1 : size);
    if (!end->memory) break;
    CHECK(end->is_send ? isend(end->comm, data, size, end->memory, &end->requests[slot])
                       : irecv(end->comm, data, SLOT, end->memory, &end->requests[slot]));
    if (!end->requests[slot]) break;
    end->begun++;
    if (!end->is_send && end->begun == 3 && getenv("STALE")) {
      CHECK(OF(dereg_mr)(end->comm, end->memory));
      end->memory = NULL;
    }
  }
  while (end->done < end->begun) {
    unsigned slot = end->done % SLOTS;
    int done = 0, size = -1;
    CHECK(OF(test)(end->requests[slot], &done, &size));
    if (!done) break;
    size_t want = size_of(end->done);
    char* data = end->data + slot * SLOT;
    EXPECT((size_t)size == want);
    if (!end->is_send) {
      for (size_t i = 0; i < want; i++)
        if ((unsigned char)data[i] != value(end->done, i)) DIE("WRONG message %u byte %zu", end->done, i);
      EXPECT(want == SLOT || (unsigned char)data[want] == 0xee);
      void* flush = NULL;
      int bytes = (int)want;
      void* at = data;
      if (!getenv("NO_FLUSH")) CHECK(OF(iflush)(end->comm, 1, &at, &bytes, &end->memory, &flush));
      for (int flushed = 0; flush && !flushed;) CHECK(OF(test)(flush, &flushed, NULL));
    }
    end->done++;
    end->since = now();
  }
  if (end->done < end->total && now() - end->since > patience) DIE("WRONG nothing moves after message %u", end->done);
  return end->done == end->total;
}

static void finish(End* end) {
  CHECK(OF(dereg_mr)(end->comm, end->memory));
  munmap(end->data, SLOTS * SLOT);
  CHECK(end->is_send ? OF(close_send)(end->comm) : OF(close_recv)(end->comm));
}

static int channel(int is_server, const char* peer, int port) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
  if (!is_server) {
    EXPECT(inet_pton(AF_INET, peer, &at.sin_addr) == 1);
    for (double until = now() + 60; connect(fd, (void*)&at, sizeof at);) {
      if (now() > until) DIE("WRONG nobody listens at %s:%d", peer, port);
      close(fd);
      fd = socket(AF_INET, SOCK_STREAM, 0);
      usleep(20000);
    }
    return fd;
  }
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  EXPECT(!bind(fd, (void*)&at, sizeof at) && !listen(fd, 1));
  return accept(fd, NULL, NULL);
}

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  version = atoi(argv[2]);
  int is_server = strcmp(argv[3], "client"), is_client = strcmp(argv[3], "server");
  unsigned total = N_SIZES * (unsigned)(getenv("LOOPS") ? atoi(getenv("LOOPS")) : 4);
  if (getenv("PATIENCE")) patience = atof(getenv("PATIENCE"));
  void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (!library) DIE("FAILED dlopen: %s", dlerror());
  char symbol[32];
  snprintf(symbol, sizeof symbol, "ncclNetPlugin_v%d", version);
  table = dlsym(library, symbol);
  if (!table) DIE("FAILED no %s", symbol);
  CHECK(begin());
  CHECK(OF(devices)(&devices));
  EXPECT(devices > 0 && OF(name) && *OF(name));
  for (int device = 0; device < devices; device++) {
    memset(&about, 0, sizeof about);
    CHECK(properties(device, &about));
    EXPECT(about.name && (about.ptr_support & PTR_HOST) && about.speed > 0 && about.max_comms > 0 && about.max_recvs > 0);
    printf("device %d of %s v%d: %s port %d %d Mbit/s memory %d\n", device, OF(name), version, about.name, about.port,
           about.speed, about.ptr_support);
  }
  char handle[HANDLE_BYTES];
  void *listening = NULL, *sending = NULL, *receiving = NULL, *offload = NULL;
  int fd = is_server && is_client ? -1 : channel(is_server, argc > 5 ? argv[5] : "", atoi(argv[4]));
  if (is_server) CHECK(listen_on(0, handle, &listening));
  if (fd >= 0 && is_server) EXPECT(write(fd, handle, sizeof handle) == sizeof handle);
  if (fd >= 0 && !is_server) EXPECT(recv(fd, handle, sizeof handle, MSG_WAITALL) == sizeof handle);
  double until = now() + patience;
  while ((is_client && !sending) || (is_server && !receiving)) {
    if (is_client && !sending) CHECK(connect_to(0, handle, &sending));
    if (is_server && !receiving) CHECK(OF(accept)(listening, &receiving, &offload));
    if (now() > until) DIE("WRONG not connected in time");
  }
  End ends[2] = {{.total = 0}, {.total = 0}};
  if (is_client) prepare(&ends[0], 1, sending, total);
  if (is_server) prepare(&ends[1], 0, receiving, total);
  double start = now();
  for (int open = 1; open;) open = !((!is_client || go_on(&ends[0])) & (!is_server || go_on(&ends[1])));
  double took = now() - start;
  /* Both have all before either closes. */
  char byte = 0;
  if (fd >= 0) EXPECT(write(fd, &byte, 1) == 1 && recv(fd, &byte, 1, MSG_WAITALL) == 1);
  if (is_client) finish(&ends[0]);
  if (is_server) finish(&ends[1]);
  if (is_server) CHECK(OF(close_listen)(listening));
  if (version == 11) CHECK(V11->finalize(context));
  printf("OK %u messages in %.2f s\n", total, took);
  return 0;
}

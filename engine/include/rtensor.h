/* Tensors as memory of a remote machine: librtensor.so.
 *
 * A link joins two processes. Both declare the same edges by name, one end as sender and the other as receiver, then both call
 * rtensor_ready. A static edge carries one shape to one place: a transfer is one write that ends in a flag, without a message,
 * a copy or a call of the receiver's beside the polling. A dynamic edge carries any shape: the receiver is told of it,
 * allocates, and reads.
 *
 *     sender                                     receiver
 *     e = rtensor_static_sender(l, "w", …)       e = rtensor_static_receiver(l, "w", …)
 *     rtensor_ready(l, 30)                       rtensor_ready(l, 30)
 *     each time:                                 each time:
 *     rtensor_wait_to_send(l, e, 30)             rtensor_wait(l, e, 30)
 *     rtensor_to_send(l, e, &t); fill t.data     rtensor_received(l, e, &t); use t.data
 *     rtensor_send(l, e)                         rtensor_release(l, e)
 *
 * A tensor that was received is released before what depends on it is sent (held_by); a send before that is an error.
 *
 * Functions return 0 or an error; those that return a number return -1 - error. rtensor_last_error has the words. A link may
 * be used by any thread; its calls wait for each other, but for rtensor_ready, rtensor_wait, rtensor_wait_to_send and
 * rtensor_finish, between whose looks others have the link. It belongs to the process that made it: in a forked child every
 * call is an error, and rtensor_close forgets it.
 *
 * Nothing is authenticated or encrypted: whoever reaches the address of a listener over TCP first, and speaks this protocol,
 * is its peer, and may write to and read what is registered. Use networks whose hosts are all trusted. "local" takes processes
 * of the same user alone. */
#ifndef RTENSOR_H
#define RTENSOR_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Errors. */
enum {
  rtensorSuccess = 0,
  rtensorSystemError = 1,  /* the operating system or the device refused something */
  rtensorInvalidUsage = 2, /* a call or an argument that can never be right */
  rtensorMismatch = 3,     /* the two ends' edges do not fit */
  rtensorTooEarly = 4,     /* the receiver may still use the last tensor, or it still leaves its memory: try again later */
  rtensorStaleAddress = 5, /* memory that is not registered (any more), or outside of it */
  rtensorNoMemory = 6,     /* an arena or the machine has no room, or a tensor is larger than its edge's limit */
  rtensorPeerLost = 7,     /* the peer is gone */
  rtensorTimeout = 8,      /* nothing happened in time */
  rtensorInternalError = 9, /* a mistake of the library */
  rtensorBrokenRules = 10   /* the peer sent what makes no sense, or wrote over a tensor that was not released */
};

/* Types of elements. */
enum {
  rtensorU8 = 1,
  rtensorF16 = 2,
  rtensorBf16 = 3,
  rtensorF32 = 4,
  rtensorF64 = 5,
  rtensorI32 = 6,
  rtensorI64 = 7
};

#define RTENSOR_MAX_DIMS 8

typedef struct rtensor_link rtensor_link_t;

/* A tensor in registered memory. */
typedef struct {
  void* data;
  uint64_t size_bytes;
  int datatype;
  int n_dims;
  uint64_t dims[RTENSOR_MAX_DIMS];
} rtensor_t;

/* What this end has done. */
typedef struct {
  uint64_t work_requests; /* writes, flags and reads */
  uint64_t moved_bytes;   /* of writes and reads */
  uint64_t messages;      /* in which the peer's program has to take part */
  uint64_t copied_bytes;  /* in this process, beside the transfer itself */
  uint64_t registrations; /* of memory */
  uint64_t polls;         /* looks at flags */
  uint64_t hits;          /* of them those that found a tensor */
} rtensor_counts_t;

/* Connects to the process that uses the same address: device is "local" (a process of this host; the address is any name),
 * "tcp" or, in a build that has it, "verbs" (host:port). One end listens, the other calls. Who calls tries until the timeout,
 * also a host's name that is not known; who listens at an address that is not this machine's, or is taken, fails at once. */
int rtensor_connect(const char* device, int listens, const char* address, double timeout_s, rtensor_link_t** link);
/* Bytes for tensors of dynamic edges on this end (64 MiB); an error after rtensor_ready. */
int rtensor_set_arena(rtensor_link_t* link, uint64_t bytes);

/* Declare an edge; its number. held_by names the edge that comes back and depends on the tensor: when something has come on it,
 * the sender may send again, and nothing is written for that. NULL: the receiver writes a word when it releases a tensor. */
int rtensor_static_sender(rtensor_link_t* link, const char* name, int datatype, int n_dims, const uint64_t* dims,
                          const char* held_by);
int rtensor_static_receiver(rtensor_link_t* link, const char* name, int datatype, int n_dims, const uint64_t* dims);
int rtensor_dynamic_sender(rtensor_link_t* link, const char* name, uint64_t limit_bytes, const char* held_by);
int rtensor_dynamic_receiver(rtensor_link_t* link, const char* name, uint64_t limit_bytes);
/* Sets all edges up, together with the peer; no tensor is sent or awaited before, which is rtensorInvalidUsage. After an error
 * the link is broken: close it, and make a new one. Success does not mean that the peer's call has succeeded, which may have
 * been over by its timeout: the first wait tells. */
int rtensor_ready(rtensor_link_t* link, double timeout_s);

/* Allocates the next tensor of a dynamic edge. */
int rtensor_begin(rtensor_link_t* link, int edge, int datatype, int n_dims, const uint64_t* dims);
/* The tensor to be filled and sent. Of a static edge it is always the same memory, valid until rtensor_close; of a dynamic one
 * until the next rtensor_begin. It must not be changed between rtensor_send and the next rtensor_may_send that is 1; the call
 * is rtensorTooEarly while it still leaves this process. */
int rtensor_to_send(rtensor_link_t* link, int edge, rtensor_t* tensor);
int rtensor_send(rtensor_link_t* link, int edge);
/* Whether the next tensor may be sent: 1 or 0. */
int rtensor_may_send(rtensor_link_t* link, int edge);
int rtensor_wait_to_send(rtensor_link_t* link, int edge, double timeout_s);

/* Whether a tensor is there: 1 or 0. */
int rtensor_poll(rtensor_link_t* link, int edge);
int rtensor_wait(rtensor_link_t* link, int edge, double timeout_s);
/* The tensor that is there, valid until rtensor_release. */
int rtensor_received(rtensor_link_t* link, int edge, rtensor_t* tensor);
int rtensor_release(rtensor_link_t* link, int edge);

int rtensor_counts(rtensor_link_t* link, rtensor_counts_t* counts);
/* Both ends, at the end: waits until neither needs the other. After it only counts and close are left, and what has come before;
 * after rtensorTimeout it may be called again, but nothing is sent any more. */
int rtensor_finish(rtensor_link_t* link, double timeout_s);
/* Ends the link and its memory, whatever the peer does. No other call on it may be under way. NULL is nothing. */
int rtensor_close(rtensor_link_t* link);
/* What the last error on this thread was about; never NULL, valid until the next call of this library on this thread. So copy
 * it, or use it before: not as an argument beside a call that also calls this library. */
const char* rtensor_last_error(void);

#ifdef __cplusplus
}
#endif
#endif

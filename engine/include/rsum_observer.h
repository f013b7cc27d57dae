/* What the summation service of librsccl.so tells a watcher.
 *
 * RSUM_OBSERVER names a library that exports rsumObserver_v1. The engine loads it at the first rsum_init of a process (or when
 * ringscope-sumd starts). Functions are called from the group's own thread, but for a group that cannot start: that one begins and ends
 * on the thread that starts it. Of one group no two are called at once; they must not block. Texts
 * and arrays are valid during the call. Times are CLOCK_MONOTONIC nanoseconds; totals count from join on. What functions are given
 * (group, sample, round, finished) begins with its size, so later versions can append fields; what these point to (services, stages,
 * traffic, contributors, waits, the comparison) does not, and stays as it is. */
#ifndef RSUM_OBSERVER_H_
#define RSUM_OBSERVER_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { rsumRoleWorker = 1, rsumRoleServer = 2 };
enum { rsumKeyGradient = 0, rsumKeyParameter = 1, rsumKeyOther = 2, rsumKeyClasses = 3 };
enum { rsumEndLeft = 1, rsumEndSuspended = 2, rsumEndFailed = 3 };

/* A service of the group: those of servers first, then one in each worker. */
typedef struct {
  uint32_t rank;                    /* of its process: workers first, then servers */
  uint32_t optimal_share_ppm;       /* of all bytes, by the water-filling of the group's NICs */
  uint32_t share_ppm;               /* that it owns */
  uint32_t reserved;
  const char* host;
  uint64_t owned_bytes;
  uint64_t predicted_sent_bytes;    /* of its process, for one round of all tensors */
  uint64_t predicted_received_bytes;
} rsumObserverService_v1;

/* A group that begins: after the agreement about declarations, and again when more are declared. */
typedef struct {
  size_t size;
  uint64_t group;                   /* the same in all processes of the group; never 0 */
  uint64_t session;                 /* stays when members change */
  uint64_t membership_epoch;
  uint64_t placement_epoch;
  uint64_t comm;                    /* ncclComm_t of the communicator that carries it */
  int32_t role;
  uint32_t index;                   /* among the workers, or the servers */
  uint32_t n_workers;
  uint32_t n_servers;
  uint32_t asynchronous;
  uint32_t n_services;
  uint64_t staleness_bound;         /* UINT64_MAX: none */
  uint64_t n_tensors;
  uint64_t n_parts;
  uint64_t model_bytes;
  uint64_t partition_bytes;
  const rsumObserverService_v1* services;
  const char* const* worker_hosts;  /* n_workers of them */
} rsumObserverGroup_v1;

/* A stage of a worker's pipeline. */
typedef struct {
  const char* name;                 /* compress, push, sum, pull, decompress */
  uint64_t waiting_parts;
  uint64_t running_parts;
  uint64_t entered_parts;
  uint64_t left_parts;
  uint64_t waited_ns;
  uint64_t worked_ns;
  uint64_t longest_wait_ns;
} rsumObserverStage_v1;

/* Traffic of this worker with a service in one class of keys; bytes as on the wire. Where the workers of a host sum first, bytes
 * between them count for the service that owns the part, and so do those of the host's sums. */
typedef struct {
  uint64_t push_issued_bytes;
  uint64_t push_completed_bytes;
  uint64_t pull_issued_bytes;
  uint64_t pull_completed_bytes;
  uint64_t local_bytes;             /* of both directions, those that crossed no NIC */
} rsumObserverTraffic_v1;

/* What this process's service has heard from a worker. Where the workers of a host sum first, contributions are heard by the worker
 * that sums for the host, and last arrivals by the service that owns the part: of a host, the worker that came last there. */
typedef struct {
  uint64_t contributions;
  uint64_t bytes;
  uint64_t last_arrivals;           /* rounds in which it came last */
  uint64_t late_ns;                 /* after the first one, summed over all rounds */
  uint64_t last_arrival_ns;         /* 0: none came */
  uint64_t unanswered;
  uint64_t unanswered_bytes;
} rsumObserverContributor_v1;

/* A round of this process's service that is not over. */
typedef struct {
  uint32_t key;
  uint32_t for_push;                /* 1: it waits for contributions. 0: for answers to be taken */
  uint64_t round;
  const char* tensor;
  uint64_t first_arrival_ns;
  const uint32_t* workers;          /* for whom, n_workers of them; of a host that sums first,
                                       the worker that sums for it, which waits for others itself */
  uint32_t n_workers;
  uint32_t reserved;
} rsumObserverWait_v1;

/* What comparisons of the parameters between all workers have come to (rsum_compared), in this worker's words. */
typedef struct {
  uint64_t count;                   /* comparisons so far */
  uint64_t every;                   /* steps from one to the next */
  uint64_t steps;                   /* made before the last one, */
  uint64_t at_ns;                   /* and when that was */
  uint64_t n_parameters;            /* in it */
  uint64_t n_different;             /* of them. 0: all workers have the same */
  uint64_t equal_steps;             /* made before the last one in which all were the same; UINT64_MAX: there was none */
  /* The first one since then in which some differed. Zeros where n_different is 0. */
  uint64_t different_steps;
  uint64_t different_at_ns;
  const char* parameter;            /* the first that differed in it; empty: none */
  const uint64_t* hashes;           /* of that parameter, by worker: n_workers of them */
  uint32_t n_workers;
  uint32_t reserved;
} rsumObserverComparison_v1;

/* The state of this process in the group: every 100 ms while anything is under way, when it has come to rest, and at once when
 * a comparison has shown a difference. */
typedef struct {
  size_t size;
  uint64_t now_ns;
  uint32_t n_stages;                /* 0: a server */
  uint32_t n_services;
  uint32_t n_contributors;
  uint32_t n_waits;                 /* the longest first, at most 64 */
  const rsumObserverStage_v1* stages;
  const rsumObserverTraffic_v1* traffic;            /* n_services * rsumKeyClasses; by service, then by class */
  const rsumObserverContributor_v1* contributors;
  const rsumObserverWait_v1* waits;
  uint64_t credits_used_bytes;
  uint64_t credit_bytes;
  uint64_t credits_waited_ns;
  uint64_t finished_rounds;
  uint64_t reserved;                /* 0 */
  uint64_t refused;
  uint64_t summed_bytes;
  uint64_t summing_ns;
  const uint64_t* staleness;        /* n_staleness; pulls by rounds that the slowest worker was behind: 0, 1, 2, ...; the last one and more */
  uint64_t n_staleness;             /* 0: synchronous */
  /* Only where size says that it is there. NULL: nothing was compared. */
  const rsumObserverComparison_v1* comparison;
} rsumObserverSample_v1;

/* A result that this process's service made, or that this worker has pulled. */
typedef struct {
  size_t size;
  uint32_t key;
  uint32_t made;                    /* 1: made here. 0: pulled */
  uint64_t round;
  uint64_t fingerprint;
  uint32_t contributors;            /* where made: contributions in it, */
  uint32_t last_arriver;            /* the worker that came last, */
  uint64_t spread_ns;               /* and how much after the first */
  uint64_t took_ns;                 /* from the first contribution, or from the push */
  uint64_t now_ns;
} rsumObserverRound_v1;

/* A round of push and pull of a whole tensor that a caller asked for has ended. */
typedef struct {
  size_t size;
  uint32_t tensor;
  int32_t result;                   /* 0, or the error */
  uint64_t round;
  uint64_t bytes;
  uint64_t submitted_ns;
  uint64_t now_ns;
} rsumObserverFinished_v1;

typedef struct {
  const char* name;
  /* A group begins. *context starts as NULL, and goes into all other calls. Not 0: no other calls. A group that fails before its
   * tensors are agreed begins with none of them just before it ends. */
  int (*begin)(void** context, const rsumObserverGroup_v1* group);
  void (*sample)(void* context, const rsumObserverSample_v1* sample);
  void (*round)(void* context, const rsumObserverRound_v1* round);
  void (*finished)(void* context, const rsumObserverFinished_v1* finished);
  /* It is over; lost_rank is the process whose loss ended it, or -1; why is empty if it has not failed. */
  void (*end)(void* context, int how, int lost_rank, const char* why);
} rsumObserver_v1_t;

#ifdef __cplusplus
}
#endif
#endif

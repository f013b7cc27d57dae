/* The summation service of librsccl.so: n workers push gradients and pull their sums, with the help of k machines that
 * do nothing else. Every part of a tensor is summed by one service; shares are such that no NIC waits for
 * another. Sums are folded in the order of the workers, so they have the same bits on all workers, in every run, for
 * every number of servers. Where the workers of a host sum first (RSUM_LOCAL; by default where there are several hosts and one has
 * several workers), one of them adds the host's contributions, in their order, and the service adds the sums of the hosts: bits then
 * depend on who shares a host too. Tensors that travel in the form of a codec have no sums of hosts.
 *
 * A process is in one group at a time. Functions may be called from any thread; those that say "all workers" are
 * collective: each worker calls them in the same order. Functions return 0 or one of the numbers of ncclResult_t, unless they
 * say otherwise; rsum_last_error has the text. A child that is forked without exec is no member: it keeps none of the
 * group's connections, may ask for its parent's numbers (rsum_rank and the like), and has an error of all else.
 *
 * Environment (read by rsum_init and ringscope-sumd):
 *   RSUM_ROOT         host:port at which the processes meet; worker 0 listens there, or a ringscope-sumd that was told to. Several,
 *                     separated by commas, are looked at in turn: after a loss the rendezvous may be on another machine
 *   RSUM_SECRET       a text that all processes of the job share; strangers without it are turned away
 *   RSUM_WORKERS      n; RANK and WORLD_SIZE of a launcher stand in for RSUM_RANK and RSUM_WORKERS
 *   RSUM_SERVERS      k, 0 by default
 *   RSUM_RANK         number of this worker, 0 to n - 1
 *   RSUM_PARTITION_BYTES  bytes of a part at most, 4096000 by default
 *   RSUM_NIC_MBIT_S   rate of this machine's NIC, for the placement; measured by default, else as the NIC says, else equal for all
 *   RSUM_MEASURE      0: rates are not measured; 1 by default
 *   RSUM_THREADS      threads that add, encode and decode, in each process: the lesser of 2 and its cores by default
 *   RSUM_KEPT_BYTES   of contributions that wait for a late worker's at a service, beside two buffers of each part: 1073741824 by
 *                     default. Beyond it workers are asked for a part once more when it can be added. A worker that adds for its
 *                     host (RSUM_LOCAL) has as much once more for that
 *   RSUM_STAGING_BYTES  pinned memory for tensors on a GPU at most, 4294967296 by default
 *   RSUM_COMPRESSION_MIN_BYTES  fewest bytes of a tensor whose codec is used, 65536 by default; all workers the same
 *   RSUM_ON_LOSS      stop (default): a lost process is an error for all. continue: the others may rsum_resume, whoever it was;
 *                     where a network is cut in two, the part with most of the members
 *   RSUM_IDLE_S       seconds after which a server that has been in no group leaves, 3600 by default; 0: never
 *   RSUM_WARN_S       seconds after which the log says for whom a round waits, or for what a GPU, 30 by default; 0: never
 *   RSUM_TIMEOUT_S    seconds after which who does not push counts as lost, and the group fails; 1800 by default, 0: never
 *   RSUM_TIMELINE     a folder for files that say when each part was where; none by default
 *   RSUM_ASYNC        1: asynchronous sums, see below; the same on all workers. 0 by default
 *   RSUM_STALENESS    with RSUM_ASYNC=1, rounds of a tensor that a worker may be ahead of the slowest one; any by default
 *   RSUM_POOL         host:port of the broker of a pool (ringscope-sumd --broker) that lends the job its servers, at most
 *                     RSUM_SERVERS, and none at first; see rsum_adapt
 *   RSUM_JOB          the job's name at the pool; what RSUM_ROOT says by default
 *   RSUM_LOCAL        whether the workers of a host sum first: auto (default), on or off
 *   RSUM_NET          what carries data between hosts, for a summation group alone: socket, or verbs, which is RDMA by
 *                     libnccl-net-ringscope.so; what RSCCL_NET says by default
 *   RSUM_FINGERPRINTS a watched worker computes the fingerprint of one in so many results that it pulls, the same ones on all
 *                     workers, 16 by default; 1: of all, 0: of none
 *   RSUM_OBSERVER     path of a library that watches, see rsum_observer.h
 *
 * Asynchronous sums (RSUM_ASYNC=1): a tensor is kept by its service. The first round of each worker is its initial value, of
 * which worker 0's is taken, once, and the others' are dropped. What is pushed later is added at once: w' - w of an
 * optimizer, say. All rounds give what there is then, with the own pushes in it; none waits for other workers, but for the
 * initial value, and for those that are more than RSUM_STALENESS rounds behind. Workers may make different numbers of
 * rounds; who has left is waited for no more. Parts of a tensor are at different states. There is no rsumAverage and
 * no codec, and all tensors are declared before the first push. A group that follows by rsum_resume keeps nothing: each
 * tensor's next round is an initial value again.
 */
#ifndef RSUM_H_
#define RSUM_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What becomes of the contributions. */
enum { rsumSum = 0, rsumAverage = 1 };

/* How a tensor travels, both ways. One-bit and top-k keep what they lose and add it to the next contribution (error feedback); of
 * one-bit the service does so with its answers too, until the group ends or more is declared. Halves are rounded once each
 * way. Top-k is answered by the union of what was pushed, exactly. Rows loses nothing: rows that have anything but zeros travel,
 * with their indices, and the result has the bits of the sum without a codec, added in the order of the workers; for tables of
 * which a round touches few rows. */
enum {
  rsumCodecNone = 0, rsumCodecF16 = 1, rsumCodecBf16 = 2, rsumCodecOneBit = 3, rsumCodecTopK = 4, rsumCodecRows = 5
};

/* How a tensor is declared. Set size to sizeof(rsum_options_t); zero means the default. */
typedef struct {
  size_t size;
  int priority;      /* parts of a lower one go first; equal ones in the order of declaration. */
  int codec;         /* rsumCodec...; for float32 only. */
  double kept;       /* rsumCodecTopK: fraction of the elements that is sent, 0.01 by default. */
  uint64_t min_bytes;  /* a tensor of fewer bytes travels as it is; 1: none does. RSUM_COMPRESSION_MIN_BYTES by default. */
  uint64_t row;      /* rsumCodecRows: elements of a row. */
} rsum_options_t;

/* Joins the group; all workers. Waits for all processes. */
int rsum_init(void);
/* Leaves the group: waits until all sums are there and nobody needs this process; all workers. */
int rsum_shutdown(void);

/* Number of this worker, and of workers; by host. -1 outside a group. */
int rsum_rank(void);
int rsum_size(void);
int rsum_local_rank(void);
int rsum_local_size(void);
/* Servers in the group. -1 outside a group. */
int rsum_servers(void);

/* Declares a tensor; all workers, the same ones in the same order. datatype is one of ncclDataType_t. Its number, 0 or
 * greater, or -1 - error. A name that is declared already with the same length and type gives its number. More may be
 * declared later: the next push waits until all workers have declared the same. options may be NULL. */
int rsum_declare(const char* name, uint64_t count, int datatype, const rsum_options_t* options);

/* The codec that a tensor really travels with, one of rsumCodec..., or -1 - error: rsumCodecNone where it has too few bytes
 * for the one that it was declared with. */
int rsum_codec(int tensor);

/* Contributes send to the tensor's next round, and gets the result in recv (the same memory, or other memory); all workers.
 * After an error recv may have parts of the sum. */
int rsum_push_pull(int tensor, const void* send, void* recv, int operation);
/* The same, without waiting; a handle, 0 or greater, or -1 - error. Both buffers are the group's until rsum_wait. */
int rsum_push_pull_async(int tensor, const void* send, void* recv, int operation);
/* The same for memory of a GPU (CUDA), in which either or both buffers lie; a handle, or -1 - error. send is read behind what was
 * put on the stream before the call. A send on the GPU is copied there: what is put on the stream after the call may change it
 * where recv is elsewhere. One in this machine's memory, or in managed memory, is the group's until rsum_wait. recv is written
 * when the sum is there, on a stream of the library's own: put no work that uses it on any stream before rsum_wait has returned,
 * or rsum_poll 1. The stream is a cudaStream_t or CUstream, NULL the default one. The process must have loaded the CUDA driver,
 * the buffers must be of the stream's GPU or this machine's, and the stream must not be captured into a graph. Copies go through
 * pinned memory, which is kept until rsum_shutdown. Rounds of a tensor go in the order of their calls: the other functions that
 * contribute, change the members or leave wait until what was submitted here before has left the GPU. Where the group fails
 * before that, the handle ends with the group's error, and memory that the GPU may still write is kept until it has. What has
 * waited for a GPU for RSUM_WARN_S is named in the log. An error of the GPU ends the handle with ncclSystemError; if that was
 * before the contribution, its text says so, and the tensor may be submitted again. */
int rsum_push_pull_on_stream(int tensor, const void* send, void* recv, int operation, void* stream);
/* The two halves. The handle of the push is the one to pull with, once, and then to wait for: rsum_pull_async returns 0 or
 * an error; where recv was wrong, pull once more. At most 16384 pushes may wait to be pulled: one more is ncclInvalidUsage. */
int rsum_push_async(int tensor, const void* send, int operation);
int rsum_pull_async(int push, void* recv);
/* 1: the handle's work is over. 0: not yet. -1: there is no such handle. */
int rsum_poll(int handle);
/* Waits until the handle's work is over, and gives the handle back. How the work ended. */
int rsum_wait(int handle);
/* The same, but not longer than so many milliseconds, for who looks at signals in between: ncclInProgress while the work is
 * not over, and the handle stays. */
int rsum_wait_for(int handle, int timeout_ms);

/* All workers: waits for the open rounds and leaves the group; servers wait for the next one. */
int rsum_suspend(void);
/* All workers, after rsum_suspend, or after the loss of a process with RSUM_ON_LOSS=continue: goes on with so many workers and
 * servers. -1: with those that are left. Declarations stay, rounds begin anew; workers are numbered anew in the order of their
 * old numbers. A round that was open at a loss has failed: submit it again where recv was elsewhere; where recv was send, fill
 * send anew first, since parts of it may be sums already. */
int rsum_resume(int n_workers, int n_servers);

/* All workers, between two steps: goes on with the servers that the pool (RSUM_POOL) lends the job now, by rsum_suspend and
 * rsum_resume if they are others than before. No bit of a sum depends on it, but for one-bit tensors: what services have left out
 * of their answers is forgotten when servers change. Servers of the group from then on, or -1 - error. All rounds must have been
 * pulled. Without a pool it does nothing. */
int rsum_adapt(void);
/* The same, unless a worker passes 0, since it has rounds open whose tensors are of the present group: then nothing changes for
 * all. All workers call it. */
int rsum_adapt_if(int may);

/* Copies n arrays into one, one behind the other; or one into n. lengths[i] is the number of elements of arrays[i]. For those who
 * push many small tensors as one; also outside a group. None of the arrays may overlap the one. */
int rsum_gather(void* into, size_t n, const void* const* arrays, const size_t* lengths, size_t element_bytes);
int rsum_scatter(const void* from, size_t n, void* const* arrays, const size_t* lengths, size_t element_bytes);

/* A comparison that the caller has made of all workers' parameters. Set size to sizeof(rsum_comparison_t). */
typedef struct {
  size_t size;
  uint64_t steps;           /* that were made before it */
  uint64_t every;           /* steps from one comparison to the next */
  uint64_t n_parameters;
  uint64_t n_different;     /* of them. 0: all workers have the same, and the rest is not read */
  const char* parameter;    /* name of the first that differs */
  const uint64_t* hashes;   /* of that one, by worker: n_workers of them */
  uint32_t n_workers;
  uint32_t reserved;        /* 0 */
} rsum_comparison_t;

/* Tells who watches the group (RSUM_OBSERVER) what a comparison has come to; nothing else comes of it, and nothing at all where
 * nobody watches. After a difference it returns when the watcher knows, or after a second: a job may end because of it. */
int rsum_compared(const rsum_comparison_t* comparison);

/* Number of changes of the group's members so far. -1 outside a group. */
int rsum_epoch(void);
/* What the last error on this thread was about; never NULL, valid until the next call on this thread. */
const char* rsum_last_error(void);

#ifdef __cplusplus
}
#endif
#endif

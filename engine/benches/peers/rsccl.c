/* librsccl.so: BENCH_RANK, BENCH_RANKS; BENCH_MEMORY=ncclMemAlloc takes buffers from the library; BENCH_PRIMITIVE is
 * another primitive than all_reduce, for the tuner: both buffers are then the whole one, all ranks' blocks. */
#include "loop.h"
#include "rsccl.h"
#include "rsccl_stream.h"

static ncclComm_t comm;
static cudaStream_t stream;
static int rank, n_ranks;
static const char* primitive = "all_reduce";

static void check(ncclResult_t code) {
  if (code == ncclSuccess) return;
  fprintf(stderr, "%s: %s\n", ncclGetErrorString(code), ncclGetLastError(comm));
  exit(3);
}

static void* allocate(size_t bytes) {
  void* buffer = NULL;
  check(ncclMemAlloc(&buffer, bytes));
  return buffer;
}

static void release(void* buffer, size_t bytes) {
  (void)bytes;
  check(ncclMemFree(buffer));
}

static ncclResult_t start(const float* in, float* out, size_t count) {
  size_t block = count / (size_t)n_ranks;
  if (!strcmp(primitive, "reduce_scatter"))
    return ncclReduceScatter(in, out, block, ncclFloat32, ncclSum, comm, stream);
  if (!strcmp(primitive, "all_gather")) return ncclAllGather(in, out, block, ncclFloat32, comm, stream);
  if (!strcmp(primitive, "broadcast")) return ncclBroadcast(in, out, count, ncclFloat32, 0, comm, stream);
  if (!strcmp(primitive, "reduce")) return ncclReduce(in, out, count, ncclFloat32, ncclSum, 0, comm, stream);
  return ncclAllReduce(in, out, count, ncclFloat32, ncclSum, comm, stream);
}

static void run(const float* in, float* out, size_t count) {
  check(start(in, out, count));
  check(rscclStreamSynchronize(stream));
}

int main(void) {
  rank = atoi(getenv("BENCH_RANK"));
  n_ranks = atoi(getenv("BENCH_RANKS"));
  const char* memory = getenv("BENCH_MEMORY");
  int own = memory && !strcmp(memory, "ncclMemAlloc");
  if (getenv("BENCH_PRIMITIVE")) primitive = getenv("BENCH_PRIMITIVE");
  ncclUniqueId id;
  if (rank == 0) check(ncclGetUniqueId(&id));
  bench_share(rank, &id, sizeof id);
  check(ncclCommInitRank(&comm, n_ranks, id, rank));
  check(rscclStreamCreate(&stream));
  bench_library library = {own ? allocate : bench_allocate, own ? release : NULL, run, NULL,
                           !strcmp(primitive, "all_reduce")};
  bench_serve(&library, rank, n_ranks);
  check(ncclCommDestroy(comm));
  return 0;
}

/* librsccl.so: BENCH_RANK, BENCH_RANKS; BENCH_MEMORY=ncclMemAlloc takes buffers from the library. */
#include "loop.h"
#include "rsccl.h"
#include "rsccl_stream.h"

static ncclComm_t comm;
static cudaStream_t stream;

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

static void all_reduce(const float* in, float* out, size_t count) {
  check(ncclAllReduce(in, out, count, ncclFloat32, ncclSum, comm, stream));
  check(rscclStreamSynchronize(stream));
}

int main(void) {
  int rank = atoi(getenv("BENCH_RANK")), n_ranks = atoi(getenv("BENCH_RANKS"));
  const char* memory = getenv("BENCH_MEMORY");
  int own = memory && !strcmp(memory, "ncclMemAlloc");
  ncclUniqueId id;
  if (rank == 0) check(ncclGetUniqueId(&id));
  bench_share(rank, &id, sizeof id);
  check(ncclCommInitRank(&comm, n_ranks, id, rank));
  check(rscclStreamCreate(&stream));
  bench_library library = {own ? allocate : bench_allocate, own ? release : NULL, all_reduce, NULL, 1};
  bench_serve(&library, rank, n_ranks);
  check(ncclCommDestroy(comm));
  return 0;
}

/* Any MPI: Open MPI, Intel MPI. */
#include <mpi.h>

#include "loop.h"

static void all_reduce(const float* in, float* out, size_t count) {
  if (MPI_Allreduce(in, out, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD) != MPI_SUCCESS)
    bench_fail("MPI_Allreduce failed");
}

int main(int argc, char** argv) {
  int rank, n_ranks;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
  bench_library library = {bench_allocate, NULL, all_reduce, NULL, 1};
  bench_serve(&library, rank, n_ranks);
  MPI_Finalize();
  return 0;
}

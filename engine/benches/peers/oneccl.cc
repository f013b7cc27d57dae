// oneCCL with MPI under it: the fabric is MPI's choice.
#include <mpi.h>

#include <memory>
#include <oneapi/ccl.hpp>

#include "loop.h"

static std::unique_ptr<ccl::communicator> communicator;

static void all_reduce(const float* in, float* out, size_t count) {
  ccl::allreduce(in, out, count, ccl::datatype::float32, ccl::reduction::sum, *communicator).wait();
}

int main(int argc, char** argv) {
  int rank, n_ranks, threads;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &threads);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
  ccl::init();
  ccl::shared_ptr_class<ccl::kvs> store;
  ccl::kvs::address_type address;
  if (rank == 0) {
    store = ccl::create_main_kvs();
    address = store->get_address();
  }
  MPI_Bcast(address.data(), static_cast<int>(address.size()), MPI_BYTE, 0, MPI_COMM_WORLD);
  if (rank != 0) store = ccl::create_kvs(address);
  communicator.reset(new ccl::communicator(ccl::create_communicator(n_ranks, rank, store)));
  bench_library library = {bench_allocate, nullptr, all_reduce, nullptr, 1};
  bench_serve(&library, rank, n_ranks);
  communicator.reset();
  store.reset();
  MPI_Finalize();
  return 0;
}

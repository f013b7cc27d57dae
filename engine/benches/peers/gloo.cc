// Gloo over TCP: BENCH_RANK, BENCH_RANKS, BENCH_MEETING (a folder is made beside it), BENCH_ADDRESS.
#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <sys/stat.h>

#include "loop.h"

static std::shared_ptr<gloo::rendezvous::Context> context;

static void all_reduce(const float* in, float* out, size_t count) {
  gloo::AllreduceOptions options(context);
  options.setInput(const_cast<float*>(in), count);
  options.setOutput(out, count);
  options.setReduceFunction(
      [](void* c, const void* a, const void* b, size_t n) { gloo::sum<float>(c, a, b, n); });
  gloo::allreduce(options);
}

int main() {
  int rank = atoi(getenv("BENCH_RANK")), n_ranks = atoi(getenv("BENCH_RANKS"));
  std::string folder = std::string(getenv("BENCH_MEETING")) + ".gloo";
  mkdir(folder.c_str(), 0700);
  gloo::rendezvous::FileStore store(folder);
  gloo::transport::tcp::attr attributes(getenv("BENCH_ADDRESS"));
  auto device = gloo::transport::tcp::CreateDevice(attributes);
  context = std::make_shared<gloo::rendezvous::Context>(rank, n_ranks);
  context->connectFullMesh(store, device);
  bench_library library = {bench_allocate, nullptr, all_reduce, nullptr, 1};
  bench_serve(&library, rank, n_ranks);
  return 0;
}

/* A worker of a summation group: so many rounds of two tensors, whose sums must be right. With a second argument it says then that
 * parameters were compared, and that worker 1 has another one, on its standard output that it has said so, and ends at the end of its
 * standard input; without goodbye, as a job does that ends by it. */
#include "rsum.h"

#include <stdio.h>
#include <stdlib.h>

enum { FLOAT32 = 7, COUNT = 100000 };

static float gradients[COUNT], parameters[10];

static int failed(const char* what) {
  fprintf(stderr, "%s: %s\n", what, rsum_last_error());
  return 1;
}

int main(int argc, char** argv) {
  int n_rounds = argc > 1 ? atoi(argv[1]) : 1;
  if (rsum_init()) return failed("rsum_init");
  int gradient = rsum_declare("gradient.fc", COUNT, FLOAT32, NULL);
  int parameter = rsum_declare("parameter.fc", 10, FLOAT32, NULL);
  if (gradient < 0 || parameter < 0) return failed("rsum_declare");
  for (int round = 0; round < n_rounds; round++) {
    for (int i = 0; i < COUNT; i++) gradients[i] = (float)(i + rsum_rank());
    int push = rsum_push_async(parameter, parameters, rsumAverage);
    if (rsum_push_pull(gradient, gradients, gradients, rsumSum)) return failed("rsum_push_pull");
    if (rsum_pull_async(push, parameters) || rsum_wait(push)) return failed("rsum_pull_async");
    if (gradients[1] != 2 * rsum_size() / 2 + (float)(rsum_size() * (rsum_size() - 1) / 2)) return failed("sum");
  }
  if (argc > 2) {
    const uint64_t hashes[] = {7, 9};
    rsum_comparison_t compared = {.size = sizeof compared, .steps = 2, .every = 2, .n_parameters = 3};
    if (rsum_compared(&compared)) return failed("rsum_compared");
    compared.steps = 4, compared.n_different = 1, compared.parameter = "fc.bias", compared.hashes = hashes;
    if (rsum_compared(&compared) == 0) return failed("a comparison of other workers than the group's");
    compared.n_workers = 2;
    if (rsum_compared(&compared)) return failed("rsum_compared");
    puts("compared");
    fflush(stdout);
    while (getchar() != EOF) {
    }
    _Exit(0);
  }
  if (rsum_shutdown()) return failed("rsum_shutdown");
  return 0;
}

/* A worker whose tensors lie in the memory of a GPU, of a driver without a device (fake_cuda.c). What it does is its argument;
 * settings come from the environment. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rsum.h"

enum { FLOAT32 = 7 };

static void fail(const char* what) {
  printf("ERROR %s: %s\n", what, rsum_last_error());
  fflush(stdout);
  exit(1);
}

static void end(void) {
  if (rsum_shutdown() != 0) fail("shutdown");
}

#ifdef WITHOUT_DRIVER

int main(void) {
  float number = 1, sum;
  if (rsum_init() != 0) fail("init");
  int tensor = rsum_declare("number", 1, FLOAT32, NULL);
  int handle = rsum_push_pull_on_stream(tensor, &number, &sum, rsumSum, NULL);
  printf("REFUSED %d: %s\n", -1 - handle, rsum_last_error());
  if (rsum_push_pull(tensor, &number, &sum, rsumSum) != 0 || sum != 1) fail("push_pull");
  end();
  printf("DONE\n");
  return 0;
}

#else

#include "fake_cuda.h"

enum { TENSORS = 3, ROUNDS = 6, MOST = 60007, SLOW_US = 3000 };
static const uint64_t COUNTS[TENSORS] = {MOST, 1, 4099};
static float values[TENSORS][ROUNDS][MOST], garbage[MOST], result[MOST];

static float value(int worker, int round, int tensor, uint64_t index) {
  uint64_t mixed = (index * 2654435761u + (uint64_t)(round * 31 + tensor * 7 + worker * 977)) * 0x9e3779b97f4a7c15u >> 40;
  return (float)(mixed % 2000001) / 1000.0f - 1000.0f;
}

static void expect(const float* found, int round, int tensor) {
  for (uint64_t index = 0; index < COUNTS[tensor]; index++) {
    float sum = value(0, round, tensor, index);
    for (int worker = 1; worker < rsum_size(); worker++) sum += value(worker, round, tensor, index);
    if (memcmp(&sum, &found[index], sizeof sum) != 0) {
      printf("WRONG round %d tensor %d element %llu: %g, not %g\n", round, tensor, (unsigned long long)index,
             (double)found[index], (double)sum);
      fflush(stdout);
      exit(2);
    }
  }
}

static int wait_for(int handle) { return handle < 0 ? -1 - handle : rsum_wait(handle); }

static void must(int code, const char* what) {
  if (code != 0) fail(what);
}

static int declare(int tensor) {
  char name[16];
  snprintf(name, sizeof name, "tensor %d", tensor);
  int number = rsum_declare(name, COUNTS[tensor], FLOAT32, NULL);
  if (number < 0) fail("declare");
  for (int round = 0; round < ROUNDS; round++)
    for (uint64_t index = 0; index < COUNTS[tensor]; index++)
      values[tensor][round][index] = value(rsum_rank(), round, tensor, index);
  return number;
}

static size_t bytes_of(int tensor) { return COUNTS[tensor] * sizeof(float); }

/* A stream is busy with a kernel that makes the contribution when the call comes, and gets one that spoils it behind. */
static void sum_rounds(void) {
  fake_stream_t streams[2] = {fake_stream(0, SLOW_US), fake_stream(0, 0)};
  float *send[TENSORS], *recv[TENSORS];
  int tensors[TENSORS], handles[TENSORS];
  for (int tensor = 0; tensor < TENSORS; tensor++) {
    tensors[tensor] = declare(tensor);
    send[tensor] = fake_alloc(0, bytes_of(tensor));
    /* In place. */
    recv[tensor] = tensor == 2 ? send[tensor] : fake_alloc(0, bytes_of(tensor));
  }
  for (int round = 0; round < ROUNDS; round++) {
    for (int tensor = 0; tensor < TENSORS; tensor++) {
      fake_stream_t stream = streams[(round + tensor) % 2];
      fake_kernel(stream, send[tensor], values[tensor][round], bytes_of(tensor));
      handles[tensor] = rsum_push_pull_on_stream(tensors[tensor], send[tensor], recv[tensor], rsumSum, stream);
      if (recv[tensor] != send[tensor]) fake_kernel(stream, send[tensor], garbage, bytes_of(tensor));
    }
    for (int tensor = 0; tensor < TENSORS; tensor++) must(wait_for(handles[tensor]), "sum");
    for (int tensor = 0; tensor < TENSORS; tensor++) {
      fake_read(result, recv[tensor], bytes_of(tensor));
      expect(result, round, tensor);
    }
  }
  printf("PINNED %d\n", fake_n_pins());
}

/* A stream that stands still holds up its own call, and nothing else; rounds of one tensor keep the order of their calls. */
static void keep_order(void) {
  fake_stream_t held = fake_stream(0, 0), free_stream = fake_stream(0, 0);
  float* memory[2] = {fake_alloc(0, bytes_of(0)), fake_alloc(0, bytes_of(0))};
  int tensor = declare(0), other = declare(2);
  fake_hold(held, true);
  fake_kernel(held, memory[0], values[0][0], bytes_of(0));
  fake_kernel(free_stream, memory[1], values[0][1], bytes_of(0));
  int first = rsum_push_pull_on_stream(tensor, memory[0], memory[0], rsumSum, held);
  int second = rsum_push_pull_on_stream(tensor, memory[1], memory[1], rsumSum, free_stream);
  float* third = fake_alloc(0, bytes_of(2));
  fake_kernel(free_stream, third, values[2][0], bytes_of(2));
  must(wait_for(rsum_push_pull_on_stream(other, third, third, rsumSum, free_stream)), "another tensor");
  if (rsum_poll(first) != 0 || rsum_poll(second) != 0) fail("what is held");
  fake_hold(held, false);
  must(wait_for(first), "first");
  must(wait_for(second), "second");
  for (int round = 0; round < 2; round++) {
    fake_read(result, memory[round], bytes_of(0));
    expect(result, round, 0);
  }
  /* One that does not come from a GPU, and a tensor that is declared while another one is on its way. */
  fake_stream_t slow = fake_stream(0, SLOW_US);
  fake_kernel(slow, memory[0], values[0][2], bytes_of(0));
  int staged = rsum_push_pull_on_stream(tensor, memory[0], memory[0], rsumSum, slow);
  must(rsum_push_pull(tensor, values[0][3], result, rsumSum), "from this machine");
  expect(result, 3, 0);
  fake_kernel(slow, memory[1], values[0][4], bytes_of(0));
  int before = rsum_push_pull_on_stream(tensor, memory[1], memory[1], rsumSum, slow);
  int later = declare(1);
  float* one = fake_alloc(0, bytes_of(1));
  fake_kernel(slow, one, values[1][0], bytes_of(1));
  must(wait_for(rsum_push_pull_on_stream(later, one, one, rsumSum, slow)), "later");
  must(wait_for(staged), "staged");
  must(wait_for(before), "before");
  fake_read(result, memory[0], bytes_of(0));
  expect(result, 2, 0);
  fake_read(result, memory[1], bytes_of(0));
  expect(result, 4, 0);
  fake_read(result, one, bytes_of(1));
  expect(result, 0, 1);
}

/* Any buffer may be this machine's; tensors may be empty. */
static void mix_places(void) {
  fake_stream_t stream = fake_stream(1, SLOW_US);
  float* device = fake_alloc(1, bytes_of(2));
  float* managed = fake_alloc_managed(0, bytes_of(2));
  int tensor = declare(2), empty = rsum_declare("empty", 0, FLOAT32, NULL);
  must(wait_for(rsum_push_pull_on_stream(tensor, values[2][0], device, rsumSum, stream)), "to the GPU");
  fake_read(result, device, bytes_of(2));
  expect(result, 0, 2);
  fake_kernel(stream, device, values[2][1], bytes_of(2));
  must(wait_for(rsum_push_pull_on_stream(tensor, device, result, rsumSum, stream)), "from the GPU");
  expect(result, 1, 2);
  must(wait_for(rsum_push_pull_on_stream(tensor, values[2][2], result, rsumSum, stream)), "neither");
  expect(result, 2, 2);
  memcpy(managed, values[2][3], bytes_of(2));
  must(rsum_push_pull(tensor, managed, managed, rsumSum), "managed");
  expect(managed, 3, 2);
  /* Which a kernel that comes late has written: it is waited for though nothing is copied. */
  fake_kernel(stream, managed, values[2][4], bytes_of(2));
  must(wait_for(rsum_push_pull_on_stream(tensor, managed, result, rsumSum, stream)), "managed, behind a kernel");
  expect(result, 4, 2);
  must(wait_for(rsum_push_pull_on_stream(empty, device, device, rsumSum, stream)), "empty");
}

static void refuse(const char* what, int handle) {
  if (handle >= 0) { printf("ERROR %s is taken\n", what); exit(1); }
  printf("REFUSED %s %d: %s\n", what, -1 - handle, rsum_last_error());
}

/* Each fault is the first worker's, which submits again; the other one waits for it. */
static void meet_faults(void) {
  static const struct { enum fake_fault fault; const char* name; int contributes; } FAULTS[] = {
      {fakeCopyOut, "copy-out", 0},       {fakeCopyIn, "copy-in", 1},          {fakeCopyOutCall, "copy-out-call", 0},
      {fakeCopyInCall, "copy-in-call", 1}, {fakeRecordCall, "record-call", 0}, {fakePin, "pin", 0}};
  fake_stream_t stream = fake_stream(0, 100);
  float* memory = fake_alloc(0, bytes_of(2));
  int tensor = declare(2), is_first = rsum_rank() == 0;
  for (int number = 0; number < 6; number++) {
    int round = number % ROUNDS;
    fake_kernel(stream, memory, values[2][round], bytes_of(2));
    if (is_first) {
      /* Of the memory that earlier calls have left nothing fits. */
      int large = FAULTS[number].fault == fakePin ? rsum_declare("large", MOST, FLOAT32, NULL) : tensor;
      float* from = large == tensor ? memory : fake_alloc(0, bytes_of(0));
      fake_fail(FAULTS[number].fault);
      int handle = rsum_push_pull_on_stream(large, from, from, rsumSum, stream);
      int code = wait_for(handle);
      printf("FAULT %s %d: %s\n", FAULTS[number].name, code, rsum_last_error());
      if (code == 0) exit(1);
      fake_fail(fakeNone);
      if (FAULTS[number].contributes) continue;
      fake_kernel(stream, memory, values[2][round], bytes_of(2));
    } else if (FAULTS[number].fault == fakePin && rsum_declare("large", MOST, FLOAT32, NULL) < 0) {
      fail("declare");
    }
    must(wait_for(rsum_push_pull_on_stream(tensor, memory, memory, rsumSum, stream)), FAULTS[number].name);
    fake_read(result, memory, bytes_of(2));
    expect(result, round, 2);
  }
}

static void misuse(void) {
  fake_stream_t stream = fake_stream(0, 0);
  float *memory = fake_alloc(0, bytes_of(2)), *elsewhere = fake_alloc(1, bytes_of(2)), *large = fake_alloc(0, bytes_of(0));
  int tensor = declare(2), too_large = declare(0);
  refuse("another-gpu", rsum_push_pull_on_stream(tensor, memory, elsewhere, rsumSum, stream));
  fake_capture(stream, true);
  refuse("capture", rsum_push_pull_on_stream(tensor, memory, memory, rsumSum, stream));
  fake_capture(stream, false);
  refuse("push_pull", -1 - rsum_push_pull(tensor, memory, result, rsumSum));
  refuse("push", rsum_push_async(tensor, memory, rsumSum));
  refuse("recv", rsum_push_pull_async(tensor, result, memory, rsumSum));
  refuse("overlap", rsum_push_pull_on_stream(tensor, memory, memory + 1, rsumSum, stream));
  refuse("null", rsum_push_pull_on_stream(tensor, NULL, memory, rsumSum, stream));
  refuse("staging", rsum_push_pull_on_stream(too_large, large, large, rsumSum, stream));
  int push = rsum_push_async(tensor, values[2][0], rsumSum);
  refuse("pull", -1 - rsum_pull_async(push, memory));
}

/* The other worker has gone when this one's contribution comes out of the GPU, or waits for the sum. */
static void lose(int leaves) {
  fake_stream_t stream = fake_stream(0, SLOW_US);
  float* memory = fake_alloc(0, bytes_of(0));
  int tensor = declare(0);
  must(wait_for(rsum_push_pull_on_stream(tensor, memory, memory, rsumSum, stream)), "together");
  if (leaves) _Exit(0);
  int handles[2];
  for (int i = 0; i < 2; i++) handles[i] = rsum_push_pull_on_stream(tensor, memory, memory, rsumSum, stream);
  for (int i = 0; i < 2; i++) {
    int code = wait_for(handles[i]);
    printf("LOST %d: %s\n", code, rsum_last_error());
  }
  rsum_shutdown();
}

/* The other worker has gone while this one's contribution cannot leave the GPU: the stream stands still, perhaps to the end. */
static void go_on_without(int leaves, int recovers) {
  fake_stream_t held = fake_stream(0, 0), stream = fake_stream(0, 0);
  float *memory = fake_alloc(0, bytes_of(0)), *other = fake_alloc(0, bytes_of(0));
  int tensor = declare(0);
  must(wait_for(rsum_push_pull_on_stream(tensor, memory, memory, rsumSum, stream)), "together");
  if (leaves) _Exit(0);
  fake_hold(held, true);
  fake_kernel(held, memory, values[0][0], bytes_of(0));
  int handle = rsum_push_pull_on_stream(tensor, memory, memory, rsumSum, held);
  int code = wait_for(handle);
  printf("LOST %d: %s\n", code, rsum_last_error());
  must(rsum_resume(-1, -1), "resume");
  fake_kernel(stream, other, values[0][1], bytes_of(0));
  must(wait_for(rsum_push_pull_on_stream(tensor, other, other, rsumSum, stream)), "alone");
  fake_read(result, other, bytes_of(0));
  expect(result, 1, 0);
  if (recovers) fake_hold(held, false);
}

/* A stream stands still for a while, and nothing else is wrong. */
static void be_late(void) {
  enum { IN_PROGRESS = 7 };
  fake_stream_t held = fake_stream(0, 0);
  float* memory = fake_alloc(0, bytes_of(2));
  int tensor = declare(2);
  fake_hold(held, true);
  fake_kernel(held, memory, values[2][0], bytes_of(2));
  int handle = rsum_push_pull_on_stream(tensor, memory, memory, rsumSum, held);
  if (rsum_wait_for(handle, 1500) != IN_PROGRESS) fail("what is held");
  fake_hold(held, false);
  must(wait_for(handle), "late");
  fake_read(result, memory, bytes_of(2));
  expect(result, 0, 2);
}

int main(int argc, char** argv) {
  if (argc < 2) return 3;
  /* What waits without end is a mistake, and ends. */
  alarm(120);
  fake_use_device(0);
  if (rsum_init() != 0) fail("init");
  int rank = rsum_rank();
  memset(garbage, 0x55, sizeof garbage);
  if (strcmp(argv[1], "sums") == 0) sum_rounds();
  if (strcmp(argv[1], "order") == 0) keep_order();
  if (strcmp(argv[1], "places") == 0) mix_places();
  if (strcmp(argv[1], "faults") == 0) meet_faults();
  if (strcmp(argv[1], "loss") == 0) lose(rank == 1);
  if (strcmp(argv[1], "stuck") == 0) go_on_without(rank == 1, 1);
  if (strcmp(argv[1], "stuck-for-ever") == 0) go_on_without(rank == 1, 0);
  if (strcmp(argv[1], "late") == 0) be_late();
  if (strcmp(argv[1], "misuse") == 0) misuse();
  else if (strcmp(argv[1], "loss") != 0) end();
  printf("LEFT %d pinned, %d events, %d streams, %d sins\n", fake_n_pinned(), fake_n_events(), fake_n_streams(), fake_n_sins());
  printf("DONE\n");
  fflush(stdout);
  /* A group of which a push was not pulled is not left in good order. */
  _Exit(0);
}

#endif

/* Both ends of a link, as one process each: link.c listens|calls DEVICE ADDRESS. A static edge there, a dynamic one back. */
#include "rtensor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void fail(const char* what) {
  fprintf(stderr, "%s: %s\n", what, rtensor_last_error());
  exit(1);
}

static void check(const char* what, int code) {
  if (code != rtensorSuccess) fail(what);
}

static void expect(const char* what, int code, int expected, const char* words) {
  if (code != expected || strstr(rtensor_last_error(), words) == NULL) {
    fprintf(stderr, "%s: %d, not %d; ", what, code, expected);
    fail(words);
  }
}

static void mistakes(rtensor_link_t* link) {
  const uint64_t dims[2] = {3, 5};
  rtensor_link_t* none = NULL;
  expect("no device", rtensor_connect("pigeon", 1, "x", 1, &none), rtensorInvalidUsage, "no device \"pigeon\"");
  expect("no address", rtensor_connect("local", 1, NULL, 1, &none), rtensorInvalidUsage, "address is NULL");
  expect("empty", rtensor_connect("local", 1, "", 1, &none), rtensorInvalidUsage, "address is empty");
  expect("nobody", rtensor_connect("local", 0, "nobody is here", 0.02, &none), rtensorTimeout, "nobody is here");
  expect("NULL", rtensor_ready(NULL, 1), rtensorInvalidUsage, "link is NULL");
  expect("type", rtensor_static_receiver(link, "a", 77, 2, dims), -1 - rtensorInvalidUsage, "no type 77");
  expect("dims", rtensor_static_receiver(link, "a", rtensorF32, 9, dims), -1 - rtensorInvalidUsage, "0 to 8");
  expect("timeout", rtensor_ready(link, -1), rtensorInvalidUsage, "-1 seconds");
  expect("finish", rtensor_finish(link, 1), rtensorInvalidUsage, "call ready (in C rtensor_ready) first");
  expect("edge", rtensor_poll(link, 99), -1 - rtensorInvalidUsage, "no edge 99");
  check("NULL is nothing", rtensor_close(NULL));
}

static void send_values(rtensor_link_t* link, int out, int back) {
  for (int round = 1; round <= 100; round++) {
    rtensor_t tensor;
    check("to send", rtensor_to_send(link, out, &tensor));
    if (tensor.size_bytes != 60 || tensor.n_dims != 2 || tensor.dims[1] != 5) fail("shape");
    for (int i = 0; i < 15; i++) ((float*)tensor.data)[i] = (float)(round * 100 + i);
    check("send", rtensor_send(link, out));
    expect("too early", rtensor_send(link, out), rtensorTooEarly, "edge out: transfer");
    check("wait", rtensor_wait(link, back, 30));
    check("received", rtensor_received(link, back, &tensor));
    if (tensor.datatype != rtensorI64 || tensor.n_dims != 1 || tensor.dims[0] != (uint64_t)round) fail("shape back");
    for (int i = 0; i < round; i++)
      if (((int64_t*)tensor.data)[i] != round - i) fail("value back");
    check("release", rtensor_release(link, back));
  }
}

static void answer_values(rtensor_link_t* link, int out, int back) {
  for (int round = 1; round <= 100; round++) {
    rtensor_t tensor;
    while (rtensor_poll(link, out) == 0) continue;
    check("received", rtensor_received(link, out, &tensor));
    for (int i = 0; i < 15; i++)
      if (((float*)tensor.data)[i] != (float)(round * 100 + i)) fail("value");
    check("release", rtensor_release(link, out));
    expect("gone", rtensor_received(link, out, &tensor), rtensorInvalidUsage, "no tensor is there");
    check("wait to send", rtensor_wait_to_send(link, back, 30));
    const uint64_t count = (uint64_t)round;
    check("begin", rtensor_begin(link, back, rtensorI64, 1, &count));
    check("begin anew", rtensor_begin(link, back, rtensorI64, 1, &count));
    check("to send", rtensor_to_send(link, back, &tensor));
    for (int i = 0; i < round; i++) ((int64_t*)tensor.data)[i] = round - i;
    check("send", rtensor_send(link, back));
    const int code = rtensor_begin(link, back, rtensorI64, 1, &count);
    if (code != rtensorSuccess && code != rtensorTooEarly) fail("begin at once");
  }
}

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const int listens = strcmp(argv[1], "listens") == 0;
  const uint64_t dims[2] = {3, 5};
  rtensor_link_t* link = NULL;
  check("connect", rtensor_connect(argv[2], listens, argv[3], 30, &link));
  mistakes(link);
  check("arena", rtensor_set_arena(link, 1 << 16));
  int out = listens ? rtensor_static_sender(link, "out", rtensorF32, 2, dims, "back")
                    : rtensor_static_receiver(link, "out", rtensorF32, 2, dims);
  int back = listens ? rtensor_dynamic_receiver(link, "back", 1 << 12)
                     : rtensor_dynamic_sender(link, "back", 1 << 12, NULL);
  if (out < 0 || back < 0) fail("declare");
  const int sends = listens ? out : back;
  expect("to send", rtensor_wait_to_send(link, sends, 30), rtensorInvalidUsage, "is not set up");
  expect("may send", rtensor_may_send(link, sends), -1 - rtensorInvalidUsage, "is not set up");
  check("ready", rtensor_ready(link, 30));
  if (listens) {
    send_values(link, out, back);
  } else {
    answer_values(link, out, back);
  }
  expect("arena", rtensor_set_arena(link, 1 << 16), rtensorInvalidUsage, "set up already");
  const pid_t child = fork();
  if (child == 0) {
    expect("forked", rtensor_finish(link, 30), rtensorInvalidUsage, "another process");
    check("forgotten", rtensor_close(link));
    _exit(0);
  }
  int status = 1;
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0) fail("a forked child");
  check("finish", rtensor_finish(link, 30));
  expect("finished", rtensor_send(link, sends), rtensorInvalidUsage, "is finished");
  rtensor_counts_t counts;
  check("counts", rtensor_counts(link, &counts));
  printf("%d %d\n", (int)counts.work_requests, (int)counts.hits);
  check("close", rtensor_close(link));
  return 0;
}

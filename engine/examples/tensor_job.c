/* Both ends of a link of librtensor.so, as two processes: run it once with "listens" and once with "calls".
 *
 *     tensor_job listens|calls [DEVICE ADDRESS]          "local" and any name, or "tcp" and host:port
 *
 * The one sends parameters and takes gradients off them; the other makes the gradients. */
#include <rtensor.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 64, STEPS = 100 };
static const double PATIENCE_S = 30;

/* A result that is 0, or an error in the library's words. */
static int checked(int result, const char* what) {
  if (result != rtensorSuccess) {
    fprintf(stderr, "%s: %s\n", what, rtensor_last_error());
    exit(1);
  }
  return result;
}

static int declared(int edge, const char* what) {
  return edge >= 0 ? edge : checked(edge, what);
}

static void train(rtensor_link_t* link, int parameters, int gradients) {
  float values[COUNT];
  for (int i = 0; i < COUNT; i++) values[i] = 1;
  for (int step = 0; step < STEPS; step++) {
    rtensor_t out, back;
    /* Nothing is waited for: the gradients that came tell that the last parameters were released (held_by). */
    checked(rtensor_to_send(link, parameters, &out), "memory to send from");
    memcpy(out.data, values, sizeof values);
    checked(rtensor_send(link, parameters), "sending");
    checked(rtensor_wait(link, gradients, PATIENCE_S), "waiting for gradients");
    checked(rtensor_received(link, gradients, &back), "gradients");
    for (int i = 0; i < COUNT; i++) values[i] -= 0.1f * ((const float*)back.data)[i];
    checked(rtensor_release(link, gradients), "releasing gradients");
  }
  printf("parameter 0 after %d steps: %g\n", STEPS, values[0]);
}

static void work(rtensor_link_t* link, int parameters, int gradients) {
  for (int step = 0; step < STEPS; step++) {
    rtensor_t in, out;
    checked(rtensor_wait(link, parameters, PATIENCE_S), "waiting for parameters");
    checked(rtensor_received(link, parameters, &in), "parameters");
    checked(rtensor_wait_to_send(link, gradients, PATIENCE_S), "waiting to send");
    checked(rtensor_to_send(link, gradients, &out), "memory to send from");
    for (int i = 0; i < COUNT; i++) ((float*)out.data)[i] = 2 * ((const float*)in.data)[i];
    checked(rtensor_release(link, parameters), "releasing parameters"); /* before what depends on them is sent */
    checked(rtensor_send(link, gradients), "sending");
  }
}

int main(int argc, char** argv) {
  if (argc != 2 && argc != 4) {
    fprintf(stderr, "usage: %s listens|calls [DEVICE ADDRESS]\n", argv[0]);
    return 2;
  }
  const int listens = strcmp(argv[1], "listens") == 0;
  const char* device = argc == 4 ? argv[2] : "local";
  const char* address = argc == 4 ? argv[3] : "tensor_job";
  const uint64_t dims[1] = {COUNT};
  rtensor_link_t* link = NULL;
  checked(rtensor_connect(device, listens, address, PATIENCE_S, &link), "connecting");
  if (listens) {
    int parameters = declared(rtensor_static_sender(link, "parameters", rtensorF32, 1, dims, "gradients"), "parameters");
    int gradients = declared(rtensor_static_receiver(link, "gradients", rtensorF32, 1, dims), "gradients");
    checked(rtensor_ready(link, PATIENCE_S), "setting up");
    train(link, parameters, gradients);
  } else {
    int parameters = declared(rtensor_static_receiver(link, "parameters", rtensorF32, 1, dims), "parameters");
    int gradients = declared(rtensor_static_sender(link, "gradients", rtensorF32, 1, dims, NULL), "gradients");
    checked(rtensor_ready(link, PATIENCE_S), "setting up");
    work(link, parameters, gradients);
  }
  checked(rtensor_finish(link, PATIENCE_S), "finishing");
  return rtensor_close(link);
}

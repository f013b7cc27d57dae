/* A healthy rank: its communicators, and what it calls in each step.
 *
 * Rank ((replica * n_stages) + stage) * n_tensor + part. Each step: rank 0 says what to train on; activations are summed over
 * the parts of a layer; they go from stage to stage and their gradients back; gradients are summed over the replicas, and a
 * part of the parameters is gathered; all agree on the loss. Calls are enqueued one after another, and waited for at the
 * step's end, as frameworks do it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fault_job.h"

groups_t groups;
static float *sent, *received, *reduced, *gathered, *batch, loss[2];

enum { BATCH = 256, GATHERED_SHARE = 16, SUM_SAMPLES = 16 };

static size_t elements(void) { return options.bytes / sizeof(float) + 1; }

static float* numbers(size_t count) {
  float* memory = calloc(count, sizeof(float));
  if (!memory) exit(2);
  return memory;
}

static void allocate(int n_ranks) {
  if (sent) return;
  size_t count = elements();
  sent = numbers(count);
  received = numbers(count);
  reduced = numbers(count);
  gathered = numbers((count / GATHERED_SHARE + 1) * (size_t)n_ranks);
  batch = numbers(BATCH);
}

static void name_of(char* name, const char* kind, int index) {
  snprintf(name, NAME_BYTES, "%s-%d/%d", kind, index, groups.epoch);
}

void form(int n_ranks, int epoch) {
  char name[NAME_BYTES];
  int rank = options.rank, tensor = options.n_tensor, stages = options.n_stages;
  int part = rank % tensor, stage = rank / tensor % stages, replica = rank / tensor / stages;
  memset(&groups, 0, sizeof groups);
  groups.epoch = epoch;
  allocate(n_ranks);
  snprintf(name, sizeof name, "world/%d", epoch);
  init_group(&groups.world, name, rank, n_ranks, rank == 0);
  if (tensor > 1) {
    name_of(name, "tensor", rank / tensor);
    split_group(&groups.tensor, &groups.world, rank / tensor, part, name);
  }
  if (stages > 1) {
    int line = replica * tensor + part;
    name_of(name, "stages", line);
    split_group(&groups.stages, &groups.world, line, stage, name);
  }
  name_of(name, "grads", rank % (tensor * stages));
  split_group(&groups.grads, &groups.world, rank % (tensor * stages), replica, name);
  say("formed", "\"epoch\":%d,\"n_ranks\":%d", epoch, n_ranks);
}

void part(void) {
  destroy_group(&groups.grads);
  destroy_group(&groups.stages);
  destroy_group(&groups.tensor);
  destroy_group(&groups.world);
}

/* Whole numbers, which floats hold exactly. What was found may be none, so it is told as text. */
static int expect(const char* what, long step, float found, float wanted) {
  if (found == wanted) return 1;
  say("wrong", "\"step\":%ld,\"what\":\"%s\",\"found\":\"%g\",\"wanted\":\"%g\"", step, what, (double)found,
      (double)wanted);
  return 0;
}

static void send_activations(long step, int to, int from) {
  group_t* line = &groups.stages;
  size_t count = elements() / 4 + 1;
  before_call(step, 2);
  if (from >= 0 && from < line->n_ranks)
    check("ncclRecv", ncclRecv(received, count, ncclFloat32, from, line->comm, stream), line);
  if (to >= 0 && to < line->n_ranks) check("ncclSend", ncclSend(sent, count, ncclFloat32, to, line->comm, stream), line);
}

long pieces_longer_us;

/* As a program does that does not fuse them. */
static void reduce_in_pieces(void) {
  group_t* group = &groups.grads;
  size_t count = elements(), pieces = (size_t)options.pieces;
  for (size_t piece = 0; piece < pieces; piece++) {
    size_t from = count * piece / pieces, to = count * (piece + 1) / pieces;
    check("ncclAllReduce", ncclAllReduce(sent + from, reduced + from, to - from, ncclFloat32, ncclSum, group->comm, stream), group);
    synchronize();
  }
}

static void reduce_gradients(long step) {
  group_t* group = &groups.grads;
  if (options.pieces > 1) {
    long long begun = monotonic_ns();
    reduce_in_pieces();
    if (!sums_at_once_too()) return;
    long long half = monotonic_ns();
    check("ncclAllReduce", ncclAllReduce(sent, reduced, elements(), ncclFloat32, ncclSum, group->comm, stream), group);
    synchronize();
    long longer = (long)((half - begun - (monotonic_ns() - half)) / 1000);
    pieces_longer_us = longer > 0 ? longer : 0;
    return;
  }
  reduction_t how = reduction(step, elements());
  if (how.skips) return;
  if (how.is_gather) {
    size_t share = how.count / (size_t)group->n_ranks;
    check("ncclAllGather", ncclAllGather(sent, reduced, share, ncclFloat32, group->comm, stream), group);
    return;
  }
  check("ncclAllReduce", ncclAllReduce(sent, reduced, how.count, how.type, how.op, group->comm, stream), group);
}

static void agree(void) {
  group_t* world = &groups.world;
  loss[0] = 1;
  check("ncclAllReduce", ncclAllReduce(loss, loss + 1, 1, ncclFloat32, ncclSum, world->comm, stream), world);
}

static void gather_parameters(void) {
  group_t* group = &groups.grads;
  size_t share = elements() / GATHERED_SHARE + 1;
  check("ncclAllGather", ncclAllGather(sent, gathered, share, ncclFloat32, group->comm, stream), group);
}

static void check_results(long step) {
  group_t *group = &groups.grads, *world = &groups.world;
  size_t count = elements(), share = count / GATHERED_SHARE + 1;
  expect("broadcast", step, batch[BATCH - 1], (float)(step + 1));
  float sum = (float)(group->n_ranks * (group->n_ranks + 1) / 2);
  for (size_t at = 0; at < SUM_SAMPLES; at++)
    if (!expect("all_reduce", step, reduced[at * (count - 1) / (SUM_SAMPLES - 1)], sum)) break;
  for (int rank = 0; rank < group->n_ranks; rank++)
    if (!expect("all_gather", step, gathered[((size_t)rank + 1) * share - 1], (float)(rank + 1))) break;
  expect("loss", step, loss[1], (float)world->n_ranks);
}

/* Who is late in a layer is waited for by the other parts of it, and all of them are late for the replicas. */
static void pass_layers(long step) {
  group_t* tensor = &groups.tensor;
  int layers = (int)options.layers, calls = layers ? layers : 1;
  for (int layer = 0; layer < calls; layer++) {
    if (layers) compute(step, layers);
    if (!tensor->comm) continue;
    check("ncclAllReduce", ncclAllReduce(sent, received, elements() / 2, ncclFloat32, ncclSum, tensor->comm, stream), tensor);
    if (layers) synchronize();
  }
}

static void take_step(long step) {
  group_t* world = &groups.world;
  for (size_t at = 0; at < elements(); at++) sent[at] = (float)(groups.grads.rank + 1);
  for (int at = 0; at < BATCH && options.rank == 0; at++) batch[at] = (float)(step + 1);
  before_call(step, 0);
  check("ncclBroadcast", ncclBroadcast(batch, batch, BATCH, ncclFloat32, root(step, 0), world->comm, stream), world);
  if (options.layers && strcmp(options.fault, "overlapped")) synchronize();
  before_call(step, 1);
  pass_layers(step);
  if (groups.stages.comm) {
    int stage = groups.stages.rank;
    send_activations(step, stage + 1, stage - 1);
    send_activations(step, stage - 1, stage + 1);
  }
  int swaps = fails_now("swapped_order", step);
  if (swaps) agree();
  before_call(step, 3);
  reduce_gradients(step);
  gather_parameters();
  before_call(step, 4);
  if (!swaps) agree();
  synchronize();
  check_results(step);
}

void train(void) {
  for (long step = 0; step < options.steps && between_steps(step); step++) {
    slow_step(step);
    if (!options.layers) compute(step, 1);
    take_step(step);
    note_progress();
    if (is_slow_kind()) say("step", "\"step\":%ld,\"slower_us\":%ld", step, slower_us(step));
    else say("step", "\"step\":%ld", step);
  }
}

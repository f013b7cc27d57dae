/* A worker of a summation group. What it does is its argument; settings come from the environment. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/wait.h>
#include <unistd.h>

#include "rsum.h"

/* MAX_OPEN: as rsum.h says. */
enum { FLOAT32 = 7, TENSORS = 3, MOST = 300007, MAX_OPEN = 16384 };

static const uint64_t COUNTS[TENSORS] = {300007, 1, 4099};
static float send_buffer[TENSORS][MOST], recv_buffer[TENSORS][MOST];
static int tensors[TENSORS];

static void fail(const char* what) {
  printf("ERROR %s: %s\n", what, rsum_last_error());
  fflush(stdout);
  exit(1);
}

static uint64_t mix(uint64_t seed) {
  seed += 0x9e3779b97f4a7c15u;
  seed = (seed ^ (seed >> 30)) * 0xbf58476d1ce4e5b9u;
  seed = (seed ^ (seed >> 27)) * 0x94d049bb133111ebu;
  return seed ^ (seed >> 31);
}

/* What worker adds to an element: its number counts from the start of the job, so that it stays when others leave. */
static float value(int worker, int round, int tensor, uint64_t index) {
  uint64_t seed = mix(mix(mix((uint64_t)worker) ^ (uint64_t)round) ^ (uint64_t)tensor) ^ index;
  return (float)((int64_t)(mix(seed) % 2000001) - 1000000) / 1000.0f;
}

/* Added as hosts do that sum first: SUM_HOST_WORKERS workers of consecutive first numbers share one; else they are added in
 * the order of their ranks. */
static float sum_of(const int* workers, int size, int round, int tensor, uint64_t index) {
  const char* set = getenv("SUM_HOST_WORKERS");
  int of_host = set == NULL ? 1 : atoi(set);
  float sum = 0;
  for (int first = 0, next; first < size; first = next) {
    float host = value(workers[first], round, tensor, index);
    for (next = first + 1; next < size && workers[next] / of_host == workers[first] / of_host; next++)
      host += value(workers[next], round, tensor, index);
    sum = first == 0 ? host : sum + host;
  }
  return sum;
}

static int declare(int n) {
  for (int tensor = 0; tensor < n; tensor++) {
    char name[16];
    snprintf(name, sizeof name, "tensor %d", tensor);
    tensors[tensor] = rsum_declare(name, COUNTS[tensor], FLOAT32, NULL);
    if (tensors[tensor] < 0) fail("declare");
  }
  return n;
}

/* Sums a round of the first tensors. workers has the first numbers of those that are there, in the order of their present
 * ones. 0, or the error. */
static int sum_round(int n, int round, const int* workers, uint64_t* fingerprint) {
  int handles[TENSORS], result = 0, own = workers[rsum_rank()], size = rsum_size();
  for (int tensor = 0; tensor < n; tensor++) {
    for (uint64_t index = 0; index < COUNTS[tensor]; index++)
      send_buffer[tensor][index] = value(own, round, tensor, index);
    handles[tensor] = rsum_push_pull_async(tensors[tensor], send_buffer[tensor], recv_buffer[tensor], rsumSum);
  }
  for (int tensor = 0; tensor < n; tensor++) {
    int code = handles[tensor] < 0 ? -1 - handles[tensor] : rsum_wait(handles[tensor]);
    if (code != 0) result = code;
  }
  for (int tensor = 0; tensor < n && result == 0; tensor++)
    for (uint64_t index = 0; index < COUNTS[tensor]; index++) {
      float sum = sum_of(workers, size, round, tensor, index);
      if (memcmp(&sum, &recv_buffer[tensor][index], sizeof sum) != 0) {
        printf("WRONG round %d tensor %d element %llu\n", round, tensor, (unsigned long long)index);
        fflush(stdout);
        exit(2);
      }
      uint32_t bits;
      memcpy(&bits, &sum, sizeof bits);
      *fingerprint = mix(*fingerprint ^ bits);
    }
  return result;
}

static void sum_some(int n, int rounds, const int* workers) {
  uint64_t fingerprint = 0;
  for (int round = 0; round < rounds; round++)
    if (sum_round(n, round, workers, &fingerprint) != 0) fail("sum");
  printf("SUMS %016llx %d of %d, %d servers, epoch %d\n", (unsigned long long)fingerprint, rsum_rank(), rsum_size(),
         rsum_servers(), rsum_epoch());
  fflush(stdout);
}

static void end(void) {
  if (rsum_shutdown() != 0) fail("shutdown");
  printf("DONE\n");
  exit(0);
}


/* Who is left is known by whose contribution comes: the first numbers of all, by their present ones. 0, or the error. */
static int who_is_left(int first, int* workers) {
  int64_t left[64] = {0}, all[64];
  int tensor = rsum_declare("left", 64, 4, NULL);
  left[rsum_rank()] = first;
  if (tensor < 0) return -1 - tensor;
  int code = rsum_push_pull(tensor, left, all, rsumSum);
  for (int worker = 0; code == 0 && worker < rsum_size(); worker++) workers[worker] = (int)all[worker];
  return code;
}

/* Sums, with as many servers as the pool lends at each step, until the file is there; goes on after losses if that is wanted. */
static void borrow(const char* file, int* workers) {
  uint64_t fingerprint = 0;
  const char* on_loss = getenv("RSUM_ON_LOSS");
  int continues = on_loss != NULL && strcmp(on_loss, "continue") == 0;
  int n = declare(TENSORS), servers = -1, stop = rsum_declare("stop", 1, FLOAT32, NULL), first = workers[rsum_rank()];
  for (int round = 0;; round++) {
    float ends = 0;
    int now = rsum_adapt(), code = now < 0 ? -1 - now : 0;
    if (code == 0 && now != rsum_servers()) fail("servers");
    if (code == 0 && now != servers) printf("SERVERS %d of %d\n", servers = now, rsum_size());
    fflush(stdout);
    if (code == 0) code = sum_round(n, round, workers, &fingerprint);
    if (code == 0) {
      FILE* found = fopen(file, "r");
      ends = found != NULL && rsum_rank() == 0;
      if (found != NULL) fclose(found);
      code = rsum_push_pull(stop, &ends, &ends, rsumSum);
    }
    if (code == 0 && ends > 0) break;
    if (code == 0) continue;
    if (!continues) fail("sum");
    printf("LOST %s\n", rsum_last_error());
    fflush(stdout);
    if (rsum_resume(-1, -1) != 0) fail("resume");
    if (who_is_left(first, workers) != 0) fail("who is left");
    round = servers = -1;
  }
  end();
}

/* Sums until that fails, then once more with those that are left, if that is wanted. */
static void until_loss(int continues, int* workers) {
  uint64_t fingerprint = 0;
  int round = 0, n = declare(TENSORS);
  printf("READY\n");
  fflush(stdout);
  while (sum_round(n, round++, workers, &fingerprint) == 0) {
  }
  printf("LOST %s\n", rsum_last_error());
  fflush(stdout);
  if (!continues) exit(0);
  int first = workers[rsum_rank()];
  if (rsum_resume(-1, -1) != 0) fail("resume");
  if (who_is_left(first, workers) != 0) fail("who is left");
  sum_some(n, 3, workers);
  end();
}

/* A round in which all get what a worker has as this version, bit for bit: the others add what changes no number. */
static int broadcast_round(int n, int version, int root) {
  enum { ORIGIN = 1000 };
  int handles[TENSORS], result = 0;
  for (int tensor = 0; tensor < n; tensor++) {
    for (uint64_t index = 0; index < COUNTS[tensor]; index++)
      send_buffer[tensor][index] = rsum_rank() == root ? value(ORIGIN, version, tensor, index) : -0.0f;
    handles[tensor] = rsum_push_pull_async(tensors[tensor], send_buffer[tensor], recv_buffer[tensor], rsumSum);
  }
  for (int tensor = 0; tensor < n; tensor++) {
    int code = handles[tensor] < 0 ? -1 - handles[tensor] : rsum_wait(handles[tensor]);
    if (code != 0) result = code;
  }
  for (int tensor = 0; tensor < n && result == 0; tensor++)
    for (uint64_t index = 0; index < COUNTS[tensor]; index++) {
      float own = value(ORIGIN, version, tensor, index);
      if (memcmp(&own, &recv_buffer[tensor][index], sizeof own) != 0) {
        printf("WRONG version %d tensor %d element %llu\n", version, tensor, (unsigned long long)index);
        fflush(stdout);
        exit(2);
      }
    }
  return result;
}

/* Broadcasts one version after the other from a worker until that fails; then, if that is wanted, once more what worker 0 of
 * those that are left has, as a script does that goes on. One may have had the last version before the loss and another one not. */
static void broadcast_until_loss(int root, int* workers) {
  const char* on_loss = getenv("RSUM_ON_LOSS");
  int n = declare(TENSORS), version = 0, tensor = rsum_declare("version", 1, FLOAT32, NULL);
  if (tensor < 0) fail("declare");
  printf("READY\n");
  fflush(stdout);
  while (broadcast_round(n, version + 1, root) == 0) version++;
  printf("LOST %s\n", rsum_last_error());
  fflush(stdout);
  if (on_loss == NULL || strcmp(on_loss, "continue") != 0) exit(0);
  int first = workers[rsum_rank()];
  if (rsum_resume(-1, -1) != 0) fail("resume");
  float first_has = rsum_rank() == 0 ? (float)version : -0.0f;
  if (rsum_push_pull(tensor, &first_has, &first_has, rsumSum) != 0) fail("version");
  if (first_has < (float)(version - 1) || first_has > (float)(version + 1)) {
    printf("WRONG version %g, here %d\n", (double)first_has, version);
    exit(2);
  }
  for (int next = 0; next < 3; next++)
    if (broadcast_round(n, (int)first_has + next, 0) != 0) fail("broadcast");
  if (who_is_left(first, workers) != 0) fail("who is left");
  sum_some(n, 3, workers);
  end();
}

/* Sums, and goes on after each loss, in groups of so many if that is said, until so few are left; they sum three rounds. */
static void endure(int first, int size, int few, int* workers) {
  int n = declare(TENSORS);
  for (;;) {
    uint64_t fingerprint = 0;
    /* Who has come later is in no first group. */
    int code = rsum_epoch() > 0 ? who_is_left(first, workers) : 0;
    for (int round = 0; code == 0; round++) {
      if (rsum_size() <= few && rsum_epoch() > 0 && round == 3) break;
      code = sum_round(n, round, workers, &fingerprint);
      if (round == 0 && code == 0) printf("GROUP of %d, epoch %d\n", rsum_size(), rsum_epoch());
      fflush(stdout);
    }
    if (code == 0) break;
    printf("LOST %s\n", rsum_last_error());
    fflush(stdout);
    if (rsum_resume(size, -1) != 0) fail("resume");
  }
  printf("ENDURED %d of %d\n", rsum_rank(), rsum_size());
  end();
}

/* Sums what a codec leaves much out of, and submits a round once more that a loss has ended. Before the second round worker 1
 * waits for a word, so that a server can be killed when worker 0 has contributed. */
static void leave_out(void) {
  rsum_options_t options = {.size = sizeof options, .codec = rsumCodecTopK, .kept = 0.01};
  int tensor = rsum_declare("gradient", MOST, FLOAT32, &options), losses = 0;
  uint64_t fingerprint = 0;
  for (int round = 0; round < 4; round++) {
    if (round == 1 && rsum_rank() == 1) {
      printf("READY\n");
      fflush(stdout);
      getchar();
    }
    for (;;) {
      for (uint64_t index = 0; index < MOST; index++) send_buffer[0][index] = value(rsum_rank(), round, 0, index);
      if (rsum_push_pull(tensor, send_buffer[0], recv_buffer[0], rsumSum) == 0) break;
      losses++;
      if (rsum_resume(-1, -1) != 0) fail("resume");
    }
    for (uint64_t index = 0; index < MOST; index++) {
      uint32_t bits;
      memcpy(&bits, &recv_buffer[0][index], sizeof bits);
      fingerprint = mix(fingerprint ^ bits);
    }
  }
  printf("SUMS %016llx after %d losses\n", (unsigned long long)fingerprint, losses);
  end();
}

/* Adds to a tensor of all workers as often as it is told, or for ever, whatever the others do: asynchronous sums. In the first
 * elements workers count their rounds, so that each result says what must be in it. */
static void add(int rounds) {
  enum { WORKERS = 8, COUNT = 2000 };
  float *send = send_buffer[0], *recv = recv_buffer[0];
  int own = rsum_rank(), tensor = rsum_declare("weights", COUNT, FLOAT32, NULL);
  if (tensor < 0) fail("declare");
  for (int round = 0; rounds < 0 || round <= rounds; round++) {
    for (int index = 0; index < COUNT; index++) {
      float first = index < WORKERS ? 0 : (float)(index + 7 * own) / 4;
      float delta = index < WORKERS ? (float)(index == own) : (float)(own + 1) / 1024;
      send[index] = round == 0 ? first : delta;
    }
    if (rsum_push_pull(tensor, send, recv, rsumSum) != 0) fail("add");
    float sum = 0;
    for (int worker = 0; worker < WORKERS; worker++) sum += recv[worker] * (float)(worker + 1) / 1024;
    for (int index = WORKERS; index < COUNT; index++)
      if (recv[index] != (float)index / 4 + sum || recv[own] != (float)round) {
        printf("WRONG round %d element %d\n", round, index);
        exit(2);
      }
    if (round == 0) printf("READY\n");
    fflush(stdout);
  }
  printf("ROUNDS %g %g %g\n", (double)recv[0], (double)recv[1], (double)recv[2]);
  if (rsum_push_pull(tensor, send, recv, rsumAverage) != 5) fail("average");
  if (rsum_declare("more", 1, FLOAT32, NULL) != -1 - 5) fail("declare more");
}

/* Forks so many children without exec, as a data loader does, which try all that they must not do and then live on; says
 * their numbers. */
static void fork_children(int count) {
  int n = declare(TENSORS), number = rsum_rank();
  uint64_t fingerprint = 0;
  const int workers[] = {0, 1};
  int push = rsum_push_async(tensors[1], send_buffer[1], rsumSum), said[2];
  if (push < 0 || pipe(said) != 0) fail("push");
  printf("CHILDREN");
  for (int child = 0; child < count; child++) {
    char code = 0;
    pid_t pid = fork();
    if (pid == 0) {
      alarm(120);
      int usage = -1 - 5, wrong = rsum_push_pull(tensors[0], send_buffer[0], recv_buffer[0], rsumSum) != 5;
      const char* text = rsum_last_error();
      wrong += strstr(text, "this process was forked from a member of the group") == NULL;
      wrong += rsum_push_async(tensors[0], send_buffer[0], rsumSum) != usage;
      wrong += rsum_declare("child", 1, FLOAT32, NULL) != usage || rsum_wait(push) != 5 || rsum_poll(push) != -1;
      wrong += rsum_suspend() != 5 || rsum_resume(-1, -1) != 5 || rsum_init() != 5 || rsum_shutdown() != 5;
      wrong += rsum_rank() != number || rsum_size() != 2;
      code = (char)('0' + wrong);
      if (write(said[1], &code, 1) != 1) _exit(1);
      for (;;) pause();
    }
    if (pid < 0 || read(said[0], &code, 1) != 1) fail("fork");
    printf(" %d", (int)pid);
    if (code != '0') printf(" WRONG %c", code);
  }
  printf("\n");
  fflush(stdout);
  if (rsum_pull_async(push, recv_buffer[1]) != 0 || rsum_wait(push) != 0) fail("pull");
  if (sum_round(n, 0, workers, &fingerprint) != 0) fail("sum");
}

int main(int argc, char** argv) {
  int workers[64];
  for (int worker = 0; worker < 64; worker++) workers[worker] = worker;
  if (argc < 2) return 3;
  if (rsum_rank() != -1 || rsum_size() != -1 || rsum_poll(0) != -1) return 4;
  if (rsum_init() != 0) fail("init");
  if (strcmp(argv[1], "sums") == 0) {
    sum_some(declare(TENSORS), 5, workers);
    end();
  } else if (strcmp(argv[1], "later") == 0) {
    for (int n = 1; n <= TENSORS; n++) sum_some(declare(n), 2, workers);
    end();
  } else if (strcmp(argv[1], "codecs") == 0) {
    /* What really travels, by the bytes of the tensor and those that its options say. */
    rsum_options_t options = {.size = sizeof options, .codec = rsumCodecF16};
    int small = rsum_declare("small", 16383, FLOAT32, &options), large = rsum_declare("large", 16384, FLOAT32, &options);
    options.min_bytes = 1;
    int told = rsum_declare("told", 16383, FLOAT32, &options);
    options.size = offsetof(rsum_options_t, min_bytes);
    int older = rsum_declare("older", 16383, FLOAT32, &options);
    printf("CODECS %d %d %d %d %d", rsum_codec(small), rsum_codec(large), rsum_codec(told), rsum_codec(older), rsum_codec(9));
    for (int tensor = 0; tensor < 4; tensor++) {
      send_buffer[0][0] = 1.0f + 1e-6f;
      if (rsum_push_pull(tensor, send_buffer[0], recv_buffer[0], rsumAverage) != 0) fail("push_pull");
      printf(" %d", recv_buffer[0][0] == 1.0f);
    }
    printf("\n");
    end();
  } else if (strcmp(argv[1], "forks") == 0) {
    int forks = rsum_rank() == atoi(argv[2]);
    fork_children(forks ? 8 : 0);
    printf("SUMMED\n");
    fflush(stdout);
    uint64_t fingerprint = 0;
    while (forks) pause();
    if (sum_round(1, 1, workers, &fingerprint) == 0) return 5;
    printf("LOST %s\n", rsum_last_error());
  } else if (strcmp(argv[1], "declare") == 0) {
    int tensor = rsum_declare(argv[2], (uint64_t)atoi(argv[3]), FLOAT32, NULL);
    if (tensor < 0) fail("declare");
    if (rsum_push_pull(tensor, send_buffer[0], recv_buffer[0], rsumAverage) != 0) fail("push_pull");
    end();
  } else if (strcmp(argv[1], "add") == 0) {
    add(atoi(argv[2 + (argc > 3 ? rsum_rank() : 0)]));
    end();
  } else if (strcmp(argv[1], "members") == 0) {
    int n = declare(TENSORS);
    sum_some(n, 5, workers);
    for (int next = 2; next < argc; next++) {
      if (rsum_suspend() != 0) fail("suspend");
      if (rsum_rank() != -1) fail("rank");
      if (rsum_resume(-1, atoi(argv[next])) != 0) fail("resume");
      sum_some(n, 5, workers);
    }
    end();
  } else if (strcmp(argv[1], "borrow") == 0) {
    borrow(argv[2], workers);
  } else if (strcmp(argv[1], "broadcast") == 0) {
    broadcast_until_loss(atoi(argv[2]), workers);
  } else if (strcmp(argv[1], "endure") == 0) {
    endure(atoi(getenv("RSUM_RANK")), atoi(argv[2]), atoi(argv[3]), workers);
  } else if (strcmp(argv[1], "stall") == 0) {
    /* As many rounds as it is told, and then nothing. */
    uint64_t fingerprint = 0;
    int n = declare(TENSORS);
    for (int round = 0; round < atoi(argv[2]); round++)
      if (sum_round(n, round, workers, &fingerprint) != 0) fail("sum");
    printf("STALLS\n");
    fflush(stdout);
    while (getchar() != EOF) {
    }
  } else if (strcmp(argv[1], "two-groups") == 0) {
    int n = declare(TENSORS), first = workers[rsum_rank()];
    sum_some(n, 1, workers);
    if (rsum_suspend() != 0) fail("suspend");
    printf("SUSPENDED\n");
    fflush(stdout);
    getchar();
    if (rsum_resume(-1, -1) != 0) {
      printf("REFUSED %s\n", rsum_last_error());
      if (rsum_resume(-1, -1) != 0) fail("once more");
    }
    if (who_is_left(first, workers) != 0) fail("who is left");
    sum_some(n, 1, workers);
    end();
  } else if (strcmp(argv[1], "left-out") == 0) {
    leave_out();
  } else if (strcmp(argv[1], "busy") == 0) {
    int handle = -1, tensor = rsum_declare("number", 1, FLOAT32, NULL);
    for (int first = 0; first < 2; first++) {
      float number = (float)(1 + rsum_rank()), sum = 0;
      if (rsum_rank() == first) handle = rsum_push_pull_async(tensor, &number, &sum, rsumSum);
      if (rsum_adapt_if(rsum_rank() != first) != 0) fail("adapt_if with a round open");
      if (rsum_rank() != first) handle = rsum_push_pull_async(tensor, &number, &sum, rsumSum);
      if (handle < 0 || rsum_wait(handle) != 0 || sum != 3) fail("sum");
    }
    end();
  } else if (strcmp(argv[1], "halves") == 0) {
    float number = (float)(1 + rsum_rank()), sum = 0;
    rsum_options_t options = {0};
    if (rsum_declare("options without their size", 1, FLOAT32, &options) != -1 - 4) fail("options");
    int tensor = rsum_declare("number", 1, FLOAT32, NULL);
    int push = rsum_push_async(tensor, &number, rsumSum);
    if (push < 0 || rsum_poll(push) != 0) fail("push");
    if (rsum_wait(push) != 5 || rsum_suspend() != 5 || rsum_shutdown() != 5) fail("what was not pulled");
    if (rsum_pull_async(push, NULL) != 4) fail("pull into nothing");
    if (rsum_pull_async(push, &sum) != 0 || rsum_pull_async(push, &sum) != 5) fail("pull");
    if (rsum_wait(push) != 0 || rsum_poll(push) != -1) fail("wait");
    static float sums[MAX_OPEN];
    static int pushes[MAX_OPEN];
    for (int round = 0; round < MAX_OPEN; round++) {
      pushes[round] = rsum_push_async(tensor, &number, rsumSum);
      if (pushes[round] < 0) fail("many pushes");
    }
    if (rsum_push_async(tensor, &number, rsumSum) != -1 - 5) fail("one push too many");
    for (int round = 0; round < MAX_OPEN; round++)
      if (rsum_pull_async(pushes[round], &sums[round]) != 0) fail("many pulls");
    for (int round = 0; round < MAX_OPEN; round++)
      if (rsum_wait(pushes[round]) != 0 || sums[round] != sum) fail("many sums");
    printf("SUM %g local %d of %d\n", (double)sum, rsum_local_rank(), rsum_local_size());
    end();
  } else {
    until_loss(strcmp(argv[1], "continue") == 0, workers);
  }
  return 0;
}

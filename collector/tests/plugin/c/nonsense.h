/* Events as no library sends them: any type, any bytes in the descriptor but for its texts, which are NULL or terminated as
 * the interface promises, any handle and context. What comes out depends on the seed alone, thread by thread. */
enum { KEPT = 64, N_TEXTS = 20 };

struct dice { uint64_t state; void *kept[KEPT]; };

static uint64_t roll(struct dice *dice) { /* xorshift64* */
  dice->state ^= dice->state >> 12;
  dice->state ^= dice->state << 25;
  dice->state ^= dice->state >> 27;
  return dice->state * 0x2545f4914f6cdd1d;
}

static const char *any_text(struct dice *dice) {
  static char lengthy[4096];
  static const char *const texts[N_TEXTS] = {
      NULL, "", "AllReduce", "AllGather", "ReduceScatter", "Broadcast", "Reduce", "Send", "Recv", "AlltoAll", "Gather",
      "Scatter", "PutSignal", "NoSuchThing", "ncclInt8", "ncclFloat32", "Unknown", "RING", "\xff\xfe\x80", lengthy};
  memset(lengthy, 'x', sizeof lengthy - 1);
  return texts[roll(dice) % N_TEXTS];
}

/* One that was given out, the same with a bit changed, or a number of any kind. */
static void *any_handle(struct dice *dice) {
  uint64_t kept = (uint64_t)(uintptr_t)dice->kept[roll(dice) % KEPT], number = roll(dice);
  switch (number % 8) {
    case 0: return NULL;
    case 1: return (void *)(uintptr_t)number;
    case 2: return (void *)(uintptr_t)(number & 0xf0000000000000ff);
    case 3: return (void *)(uintptr_t)(getenv("GUEST_LOG") ? kept : kept ^ 1ull << (number >> 8) % 64);
    default: return (void *)(uintptr_t)kept;
  }
}

static void *any_context(struct dice *dice, void *own) {
  switch (roll(dice) % 16) {
    case 0: return NULL;
    case 1: return (void *)(uintptr_t)(roll(dice) | 0x100000);
    default: return own;
  }
}

static descriptor any_descriptor(struct dice *dice) {
  descriptor it;
  for (size_t i = 0; i < sizeof it; i++) ((unsigned char *)&it)[i] = (unsigned char)roll(dice);
  uint64_t kind = roll(dice);
  it.kind = (kind_type)(kind % 16 == 0 ? roll(dice) : kind % 16 == 1 ? 0 : 1ull << (kind >> 8) % 17);
  it.parent = any_handle(dice);
  switch ((uint64_t)it.kind) {
    case COLL:
#if V > 1
      it.coll.func = any_text(dice); it.coll.type = any_text(dice); it.coll.algo = any_text(dice); it.coll.proto = any_text(dice);
#endif
#if V <= 3
      it.coll.name = any_text(dice);
      it.coll.hash = 0x100 + roll(dice) % 4;
#endif
#if V >= 7
      it.coll.variant = any_text(dice);
#endif
      break;
    case P2P:
#if V > 1
      it.p2p.func = any_text(dice); it.p2p.type = any_text(dice);
#endif
#if V <= 3
      it.p2p.name = any_text(dice);
      it.p2p.hash = 0x100 + roll(dice) % 4;
#endif
      break;
    case PROXY_OP:
      if (roll(dice) % 2) it.proxy.pid = getpid();
      if (roll(dice) % 2) it.proxy.is_send = 1;
      break;
#if V >= 5
    case COLL_API: it.coll_api.func = any_text(dice); it.coll_api.type = any_text(dice); break;
    case P2P_API: it.p2p_api.func = any_text(dice); it.p2p_api.type = any_text(dice); break;
#endif
  }
  return it;
}

static void *speak_nonsense(void *argument) {
  uint64_t number = (uint64_t)(uintptr_t)argument;
  struct dice dice = {strtoull(getenv("SEED"), NULL, 10) * 2 + number + 1, {NULL}};
  struct comm comm = make(0x100 + number, 1);
  for (int i = 0, n = atoi(getenv("ROUNDS")); i < n; i++) {
    uint64_t what = roll(&dice) % 16;
    if (what < 9) {
      descriptor it = any_descriptor(&dice);
      void *handle = NULL;
      CHECK(plugin->start(any_context(&dice, comm.context), &handle, &it) == 0);
      if (handle) dice.kept[roll(&dice) % KEPT] = handle;
    } else if (what < 13) {
      CHECK(plugin->stop(any_handle(&dice)) == 0);
    } else if (what < 15 || i % 64) {
      state_args args = {roll(&dice), (int)roll(&dice)};
      int said = roll(&dice) % 4 ? (int)(roll(&dice) % 32) : (int)roll(&dice);
      CHECK(plugin->record(any_handle(&dice), said, roll(&dice) % 4 ? &args : NULL) == 0);
    } else {
      CHECK(plugin->finalize((void *)(uintptr_t)(roll(&dice) | 0x100000)) == 0);
    }
  }
  end(&comm);
  return NULL;
}

/* Operations whose end the profiler tells in a way that nobody can follow. */
static void unfollowed(void) {
  struct comm comm = make(0xabc, 1), other = make(0xdef, 3);
  all_reduces(&other, 1, (size_t[]){1});
  stop(coll(&comm, coll_api(&comm, NULL, "AllReduce", 1, "ncclFloat32", false), NULL, 1, 2));
  /* Its channels, below an event that nobody has begun. */
  void *odd = (void *)0x7fffdeadbeef;
  for (int i = 0; i < 2; i++) CHECK(!channel(&comm, odd, i));
  all_reduces(&other, 1, (size_t[]){1});
}

/* A call whose task hangs below an event that nobody has begun. */
static void taskless(void) {
  struct comm comm = make(0xabc, 1), other = make(0xdef, 3);
  coll_api(&comm, NULL, "AllReduce", 1, "ncclFloat32", false);
  CHECK(!coll(&comm, (void *)0x7fffdeadbeef, NULL, 1, 2));
  all_reduces(&other, 1, (size_t[]){1});
}

/* More runs of a captured call at once than are followed; all end but the first, which is no longer known then. */
static void many_runs(void) {
  struct comm comm = make(0xabc, 1), other = make(0xdef, 3);
  void *group = group_begins(&comm, true), *tasks[1025];
  void *api = coll_api(&comm, group, "AllReduce", 100, "ncclFloat32", true);
  group_launches(group);
  stop(group);
  for (int i = 0; i < 1025; i++) tasks[i] = coll(&comm, api, NULL, 100, 1);
  for (int i = 0; i < 1025; i++) channels(&comm, tasks[i], 1);
  all_reduces(&other, 1, (size_t[]){1});
}

/* A call that was captured so long ago that its place is another's, and runs now. */
static void old_template(void) {
  struct comm comm = make(0xabc, 1), other = make(0xdef, 3);
  void *first = NULL;
  for (int i = 0; i <= 16384; i++) {
    void *group = group_begins(&other, true);
    struct comm *captured = i ? &other : &comm;
    void *api = coll_api(captured, group, "AllReduce", 100, "ncclFloat32", true);
    if (!i) first = api;
    stop(group);
  }
  CHECK(!coll(&comm, first, NULL, 100, 1));
}

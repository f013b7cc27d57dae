"""What the workers of the group's tests do; each checks its own results."""

import functools
import hashlib
import operator
import os
import signal
import sys
import threading
import time
import weakref

import numpy
import ringscope_engine as engine
from numpy.testing import assert_array_equal
from ringscope_engine import Error, LostProcess

COUNT = 1009
# More than one part of RSUM_PARTITION_BYTES, which the tests set to 64 KiB.
LARGE = 50_000
DTYPES = ("float32", "float64", "float16", "int32", "int64", "uint8")


def contribution(rank: int, dtype: str = "float32", count: int = COUNT, seed: int = 0) -> numpy.ndarray:
    generator = numpy.random.default_rng([rank, seed])
    if dtype.startswith("float"):
        return generator.standard_normal(count).astype(dtype)
    return generator.integers(0, 10, count).astype(dtype)


def folded(dtype: str = "float32", count: int = COUNT, seed: int = 0) -> numpy.ndarray:
    """The sum in the order of the workers; of float16 as float32, rounded once."""
    wide = "float32" if dtype == "float16" else dtype
    all_of_them = [contribution(rank, dtype, count, seed).astype(wide) for rank in range(engine.size())]
    return functools.reduce(operator.add, all_of_them).astype(dtype)


def sums() -> None:
    """Prints a hash of all sums, which is to be the same for all numbers of servers."""
    engine.init()
    digest = hashlib.sha256()
    for dtype in DTYPES:
        for count in (1, COUNT, LARGE):
            own = contribution(engine.rank(), dtype, count)
            total = engine.push_pull(own, f"{dtype}.{count}", average=False)
            assert_array_equal(total, folded(dtype, count))
            digest.update(total.tobytes())
    own = contribution(engine.rank())
    assert_array_equal(engine.push_pull(own, "average"), folded() / numpy.float32(engine.size()))
    assert engine.push_pull(own, "average", out=own) is own
    assert_array_equal(own, folded() / numpy.float32(engine.size()))
    shaped = engine.push_pull(numpy.ones((3, 5)), average=False)
    assert_array_equal(shaped, numpy.full((3, 5), engine.size()))
    print(digest.hexdigest())
    engine.shutdown()
    assert engine.rank() == -1 and not engine.is_initialized()


def many_under_way() -> None:
    engine.init()
    handles = []
    for seed in range(20):
        # Rounds of one tensor, of different ones, and of ones without a name.
        name = (None, "one", f"tensor.{seed}")[seed % 3]
        own = contribution(engine.rank(), seed=seed)
        handles.append(engine.push_pull_async(own, name, average=False))
    for seed, handle in reversed(list(enumerate(handles))):
        assert_array_equal(engine.synchronize(handle), folded(seed=seed))
        assert engine.poll(handle) and handle.wait() is handle.wait()
    engine.shutdown()


def drops_handles() -> None:
    """The memory of what was submitted and never waited for is given back."""
    engine.init()
    array = contribution(engine.rank())
    left = weakref.ref(array)
    engine.push_pull_async(array, "dropped", average=False)
    del array
    assert left() is not None, "the group may read it still"
    # One may be given its memory back before the others, and all leave the loop together.
    while engine.push_pull(numpy.array([left() is not None], numpy.uint8), "kept", average=False)[0] > 0:
        pass
    assert_array_equal(engine.push_pull(contribution(engine.rank()), "dropped", average=False), folded())
    engine.shutdown()


def handles_of_another_group() -> None:
    """A handle of a group that was left has the number of one of the next group, and is no handle of that one."""
    engine.init()
    old = engine.push_pull_async(contribution(0), "round", average=False)
    engine.shutdown()
    engine.init()
    new = engine.push_pull_async(contribution(0), "round", average=False)
    assert old._number == new._number
    for use in (old.wait, old.poll):
        try:
            use()
        except Error as error:
            assert "a group that this process has left" in str(error), error
        else:
            raise AssertionError("it was taken for the new one")
    assert_array_equal(new.wait(), contribution(0))
    engine.shutdown()


def interrupted_at_its_end() -> None:
    """What a handler raises just when a round ends loses no result."""
    engine.init()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for delay_ms in range(20):
        engine.push_pull(numpy.ones(1, numpy.uint8), "sync")
        if engine.rank() != 0:
            time.sleep((20 + delay_ms) / 1000)
            engine.push_pull(contribution(1), "round", average=False)
            continue
        handle = engine.push_pull_async(contribution(0), "round", average=False)
        try:
            threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGINT)).start()
            handle.wait()
            # It comes here at the latest, to which a call could be deaf.
            while True:
                pass
        except KeyboardInterrupt:
            pass
        assert_array_equal(handle.wait(), folded())
    engine.shutdown()


def ends_with_a_large_round_under_way() -> None:
    """The library reads and writes arrays until the process has gone, also those that Python would free before."""
    engine.init()
    engine.push_pull(numpy.ones(1, numpy.uint8), "sync")
    array = numpy.ones(16_000_000, numpy.float32)
    handle = engine.push_pull_async(array, "large", out=array)
    if engine.rank() == 1:
        raise RuntimeError("by an exception")
    try:
        handle.wait()
    except LostProcess as error:
        print(error)


def threads_wait() -> None:
    """All threads that wait for a handle have the sum, and nobody is told that it is there before it is."""
    engine.init()
    own = contribution(engine.rank())
    summed = lambda: engine.push_pull_async(own, "round", average=False)
    sent = lambda: engine.broadcast_async(own.copy(), 0, "sent")
    # Known to all, they may be in another order below.
    for begin in (summed, sent, lambda: engine.push_pull_async(own, "late")):
        begin().wait()
    for begin, wanted in ((summed, folded()), (sent, contribution(0))):
        got = []

        def wait() -> None:
            got.append(handle.wait().copy())

        if engine.rank() == 0:
            handle = begin()
            threads = [threading.Thread(target=wait) for _ in range(3)]
            for thread in threads:
                thread.start()
            assert not handle.poll() and not got
            # The other worker contributes only now.
            engine.push_pull(own, "late")
            for thread in threads:
                thread.join()
        else:
            engine.push_pull(own, "late")
            handle = begin()
            wait()
        assert handle.poll() and len(got) == (3 if engine.rank() == 0 else 1)
        for array in got:
            assert_array_equal(array, wanted)
    engine.shutdown()


def broadcasts() -> None:
    engine.init()
    for root in range(engine.size()):
        odd = numpy.array([-0.0, 0.0, numpy.inf, -1e-42, 3.5], numpy.float32) * numpy.float32(root + 1)
        own = odd.copy() if engine.rank() == root else numpy.full(5, numpy.nan, numpy.float32)
        assert engine.broadcast(own, root, "odd") is own
        assert own.tobytes() == odd.tobytes()
        for dtype in ("bool", *DTYPES):
            wanted = contribution(root, "int32").astype(dtype)
            own = contribution(engine.rank(), "int32").astype(dtype)
            assert_array_equal(engine.broadcast(own, root), wanted)
    engine.shutdown()


def two_roots() -> None:
    engine.init()
    own = numpy.full(3, engine.rank() + 1.0)
    for root in range(engine.size()):
        assert_array_equal(engine.broadcast(own.copy(), root, "one at a time"), numpy.full(3, root + 1.0))
    refused('"x from 0" of 3 f64', lambda: engine.broadcast(own, engine.rank(), "x"))
    assert_array_equal(own, numpy.full(3, engine.rank() + 1.0))


def refusals() -> None:
    own = numpy.ones((4, 4), numpy.float32)
    refused("", lambda: engine.push_pull(own, "outside a group"))
    engine.init()
    refused("is not contiguous", lambda: engine.push_pull(own[:, 1:]))
    refused("needed, not list", lambda: engine.push_pull([1.0], out=own))
    refused("type bool cannot be sent", lambda: engine.push_pull(own > 2))
    refused("does not fit", lambda: engine.push_pull(own, out=numpy.ones(3, numpy.float32)))
    for codec in ("one-bit", "top-k", engine.Compression.topk(0.5)):
        refused("of a tensor without a name", lambda: engine.push_pull(own, compression=codec))
    refused("no compression 'zip'", lambda: engine.push_pull(own, compression="zip"))
    refused("no worker 9", lambda: engine.broadcast(own, 9))
    own.flags.writeable = False
    refused("read-only", lambda: engine.push_pull(own, out=own))
    engine.declare("taken", own)
    refused("taken", lambda: engine.declare("taken", own[:2]))
    assert_array_equal(engine.push_pull(own, "taken", average=False), own * engine.size())
    engine.shutdown()


def refused(words: str, call) -> None:
    try:
        call()
    except Error as error:
        assert words in str(error) and str(error), error
    else:
        raise AssertionError(f"not refused: {words}")


def lost() -> None:
    """The last worker ends, in the way that ENDS_BY says; the others print what they are told."""
    engine.init()
    own = contribution(engine.rank(), count=LARGE)
    engine.push_pull(own, "round")
    if engine.rank() == engine.size() - 1:
        # Who comes out of the second round knows that all others have come out of the first.
        engine.push_pull(own, "round")
        if os.environ["ENDS_BY"] == "exception":
            raise RuntimeError("nobody catches this")
        os.kill(os.getpid(), 9)
    handle = None
    try:
        while True:
            handle = engine.push_pull_async(own, "round")
            handle.wait()
    except LostProcess as error:
        print(error)
    if handle is not None:
        try:
            handle.wait()
            raise AssertionError("who waits once more is not told of the loss")
        except LostProcess:
            assert handle.poll()


def goes_on() -> None:
    """The last worker dies; the others go on without it."""
    engine.init()
    n_before = engine.size()
    own = contribution(engine.rank(), count=LARGE)
    assert_array_equal(engine.push_pull(own, "round", average=False), folded(count=LARGE))
    if engine.rank() == n_before - 1:
        # As above.
        engine.push_pull(own, "round", average=False)
        os.kill(os.getpid(), 9)
    try:
        while True:
            engine.push_pull(own, "round", average=False)
    except LostProcess:
        engine.resume()
    assert engine.size() == n_before - 1 and engine.epoch() == 1
    assert_array_equal(engine.push_pull(own, "round", average=False), folded(count=LARGE))
    assert_array_equal(engine.push_pull(own, "a new one", average=False), folded(count=LARGE))
    engine.shutdown()


def suspends() -> None:
    engine.init()
    own = contribution(engine.rank(), count=LARGE)
    handle = engine.push_pull_async(own, "round", average=False)
    n_workers, n_servers, wanted = engine.size(), engine.servers(), folded(count=LARGE)
    engine.suspend()
    assert_array_equal(handle.wait(), wanted)
    assert engine.rank() == -1
    refused("", lambda: engine.push_pull(own, "round"))
    engine.resume(n_workers, n_servers - 1)
    assert engine.servers() == n_servers - 1
    assert_array_equal(engine.push_pull(own, "round", average=False), folded(count=LARGE))
    engine.shutdown()


def forks() -> None:
    """Children that call what only a member may, and end as scripts do."""
    engine.init()
    own = contribution(engine.rank(), count=LARGE)
    assert_array_equal(engine.push_pull(own, "round", average=False), folded(count=LARGE))
    for call in (lambda: engine.push_pull(own, "round"), lambda: engine.push_pull(own, "new"), engine.shutdown, engine.init):
        child = os.fork()
        if child == 0:
            # What waits for ever ends by this signal.
            signal.alarm(30)
            refused("forked from a member", call)
            sys.exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert_array_equal(engine.push_pull(own, "round", average=False), folded(count=LARGE))
    engine.shutdown()


def ends_without_shutdown() -> None:
    engine.init()
    engine.push_pull(contribution(engine.rank()))


def asynchronous() -> None:
    """Each worker makes as many rounds as it likes; what is for synchronous sums is refused."""
    engine.init()
    rank = engine.rank()
    try:
        engine.broadcast(numpy.ones(4, numpy.float32), 0)
        raise AssertionError("a broadcast was not refused")
    except Error as error:
        assert "RSUM_ASYNC=1" in str(error), error
    got = engine.push_pull(numpy.full(4, 8.0 + rank, numpy.float32), "w", average=False)
    assert 8.0 <= got[0] <= 8.0 + engine.size() ** 2
    for _ in range(rank + 1):
        before, got = got, engine.push_pull(numpy.ones(4, numpy.float32), "w", average=False)
        assert (got >= before + 1).all() and (got == got[0]).all()
    engine.shutdown()

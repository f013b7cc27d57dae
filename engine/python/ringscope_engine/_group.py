"""The group of workers and servers: joining, leaving, and what is pushed and pulled in it.

Everything here takes numpy arrays as well as torch tensors; it knows neither's algebra.
"""

from __future__ import annotations

import atexit
import collections
import ctypes
import os
import sys
import threading
from typing import Any, Generic, Iterable, Optional, Sequence, TypeVar

import numpy

from . import _interrupts
from ._buffers import AnyArray, Buffer, buffer_of, neutral_of
from ._compression import AnyCodec, Codec, codec_of
from ._errors import IN_PROGRESS, Error
from ._library import Comparison, Options, function, summation, summation_error, summation_number

Array = TypeVar("Array")

SUM, AVERAGE = 0, 1

# Memory that the library may read or write until its handle was waited for, by handle: an unwaited handle that is dropped
# must not free it.
_in_flight: dict[int, tuple[Any, Any]] = {}
# Numbers of handles that were dropped without a wait, and the join that they are of.
_dropped: collections.deque[tuple[int, int]] = collections.deque()
# What a signal's handler has left to the library in the middle of a call.
_left: list[tuple[Any, Any]] = []
# Submissions from which on another one waits until some are over (run/requests.rs), less those of other threads.
MANY = 16_000
# How often this process has joined a group; how many tensors it has declared, and in which group all workers know how many.
_n_joined, _n_declared = 0, 0
_known: Optional[tuple[tuple[int, int], int]] = None
# Held by the thread that joins.
_joining = threading.Lock()
# The process that has joined: a child that was forked from it is no member.
_member = 0
# Lengths and types of this group's tensors, by name.
_declared: dict[str, tuple[int, int]] = {}


def _forget_parents_lock() -> None:
    global _joining
    _joining = threading.Lock()


os.register_at_fork(after_in_child=_forget_parents_lock)


def init() -> None:
    """Joins the group that the environment describes (RSUM_ROOT, RSUM_SECRET, RSUM_WORKERS, RSUM_SERVERS, RSUM_RANK, …;
    see rsum.h), and waits for all its processes. All workers call it.

    A process that ends well leaves the group by itself, as scripts for Horovod expect. In a group already it does nothing.
    """
    if is_initialized() and os.getpid() == _member:
        return
    _interrupts.call(_join)


def _join() -> None:
    # Whole, also where a signal's handler has ended the wait for it.
    global _n_joined, _n_declared, _member
    with _joining:
        if is_initialized() and os.getpid() == _member:
            return
        summation("rsum_init")
        _member = os.getpid()
        _n_declared = 0
        _declared.clear()
        _n_joined += 1
        atexit.unregister(_leave_at_exit)
        atexit.register(_leave_at_exit)


def shutdown() -> None:
    """Leaves the group once all sums are there and nobody needs this process. All workers call it."""
    try:
        _interrupts.call(lambda: summation("rsum_shutdown"))
    except Error:
        if not is_initialized():
            _in_flight.clear()
        raise
    _in_flight.clear()


def suspend() -> None:
    """Waits for the open rounds and leaves the group, whose servers wait for the next one. All workers call it."""
    _interrupts.call(lambda: summation("rsum_suspend"))


def resume(num_workers: int = -1, num_servers: int = -1) -> None:
    """Goes on with so many workers and servers, after `suspend`, or after `LostProcess` with RSUM_ON_LOSS=continue.

    -1: with those that are left. Declarations stay; workers are numbered anew, in the order of their old numbers. Rounds
    that were open at a loss have failed: submit them again. What was pushed in place is to be filled anew, since parts of it may
    be sums already. A worker that is new has to make the same calls as the others from then on, which it cannot with a
    `DistributedOptimizer` that has made steps. All workers call it.
    """
    _interrupts.call(lambda: summation("rsum_resume", num_workers, num_servers))


def adapt() -> int:
    """Goes on with the servers that the pool (RSUM_POOL) lends the job now; how many these are.

    For all workers, between two steps, when all rounds have their results. Whatever it is, no bit of a result changes, but
    for one-bit tensors: what services have left out of their answers is forgotten when servers change.
    Without a pool nothing happens.
    """
    return _interrupts.call(lambda: summation_number("rsum_adapt"))


def adapt_if(may: bool) -> int:
    """The same, unless a worker may not, which has gradients under way, say: then nothing happens. All workers call it."""
    return _interrupts.call(lambda: summation_number("rsum_adapt_if", int(may)))


def has_pool() -> bool:
    """Whether a pool lends the job's servers."""
    return bool(os.environ.get("RSUM_POOL"))


def is_initialized() -> bool:
    """Whether this process is in a group."""
    return rank() >= 0


def rank() -> int:
    """Number of this worker; -1 outside a group."""
    return int(function("rsum_rank")())


def size() -> int:
    """Number of workers; -1 outside a group."""
    return int(function("rsum_size")())


def local_rank() -> int:
    """Number of this worker among those of its host; -1 outside a group."""
    return int(function("rsum_local_rank")())


def local_size() -> int:
    """Number of workers on this host; -1 outside a group."""
    return int(function("rsum_local_size")())


def servers() -> int:
    """Number of servers; -1 outside a group."""
    return int(function("rsum_servers")())


def epoch() -> int:
    """Number of changes of the group's members so far; -1 outside a group."""
    return int(function("rsum_epoch")())


def generation() -> tuple[int, int]:
    """Which group this is, of all that the process has been in."""
    return _n_joined, epoch()


def compared(steps: int, every: int, n_parameters: int, n_different: int, first: str, hashes: Sequence[int]) -> None:
    """Tells who watches the group (`ringscope run`) what a comparison of all workers' parameters has come to.

    `first`: the one that differs first, with its `hashes` by worker; neither where none does. Returns once the watcher knows of a
    difference, because the job may end by it; nothing else depends on this, so it raises nothing.
    """
    own = (ctypes.c_uint64 * len(hashes))(*[value & (2**64 - 1) for value in hashes])
    size = ctypes.sizeof(Comparison)
    told = Comparison(size, steps, every, n_parameters, n_different, first.encode(), own, len(hashes), 0)
    function("rsum_compared")(ctypes.byref(told))


def declare(name: str, like: Any, *, priority: int = 0, compression: AnyCodec = None) -> int:
    """Makes a tensor known under a name, with the length and type of `like`; its number.

    All workers declare the same tensors in the same order. Parts of a tensor of lower `priority` go first. A name that is
    declared already with the same length and type gives its number. Whoever pushes an undeclared name declares it, which
    makes that push wait for all workers; so declare a model's tensors together.
    """
    return _declare(name, buffer_of(like, is_summed=False, may_be_on_gpu=True), priority, compression)


def free_name(name: str, root: int, like: Any) -> str:
    """The name; where a broadcast's of another length or type is declared under it, one that says which these are of `like`."""
    buffer = buffer_of(like, is_summed=False, may_be_on_gpu=True)
    kind = (buffer.elements, buffer.datatype)
    return name if _declared.get(name_from(name, root), kind) == kind else f"{name}.{buffer.datatype}.{buffer.elements}"


class Handle(Generic[Array]):
    """A push and pull under way. Both its arrays are the group's until it was waited for."""

    def __init__(self, number: Optional[int], result: Array) -> None:
        # None: the library knows of it no more.
        self._number = number
        self._joined = _n_joined
        self._result = result
        # Where the result is to be once it is whole; None where it is already.
        self._into: Optional[Array] = None
        # What the library has said when it was waited for, which it says once: kept here, whatever a signal's handler raises after it.
        self._said: list[int] = []
        # How it failed; whoever waits once more is told the same.
        self._failure: Optional[tuple[type[Error], str, Optional[int]]] = None
        # Of the thread that waits: others wait for that one.
        self._lock = threading.RLock()
        self._is_waited_for = self._is_over = False

    def __del__(self) -> None:
        # At the interpreter's end the list may be gone first.
        number: Optional[int] = getattr(self, "_number", None)
        if number is not None and _dropped is not None:
            _dropped.append((number, self._joined))

    def poll(self) -> bool:
        """Whether the result is there, or will never be; `wait` tells which. Where a thread waits for it, only once that has it."""
        if self._is_over:
            return True
        if not self._lock.acquire(blocking=False):
            return False
        try:
            if self._number is None or self._is_waited_for:
                return not self._is_waited_for
            self._check_group()
            state = 1 if self._has_ended() else int(function("rsum_poll")(self._number))
        finally:
            self._lock.release()
        if state < 0:
            raise summation_error(4)
        return state == 1

    def wait(self) -> Array:
        """Waits until the result is there, and returns the array that holds it. Several threads may wait for it.

        Raises `LostProcess` where the group lost somebody, another `Error` where the round failed for another reason. What a
        signal's handler raises ends the wait, which may be taken up again.
        """
        with self._lock:
            if self._number is not None:
                self._end(self._number)
            if self._into is not None and self._failure is None:
                _put(self._result, self._into)
                self._result, self._into = self._into, None
            self._is_over = True
        if self._failure is not None:
            kind, text, code = self._failure
            raise kind(text, code)
        return self._result

    def _end(self, number: int) -> None:
        if self._is_waited_for:
            raise Error("a signal's handler waits for the handle that it has interrupted the wait for: raise there, and wait again")
        self._check_group()
        try:
            self._is_waited_for = True
            if not self._has_ended():
                _wait(number, self._said)
        except BaseException:
            _interrupts.note_left()
            raise
        finally:
            self._is_waited_for = False
        code = self._said[0]
        if code != 0:
            error = summation_error(code)
            # Its traceback would keep what the caller has.
            self._failure = (type(error), str(error), error.code)
        self._number = None
        _in_flight.pop(number, None)

    def _has_ended(self) -> bool:
        return bool(self._said) and self._said[0] != IN_PROGRESS

    def _check_group(self) -> None:
        # Another group's handles have the same numbers.
        if self._joined != _n_joined:
            raise Error("the handle is of a group that this process has left")


def submit(
    send: Any,
    recv: Array,
    name: Optional[str],
    operation: int,
    priority: int = 0,
    compression: AnyCodec = None,
    *,
    is_summed: bool = True,
) -> Handle[Array]:
    """Contributes `send` to the next round of a tensor; the handle's result is `recv`, which may be the same memory."""
    target = buffer_of(recv, is_written=True, is_summed=is_summed, may_be_on_gpu=True)
    if hasattr(send, "resolve_neg"):
        send = send.resolve_neg()
    source = buffer_of(send, is_summed=is_summed, may_be_on_gpu=True)
    if (source.elements, source.datatype) != (target.elements, target.datatype):
        raise Error(
            f"the result of {source.elements} elements does not fit {target.elements} elements, or is of another type"
        )
    if name is None:
        # Rounds of one name are told apart by their order, so one for each length and type is enough, however many calls.
        name = f"unnamed.{source.datatype}.{source.elements}.{_lossless(compression).label()}"
    if _dropped:
        _sweep()
    tensor = _declare(name, source, priority, compression)
    try:
        number = _submitted(tensor, source, target, operation)
    except BaseException as error:
        if not isinstance(error, Error):
            _left.append((send, recv))
        raise
    _in_flight[number] = (send, recv)
    return Handle(number, recv)


def push_pull_async(
    array: AnyArray,
    name: Optional[str] = None,
    average: bool = True,
    *,
    out: Optional[AnyArray] = None,
    priority: int = 0,
    compression: AnyCodec = None,
) -> Handle[AnyArray]:
    """`push_pull` without waiting. Neither `array` nor `out` may be touched before the handle was waited for."""
    result = numpy.empty_like(array, order="C") if out is None else out
    return submit(array, result, name, AVERAGE if average else SUM, priority, compression)


def push_pull(
    array: AnyArray,
    name: Optional[str] = None,
    average: bool = True,
    *,
    out: Optional[AnyArray] = None,
    priority: int = 0,
    compression: AnyCodec = None,
) -> AnyArray:
    """The sum over all workers of what each passes as `array`, or their average: an array of its shape and type.

    `array` is contiguous, and as long and of the same type on all workers; `out`, if given, holds the result and may be
    `array` itself. `name` says which tensor this is a round of. Sums have the same bits on all workers and in every run.
    `priority` and `compression` count at the first use of a name. All workers call it, in the same order.
    """
    handle = push_pull_async(array, name, average, out=out, priority=priority, compression=compression)
    return handle.wait()


def broadcast_async(array: Array, root: int, name: Optional[str] = None) -> Handle[Array]:
    """`broadcast` without waiting; `array` is as it was until the handle was waited for."""
    buffer_of(array, is_written=True, is_summed=False, may_be_on_gpu=True)
    handle = broadcast_own_async(_copied(array), root, name)
    handle._into = array
    return handle


def broadcast_own_async(array: Array, root: int, name: Optional[str] = None) -> Handle[Array]:
    """The same of an array that nobody else knows: where it fails, the array holds nothing of use."""
    refuse_asynchronous("broadcast()", "the first push_pull of a tensor gives everyone worker 0's values")
    n_workers = size()
    if not 0 <= root < max(n_workers, 1):
        raise Error(f"there is no worker {root} among {n_workers}")
    target = buffer_of(array, is_written=True, is_summed=False, may_be_on_gpu=True)
    if rank() != root:
        _fill(array, neutral_of(target.datatype))
    name = name_from(name or f"broadcast.{target.datatype}.{target.elements}", root)
    return submit(array, array, name, SUM, is_summed=False)


def name_from(name: str, root: int) -> str:
    """The name of a broadcast's tensor: workers that name different roots have different tensors, which is found out."""
    return f"{name} from {root}"


def broadcast(array: Array, root: int, name: Optional[str] = None) -> Array:
    """Replaces `array` on all workers by what it is on worker `root`, bit for bit (signalling NaNs become quiet); `array`.

    A push and pull to which the others contribute nothing. All workers call it, with arrays of one length and type. Where
    it fails, `array` is as it was.
    """
    return broadcast_async(array, root, name).wait()


def wait_for_all(submitted: Iterable[Handle[Array]]) -> list[Array]:
    """The results of all handles; an error of one, or of submitting them, only once nothing is under way any more."""
    handles: list[Handle[Array]] = []
    results: list[Array] = []
    errors: list[Exception] = []
    try:
        for handle in submitted:
            handles.append(handle)
    except Exception as error:  # noqa: BLE001  it is raised at the end
        errors.append(error)
    for handle in handles:
        try:
            results.append(handle.wait())
        except Exception as error:  # noqa: BLE001  as above
            errors.append(error)
    if errors:
        raise errors[0]
    return results


def is_asynchronous() -> bool:
    """Whether groups of this process sum asynchronously."""
    return os.environ.get("RSUM_ASYNC", "0").strip() == "1"


def refuse_asynchronous(what: str, instead: str) -> None:
    """Raises an `Error` in a group that sums asynchronously, in which `what` would give something else."""
    if is_asynchronous():
        raise Error(f"{what} is for synchronous sums, not for RSUM_ASYNC=1: {instead}")


def poll(handle: Handle[Any]) -> bool:
    """Whether the handle's work is over."""
    return _checked(handle).poll()


def synchronize(handle: Handle[Array]) -> Array:
    """Waits until the handle's work is over; the array that holds its result."""
    return _checked(handle).wait()


wait = synchronize


def _checked(handle: Handle[Array]) -> Handle[Array]:
    if not isinstance(handle, Handle):
        raise Error(f"a handle is needed, as push_pull_async and its kin give it, not {type(handle).__name__}")
    return handle


def _sweep() -> None:
    """Gives back the handles that were dropped without a wait, and their memory, once their work is over."""
    for _ in range(len(_dropped)):
        try:
            number, joined = _dropped.popleft()
        except IndexError:
            # Another thread sweeps too.
            return
        if joined != _n_joined or number not in _in_flight:
            continue
        if int(function("rsum_poll")(number)) == 0:
            _dropped.append((number, joined))
            continue
        function("rsum_wait")(number)
        _in_flight.pop(number, None)


def _declare(name: str, buffer: Buffer, priority: int, compression: AnyCodec) -> int:
    codec = codec_of(compression)
    # A codec that loses nothing is for short tensors too.
    min_bytes = 1 if codec.row else 0
    options = Options(ctypes.sizeof(Options), priority, codec.number, codec.kept, min_bytes, codec.row)
    number = summation_number(
        "rsum_declare", name.encode(), buffer.elements, buffer.datatype, ctypes.byref(options)
    )
    global _n_declared
    if number >= _n_declared:
        _n_declared = number + 1
    _declared[name] = (buffer.elements, buffer.datatype)
    return number


def _lossless(compression: AnyCodec) -> Codec:
    """The codec of a tensor without a name, which may be any tensor's of its length."""
    codec = codec_of(compression)
    if codec.is_lossy:
        raise Error(
            f"compression {codec.name} of a tensor without a name: what it leaves out of one tensor is added to the next of the "
            "same name, which could be another one's; give each tensor a name of its own, name=…"
        )
    return codec


def _wait(number: int, said: list[int]) -> None:
    """Waits for a handle, on the main thread so that signals are seen; `said` is how that ended."""
    if not _interrupts.is_main():
        said[:] = [int(function("rsum_wait")(number))]
        return
    wait_for = function("rsum_wait_for")
    while not said or said[0] == IN_PROGRESS:
        # One step of the interpreter's: what the library has said is there before a signal's handler runs.
        said[:] = map(wait_for, (number,), (_interrupts.LOOK_MS,))


def _submitted(tensor: int, source: Buffer, target: Buffer, operation: int) -> int:
    """Submits; the number of the handle. That waits for other workers where they have to agree to what is new first."""
    global _known
    known = (generation(), _n_declared)
    if known == _known and len(_in_flight) < MANY:
        return _push_pull(tensor, source, target, operation)
    number = _interrupts.call(lambda: _push_pull(tensor, source, target, operation))
    _known = known
    return number


def _push_pull(tensor: int, source: Buffer, target: Buffer, operation: int) -> int:
    """Submits. What is on a GPU is read behind the work of torch's current stream there."""
    device = target.device if source.device is None else source.device
    if device is None:
        return summation_number("rsum_push_pull_async", tensor, source.address, target.address, operation)
    cuda = sys.modules["torch"].cuda
    # The default stream is the one of the current device.
    with cuda.device(device):
        stream = cuda.current_stream(device).cuda_stream
        return summation_number(
            "rsum_push_pull_on_stream", tensor, source.address, target.address, operation, stream
        )


def _fill(array: Any, value: float) -> None:
    (array.detach().fill_ if hasattr(array, "data_ptr") else array.fill)(value)


def _copied(array: Any) -> Any:
    return array.detach().clone() if hasattr(array, "data_ptr") else array.copy()


def _put(values: Any, into: Any) -> None:
    """Copies; what was copied on a GPU may be used on any stream."""
    if not hasattr(into, "data_ptr"):
        into[...] = values
        return
    into.detach().copy_(values)
    if into.device.type == "cuda":
        sys.modules["torch"].cuda.current_stream(into.device).synchronize()


def _leave_at_exit() -> None:
    if os.getpid() != _member:
        return
    # After an uncaught exception, or a call that a signal ended, the others are to be told of a loss, not to be waited for.
    if not (hasattr(sys, "last_type") or _interrupts.was_left()) and is_initialized():
        _interrupts.let_signals_end_the_process()
        try:
            shutdown()
        except Error as error:
            print(f"ringscope_engine: leaving the group at exit: {error}", file=sys.stderr)
    # Python frees all that is left at its end, and the library's threads use what is in flight until the process has gone.
    for held in (*_in_flight.values(), *_left):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(held))

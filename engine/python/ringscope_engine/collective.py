"""Collectives on numpy arrays and torch tensors: communicators of librsccl.so, whose functions are NCCL's.

    with collective.init() as communicator:
        communicator.all_reduce(gradient, gradient, op="avg")

Arrays are contiguous; sizes and types are the same on all ranks, and all ranks of a communicator call the same
operations in the same order. A call returns when its result is there; inside `group()`, when the group ends. Results of
reductions have the same bits on all ranks; with RSCCL_DETERMINISTIC=rank-order also for all numbers of hosts and channels.
"""

from __future__ import annotations

import contextlib
import os
import threading
from ctypes import byref, c_int, c_void_p
from typing import Any, Iterator, Optional, TypeVar

import numpy

from . import _interrupts, _meeting
from ._buffers import Buffer, buffer_of, shape_of
from ._errors import Error, error_of
from ._library import UNIQUE_ID_BYTES, Config, UniqueId, collective_call, function

Array = TypeVar("Array")

OPERATIONS = {"sum": 0, "prod": 1, "max": 2, "min": 3, "avg": 4}

# The longest wait for a rank that starts late, in seconds, as the engine's own (RSCCL_TIMEOUT_S).
MEETING_S = 30.0


def _call(name: str, *arguments: Any) -> None:
    """Calls a function, on one thread for all that the main thread calls, so that signals end the wait for other ranks."""
    _interrupts.call(lambda: collective_call(name, *arguments))


def unique_id() -> bytes:
    """The id of a communicator to be, made by one rank and brought to the others by the caller."""
    made = UniqueId()
    _call("ncclGetUniqueId", byref(made))
    return bytes(made.internal)


def init(
    rank: Optional[int] = None,
    size: Optional[int] = None,
    root: Optional[str] = None,
    secret: Optional[str] = None,
    *,
    name: str = "python",
    timeout_s: float = MEETING_S,
) -> "Communicator":
    """A communicator of all ranks of a job, which meet at `root` (host:port, where rank 0 listens while it is made).

    By default RANK, WORLD_SIZE, MASTER_ADDR:MASTER_PORT and RSUM_SECRET of the environment; under torchrun, which listens on
    that port itself, `root` has to be given. `name` is what watchers show.
    Ranks that start later than `timeout_s` after the first are not waited for.
    """
    own = int(_meeting.setting(rank, "RANK"))
    n_ranks = int(_meeting.setting(size, "WORLD_SIZE"))
    if root is None and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        raise Error("MASTER_PORT is torchrun's own here: pass root=\"host:port\" with another port of rank 0's machine, on all ranks")
    place = root or f"{_meeting.setting(None, 'MASTER_ADDR')}:{_meeting.setting(None, 'MASTER_PORT')}"
    address, key = _meeting.address_of(place), _meeting.setting(secret, "RSUM_SECRET").encode()
    if own == 0:
        made = unique_id()
        _meeting.share(made, address, n_ranks - 1, key, timeout_s)
    else:
        made = _meeting.fetch(UNIQUE_ID_BYTES, address, key, timeout_s)
    return Communicator(made, n_ranks, own, name=name)


class Communicator:
    """Ranks that work together; this process (or thread) is one of them. As a context manager it is destroyed at the end,
    and aborted where an exception ends it."""

    def __init__(self, unique_id: bytes, size: int, rank: int, *, name: str = "python") -> None:
        """Waits for all ranks, which pass the same id and size."""
        if len(unique_id) != UNIQUE_ID_BYTES:
            raise Error(f"a unique id of {len(unique_id)} bytes: it has {UNIQUE_ID_BYTES}")
        comm = c_void_p()
        given = UniqueId.from_buffer_copy(unique_id)
        _call("ncclCommInitRankConfig", byref(comm), size, given, rank, byref(Config(name)))
        self._adopt(comm)

    def _adopt(self, comm: c_void_p) -> None:
        self._comm: Optional[c_void_p] = comm
        self._stream = c_void_p()
        _call("rscclStreamCreate", byref(self._stream))

    @property
    def rank(self) -> int:
        """Number of this rank."""
        return self._ask("ncclCommUserRank")

    @property
    def size(self) -> int:
        """Number of ranks."""
        return self._ask("ncclCommCount")

    def all_reduce(self, send: Any, recv: Optional[Array] = None, op: str = "sum") -> Array:
        """All ranks' `send`, element by element in one (sum, prod, max, min, avg): `recv`, which may be `send`."""
        source, target, into = self._pair(send, recv, is_summed=True)
        self._same(source.elements, target.elements)
        code = _operation(op)
        done: Array = self._run(into, send, "ncclAllReduce", *_places(source, target), source.elements, source.datatype, code)
        return done

    def reduce(self, send: Any, root: int, recv: Optional[Array] = None, op: str = "sum") -> Array:
        """The same, whose result only rank `root` has; elsewhere `recv` stays as it is."""
        source, target, into = self._pair(send, recv, is_summed=True)
        self._same(source.elements, target.elements)
        places, code = _places(source, target), _operation(op)
        done: Array = self._run(into, send, "ncclReduce", *places, source.elements, source.datatype, code, root)
        return done

    def all_gather(self, send: Any, recv: Optional[Array] = None) -> Array:
        """All ranks' `send`, in the order of the ranks: an array of shape (size, *send.shape), or `recv`."""
        into = _like(send, (self.size, *shape_of(send))) if recv is None else recv
        source, target, into = self._pair(send, into)
        self._same(source.elements * self.size, target.elements)
        done: Array = self._run(into, send, "ncclAllGather", *_places(source, target), source.elements, source.datatype)
        return done

    def reduce_scatter(self, send: Any, recv: Optional[Array] = None, op: str = "sum") -> Array:
        """All ranks' `send` in one, of which this rank gets the part of its number: the first dimension is split."""
        shape = shape_of(send)
        if recv is None and (not shape or shape[0] % self.size):
            raise Error(f"the first dimension of {shape} cannot be split for {self.size} ranks")
        into = _like(send, (shape[0] // self.size, *shape[1:])) if recv is None else recv
        source, target, into = self._pair(send, into, is_summed=True)
        self._same(source.elements, target.elements * self.size)
        code = _operation(op)
        places = _places(source, target)
        done: Array = self._run(into, send, "ncclReduceScatter", *places, target.elements, target.datatype, code)
        return done

    def broadcast(self, array: Array, root: int) -> Array:
        """Replaces `array` by what it is on rank `root`."""
        buffer = buffer_of(array, is_written=True, is_summed=False)
        places = (buffer.address, buffer.address)
        return self._run(array, array, "ncclBroadcast", *places, buffer.elements, buffer.datatype, root)

    def all_to_all(self, send: Any, recv: Optional[Array] = None) -> Array:
        """Sends part i of `send` to rank i, and gets part i of the result from it: the first dimension is split."""
        source, target, into = self._pair(send, recv)
        self._same(source.elements, target.elements)
        if source.elements % self.size:
            raise Error(f"{source.elements} elements cannot be split for {self.size} ranks")
        places = _places(source, target)
        done: Array = self._run(into, send, "ncclAlltoAll", *places, source.elements // self.size, source.datatype)
        return done

    def send(self, array: Any, peer: int) -> None:
        """Sends `array` to a rank that calls `recv`; with a `recv` of one's own at the same time only inside `group()`."""
        buffer = buffer_of(array, is_summed=False)
        self._run(None, array, "ncclSend", buffer.address, buffer.elements, buffer.datatype, peer)

    def recv(self, array: Array, peer: int) -> Array:
        """Fills `array` with what a rank sends."""
        buffer = buffer_of(array, is_written=True, is_summed=False)
        return self._run(array, array, "ncclRecv", buffer.address, buffer.elements, buffer.datatype, peer)

    def barrier(self) -> None:
        """Waits until all ranks are here: an all-reduce of one byte."""
        self.all_reduce(numpy.zeros(1, numpy.uint8))

    @contextlib.contextmanager
    def group(self) -> Iterator[None]:
        """Operations that go together, such as sends and receives; their results are there when it ends.

        It is for this thread's calls on all communicators. Where an exception ends it, those with calls in it are aborted.
        """
        if _open_group() is not None:
            raise Error("this thread is in a group already, which takes the calls of all communicators")
        _call("ncclGroupStart")
        _of_thread.group = group = _Group()
        try:
            yield
        except BaseException:
            _of_thread.group = None
            group.give_up()
            raise
        _of_thread.group = None
        _call("ncclGroupEnd")
        _interrupts.call(group.synchronize)

    def split(self, color: Optional[int], key: int = 0) -> "Optional[Communicator]":
        """A communicator of the ranks with the same `color`, in the order of their `key`; None where that is None."""
        made = c_void_p()
        _call("ncclCommSplit", self._live(), -1 if color is None else color, key, byref(made), None)
        if color is None:
            return None
        child = Communicator.__new__(Communicator)
        child._adopt(made)
        return child

    def destroy(self) -> None:
        """Ends it, when what is under way is done. A second time nothing happens."""
        self._end("ncclCommDestroy")

    def abort(self) -> None:
        """Ends it and what is under way, which fails on the other ranks too."""
        self._end("ncclCommAbort")

    def __enter__(self) -> "Communicator":
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        self._end("ncclCommDestroy" if kind is None else "ncclCommAbort")

    def _pair(self, send: Any, recv: Any, *, is_summed: bool = False) -> tuple[Buffer, Buffer, Any]:
        into = _like(send, shape_of(send)) if recv is None else recv
        source = buffer_of(send, is_summed=is_summed)
        target = buffer_of(into, is_written=True, is_summed=is_summed)
        if source.datatype != target.datatype:
            raise Error(f"elements of type {send.dtype} do not fit a result of type {into.dtype}")
        return source, target, into

    def _same(self, has: int, wants: int) -> None:
        if has != wants:
            raise Error(f"a result of another size: {wants} elements where {has} were expected")

    def _run(self, result: Array, held: Any, name: str, *arguments: Any) -> Array:
        comm, stream, group = self._live(), self._stream, _open_group()
        if group is not None:
            group.take(self, held, result)

        def work() -> tuple[Any, Any]:
            collective_call(name, *arguments, comm, stream)
            if group is None:
                _synchronize(comm, stream)
            # What a signal has left to the library stays until it is done.
            return held, result

        _interrupts.call(work)
        return result

    def _ask(self, name: str) -> int:
        number = c_int()
        _call(name, self._live(), byref(number))
        return number.value

    def _live(self) -> c_void_p:
        if self._comm is None:
            raise Error("the communicator was destroyed")
        return self._comm

    def _end(self, name: str) -> None:
        comm, self._comm = self._comm, None
        if comm is not None:
            _call(name, comm)
            _call("rscclStreamDestroy", self._stream)


class _Group:
    """What a thread has called since its group began. NCCL's groups are of threads too, whatever communicators they call."""

    def __init__(self) -> None:
        self._communicators: set[Communicator] = set()
        # Memory that the library reads or writes when the group ends.
        self._held: list[Any] = []

    def take(self, communicator: Communicator, *memory: Any) -> None:
        """One more call."""
        self._communicators.add(communicator)
        self._held.append(memory)

    def synchronize(self) -> list[Any]:
        """Waits until all is done; the memory, which stays until then also where a signal has left this to the library."""
        for communicator in self._communicators:
            _synchronize(communicator._live(), communicator._stream)
        return self._held

    def give_up(self) -> None:
        """Ends the group so that none of its calls is made: other ranks do not wait for those that are missing."""

        def abort() -> None:
            for communicator in self._communicators:
                communicator.abort()

        # The library does not abort on the thread whose group has calls on the communicator.
        aborter = threading.Thread(target=abort)
        aborter.start()
        aborter.join()
        # What is aborted cannot be called, which is all that the end has to say.
        with contextlib.suppress(Error):
            _call("ncclGroupEnd")


_of_thread = threading.local()


def _open_group() -> Optional[_Group]:
    group: Optional[_Group] = getattr(_of_thread, "group", None)
    return group


def _synchronize(comm: c_void_p, stream: c_void_p) -> None:
    code = function("rscclStreamSynchronize")(stream)
    if code != 0:
        text = function("ncclGetLastError")(comm) or b"the operation failed"
        raise error_of(code, text.decode(errors="replace"))


def _places(source: Buffer, target: Buffer) -> tuple[int, int]:
    """The two addresses."""
    return source.address, target.address


def _operation(op: str) -> int:
    if op not in OPERATIONS:
        raise Error(f"there is no operation {op!r}; there are {', '.join(OPERATIONS)}")
    return OPERATIONS[op]


def _like(array: Any, shape: tuple[int, ...]) -> Any:
    """An array or tensor of this shape, with the type of another one."""
    return array.new_empty(shape) if hasattr(array, "data_ptr") else numpy.empty(shape, array.dtype)


__all__ = ["Communicator", "Error", "OPERATIONS", "init", "unique_id"]

"""Tensors as memory of a remote machine, over librtensor.so: arrays that a peer writes to and reads, without a copy.

A `Link` joins two processes. Both declare the same edges by name, one end `send` and the other `receive`, then both call
`ready`. An edge with a shape is static: its array is the same memory for ever, and a transfer is one write into the
receiver's. One without is dynamic: each tensor is allocated as it comes.

    link = Link("local", "a name", listens=True)        link = Link("local", "a name", listens=False)
    out = link.send("parameters", (64, 10),             received = link.receive("parameters", (64, 10))
                    held_by="gradients")
    back = link.receive("gradients", (64, 10))          out = link.send("gradients", (64, 10))
    link.ready()                                        link.ready()
    for step in range(100):                             for step in range(100):
        out.array[...] = parameters                         gradients = 2 * received.wait()
        out.send()                                          received.release()
        parameters -= 0.1 * back.wait()                     out.wait()
        back.release()                                      out.array[...] = gradients
                                                            out.send()
    link.finish()                                       link.finish()

`held_by` names the edge whose tensors depend on this one's: once something has come on it the receiver is done, and nothing
is sent to say so. A send before that raises `TooEarly`; a tensor is released before what depends on it is sent.

A link is closed by `close`, or at the end of a `with` block, which waits for nothing: `finish` comes before. Arrays stay
readable for as long as they are held.

What fails raises `Error` or one of its subclasses here. Its `code` is rtensor.h's result (2 is rtensorInvalidUsage), or None
where this package itself found the mistake. A shape that makes no sense is a `ValueError` or a `TypeError`, as numpy's are.
`DATATYPES` has what elements may be; numpy has no bfloat16, so edges of that type are for Rust and C alone.

Nothing is authenticated: whoever reaches a listener's address over TCP first and speaks this protocol is its peer.

The library is looked for at RTENSOR_LIBRARY, beside the package, then where the linker looks.
"""

from __future__ import annotations

import ctypes
import functools
import operator
import os
from ctypes import POINTER, byref, c_char_p, c_double, c_int, c_uint64, c_void_p
from pathlib import Path
from types import TracebackType
from typing import Any, Optional, Sequence, Type, Union

import numpy

from . import _interrupts
from ._buffers import AnyArray
from ._errors import Error

__all__ = ["BrokenRules", "Counts", "DATATYPES", "Error", "Link", "LostPeer", "Receiver", "Sender", "Timeout", "TooEarly"]

# Dimensions, or the only one.
Shape = Union[int, Sequence[int]]

NAME = "librtensor.so"
MAX_DIMS = 8
PATIENCE_S = 60.0

# rtensorU8, …; numpy has no bf16.
DATATYPES = {"uint8": 1, "float16": 2, "float32": 4, "float64": 5, "int32": 6, "int64": 7}
_NAMES = {number: name for name, number in DATATYPES.items()}
_TOO_EARLY, _PEER_LOST, _TIMEOUT, _BROKEN_RULES = 4, 7, 8, 10


class TooEarly(Error):
    """The receiver may still use the last tensor, or it still leaves its memory: to be tried again later (`Sender.wait`)."""


class LostPeer(Error):
    """The other process is gone, which the text names with what waits for it."""


class BrokenRules(Error):
    """The other process sent what makes no sense, or wrote over a tensor that was not released."""


class Timeout(Error):
    """Nothing happened in time; the text names the edge and what it waits for."""


class _Tensor(ctypes.Structure):
    """rtensor_t."""

    _fields_ = [
        ("data", c_void_p),
        ("size_bytes", c_uint64),
        ("datatype", c_int),
        ("n_dims", c_int),
        ("dims", c_uint64 * MAX_DIMS),
    ]


class Counts(ctypes.Structure):
    """rtensor_counts_t: what this end has done."""

    _fields_ = [
        (name, c_uint64)
        for name in ("work_requests", "moved_bytes", "messages", "copied_bytes", "registrations", "polls", "hits")
    ]


_SHAPE = [c_int, c_int, POINTER(c_uint64)]
_SIGNATURES: dict[str, list[Any]] = {
    "rtensor_connect": [c_char_p, c_int, c_char_p, c_double, POINTER(c_void_p)],
    "rtensor_set_arena": [c_void_p, c_uint64],
    "rtensor_static_sender": [c_void_p, c_char_p, *_SHAPE, c_char_p],
    "rtensor_static_receiver": [c_void_p, c_char_p, *_SHAPE],
    "rtensor_dynamic_sender": [c_void_p, c_char_p, c_uint64, c_char_p],
    "rtensor_dynamic_receiver": [c_void_p, c_char_p, c_uint64],
    "rtensor_ready": [c_void_p, c_double],
    "rtensor_begin": [c_void_p, c_int, *_SHAPE],
    "rtensor_to_send": [c_void_p, c_int, POINTER(_Tensor)],
    "rtensor_send": [c_void_p, c_int],
    "rtensor_may_send": [c_void_p, c_int],
    "rtensor_wait_to_send": [c_void_p, c_int, c_double],
    "rtensor_poll": [c_void_p, c_int],
    "rtensor_wait": [c_void_p, c_int, c_double],
    "rtensor_received": [c_void_p, c_int, POINTER(_Tensor)],
    "rtensor_release": [c_void_p, c_int],
    "rtensor_counts": [c_void_p, POINTER(Counts)],
    "rtensor_finish": [c_void_p, c_double],
    "rtensor_close": [c_void_p],
    "rtensor_last_error": [],
}


def candidates() -> list[str]:
    """Where the library may be, in this order."""
    named = os.environ.get("RTENSOR_LIBRARY")
    if named:
        return [named]
    beside = Path(__file__).parent / NAME
    return ([str(beside)] if beside.exists() else []) + [NAME]


@functools.lru_cache(maxsize=None)
def _library() -> ctypes.CDLL:
    tried = []
    for path in candidates():
        try:
            library = ctypes.CDLL(path)
            break
        except OSError as error:
            tried.append(str(error))
    else:
        raise Error(
            f"cannot load {NAME}: {'; '.join(tried)}. Set RTENSOR_LIBRARY to its path; "
            "`cargo build --release -p ringscope-tensors` makes it"
        )
    for name, arguments in _SIGNATURES.items():
        found = getattr(library, name, None)
        if found is None:
            raise Error(f"{library._name} has no {name}: it is older than this package, or another library")
        found.argtypes = arguments
        found.restype = c_char_p if name == "rtensor_last_error" else c_int
    return library


def _error(code: int) -> Error:
    text = (_library().rtensor_last_error() or b"").decode(errors="replace")
    kinds = {_TOO_EARLY: TooEarly, _PEER_LOST: LostPeer, _TIMEOUT: Timeout, _BROKEN_RULES: BrokenRules}
    return kinds.get(code, Error)(text, code)


def _call(name: str, *arguments: Any) -> None:
    code = getattr(_library(), name)(*arguments)
    if code != 0:
        raise _error(code)


def _wait(name: str, *arguments: Any, timeout_s: float) -> None:
    """A call that waits for the other process, and may be made again. What a signal's handler raises ends it."""
    soon = _interrupts.LOOK_MS / 1000
    # Others are for the library to refuse.
    if not soon < timeout_s < 1e9:
        _call(name, *arguments, timeout_s)
        return
    try:
        # As a rule it is over by then, and another thread would cost more than the transfer.
        _call(name, *arguments, soon)
    except Timeout:
        _interrupts.call(lambda: _call(name, *arguments, timeout_s - soon))


def _number(name: str, *arguments: Any) -> int:
    number = int(getattr(_library(), name)(*arguments))
    if number < 0:
        raise _error(-1 - number)
    return number


def _dims(shape: Shape) -> list[int]:
    try:
        dims = [operator.index(shape)] if hasattr(shape, "__index__") else [operator.index(dim) for dim in shape]
    except TypeError:
        raise TypeError(f"a shape is an int or a sequence of ints, and not {shape!r}") from None
    for dim in dims:
        _check_size(f"a dimension of shape {shape!r}", dim)
    if len(dims) > MAX_DIMS:
        raise ValueError(f"shape {shape!r} has more than {MAX_DIMS} dimensions")
    return dims


def _check_size(what: str, size: int) -> int:
    # ctypes would take it modulo 2^64.
    if not 0 <= size < 1 << 63:
        raise ValueError(f"{what} is {size}: it is to be 0 or more, and less than 2^63")
    return size


def _shape(shape: Shape, dtype: Any) -> list[Any]:
    name = numpy.dtype(dtype).name
    if name not in DATATYPES:
        raise Error(f"elements of type {name} cannot be sent; these can: {', '.join(DATATYPES)}")
    dims = _dims(shape)
    return [DATATYPES[name], len(dims), (c_uint64 * max(len(dims), 1))(*dims)]


def _text(text: Optional[str]) -> Optional[bytes]:
    return None if text is None else text.encode()


class _Memory:
    """The library's link, which goes with the last that holds it: arrays over its memory, and calls that are under way."""

    def __init__(self, pointer: c_void_p) -> None:
        self._as_parameter_ = pointer
        # At the interpreter's end modules may be gone first.
        self._close = _library().rtensor_close

    def __del__(self) -> None:
        self._close(self._as_parameter_)


class _Handle:
    """A link that can be closed."""

    def __init__(self, pointer: c_void_p) -> None:
        self._memory: Optional[_Memory] = _Memory(pointer)

    @property
    def pointer(self) -> _Memory:
        """What the library's functions take."""
        memory = self._memory
        if memory is None:
            raise Error("the link is closed")
        return memory

    def close(self) -> None:
        self._memory = None

    def array(self, function: str, edge: int) -> AnyArray:
        """The tensor that a function tells of, without a copy."""
        tensor, link = _Tensor(), self.pointer
        _call(function, link, edge, byref(tensor))
        dims, dtype = tuple(tensor.dims[: tensor.n_dims]), numpy.dtype(_NAMES[tensor.datatype])
        if tensor.size_bytes == 0:
            return numpy.empty(dims, dtype)
        memory = (ctypes.c_ubyte * tensor.size_bytes).from_address(tensor.data)
        memory.link = link
        return numpy.frombuffer(memory, dtype).reshape(dims)


class Sender:
    """The sending end of an edge."""

    def __init__(self, handle: _Handle, edge: int) -> None:
        self._handle, self._edge = handle, edge

    @property
    def array(self) -> AnyArray:
        """What is sent next: fill it. Of a static edge always the same memory; of a dynamic one what `begin` gave.

        `TooEarly` while the last tensor still leaves that memory.
        """
        return self._handle.array("rtensor_to_send", self._edge)

    def begin(self, shape: Shape, dtype: Any = "float32") -> AnyArray:
        """Allocates the next tensor of a dynamic edge."""
        _call("rtensor_begin", self._handle.pointer, self._edge, *_shape(shape, dtype))
        return self.array

    def send(self) -> None:
        """Sends the array, which stays as it is until `may_send` is true again."""
        _call("rtensor_send", self._handle.pointer, self._edge)

    def may_send(self) -> bool:
        """Whether the receiver is done with the last tensor."""
        return _number("rtensor_may_send", self._handle.pointer, self._edge) == 1

    def wait(self, timeout_s: float = PATIENCE_S) -> None:
        """Waits until it is."""
        _wait("rtensor_wait_to_send", self._handle.pointer, self._edge, timeout_s=timeout_s)


class Receiver:
    """The receiving end of an edge."""

    def __init__(self, handle: _Handle, edge: int) -> None:
        self._handle, self._edge = handle, edge

    def poll(self) -> bool:
        """Whether a tensor is there."""
        return _number("rtensor_poll", self._handle.pointer, self._edge) == 1

    def wait(self, timeout_s: float = PATIENCE_S) -> AnyArray:
        """Waits until one is; the array."""
        _wait("rtensor_wait", self._handle.pointer, self._edge, timeout_s=timeout_s)
        return self.array

    @property
    def array(self) -> AnyArray:
        """The tensor that is there, to be read until `release`."""
        array = self._handle.array("rtensor_received", self._edge)
        array.flags.writeable = False
        return array

    def release(self) -> None:
        """Gives it up: the sender may write the next one."""
        _call("rtensor_release", self._handle.pointer, self._edge)


class Link:
    """All edges to one other process."""

    def __init__(self, device: str, address: str, *, listens: bool, timeout_s: float = PATIENCE_S) -> None:
        """Connects to the process that uses the same address.

        `device` is "local" (of this host; the address is any name), "tcp" or, in a build that has it, "verbs" (host:port).
        """
        pointer = c_void_p()
        arguments = (device.encode(), int(listens), address.encode(), timeout_s, byref(pointer))
        _interrupts.call(lambda: _call("rtensor_connect", *arguments))
        self._handle = _Handle(pointer)

    def __enter__(self) -> Link:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the link, whatever the other process does; later calls raise an `Error`.

        Arrays that are still held keep the link's memory, and the connection, until they are gone.
        """
        self._handle.close()

    def set_arena(self, size_bytes: int) -> None:
        """Bytes for tensors of dynamic edges on this end; before `ready`."""
        _call("rtensor_set_arena", self._handle.pointer, _check_size("the arena's size in bytes", size_bytes))

    def send(
        self,
        name: str,
        shape: Optional[Shape] = None,
        dtype: Any = "float32",
        *,
        limit_bytes: int = 16 << 20,
        held_by: Optional[str] = None,
    ) -> Sender:
        """Declares an edge to the other process: static with a shape, otherwise dynamic with tensors of so many bytes."""
        pointer, held = self._handle.pointer, _text(held_by)
        if shape is None:
            _check_size("limit_bytes", limit_bytes)
            edge = _number("rtensor_dynamic_sender", pointer, name.encode(), limit_bytes, held)
        else:
            edge = _number("rtensor_static_sender", pointer, name.encode(), *_shape(shape, dtype), held)
        return Sender(self._handle, edge)

    def receive(
        self, name: str, shape: Optional[Shape] = None, dtype: Any = "float32", *, limit_bytes: int = 16 << 20
    ) -> Receiver:
        """Declares an edge from the other process."""
        pointer = self._handle.pointer
        if shape is None:
            _check_size("limit_bytes", limit_bytes)
            edge = _number("rtensor_dynamic_receiver", pointer, name.encode(), limit_bytes)
        else:
            edge = _number("rtensor_static_receiver", pointer, name.encode(), *_shape(shape, dtype))
        return Receiver(self._handle, edge)

    def ready(self, timeout_s: float = PATIENCE_S) -> None:
        """Sets all edges up, together with the other process; before that nothing is sent or awaited.

        Success does not mean that the other process's call has succeeded, which may have been over by its timeout: the
        first wait tells. After an error the link is broken, and a new one is to be made.
        """
        pointer = self._handle.pointer
        _interrupts.call(lambda: _call("rtensor_ready", pointer, timeout_s))

    def counts(self) -> Counts:
        """What this end has done."""
        counts = Counts()
        _call("rtensor_counts", self._handle.pointer, byref(counts))
        return counts

    def finish(self, timeout_s: float = PATIENCE_S) -> None:
        """Waits until neither process needs the other. Both call it at the end; nothing can be sent after it."""
        _wait("rtensor_finish", self._handle.pointer, timeout_s=timeout_s)

"""Finds librsccl.so, loads it, and calls its C functions.

The library goes into the process's global scope, and functions are looked up in that scope and not on the library's own
handle: so a collector that is preloaded (`ringscope run`) comes first and sees the calls, as it does those of a linked
program. A handle's own functions would go past it.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import os
from ctypes import POINTER, byref, c_char_p, c_double, c_int, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any, Callable

from ._errors import Error, error_of

NAME = "librsccl.so"
UNIQUE_ID_BYTES = 128
# NCCL's INT_MIN: a setting of ncclConfig_t that is left as it is.
UNDEFINED = -(2**31)


class UniqueId(ctypes.Structure):
    """ncclUniqueId."""

    _fields_ = [("internal", ctypes.c_ubyte * UNIQUE_ID_BYTES)]


class Config(ctypes.Structure):
    """ncclConfig_t of NCCL 2.28; only the communicator's name is set."""

    _fields_ = [
        ("size", c_size_t),
        ("magic", ctypes.c_uint),
        ("version", ctypes.c_uint),
        ("settings_before_net", c_int * 4),
        ("net_name", c_char_p),
        ("settings_after_net", c_int * 2),
        ("comm_name", c_char_p),
        ("settings_after_name", c_int * 6),
    ]

    def __init__(self, name: str) -> None:
        left = [(c_int * n)(*[UNDEFINED] * n) for n in (4, 2, 6)]
        size = ctypes.sizeof(Config)
        super().__init__(size, 0xCAFEBEEF, 22809, left[0], None, left[1], name.encode(), left[2])


class Options(ctypes.Structure):
    """rsum_options_t."""

    _fields_ = [
        ("size", c_size_t),
        ("priority", c_int),
        ("codec", c_int),
        ("kept", c_double),
        ("min_bytes", c_uint64),
        ("row", c_uint64),
    ]


class Comparison(ctypes.Structure):
    """rsum_comparison_t."""

    _fields_ = [
        ("size", c_size_t),
        ("steps", c_uint64),
        ("every", c_uint64),
        ("n_parameters", c_uint64),
        ("n_different", c_uint64),
        ("parameter", c_char_p),
        ("hashes", POINTER(c_uint64)),
        ("n_workers", c_uint32),
        ("reserved", c_uint32),
    ]


class _Place(ctypes.Structure):
    """Dl_info of dladdr(3)."""

    _fields_ = [("file", c_char_p), ("base", c_void_p), ("symbol", c_char_p), ("address", c_void_p)]


_SEND_RECV = [c_void_p, c_void_p, c_size_t, c_int]
_ONE = [c_void_p, c_size_t, c_int, c_int]
_TAIL = [c_void_p, c_void_p]

SIGNATURES: dict[str, list[Any]] = {
    "rsum_init": [],
    "rsum_shutdown": [],
    "rsum_rank": [],
    "rsum_size": [],
    "rsum_local_rank": [],
    "rsum_local_size": [],
    "rsum_servers": [],
    "rsum_declare": [c_char_p, c_uint64, c_int, POINTER(Options)],
    "rsum_codec": [c_int],
    "rsum_push_pull_async": [c_int, c_void_p, c_void_p, c_int],
    "rsum_push_pull_on_stream": [c_int, c_void_p, c_void_p, c_int, c_void_p],
    "rsum_poll": [c_int],
    "rsum_wait": [c_int],
    "rsum_wait_for": [c_int, c_int],
    "rsum_suspend": [],
    "rsum_resume": [c_int, c_int],
    "rsum_adapt": [],
    "rsum_gather": [c_void_p, c_size_t, c_void_p, c_void_p, c_size_t],
    "rsum_scatter": [c_void_p, c_size_t, c_void_p, c_void_p, c_size_t],
    "rsum_compared": [POINTER(Comparison)],
    "rsum_adapt_if": [c_int],
    "rsum_epoch": [],
    "rsum_last_error": [],
    "ncclGetUniqueId": [POINTER(UniqueId)],
    "ncclGetLastError": [c_void_p],
    "ncclCommInitRankConfig": [POINTER(c_void_p), c_int, UniqueId, c_int, POINTER(Config)],
    "ncclCommSplit": [c_void_p, c_int, c_int, POINTER(c_void_p), POINTER(Config)],
    "ncclCommCount": [c_void_p, POINTER(c_int)],
    "ncclCommUserRank": [c_void_p, POINTER(c_int)],
    "ncclCommDestroy": [c_void_p],
    "ncclCommAbort": [c_void_p],
    "ncclGroupStart": [],
    "ncclGroupEnd": [],
    "ncclAllReduce": _SEND_RECV + [c_int] + _TAIL,
    "ncclReduceScatter": _SEND_RECV + [c_int] + _TAIL,
    "ncclReduce": _SEND_RECV + [c_int, c_int] + _TAIL,
    "ncclBroadcast": _SEND_RECV + [c_int] + _TAIL,
    "ncclAllGather": _SEND_RECV + _TAIL,
    "ncclAlltoAll": _SEND_RECV + _TAIL,
    "ncclSend": _ONE + _TAIL,
    "ncclRecv": _ONE + _TAIL,
    "rscclStreamCreate": [POINTER(c_void_p)],
    "rscclStreamSynchronize": [c_void_p],
    "rscclStreamCount": [c_void_p, POINTER(c_uint64)],
    "rscclStreamWait": [c_void_p, c_uint64, c_int],
    "rscclStreamDestroy": [c_void_p],
}
_TEXTS = ("rsum_last_error", "ncclGetLastError")


def candidates() -> list[str]:
    """Where the library may be, in this order: RSCCL_LIBRARY, beside the package, the linker's path."""
    named = os.environ.get("RSCCL_LIBRARY")
    if named:
        return [named]
    beside = Path(__file__).parent / NAME
    return ([str(beside)] if beside.exists() else []) + [NAME]


@functools.lru_cache(maxsize=None)
def _loaded() -> ctypes.CDLL:
    tried = []
    for path in candidates():
        try:
            return ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            tried.append(str(error))
    raise Error(
        f"cannot load {NAME}: {'; '.join(tried)}. Set RSCCL_LIBRARY to its path, put it beside the package "
        f"({Path(__file__).parent}), or add its folder to LD_LIBRARY_PATH"
    )


@functools.lru_cache(maxsize=None)
def function(name: str) -> Callable[..., Any]:
    """The C function of this name, with its types set."""
    own, everywhere = _loaded(), ctypes.CDLL(None)
    found = getattr(everywhere, name, None)
    if found is None or _is_nvidias(found):
        found = getattr(own, name, None)
    if found is None:
        raise Error(f"the library has no {name}: it is older than this package, or RSCCL_LIBRARY is another one")
    found.argtypes = SIGNATURES[name]
    found.restype = c_char_p if name in _TEXTS else c_int
    callable_: Callable[..., Any] = found
    return callable_


def _is_nvidias(symbol: Any) -> bool:
    """Whether a function is of NVIDIA's library, which PyTorch may have put into the global scope."""
    place = _Place()
    address = ctypes.cast(symbol, c_void_p)
    is_known = ctypes.CDLL(None).dladdr(address, byref(place)) and place.file
    return bool(is_known) and os.path.basename(place.file).startswith(b"libnccl.")


def summation(name: str, *arguments: Any) -> None:
    """Calls a function of rsum.h that returns 0 or an error, and raises the error."""
    code = function(name)(*arguments)
    if code != 0:
        raise summation_error(code)


def summation_number(name: str, *arguments: Any) -> int:
    """Calls a function of rsum.h that returns a number, or -1 - error, and raises the error."""
    number = int(function(name)(*arguments))
    if number < 0:
        raise summation_error(-1 - number)
    return number


def summation_error(code: int) -> Error:
    """The exception for the last error on this thread."""
    text = function("rsum_last_error")() or b""
    return error_of(code, text.decode(errors="replace") or f"the summation service failed with {code}")


def collective_call(name: str, *arguments: Any) -> None:
    """Calls a function of rsccl.h, and raises its error."""
    code = function(name)(*arguments)
    if code != 0:
        raise collective_error(name, code)


def collective_error(name: str, code: int) -> Error:
    """The exception for what a function of rsccl.h has just failed with."""
    text = function("ncclGetLastError")(None) or b""
    return error_of(code, text.decode(errors="replace") or f"{name} failed with {code}")

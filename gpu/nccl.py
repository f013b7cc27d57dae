"""NCCL's C API as far as the scenarios call it.

`reach` says how the functions are found. `linked`: in the process's global scope, as a linked program's calls are, where
what is preloaded stands first. `ctypes`: on the handle of the library, as vLLM's pynccl does it.
"""

import ctypes
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_void_p

FLOAT32, SUM = 7, 0
ITEM_BYTES = 4
# ncclWindow flags: NCCL_WIN_COLL_SYMMETRIC.
WINDOW_SYMMETRIC = 1


class UniqueId(ctypes.Structure):
    """ncclUniqueId."""

    _fields_ = [("internal", ctypes.c_byte * 128)]


class NcclError(Exception):
    """A function of NCCL failed."""


_BUFFERS = [c_void_p, c_void_p, c_size_t, c_int]
_TAIL = [c_void_p, c_void_p]
PROTOTYPES = {
    "ncclGetVersion": [POINTER(c_int)],
    "ncclGetUniqueId": [POINTER(UniqueId)],
    "ncclCommInitRank": [POINTER(c_void_p), c_int, UniqueId, c_int],
    "ncclCommDestroy": [c_void_p],
    "ncclCommAbort": [c_void_p],
    "ncclGroupStart": [],
    "ncclGroupEnd": [],
    "ncclAllReduce": _BUFFERS + [c_int] + _TAIL,
    "ncclReduceScatter": _BUFFERS + [c_int] + _TAIL,
    "ncclAllGather": _BUFFERS + _TAIL,
    "ncclBroadcast": _BUFFERS + [c_int] + _TAIL,
    "ncclReduce": _BUFFERS + [c_int, c_int] + _TAIL,
    "ncclSend": [c_void_p, c_size_t, c_int, c_int] + _TAIL,
    "ncclRecv": [c_void_p, c_size_t, c_int, c_int] + _TAIL,
}


class Nccl:
    """The library, loaded."""

    def __init__(self, name, reach):
        self.library = ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
        self.functions = self.library if reach == "ctypes" else ctypes.CDLL(None)
        for function, arguments in PROTOTYPES.items():
            self._declare(function, arguments)
        self.functions.ncclGetLastError.argtypes = [c_void_p]
        self.functions.ncclGetLastError.restype = c_char_p

    def _declare(self, name, arguments):
        function = getattr(self.functions, name)
        function.argtypes = arguments
        function.restype = c_int

    def call(self, name, *arguments):
        code = getattr(self.functions, name)(*arguments)
        if code != 0:
            words = self.functions.ncclGetLastError(None) or b""
            raise NcclError("%s returned %d: %s" % (name, code, words.decode(errors="replace")))

    def version(self):
        version = c_int()
        self.call("ncclGetVersion", byref(version))
        return version.value

    def unique_id(self):
        unique_id = UniqueId()
        self.call("ncclGetUniqueId", byref(unique_id))
        return bytes(unique_id)

    def init(self, n_ranks, unique_id, rank):
        comm = c_void_p()
        self.call("ncclCommInitRank", byref(comm), n_ranks, UniqueId.from_buffer_copy(unique_id), rank)
        return comm

    def symmetric_buffer(self, comm, size_bytes):
        """Memory registered as a symmetric window (NCCL 2.27 and later)."""
        if not hasattr(self.functions, "ncclCommWindowRegister"):
            raise NcclError("this NCCL has no ncclCommWindowRegister")
        self._declare("ncclMemAlloc", [POINTER(c_void_p), c_size_t])
        self._declare("ncclCommWindowRegister", [c_void_p, c_void_p, c_size_t, POINTER(c_void_p), c_int])
        address, window = c_void_p(), c_void_p()
        self.call("ncclMemAlloc", byref(address), size_bytes)
        self.call("ncclCommWindowRegister", comm, address, size_bytes, byref(window), WINDOW_SYMMETRIC)
        return address

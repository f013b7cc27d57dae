r"""A rank of a job in Python alone: it takes a batch from its loader, and all ranks sum what they made of theirs.

    RANK=0 WORLD_SIZE=4 RSCCL_LIBRARY=target/debug/librsccl.so \
        ringscope run --job loader -- python3 plain.py DATA --meet FOLDER

DATA has a file rank-R for each rank, FOLDER is an empty one that all ranks see. It ends when a file does.
"""

import argparse
import array
import ctypes
import os
import time
from ctypes import byref, c_int, c_size_t, c_void_p
from pathlib import Path

from loader import Loader

BATCH_BYTES = 4096
FLOAT32, SUM = 7, 0


class UniqueId(ctypes.Structure):
    """ncclUniqueId."""

    _fields_ = [("internal", ctypes.c_ubyte * 128)]


class Communicator:
    """All ranks of the job, over NCCL's C API as librsccl.so has it."""

    def __init__(self, rank, n_ranks, meet):
        # Global, and then asked for in the global scope: so the collector that `ringscope run` preloads is asked first.
        ctypes.CDLL(os.environ.get("RSCCL_LIBRARY", "librsccl.so"), mode=ctypes.RTLD_GLOBAL)
        self._library = ctypes.CDLL(None)
        self._comm, self._stream = c_void_p(), c_void_p()
        self._call("rscclStreamCreate", byref(self._stream))
        self._call("ncclCommInitRank", byref(self._comm), c_int(n_ranks), self._unique_id(rank, meet), c_int(rank))

    def all_reduce(self, values):
        """Sums an array of floats over all ranks, in place."""
        address, n = values.buffer_info()
        at = c_void_p(address)
        self._call("ncclAllReduce", at, at, c_size_t(n), FLOAT32, SUM, self._comm, self._stream)
        self._call("rscclStreamSynchronize", self._stream)

    def destroy(self):
        self._call("ncclCommDestroy", self._comm)

    def _unique_id(self, rank, meet):
        path = meet / "unique-id"
        unique_id = UniqueId()
        if rank == 0:
            self._call("ncclGetUniqueId", byref(unique_id))
            part = meet / "unique-id.part"
            part.write_bytes(bytes(unique_id))
            part.rename(path)
            return unique_id
        while not path.exists():
            time.sleep(0.02)
        return UniqueId.from_buffer_copy(path.read_bytes())

    def _call(self, name, *arguments):
        code = getattr(self._library, name)(*arguments)
        if code != 0:
            raise RuntimeError(f"{name} failed with {code}")


def main():
    rank, n_ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder with a file rank-R for each rank")
    parser.add_argument("--meet", type=Path, required=True, help="empty folder that all ranks see")
    arguments = parser.parse_args()
    world = Communicator(rank, n_ranks, arguments.meet)
    steps = 0
    for batch in Loader(arguments.data / f"rank-{rank}", BATCH_BYTES):
        gradients = array.array("f", [sum(batch) / len(batch)] * 1024)
        world.all_reduce(gradients)
        steps += 1
    world.destroy()
    print(f"rank {rank}: {steps} steps")


if __name__ == "__main__":
    main()

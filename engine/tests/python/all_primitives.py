"""Every primitive of librsccl.so from Python: all_primitives.py LIBRARY N_RANKS. Standard library only.

The first process makes the unique id and starts one process per rank; each rank checks its own results.
"""

import ctypes
import os
import subprocess
import sys
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_void_p

SUCCESS, INVALID_ARGUMENT, IN_PROGRESS = 0, 4, 7
SUM, MAX, AVG = 0, 2, 4
HOST_IMMEDIATE = 1
COUNT = 1009

# ncclDataType_t: its ctypes type. The floats of 16 and 8 bits have none; the C tests cover them.
TYPES = {
    0: ctypes.c_int8,
    1: ctypes.c_uint8,
    2: ctypes.c_int32,
    3: ctypes.c_uint32,
    4: ctypes.c_int64,
    5: ctypes.c_uint64,
    7: ctypes.c_float,
    8: ctypes.c_double,
}


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_ubyte * 128)]


class Config(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("magic", ctypes.c_uint),
        ("version", ctypes.c_uint),
        ("blocking", c_int),
        ("cga_cluster_size", c_int),
        ("min_ctas", c_int),
        ("max_ctas", c_int),
        ("net_name", c_char_p),
        ("split_share", c_int),
        ("traffic_class", c_int),
        ("comm_name", c_char_p),
        ("others", c_int * 6),
    ]

    def __init__(self, blocking):
        undefined = -(2**31)
        super().__init__(
            ctypes.sizeof(Config), 0xCAFEBEEF, 22809, blocking, undefined, undefined, undefined, None,
            undefined, undefined, b"python", (c_int * 6)(*[undefined] * 6),
        )


class Library:
    """The library with checked calls: `library.AllReduce(…)` is ncclAllReduce, and raises what it says."""

    BUFFERS = [c_void_p, c_void_p, c_size_t, c_int]
    SIGNATURES = {
        "GetUniqueId": [POINTER(UniqueId)],
        "CommInitRankConfig": [POINTER(c_void_p), c_int, UniqueId, c_int, POINTER(Config)],
        "CommGetAsyncError": [c_void_p, POINTER(c_int)],
        "CommSplit": [c_void_p, c_int, c_int, POINTER(c_void_p), POINTER(Config)],
        "CommShrink": [c_void_p, POINTER(c_int), c_int, POINTER(c_void_p), POINTER(Config), c_int],
        "CommCount": [c_void_p, POINTER(c_int)],
        "CommFinalize": [c_void_p],
        "CommDestroy": [c_void_p],
        "AllReduce": BUFFERS + [c_int, c_void_p, c_void_p],
        "ReduceScatter": BUFFERS + [c_int, c_void_p, c_void_p],
        "Reduce": BUFFERS + [c_int, c_int, c_void_p, c_void_p],
        "Broadcast": BUFFERS + [c_int, c_void_p, c_void_p],
        "Gather": BUFFERS + [c_int, c_void_p, c_void_p],
        "Scatter": BUFFERS + [c_int, c_void_p, c_void_p],
        "AllGather": BUFFERS + [c_void_p, c_void_p],
        "AlltoAll": BUFFERS + [c_void_p, c_void_p],
        "Bcast": [c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p],
        "Send": [c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p],
        "Recv": [c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p],
        "GroupStart": [],
        "GroupEnd": [],
        "RedOpCreatePreMulSum": [POINTER(c_int), c_void_p, c_int, c_int, c_void_p],
        "RedOpDestroy": [c_int, c_void_p],
        "MemAlloc": [POINTER(c_void_p), c_size_t],
        "MemFree": [c_void_p],
    }

    def __init__(self, path):
        self.path, self.loaded = path, ctypes.CDLL(path)
        self.loaded.ncclGetLastError.restype = c_char_p
        self.loaded.ncclGetLastError.argtypes = [c_void_p]
        self.loaded.rscclStreamSynchronize.argtypes = [c_void_p]

    def __getattr__(self, name):
        function = getattr(self.loaded, "nccl" + name)
        function.argtypes = self.SIGNATURES[name]

        def call(*arguments):
            code = function(*arguments)
            if code not in (SUCCESS, IN_PROGRESS):
                raise RuntimeError(f"nccl{name}: {code} {self.loaded.ncclGetLastError(None).decode()}")
            return code

        return call

    def wait(self):
        code = self.loaded.rscclStreamSynchronize(None)
        if code != SUCCESS:
            raise RuntimeError(f"stream: {code} {self.loaded.ncclGetLastError(None).decode()}")

    def settle(self, comm):
        state = c_int(IN_PROGRESS)
        while state.value == IN_PROGRESS:
            self.CommGetAsyncError(comm, byref(state))
            os.sched_yield()
        expect(state.value, SUCCESS, "the state of the communicator")


def expect(got, wanted, what):
    if got != wanted:
        raise AssertionError(f"{what}: {got} is not {wanted}")


class Rank:
    """One rank: each primitive, out of place and in place, for one type after the other."""

    def __init__(self, library, rank, n_ranks, comm):
        self.library, self.rank, self.n_ranks, self.comm = library, rank, n_ranks, comm

    def value(self, rank, index):
        return (rank + index) % 7

    def buffer(self, kind, count):
        return (kind * count)(*(self.value(self.rank, index) for index in range(count)))

    def at(self, buffer, index):
        return ctypes.addressof(buffer) + index * ctypes.sizeof(buffer._type_)

    def finish(self, got, wanted, what):
        self.library.wait()
        expect(len(got), len(wanted), f"{what}: elements")
        for index, (element, value) in enumerate(zip(got, wanted)):
            expect(element, got._type_(value).value, f"{what}: rank {self.rank}, element {index}")

    def every_primitive(self, number, kind):
        rank, n, comm, library = self.rank, self.n_ranks, self.comm, self.library
        value, block, ranks = self.value, range(COUNT), range(self.n_ranks)
        every = range(n * COUNT)
        root = number % n
        sums = lambda indices: [sum(value(r, i) for r in ranks) for i in indices]
        own = range(rank * COUNT, (rank + 1) * COUNT)
        for in_place in (False, True):
            new = lambda count, other: other if in_place else (kind * count)()

            send = self.buffer(kind, COUNT)
            recv = new(COUNT, send)
            library.AllReduce(send, recv, COUNT, number, SUM, comm, None)
            self.finish(recv, sums(block), "AllReduce")

            send = self.buffer(kind, COUNT)
            recv = new(COUNT, send)
            library.Reduce(send, recv, COUNT, number, MAX, root, comm, None)
            library.wait()
            if rank == root:
                self.finish(recv, [max(value(r, i) for r in ranks) for i in block], "Reduce")

            send = self.buffer(kind, COUNT)
            recv = new(COUNT, send)
            library.Broadcast(send, recv, COUNT, number, root, comm, None)
            self.finish(recv, [value(root, i) for i in block], "Broadcast")
            library.Bcast(recv, COUNT, number, n - 1 - root, comm, None)
            self.finish(recv, [value(root, i) for i in block], "Bcast")

            for gather, target in (("AllGather", rank), ("Gather", root)):
                send, recv = self.buffer(kind, COUNT), (kind * (n * COUNT))()
                if in_place and target == rank:
                    ctypes.memmove(self.at(recv, rank * COUNT), send, ctypes.sizeof(send))
                    send = self.at(recv, rank * COUNT)
                roots = [root] if gather == "Gather" else []
                getattr(library, gather)(send, recv, COUNT, number, *roots, comm, None)
                library.wait()
                if target == rank:
                    self.finish(recv, [value(i // COUNT, i % COUNT) for i in every], gather)

            for scatter, source in (("ReduceScatter", rank), ("Scatter", root)):
                send, recv = self.buffer(kind, n * COUNT), (kind * COUNT)()
                place = self.at(send, rank * COUNT) if in_place and source == rank else ctypes.addressof(recv)
                rest = [SUM] if scatter == "ReduceScatter" else [root]
                getattr(library, scatter)(send, place, COUNT, number, *rest, comm, None)
                wanted = sums(own) if scatter == "ReduceScatter" else [value(root, i) for i in own]
                library.wait()
                self.finish((kind * COUNT).from_address(place), wanted, scatter)

            send = self.buffer(kind, n * COUNT)
            recv = new(n * COUNT, send)
            library.AlltoAll(send, recv, COUNT, number, comm, None)
            self.finish(recv, [value(i // COUNT, rank * COUNT + i % COUNT) for i in every], "AlltoAll")

        send, recv = self.buffer(kind, COUNT), (kind * COUNT)()
        library.GroupStart()
        library.Send(send, COUNT, number, (rank + 1) % n, comm, None)
        library.Recv(recv, COUNT, number, (rank - 1) % n, comm, None)
        library.GroupEnd()
        self.finish(recv, [value((rank - 1) % n, i) for i in block], "Send and Recv")

        op, scalar = c_int(), kind(rank + 1)
        library.RedOpCreatePreMulSum(byref(op), byref(scalar), number, HOST_IMMEDIATE, comm)
        send = (kind * COUNT)(*(1 for _ in block))
        library.AllReduce(send, send, COUNT, number, op, comm, None)
        self.finish(send, [n * (n + 1) // 2] * COUNT, "PreMulSum")
        library.RedOpDestroy(op, comm)

    def children(self):
        child, count = c_void_p(), c_int()
        self.library.CommSplit(self.comm, self.rank % 2, self.rank, byref(child), None)
        self.library.settle(child)
        self.library.CommCount(child, byref(count))
        expect(count.value, (self.n_ranks + 1 - self.rank % 2) // 2, "ranks of a half")
        self.library.CommDestroy(child)
        self.library.settle(self.comm)
        leaves = c_int(0)
        if self.rank and self.n_ranks > 1:
            self.library.CommShrink(self.comm, byref(leaves), 1, byref(child), None, 0)
            self.library.settle(child)
            self.library.CommCount(child, byref(count))
            expect(count.value, self.n_ranks - 1, "ranks of the shrunk communicator")
            self.library.CommDestroy(child)

    def memory(self):
        address, count = c_void_p(), 100000
        self.library.MemAlloc(byref(address), 4 * count)
        values = (ctypes.c_float * count).from_address(address.value)
        values[:] = [self.rank + 1] * count
        self.library.AllReduce(address, address, count, 7, AVG, self.comm, None)
        self.finish(values, [(self.n_ranks + 1) / 2] * count, "AllReduce of ncclMemAlloc's memory")
        self.library.MemFree(address)


def run_rank(library, rank, n_ranks, unique_id):
    comm = c_void_p()
    unique = UniqueId.from_buffer_copy(bytes.fromhex(unique_id))
    library.CommInitRankConfig(byref(comm), n_ranks, unique, rank, byref(Config(blocking=rank % 2)))
    library.settle(comm)
    own = Rank(library, rank, n_ranks, comm)
    for number, kind in TYPES.items():
        own.every_primitive(number, kind)
    own.memory()
    own.children()
    library.CommFinalize(comm)
    library.settle(comm)
    library.CommDestroy(comm)


def main():
    library, n_ranks = Library(sys.argv[1]), int(sys.argv[2])
    if len(sys.argv) > 3:
        run_rank(library, int(sys.argv[3]), n_ranks, sys.argv[4])
        return 0
    unique = UniqueId()
    library.GetUniqueId(byref(unique))
    command = [sys.executable, __file__, library.path, str(n_ranks)]
    ranks = [subprocess.Popen(command + [str(rank), bytes(unique.internal).hex()]) for rank in range(n_ranks)]
    return max(rank.wait() for rank in ranks)


if __name__ == "__main__":
    sys.exit(main())

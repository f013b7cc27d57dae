"""A training script that reaches NCCL as vLLM's pynccl does: ctypes, libnccl.so.2 by its name."""

import ctypes
import sys

rank, pipe = int(sys.argv[1]), sys.argv[2] + "0"
nccl = ctypes.CDLL("libnccl.so.2")


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


def check(code):
    if code != 0:
        sys.exit(f"NCCL says {code}")


unique_id = UniqueId()
if rank == 0:
    check(nccl.ncclGetUniqueId(ctypes.byref(unique_id)))
    with open(pipe, "wb", buffering=0) as end:
        end.write(bytes(unique_id))
else:
    with open(pipe, "rb", buffering=0) as end:
        unique_id = UniqueId.from_buffer_copy(end.read(128))
comm = ctypes.c_void_p()
check(nccl.ncclCommInitRank(ctypes.byref(comm), 2, unique_id, rank))
values = (ctypes.c_float * 256)(*[rank + 1.0] * 256)
check(nccl.ncclAllReduce(values, values, ctypes.c_size_t(256), 7, 0, comm, None))
check(nccl.rscclStreamSynchronize(None))
assert values[0] == values[255] == 3
print("TRAINED", flush=True)
sys.stdin.read(1)
check(nccl.ncclCommDestroy(comm))

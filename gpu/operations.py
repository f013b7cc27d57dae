"""The collectives: what a rank puts in, what must come out, and what the call counts as.

Element i of rank r's input is (r + 1) * (1 + i % 8): every sum is a small whole number and exact in float32.
"""

from array import array

from nccl import FLOAT32, ITEM_BYTES, SUM

PERIOD = 8
BROADCAST_ROOT, REDUCE_ROOT = 1, 0


def pattern(factor, count):
    """Bytes of `count` elements (a multiple of PERIOD)."""
    return array("f", [factor * (1 + index) for index in range(PERIOD)]).tobytes() * (count // PERIOD)


def expected(primitive, rank, n_ranks, count):
    """Input and output bytes of one call; the output is None where NCCL leaves it open."""
    total = n_ranks * (n_ranks + 1) // 2
    own = pattern(rank + 1, count)
    if primitive == "all_reduce":
        return own, pattern(total, count)
    if primitive == "all_gather":
        return own, b"".join(pattern(other + 1, count) for other in range(n_ranks))
    if primitive == "reduce_scatter":
        return pattern(rank + 1, count * n_ranks), pattern(total, count)
    if primitive == "broadcast":
        return own, pattern(BROADCAST_ROOT % n_ranks + 1, count)
    if primitive == "reduce":
        return own, pattern(total, count) if rank == REDUCE_ROOT else None
    if primitive == "send_recv":
        return own, pattern((rank - 1) % n_ranks + 1, count)
    raise ValueError("no such primitive: " + primitive)


def counts_as(primitive, count):
    """What ringscope and RAS should count: (primitive, calls, payload bytes by NCCL's convention)."""
    names = ["send", "recv"] if primitive == "send_recv" else [primitive]
    return [(name, 1, count * ITEM_BYTES) for name in names]


def call(rank, primitive, send, recv, count):
    """Hands one call to NCCL. `rank` is the worker: its library, communicator and stream."""
    nccl, comm, stream = rank.nccl, rank.comm, rank.stream
    tail = (comm, stream)
    if primitive == "all_reduce":
        nccl.call("ncclAllReduce", send, recv, count, FLOAT32, SUM, *tail)
    elif primitive == "all_gather":
        nccl.call("ncclAllGather", send, recv, count, FLOAT32, *tail)
    elif primitive == "reduce_scatter":
        nccl.call("ncclReduceScatter", send, recv, count, FLOAT32, SUM, *tail)
    elif primitive == "broadcast":
        nccl.call("ncclBroadcast", send, recv, count, FLOAT32, BROADCAST_ROOT % rank.n_ranks, *tail)
    elif primitive == "reduce":
        nccl.call("ncclReduce", send, recv, count, FLOAT32, SUM, REDUCE_ROOT, *tail)
    else:
        nccl.call("ncclGroupStart")
        nccl.call("ncclSend", send, count, FLOAT32, (rank.rank + 1) % rank.n_ranks, *tail)
        nccl.call("ncclRecv", recv, count, FLOAT32, (rank.rank - 1) % rank.n_ranks, *tail)
        nccl.call("ncclGroupEnd")

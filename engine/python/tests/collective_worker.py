"""What the ranks of the collectives' tests do; each checks its own results."""

import numpy
from _job import LIMIT_S
from numpy.testing import assert_array_equal

from ringscope_engine import Error, collective

COUNT = 1009


def value(rank: int, shape=(COUNT,), dtype=numpy.float32) -> numpy.ndarray:
    return ((numpy.arange(numpy.prod(shape)).reshape(shape) + rank) % 7).astype(dtype)


def every_operation() -> None:
    with collective.init(timeout_s=LIMIT_S) as comm:
        own, ranks = value(comm.rank), range(comm.size)
        total = sum(value(rank) for rank in ranks)
        assert_array_equal(comm.all_reduce(own), total)
        assert_array_equal(comm.all_reduce(own, op="max"), numpy.max([value(rank) for rank in ranks], axis=0))
        place = own.copy()
        assert comm.all_reduce(place, place) is place
        assert_array_equal(place, total)
        at_root = comm.reduce(own, 1)
        if comm.rank == 1:
            assert_array_equal(at_root, total)
        gathered = comm.all_gather(value(comm.rank, (3, 5)))
        assert_array_equal(gathered, numpy.stack([value(rank, (3, 5)) for rank in ranks]))
        whole = (comm.size * 3, 5)
        part = slice(comm.rank * 3, comm.rank * 3 + 3)
        assert_array_equal(
            comm.reduce_scatter(value(comm.rank, whole)), sum(value(rank, whole) for rank in ranks)[part]
        )
        assert_array_equal(
            comm.all_to_all(value(comm.rank, whole)), numpy.concatenate([value(rank, whole)[part] for rank in ranks])
        )
        flags = value(comm.rank) > 2
        assert_array_equal(comm.broadcast(flags, 1), value(1) > 2)
        left, right = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
        got = numpy.zeros_like(own)
        with comm.group():
            comm.send(own, right)
            comm.recv(got, left)
        assert_array_equal(got, value(left))
        comm.barrier()
        halves(comm)
        refusals(comm)


def halves(comm: collective.Communicator) -> None:
    with comm.split(comm.rank % 2) as half:
        members = range(comm.rank % 2, comm.size, 2)
        assert half.size == len(members) and half.rank == comm.rank // 2
        assert_array_equal(half.all_reduce(value(comm.rank)), sum(value(rank) for rank in members))
    assert (comm.split(None if comm.rank else 0) is None) == (comm.rank > 0)


def refusals(comm: collective.Communicator) -> None:
    own = value(comm.rank, (4, 4))
    refused("is not contiguous", lambda: comm.all_reduce(own[:, 1:]))
    refused("no operation 'mean'", lambda: comm.all_reduce(own, op="mean"))
    refused("type bool cannot be sent", lambda: comm.all_reduce(own > 2))
    refused("another size", lambda: comm.all_gather(own, own.copy()))
    refused("cannot be split", lambda: comm.reduce_scatter(value(0, (4 * comm.size + 1,))))
    refused("does not fit|do not fit", lambda: comm.all_reduce(own, own.astype(numpy.float64)))
    refused("a numpy array or a torch tensor is needed, not list", lambda: comm.all_reduce([1.0]))


def refused(words: str, call) -> None:
    try:
        call()
    except Error as error:
        assert any(word in str(error) for word in words.split("|")), error
    else:
        raise AssertionError(f"not refused: {words}")


def tensors() -> None:
    import torch

    with collective.init(timeout_s=LIMIT_S) as comm:
        for dtype in (torch.float32, torch.bfloat16, torch.int64):
            own = torch.full((3, 5), comm.rank + 1, dtype=dtype)
            total = comm.size * (comm.size + 1) // 2
            assert comm.all_reduce(own).equal(torch.full((3, 5), total, dtype=dtype))
            assert comm.all_gather(own).shape == (comm.size, 3, 5)
            assert comm.broadcast(own, 1).equal(torch.full((3, 5), 2, dtype=dtype))


def lost() -> None:
    import os

    from ringscope_engine import LostProcess

    comm = collective.init(timeout_s=LIMIT_S)
    try:
        # Whoever is slow may still be in the barrier when the news comes.
        comm.barrier()
        if comm.rank == 1:
            os.kill(os.getpid(), 9)
        comm.all_reduce(value(comm.rank, (1 << 20,)))
    except LostProcess as error:
        comm.abort()
        print(error)

"""What the ranks of the collectives' tests do; each checks its own results."""

import threading
import time

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
        groups_of_two_communicators(comm)
        halves(comm)
        refusals(comm)
        other_threads(comm)


def groups_of_two_communicators(comm: collective.Communicator) -> None:
    """A group is of the thread, whichever communicator it was begun on."""
    own, large = value(comm.rank), (1 << 20,)
    other = comm.split(0)
    with comm.group():
        here, there = comm.all_reduce(own), other.all_reduce(value(comm.rank, large))
        refused("in a group already", lambda: other.group().__enter__())
    assert_array_equal(here, sum(value(rank) for rank in range(comm.size)))
    assert_array_equal(there, sum(value(rank, large) for rank in range(comm.size)))
    with other.group():
        there = comm.all_reduce(value(comm.rank, large))
    assert_array_equal(there, sum(value(rank, large) for rank in range(comm.size)))
    # An exception leaves at once, and comes out as it is.
    begun = time.monotonic()
    try:
        with other.group():
            other.recv(own, (comm.rank + 1) % comm.size)
            raise KeyError("the program's own")
    except KeyError as error:
        assert error.__context__ is None, error.__context__
    assert time.monotonic() - begun < 10
    refused("was destroyed", lambda: other.all_reduce(own))


def other_threads(comm: collective.Communicator) -> None:
    """A call of another thread is not in this one's group."""
    got = []
    with comm.split(0) as other:
        with comm.group():
            comm.broadcast(value(comm.rank), 0)
            thread = threading.Thread(target=lambda: got.append(other.all_reduce(value(comm.rank)).copy()))
            thread.start()
            thread.join()
            assert_array_equal(got[0], sum(value(rank) for rank in range(comm.size)))


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

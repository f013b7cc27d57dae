"""What the ranks of the tests of the backend "rsccl" do; each checks its own results."""

import os
import runpy
import signal
import sys
import tempfile
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist

import ringscope_engine.c10d  # PyTorch before 2.5 finds backends only where they were imported

REAL = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)
# The time-out of groups whose calls are meant not to end.
SHORT = timedelta(seconds=2)


def value(rank: int, shape=(7, 5), dtype=torch.float32) -> torch.Tensor:
    """Small whole numbers, the same on all ranks for one rank's number: sums are exact in each type."""
    n = int(torch.tensor(shape).prod())
    return ((torch.arange(n).reshape(shape) * 3 + rank) % 5).to(dtype)


def begin(timeout=timedelta(seconds=120)):
    dist.init_process_group("rsccl", timeout=timeout)
    return dist.get_rank(), dist.get_world_size()


def same(one: torch.Tensor, other: torch.Tensor) -> None:
    assert one.dtype == other.dtype and torch.equal(one, other), f"{one} is not {other}"


def reductions() -> None:
    rank, size = begin()
    everyone = range(size)
    for dtype in REAL:
        contributions = torch.stack([value(other, dtype=dtype) for other in everyone])
        for op, expected in (
            (dist.ReduceOp.SUM, contributions.sum(0, dtype=dtype)),
            (dist.ReduceOp.MAX, contributions.amax(0)),
            (dist.ReduceOp.MIN, contributions.amin(0)),
        ):
            tensor = value(rank, dtype=dtype)
            dist.all_reduce(tensor, op)
            same(tensor, expected)
            tensor = value(rank, dtype=dtype)
            dist.reduce(tensor, size - 1, op)
            same(tensor, expected if rank == size - 1 else value(rank, dtype=dtype))
            part = torch.empty(5, dtype=dtype)
            rows = [value(rank, (5,), dtype) + other for other in everyone]
            dist.reduce_scatter(part, rows, op)
            same(part, _reduced([value(other, (5,), dtype) + rank for other in everyone], op))
    bits = torch.tensor([1 << rank, 3, 0])
    for op, expected in (
        (dist.ReduceOp.BAND, [0 if size > 1 else 1, 3, 0]),
        (dist.ReduceOp.BOR, [(1 << size) - 1, 3, 0]),
        (dist.ReduceOp.BXOR, [(1 << size) - 1, 3 if size % 2 else 0, 0]),
    ):
        tensor = bits.clone()
        dist.all_reduce(tensor, op)
        same(tensor, torch.tensor(expected))
    pair = [bits.clone(), torch.tensor([rank])]
    dist.all_reduce_coalesced(pair, dist.ReduceOp.BOR)
    same(pair[0], torch.tensor([(1 << size) - 1, 3, 0]))
    same(pair[1], torch.tensor([0 if size == 1 else 1 if size == 2 else 3]))
    part = torch.empty(2, dtype=torch.int64)
    dist.reduce_scatter(part, [torch.tensor([1 << rank, other]) for other in everyone], dist.ReduceOp.BOR)
    same(part, torch.tensor([(1 << size) - 1, rank]))
    at_root = torch.tensor([1 << rank])
    dist.reduce(at_root, 0, dist.ReduceOp.BOR)
    same(at_root, torch.tensor([(1 << size) - 1 if rank == 0 else 1 << rank]))
    flags = torch.tensor([rank == 0, False, True])
    dist.all_reduce(flags)
    same(flags, torch.tensor([True, False, True]))
    mean = value(rank)
    dist.all_reduce(mean, dist.ReduceOp.AVG)
    same(mean, sum(value(other) for other in everyone) / size)
    whole = torch.view_as_complex(torch.stack([value(rank), value(rank + 1)], -1))
    dist.all_reduce(whole)
    same(whole, sum(torch.view_as_complex(torch.stack([value(other), value(other + 1)], -1)) for other in everyone))


def complex_numbers() -> None:
    """Each form of a sum, and a mean, of each complex type, conjugates too; no maximum."""
    rank, size = begin()
    everyone, root = range(size), size - 1
    for dtype in (torch.complex64, torch.complex128):
        for laid in (lambda tensor: tensor, lambda tensor: tensor.t().contiguous().t(), torch.conj):

            def of(other):
                return laid(torch.complex(value(other), value(other + 1)).to(dtype))

            total = sum(of(other) for other in everyone)
            tensor = of(rank)
            dist.reduce(tensor, root)
            alike(tensor, total if rank == root else of(rank), "reduce")
            part = laid(torch.zeros(7, 5, dtype=dtype))
            dist.reduce_scatter(part, [of(rank + other) for other in everyone])
            alike(part, sum(of(rank + other) for other in everyone), "reduce_scatter")
            if laid is not torch.conj:
                # Which PyTorch itself refuses.
                dist.all_reduce(tensor := of(rank), dist.ReduceOp.AVG)
                alike(tensor, torch.view_as_complex(torch.view_as_real(total) / size), "all_reduce")
        if hasattr(dist, "reduce_scatter_tensor"):
            row = torch.zeros(5, dtype=dtype)
            whole = torch.stack([torch.complex(value(rank, (5,)), value(other, (5,))).to(dtype) for other in everyone])
            dist.reduce_scatter_tensor(row, whole)
            real, imaginary = sum(value(other, (5,)) for other in everyone), size * value(rank, (5,))
            alike(row, torch.complex(real, imaginary).to(dtype), "reduce_scatter_tensor")
        try:
            dist.reduce(torch.zeros(2, dtype=dtype), 0, dist.ReduceOp.MAX)
        except RuntimeError as error:
            assert "summed and averaged" in str(error), error
        else:
            raise AssertionError("complex numbers have no maximum")


def _reduced(rows, op):
    whole = torch.stack(rows)
    return {dist.ReduceOp.SUM: lambda: whole.sum(0, dtype=whole.dtype), dist.ReduceOp.MAX: lambda: whole.amax(0)}.get(
        op, lambda: whole.amin(0)
    )()


def moves() -> None:
    """Each kind of collective that only moves, of types of all widths, of tensors whose memory is not in one piece too."""
    rank, size = begin()
    everyone = range(size)
    for dtype in (*REAL, torch.bool, torch.complex64):
        tensor = value(rank, dtype=dtype)
        dist.broadcast(tensor, size - 1)
        same(tensor, value(size - 1, dtype=dtype))
        gathered = [torch.empty((7, 5), dtype=dtype) for _ in everyone]
        dist.all_gather(gathered, value(rank, dtype=dtype))
        for other in everyone:
            same(gathered[other], value(other, dtype=dtype))
    lengths = [torch.empty(other + 1) for other in everyone]
    dist.all_gather(lengths, torch.full((rank + 1,), float(rank)))
    assert [one.tolist() for one in lengths] == [[float(other)] * (other + 1) for other in everyone]
    turned = torch.zeros(5, 7).t()
    assert not turned.is_contiguous()
    dist.all_reduce(turned.copy_(value(rank)))
    same(turned.contiguous(), sum(value(other) for other in everyone))
    root = size // 2
    gathered = [torch.empty(7, 5) for _ in everyone] if rank == root else None
    dist.gather(value(rank), gathered, root)
    if rank == root:
        for other in everyone:
            same(gathered[other], value(other))
    own = torch.empty(7, 5)
    dist.scatter(own, [value(other) for other in everyone] if rank == root else None, root)
    same(own, value(rank))
    received = [torch.empty(7, 5) for _ in everyone]
    dist.all_to_all(received, [value(10 * rank + other) for other in everyone])
    for other in everyone:
        same(received[other], value(10 * other + rank))
    sent = torch.cat([torch.full((other + 1, 2), float(rank)) for other in everyone])
    rows = torch.empty(size * (rank + 1), 2)
    dist.all_to_all_single(rows, sent, [rank + 1] * size, [other + 1 for other in everyone])
    same(rows, torch.arange(size).float().repeat_interleave(rank + 1).reshape(-1, 1).expand(-1, 2).contiguous())
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank, "long": "x" * 1000 * rank})
    assert [one["rank"] for one in objects] == list(everyone)
    sparse = torch.sparse_coo_tensor([[rank, size]], [1.0, 2.0], (size + 1,))
    dist.all_reduce(sparse)
    same(sparse.to_dense(), torch.tensor([1.0] * size + [2.0 * size]))
    nothing = torch.empty(0)
    dist.all_reduce(nothing)
    dist.barrier()


LAYOUTS = {
    "in one piece": lambda tensor: tensor,
    "turned": lambda tensor: tensor.t().contiguous().t(),
    "every second": lambda tensor: torch.stack([tensor, tensor], -1)[..., 1],
    "channels last": lambda tensor: tensor.reshape(1, 1, 7, 5).expand(1, 2, 7, 5).contiguous(memory_format=torch.channels_last),
}
# Views whose values are not those of their memory.
NEGATIVE = {
    "negative": lambda tensor: torch._neg_view(-tensor),
    "imaginary part": lambda tensor: torch.complex(torch.zeros_like(tensor), -tensor).conj().imag,
}


def layouts() -> None:
    """All types in all layouts, read and written: results are those of tensors in one piece."""
    rank, size = begin()
    everyone, root = range(size), size - 1
    for dtype in (*REAL, torch.bool):
        for name, laid in LAYOUTS.items():
            rows = [laid(value(other, dtype=dtype)) for other in everyone]
            total = torch.stack(rows).to(torch.float64).sum(0).to(dtype)
            for result in (dist.all_reduce, lambda tensor: dist.reduce(tensor, root)):
                tensor = laid(value(rank, dtype=dtype))
                result(tensor)
                is_there = result is dist.all_reduce or rank == root
                alike(tensor, total if is_there else rows[rank], (dtype, name))
            tensor = laid(value(rank, dtype=dtype))
            dist.broadcast(tensor, root)
            alike(tensor, rows[root], (dtype, name))
            part = laid(torch.zeros(7, 5, dtype=dtype))
            dist.reduce_scatter(part, [laid(value(rank + other, dtype=dtype)) for other in everyone])
            alike(part, sum(laid(value(rank + other, dtype=dtype)).double() for other in everyone).to(dtype), (dtype, name))


def bits() -> None:
    """Tensors with torch's negative or conjugate bit: their values travel, and results are their values."""
    rank, size = begin()
    everyone, after, before = range(size), (rank + 1) % size, (rank - 1) % size
    for name, of in NEGATIVE.items():
        rows = [of(value(other)) for other in everyone]
        assert rows[0].is_neg(), name
        tensor = of(value(rank))
        dist.all_reduce(tensor)
        alike(tensor, sum(rows), name)
        part = of(torch.zeros(7, 5))
        dist.reduce_scatter(part, [of(value(rank + other)) for other in everyone])
        alike(part, sum(of(value(rank + other)) for other in everyone), name)
        tensor = of(value(rank))
        dist.broadcast(tensor, size - 1)
        alike(tensor, rows[-1], name)
        # Chunks of one tensor, too, which may go without a copy.
        for gathered in ([torch.zeros(7, 5) for _ in everyone], list(of(torch.zeros(7 * size, 5)).chunk(size))):
            dist.all_gather(gathered, of(value(rank)))
            for one, row in zip(gathered, rows):
                alike(one, row, name)
        if size > 1:
            received = of(torch.zeros(7, 5))
            sent = dist.isend(of(value(rank)), after)
            dist.recv(received, before)
            sent.wait()
            alike(received, rows[before], name)
    # PyTorch's own functions refuse complex tensors with the bit, and a group's do not.
    store = dist.PrefixStore("bits", dist.distributed_c10d._get_default_store())
    group = ringscope_engine.c10d.ProcessGroup(store, rank, size, timedelta(seconds=60))
    rows = [torch.complex(value(other), value(other + 1)).conj() for other in everyone]
    gathered = [torch.zeros(7, 5, dtype=torch.complex64).conj() for _ in everyone]
    group.allgather([gathered], [rows[rank]]).wait()
    for one, row in zip(gathered, rows):
        alike(one, row, "conjugate")
    group.shutdown()


COPIED = {
    "in one piece": lambda rank: torch.full((4,), float(rank + 1)),
    "every second": lambda rank: torch.full((4, 2), float(rank + 1))[:, 0],
    "wider": lambda rank: torch.full((4,), rank + 1, dtype=torch.int16),
    "both": lambda rank: torch.full((4, 2), rank + 1, dtype=torch.int16)[:, 0],
    "truths": lambda rank: torch.full((4,), rank == 0),
    "negative": lambda rank: torch._neg_view(torch.full((4,), float(-rank - 1))),
}


def orders() -> None:
    """Calls on one tensor that are under way together give what they give one after another, whoever is waited for first."""
    rank, size = begin()

    def reduced(tensor, is_async):
        return dist.all_reduce(tensor, async_op=is_async)

    def sent(tensor, is_async):
        return dist.broadcast(tensor, 0, async_op=is_async)

    def bits_of_all(tensor, is_async):
        return dist.all_reduce(tensor, dist.ReduceOp.BXOR, async_op=is_async)

    def gathered(tensor, is_async):
        return dist.all_gather([tensor, *(torch.zeros_like(tensor) for _ in range(size - 1))], tensor, async_op=is_async)

    def ended(works, order):
        for index in order:
            works[index].wait()

    for name, new in COPIED.items():
        calls = [reduced, sent, reduced, gathered, reduced]
        if not new(rank).is_floating_point():
            calls[1:1] = [bits_of_all]
        expected = new(rank)
        for call in calls:
            call(expected, False)
        for order in (range(len(calls)), reversed(range(len(calls))), (len(calls) - 1,), (2, 0, len(calls) - 1)):
            tensor = new(rank)
            ended([call(tensor, True) for call in calls], order)
            alike(tensor, expected, name)
    # The whole and a part of it: one is copied, and the other is not.
    for steps in ((0, 1), (1, 0), (0, 1, 0, 1), (1, 0, 0, 1)):
        wholes = [torch.full((4, 2), float(rank + 1)) for _ in range(2)]
        for step in steps:
            reduced((wholes[0], wholes[0][:, 0])[step], False)
        works = [reduced((wholes[1], wholes[1][:, 0])[step], True) for step in steps]
        ended(works, reversed(range(len(steps))))
        alike(wholes[1], wholes[0], steps)
    # Nobody waits for the first: it is over when a later one is, and its result is where it belongs.
    tensor = COPIED["every second"](rank)
    reduced(tensor, True)
    dist.barrier()
    alike(tensor, torch.full((4,), float(sum(range(1, size + 1)))), "barrier")


def overlaps() -> None:
    """What is received lies in what is sent: as if the two were apart."""
    rank, size = begin()
    everyone, n = range(size), 1 << 18

    def whole_of(other):
        return torch.arange(size * n, dtype=torch.float32) + 1000 * other

    def chunks():
        return list(whole_of(rank).chunk(size))

    for place in everyone:
        for root in everyone:
            own = chunks()
            dist.scatter(own[place], own if rank == root else None, root)
            alike(own[place], whole_of(root).chunk(size)[rank], "scatter")
            own = chunks()
            dist.gather(own[place], own if rank == root else None, root)
            if rank == root:
                alike(torch.cat(own), torch.cat([whole_of(other).chunk(size)[place] for other in everyone]), "gather")
        own = chunks()
        dist.all_gather(own, own[place])
        alike(torch.cat(own), torch.cat([whole_of(other).chunk(size)[place] for other in everyone]), "all_gather")
    sent = [whole_of(other).chunk(size)[rank] for other in everyone]
    whole = whole_of(rank)
    dist.all_to_all_single(whole, whole)
    alike(whole, torch.cat(sent), "all_to_all_single")
    whole = whole_of(rank)
    dist.all_to_all_single(whole, whole, [n] * size, [n] * size)
    alike(whole, torch.cat(sent), "all_to_all_single of sizes")
    own = chunks()
    dist.all_to_all(own[1:] + own[:1], own)
    alike(torch.cat(own[1:] + own[:1]), torch.cat(sent), "all_to_all")


def alike(one: torch.Tensor, other: torch.Tensor, what) -> None:
    one, other = (tensor.resolve_conj().resolve_neg().contiguous() for tensor in (one, other))
    assert torch.equal(one, other), f"{what}: {one} is not {other}"


def messages() -> None:
    """Both directions at once, longer than any buffer, between all ranks, without waiting for each other."""
    rank, size = begin()
    n = 3 << 20
    works, received = [], {}
    for other in range(size):
        if other != rank:
            received[other] = torch.empty(n)
            works.append(dist.isend(torch.full((n,), float(10 * rank + other)), other))
            works.append(dist.irecv(received[other], other))
    for work in works:
        work.wait()
    for other, tensor in received.items():
        same(tensor, torch.full((n,), float(10 * other + rank)))
    # Each rank begins with another peer.
    order = [(rank + step) % size for step in range(1, size)]
    sends = [dist.isend(torch.tensor([rank]), other) for other in order]
    for other in reversed(order):
        one = torch.empty(1, dtype=torch.int64)
        dist.recv(one, other)
        assert one.item() == other
    for work in sends:
        work.wait()
        assert work.is_completed()


def groups() -> None:
    """Halves that work at the same time, each in its own order; futures; a group that nobody uses."""
    rank, size = begin()
    halves = [dist.new_group(list(range(half, size, 2))) for half in range(2)]
    dist.new_group([0])
    mine = halves[rank % 2]
    works = [dist.all_reduce(torch.ones(1000), group=mine, async_op=True) for _ in range(rank % 2 + 1)]
    total = torch.ones(4)
    future = dist.all_reduce(total, group=mine, async_op=True).get_future()
    same(future.wait()[0], torch.full((4,), float(dist.get_world_size(mine))))
    for work in works:
        work.wait()
        assert work.is_success()
    dist.all_reduce(total)
    same(total, torch.full((4,), float(sum(len(range(half, size, 2)) ** 2 for half in range(2)))))
    dist.destroy_process_group(mine)
    # Once more in the same process, at another place: PyTorch's own store may still listen at the first.
    place = [tempfile.mktemp() if rank == 0 else None]
    dist.broadcast_object_list(place, 0)
    dist.destroy_process_group()
    dist.init_process_group("rsccl", f"file://{place[0]}", rank=rank, world_size=size)
    dist.all_reduce(total)
    dist.barrier()


def futures() -> None:
    """What is done when a future is fulfilled waits for another one of the same group, as powerSGD_hook does."""
    rank, size = begin()

    def again(future):
        total = future.value()[0]
        return dist.all_reduce(total, async_op=True).get_future().wait()[0]

    total = dist.all_reduce(torch.ones(4), async_op=True).get_future().then(again).wait()
    same(total, torch.full((4,), float(size * size)))
    # Who waits beside the future finds the result where it belongs.
    for _ in range(50):
        turned = torch.ones(64, 48).t()
        work = dist.all_reduce(turned, async_op=True)
        work.get_future()
        work.wait()
        assert bool((turned == size).all())
    dist.barrier()


def other_members() -> None:
    """A group of a name that another one had in the same store: one of its ranks has been in that, and the other has not."""
    rank, _ = begin()
    store = dist.PrefixStore("1", dist.distributed_c10d._get_default_store())
    for members in ([0, 1], [1, 2], [0, 1, 2], [0, 1]):
        if rank in members:
            place, size = members.index(rank), len(members)
            group = ringscope_engine.c10d.ProcessGroup(store, place, size, timedelta(seconds=60), "1", members)
            total = torch.ones(2)
            group.allreduce([total]).wait()
            same(total, torch.full((2,), float(size)))
            group.shutdown()
        dist.barrier()


def refusals() -> None:
    rank, size = begin()
    for call, words in (
        (lambda: dist.all_reduce(torch.ones(2), dist.ReduceOp.BAND), "BAND"),
        (lambda: dist.all_gather([torch.ones(2)], torch.ones(2)), f"expected {size}"),
        (lambda: dist.reduce_scatter(torch.ones(2), [torch.ones(3)] * size), "same number of elements"),
        (lambda: dist.recv(torch.ones(2)), "needs a source"),
        (lambda: dist.all_reduce(torch.tensor([True]), dist.ReduceOp.AVG), "average floats"),
        (lambda: dist.all_reduce_coalesced([torch.eye(2), torch.eye(2).to_sparse()]), "tensor 1 is torch.sparse_coo"),
        (lambda: dist.all_reduce_coalesced([torch.eye(2).to_sparse(), torch.eye(2)]), "tensor 0 is torch.sparse_coo"),
        (lambda: dist.all_reduce(torch.eye(2).to_sparse_csr()), "unsupported layout torch.sparse_csr"),
        (lambda: dist.all_reduce(torch.eye(2 + rank).to_sparse()), "sparse tensors differ: "),
        (lambda: dist.all_reduce(torch.ones(2, 2).to_sparse(1 + rank)), f"sparse in {2 - rank} on rank {1 - rank}"),
    ):
        try:
            call()
        except (RuntimeError, ValueError, NotImplementedError) as error:
            assert words in str(error), error
        else:
            raise AssertionError(f"no error with {words!r}")
    # What was refused has harmed nothing.
    dist.barrier()


def unlike_calls() -> None:
    """Ranks that call different things hear what each of them called, of which group."""
    rank, size = begin()
    store = dist.distributed_c10d._get_default_store()
    for unlike, words in (
        (
            lambda group: dist.broadcast(torch.ones(4), 0, group) if rank else dist.all_reduce(torch.ones(4), group=group),
            ("all_reduce of float32 (4,) by SUM", "broadcast of float32 (4,) with root 0"),
        ),
        (
            lambda group: dist.barrier(group) if rank else dist.all_reduce(torch.ones(2, 3), group=group),
            ("all_reduce of float32 (2, 3) by SUM", "barrier"),
        ),
        (
            lambda group: dist.all_reduce(torch.ones(2 + rank), dist.ReduceOp.MAX, group),
            ("all_reduce of float32 (2,) by MAX", "all_reduce of float32 (3,) by MAX"),
        ),
    ):
        group = dist.new_group()
        dist.all_reduce(torch.ones(1), group=group)
        try:
            unlike(group)
        except RuntimeError as error:
            text = str(error)
            assert text.startswith(f"{words[rank]}, call 2 of "), text
            for other, called in enumerate(words):
                assert f"rank {other}: {called}, call 2" in text, text
        else:
            raise AssertionError("not refused")
    print("refused", flush=True)
    # Rank 0 has the store, and leaves last.
    store.add("over", 1)
    while rank == 0 and store.add("over", 0) < size:
        pass


def told_again() -> None:
    """A failure may be asked for as often as one likes: nothing grows, no thread is left."""
    begin()
    work = dist.all_reduce(torch.ones(2), async_op=True)
    work.wait()
    n_threads = threading.active_count()
    group = dist.distributed_c10d._get_default_group()
    group = group._get_backend(torch.device("cpu")) if hasattr(group, "_get_backend") else group
    group.abort()
    depths = set()
    for _ in range(5):
        try:
            dist.barrier()
            raise AssertionError("not told")
        except RuntimeError as error:
            cause, depth = error.__cause__.__traceback__, 0
            while cause is not None:
                cause, depth = cause.tb_next, depth + 1
            depths.add(depth)
    assert len(depths) == 1, depths
    work.get_future()
    assert threading.active_count() <= n_threads, threading.enumerate()


def late_rank() -> None:
    """The last rank does not call: after the group's time-out the others are told, and so is it."""
    rank, size = begin(SHORT)
    dist.barrier()
    if rank == size - 1:
        time.sleep(2 * SHORT.total_seconds())
    begun = time.monotonic()
    try:
        dist.all_reduce(torch.ones(4))
    except RuntimeError as error:
        assert rank == size - 1 or "timeout of 2 s" in str(error) or "aborted" in str(error), error
        assert time.monotonic() - begun < 60
        print("told")


def killed_rank() -> None:
    rank, size = begin()
    dist.barrier()
    if rank == size - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    begun = time.monotonic()
    parts = list(torch.ones(size, 1 << 20))
    try:
        # One communicator's call, and several at once.
        dist.all_reduce(parts[0]) if rank else dist.all_to_all(parts, list(torch.ones(size, 1 << 20)))
    except RuntimeError as error:
        assert f"rank {size - 1}" in str(error), error
        print(f"told after {time.monotonic() - begun:.2f} s")


def killed_rank_of_ddp() -> None:
    """DistributedDataParallel asks futures, in C++: a failure in one must be one there too."""
    rank, size = begin()
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64))
    for step in range(1000):
        if rank == size - 1 and step == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            model(torch.ones(2, 64)).sum().backward()
        except RuntimeError as error:
            assert f"rank {size - 1}" in str(error), error
            print(f"told in step {step}")
            return


def interrupted() -> None:
    """SIGINT ends a wait for a rank that does not come."""
    rank, _ = begin()
    dist.barrier()
    if rank:
        signal.pause()
    # Whoever starts a job in the background may have had it ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    begun = time.monotonic()
    try:
        dist.all_reduce(torch.ones(4))
    except KeyboardInterrupt:
        print(f"{time.monotonic() - begun - 0.5:.3f}", flush=True)
    os._exit(0)


def script() -> None:
    """A user's script, whose only change is the backend's name."""
    sys.argv = [os.environ["SCRIPT"], "--backend", os.environ["BACKEND"]]
    runpy.run_path(sys.argv[0], run_name="__main__")

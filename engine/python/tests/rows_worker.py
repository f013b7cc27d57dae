"""Sparse gradients of tables: what each worker runs, which computes those of all workers as well, to know what is right."""

from typing import Any, Callable, Optional, Tuple

import ringscope_engine.torch as bps
import torch
from gradients_worker import refused
from ringscope_engine._library import function

N_ROWS, WIDTH, STEPS = 300, 7, 5


def table(dtype: torch.dtype = torch.float32) -> torch.nn.Embedding:
    torch.manual_seed(5)
    return torch.nn.Embedding(N_ROWS, WIDTH, sparse=True).to(dtype)


def backward(layer: torch.nn.Embedding, step: int, rank: int, number: int) -> None:
    """Other rows each time, some of them twice and one of them by several workers; in step 2 none of worker 1, in step 3 of nobody."""
    if step == 3 or (step, rank) == (2, 1):
        return
    generator = torch.Generator().manual_seed(1000 * step + 10 * rank + number)
    rows = torch.randint(2, N_ROWS, (5 + 9 * step + 3 * rank,), generator=generator)
    rows = torch.cat([rows, rows[:4], torch.tensor([17])])
    weights = torch.randn(len(rows), WIDTH, generator=generator)
    # The sum of row 0 is zero from step 1 on, and a zero is all that row 1 ever gets, of both signs.
    sign = 0 if rank > 1 else 1 if step == 0 or rank % 2 else -1
    own = torch.tensor([sign, 0.0 if rank else -0.0])[:, None].expand(2, WIDTH)
    rows, weights = torch.cat([rows, torch.tensor([0, 1])]), torch.cat([weights, own])
    # In one call: PyTorch adds up no sparse gradients of halves.
    (layer(rows) * weights.to(layer.weight.dtype)).sum().backward()


def right(layer: torch.nn.Embedding, step: int, passes: int, average: bool) -> Optional[Tuple[torch.Tensor, torch.Tensor]]:
    """The rows that anybody touches, and their sums in the order of the ranks; None where nobody does."""
    total, touched = None, torch.zeros(N_ROWS, dtype=torch.bool)
    for rank in range(bps.size()):
        copy = torch.nn.Embedding(N_ROWS, WIDTH, sparse=True, _weight=layer.weight.detach().clone())
        for number in range(passes):
            backward(copy, step, rank, number)
        own = torch.zeros(N_ROWS, WIDTH)
        if copy.weight.grad is not None:
            rows = copy.weight.grad.coalesce()
            touched[rows.indices()[0]] = True
            own[rows.indices()[0]] = rows.values().float()
        total = own if total is None else total + own
    indices = touched.nonzero().view(-1)
    values = total[indices] / bps.size() if average else total[indices]
    return (indices, values.to(layer.weight.dtype)) if len(indices) else None


def bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().view({2: torch.int16, 4: torch.int32}[tensor.element_size()])


def train(name: str, dtype: torch.dtype, average: bool, passes: int, make: Callable[[Any], Any], is_looked_at: bool) -> None:
    layer, plain = table(dtype), table(dtype)
    operation = bps.Average if average else bps.Sum
    named = [(name, layer.weight)]
    # In a backward pass that computes none of its gradients an optimizer has nothing under way.
    other = torch.nn.Parameter(torch.zeros(3))
    if is_looked_at:
        named.append((f"{name}.other", other))
    parameters = [parameter for _, parameter in named]
    optimizer = bps.DistributedOptimizer(make(parameters), named, backward_passes_per_step=passes, op=operation)
    alone = make([plain.weight])
    for step in range(STEPS):
        optimizer.zero_grad()
        wanted = right(plain, step, passes, average)
        for number in range(passes):
            backward(layer, step, bps.rank(), number)
        if is_looked_at:
            other.sum().backward()
            # Whoever looks has everyone's; also who has computed none, and an empty one where nobody has.
            n_rows = layer.weight.grad._nnz()
            assert n_rows == (0 if wanted is None else len(wanted[0])), (n_rows, step)
        optimizer.synchronize()
        gradient = layer.weight.grad
        assert gradient.is_sparse and gradient.is_coalesced() and gradient.dtype == dtype
        if wanted is not None:
            assert gradient.indices()[0].equal(wanted[0]), f"{name}: other rows in step {step}"
            assert bits(gradient.values()).equal(bits(wanted[1])), f"{name}: other values in step {step}"
            assert {0, 1} <= set(wanted[0].tolist()) and bool(gradient.values()[0].any()) == (step in (0, 2)), "a row whose sum is zero is there"
            plain.weight.grad = torch.sparse_coo_tensor(wanted[0][None], wanted[1], (N_ROWS, WIDTH))
        else:
            assert gradient._nnz() == 0
            plain.weight.grad = None
        optimizer.step()
        alone.step()
        assert bits(layer.weight.detach()).equal(bits(plain.weight.detach())), f"{name}: other parameters after step {step}"


def exact() -> None:
    bps.init()
    sgd = lambda parameters: torch.optim.SGD(parameters, lr=0.1)
    adam = lambda parameters: torch.optim.SparseAdam(parameters, lr=0.1)
    train("adam", torch.float32, True, 1, adam, False)
    train("adam of sums", torch.float32, False, 1, adam, False)
    train("two passes", torch.float32, True, 2, sgd, False)
    train("looked at", torch.float32, True, 1, sgd, True)
    train("f16", torch.float16, True, 1, sgd, False)
    train("bf16", torch.bfloat16, False, 1, sgd, False)
    number = function("rsum_declare")(b"gradient.adam.rows", N_ROWS * (WIDTH + 1), 7, None)
    assert function("rsum_codec")(number) == 5
    bps.shutdown()


def refusals() -> None:
    bps.init()
    differ()
    other_kinds()
    later()
    bps.shutdown()


def differ() -> None:
    """All workers are told, and may go on where they agree."""
    layer = torch.nn.Embedding(20, 2, sparse=bps.rank() == 0)
    optimizer = bps.DistributedOptimizer(torch.optim.SGD(layer.parameters(), lr=1.0), [("differ", layer.weight)])
    before = layer.weight.detach().clone()
    layer(torch.tensor([1])).sum().backward()
    refused("differ is sparse on 1 and dense on 1 of 2 workers", optimizer.step)
    assert layer.weight.equal(before)
    optimizer.zero_grad(set_to_none=True)
    layer.sparse = True
    layer(torch.tensor([bps.rank()])).sum().backward()
    optimizer.step()
    assert (before - layer.weight)[:2].eq(0.5).all() or torch.allclose((before - layer.weight)[:2], torch.full((2, 2), 0.5))


def other_kinds() -> None:
    doubles = torch.nn.Embedding(20, 2, sparse=True).double()
    optimizer = bps.DistributedOptimizer(torch.optim.SGD(doubles.parameters(), lr=1.0), [("doubles", doubles.weight)])
    refused("of torch.float64; sparse gradients are sent", lambda: doubles(torch.tensor([1])).sum().backward())
    optimizer.zero_grad()
    weight = torch.nn.Parameter(torch.zeros(4, 4))
    optimizer = bps.DistributedOptimizer(torch.optim.SGD([weight], lr=1.0), [("both", weight)])
    weight.grad = torch.eye(4).to_sparse()
    refused("sparse in 2 dimensions", optimizer.step)


def later() -> None:
    """A table that no worker used in the first step, and a layer whose gradients change."""
    unused, used = torch.nn.Embedding(20, 2, sparse=True), torch.nn.Embedding(20, 2, sparse=True)
    named = [("unused", unused.weight), ("used", used.weight)]
    optimizer = bps.DistributedOptimizer(torch.optim.SGD([one for _, one in named], lr=1.0), named)
    used(torch.tensor([1])).sum().backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    refused("was not when the workers agreed on gradients", lambda: unused(torch.tensor([1])).sum().backward())
    optimizer.zero_grad(set_to_none=True)
    used.sparse = False
    refused("is dense, and has been sparse before", lambda: used(torch.tensor([1])).sum().backward())
    optimizer.zero_grad(set_to_none=True)
    used.sparse = True
    before = used.weight.detach().clone()
    used(torch.tensor([1])).sum().backward()
    optimizer.step()
    assert not used.weight.equal(before)
    # Two passes that were one too many are found out, as of dense gradients.
    optimizer.zero_grad()
    used(torch.tensor([1])).sum().backward()
    refused("was computed more than 1 times", lambda: used(torch.tensor([2])).sum().backward())
    refused("was computed more than 1 times", optimizer.step)


def resumed() -> None:
    """The next group goes on with the same tables, whatever the last one left in buffers."""
    bps.init()
    layer = table()
    optimizer = bps.DistributedOptimizer(torch.optim.SGD(layer.parameters(), lr=1.0), [("resumed", layer.weight)])
    for step in range(4):
        if step == 2:
            bps.suspend()
            bps.resume(2, 0)
        optimizer.zero_grad()
        wanted = right(layer, 4, 1, True)
        backward(layer, 4, bps.rank(), 0)
        optimizer.synchronize()
        assert wanted is not None and layer.weight.grad.indices()[0].equal(wanted[0])
        assert bits(layer.weight.grad.values()).equal(bits(wanted[1]))
        optimizer.step()
    bps.shutdown()


def sums() -> None:
    """With op=Sum, a sum that is left in a gradient is not summed again."""
    bps.init()
    layer = table()
    optimizer = bps.DistributedOptimizer(torch.optim.SGD(layer.parameters(), lr=1.0), [("sums", layer.weight)], op=bps.Sum)
    layer(torch.tensor([1])).sum().backward()
    optimizer.step()
    refused("has the sum of the last step in it", lambda: layer(torch.tensor([1])).sum().backward())
    optimizer.zero_grad()
    layer(torch.tensor([1])).sum().backward()
    optimizer.step()
    bps.shutdown()

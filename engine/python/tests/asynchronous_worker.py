"""What the workers of the tests with asynchronous optimizers do; each checks its own results."""

import hashlib
import os

import ringscope_engine.torch as bps
import torch
from ringscope_engine import Error

STEPS = 30


def training() -> None:
    """Workers of different diligence solve one set of equations, of which each knows a part; prints what they come to."""
    bps.init()
    torch.manual_seed(bps.rank())
    # One layer is not contiguous.
    model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Linear(5, 1))
    model[0].weight.data = model[0].weight.data.t().contiguous().t()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05 / bps.size(), momentum=0.5)
    optimizer = bps.DistributedOptimizer(optimizer, model.named_parameters())
    bps.broadcast_parameters(model.state_dict(), root_rank=0)
    inputs = torch.randn(60, 6, generator=torch.Generator().manual_seed(1))
    wanted = inputs @ torch.arange(6.0) - 2.0
    first = (model(inputs).squeeze() - wanted).square().mean().item()
    mine = slice(bps.rank(), None, bps.size())
    for _ in range(400 + 50 * bps.rank()):
        optimizer.zero_grad()
        (model(inputs[mine]).squeeze() - wanted[mine]).square().mean().backward()
        optimizer.step()
    optimizer.settle()
    last = (model(inputs).squeeze() - wanted).square().mean().item()
    assert last < first / 1000, (first, last)
    print_fingerprint(model)
    bps.shutdown()


def print_fingerprint(model: torch.nn.Module) -> None:
    digest = hashlib.sha256()
    for tensor in model.state_dict().values():
        digest.update(tensor.contiguous().numpy().tobytes())
    print(digest.hexdigest())


def alone() -> None:
    """One worker is at the parameters of a plain optimizer: in bits where nothing is rounded, else nearly."""
    bps.init()
    steps_of(lambda own: torch.optim.SGD(own, lr=0.125, momentum=0.5), "exact", lambda one, other: one.equal(other))
    close = lambda one, other: torch.allclose(one, other, rtol=1e-6, atol=1e-7)
    steps_of(lambda own: torch.optim.Adam(own, lr=0.01), "rounded", close)
    bps.shutdown()


# Before anything is pushed, a store is to know all tensors.
MODELS = {name: torch.nn.Parameter(torch.full((3, 4), 1.5)) for name in ("exact", "rounded")}


def steps_of(make, name: str, are_same) -> None:
    own, plain = MODELS[name], torch.nn.Parameter(MODELS[name].detach().clone())
    for other, parameter in MODELS.items():
        bps.declare(f"parameter.{other}", parameter)
    alone, shared = make([plain]), bps.DistributedOptimizer(make([own]), [(name, own)])
    generator = torch.Generator().manual_seed(2)
    for step in range(8):
        gradient = torch.randint(-8, 9, own.shape, generator=generator).float()
        own.grad, plain.grad = gradient.clone(), gradient
        shared.step()
        alone.step()
        assert are_same(own.detach(), plain.detach()), (name, step)


def bounded() -> None:
    """Each worker counts its steps in an element of its own: nobody is further ahead than RSUM_STALENESS."""
    bps.init()
    rank, bound = bps.rank(), int(os.environ["RSUM_STALENESS"])
    counts = torch.nn.Parameter(torch.full((bps.size(),), 0.0 if rank == 0 else 99.0))
    optimizer = bps.DistributedOptimizer(torch.optim.SGD([counts], lr=1.0), [("counts", counts)])
    for step in range(1, STEPS + 1):
        counts.grad = torch.zeros_like(counts)
        counts.grad[rank] = -1.0
        # What the slower workers do meanwhile.
        for _ in range(2000 * rank):
            counts.grad.add_(0.0)
        optimizer.step()
        got = counts.detach()
        assert got[rank] == step, (rank, step, got)
        assert step - bound <= got.min() and got.max() <= step + 1 + bound, (rank, step, got)
    optimizer.settle()
    assert counts.detach().equal(torch.full((bps.size(),), float(STEPS))), counts
    bps.barrier()
    optimizer.step()
    optimizer.settle()
    assert counts.detach().equal(torch.full((bps.size(),), float(STEPS) + 1.0)), counts
    bps.shutdown()


def goes_on() -> None:
    """The last worker dies; the others go on from what worker 0 has."""
    bps.init()
    torch.manual_seed(bps.rank())
    model, step, dies = torch.nn.Linear(4, 2), 0, bps.rank() == bps.size() - 1
    optimizer = bps.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    bps.broadcast_parameters(model.state_dict())
    n_before = bps.size()
    while True:
        try:
            while step < STEPS:
                if step == 2 and dies:
                    os.kill(os.getpid(), 9)
                optimizer.zero_grad()
                model(torch.ones(3, 4)).square().sum().backward()
                optimizer.step()
                step += 1
            optimizer.settle()
            break
        except bps.LostProcess:
            bps.resume()
            bps.broadcast_parameters(model.state_dict())
    assert bps.size() == n_before - 1 and step == STEPS
    print_fingerprint(model)
    bps.shutdown()


def refusals() -> None:
    bps.init()
    layer = torch.nn.Linear(3, 2)
    plain = torch.optim.SGD(layer.parameters(), lr=1.0)
    named = list(layer.named_parameters())
    refused("is for gradients", lambda: bps.DistributedOptimizer(plain, named, compression="f16"))
    optimizer = bps.DistributedOptimizer(plain, named, backward_passes_per_step=2)
    refused("not with those of worker 1", lambda: bps.broadcast_parameters(layer.state_dict(), root_rank=1))
    bps.broadcast_parameters(layer.state_dict())
    refused("has its values already", lambda: bps.broadcast_parameters(layer.state_dict()))
    refused("keeps its own", lambda: bps.broadcast_optimizer_state(optimizer))
    refused("RSUM_ASYNC=1", lambda: bps.broadcast_object(1))
    refused("before the first push", lambda: bps.DistributedOptimizer(plain, [(f"late.{n}", p) for n, p in named]))
    before = layer.weight.detach().clone()
    for _ in range(2):
        layer(torch.ones(1, 3)).sum().backward()
    optimizer.synchronize()
    with optimizer.skip_synchronize():
        optimizer.step()
    optimizer.settle()
    assert torch.allclose(before - layer.weight, torch.full((2, 3), 2.0 * bps.size()))
    # Other memory of the same parameter is shared as the first was.
    layer.weight.data = layer.weight.detach().clone()
    optimizer.zero_grad()
    layer(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    optimizer.settle()
    assert torch.allclose(before - layer.weight, torch.full((2, 3), 3.0 * bps.size()))
    late = torch.nn.Parameter(torch.ones(1))
    refused("add_param_group() after", lambda: optimizer.add_param_group({"params": [late]}))
    plain.add_param_group({"params": [late]})
    late.sum().backward()
    refused("was not there, or needed none", optimizer.step)
    bps.shutdown()


def refused(words: str, call) -> None:
    try:
        call()
    except Error as error:
        assert words in str(error), error
    else:
        raise AssertionError(f"not refused: {words}")

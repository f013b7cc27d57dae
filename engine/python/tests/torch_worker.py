"""What the workers of the tests with PyTorch do; each checks its own results."""

import copy
import os

import ringscope_engine.torch as bps
import torch
from ringscope_engine import Error

STEPS, BATCH = 5, 12


def operations() -> None:
    bps.init()
    n, own = bps.size(), torch.full((3, 5), float(bps.rank() + 1))
    total = n * (n + 1) / 2
    assert bps.push_pull(own, average=False, name="a").equal(torch.full((3, 5), total))
    assert bps.push_pull(own, name="a").equal(torch.full((3, 5), total / n))
    handle = bps.push_pull_async_inplace(own, average=False, name="a")
    assert bps.synchronize(handle) is own and bps.poll(handle) and own[0, 0] == total
    assert bps.allreduce(own, op=bps.Sum).equal(own * n)
    assert bps.allreduce(own).equal(own) and bps.allreduce_(own, average=False)[0, 0] == total * n
    halves = torch.full((7,), 1.5, dtype=torch.bfloat16)
    assert bps.push_pull(halves, average=False).equal(halves * n)
    whole = torch.arange(4) + bps.rank()
    assert bps.broadcast(whole, 1).equal(torch.arange(4) + 1) and whole[0] == bps.rank()
    assert bps.broadcast_(whole, 1) is whole and whole[0] == 1
    assert bps.broadcast_object({"epoch": bps.rank(), "text": "x" * 3000}, 1)["epoch"] == 1
    bps.barrier()
    of_other_types(whole.to(torch.int16))
    negatives(own)
    refused("is not contiguous", lambda: bps.push_pull_inplace(torch.ones(4, 4).t()[1:]))
    refused("of layout torch.sparse_coo", lambda: bps.push_pull_inplace(torch.ones(4, 4).to_sparse()))
    bps.shutdown()


def of_other_types(own: torch.Tensor) -> None:
    """Buffers of types that cannot be summed are broadcast as their bytes."""
    turned = torch.complex(torch.ones(2, 3) * bps.rank(), -torch.ones(2, 3)).t().conj()
    buffers = {"int16": own - 1000 - bps.rank(), "one": torch.tensor(bps.rank() + 1j), "turned": turned}
    bps.broadcast_parameters(buffers, root_rank=1)
    assert buffers["int16"].equal(own - 1001) and buffers["one"] == 1 + 1j
    assert turned.equal(torch.complex(torch.ones(3, 2), torch.ones(3, 2)))


def negatives(own: torch.Tensor) -> None:
    """Tensors whose memory has the other signs, because torch only notes that they were negated."""
    n, complex_ones = bps.size(), torch.complex(own, own)
    for negative in (torch._neg_view(own), complex_ones[:1, :1].conj().imag):
        assert negative.is_neg()
        wanted = negative.clone()
        assert bps.push_pull(negative, average=False).equal(wanted * n)
        assert bps.grouped_allreduce([negative, own], op=bps.Sum)[0].equal(wanted * n)
        assert bps.broadcast(negative, 0).equal(wanted)
        for call in (bps.push_pull_inplace, lambda tensor: bps.broadcast_(tensor, 0)):
            refused("pass .resolve_neg()", lambda: call(negative))
        assert negative.equal(wanted)
    below = own.clone()
    assert bps.grouped_allreduce_([torch._neg_view(below)], op=bps.Sum)[0].equal(own * -n) and below.equal(own * n)
    parameter = torch.nn.Parameter(torch.zeros(3, 5))
    optimizer = bps.DistributedOptimizer(torch.optim.SGD([parameter], lr=1.0), [("negative", parameter)])
    parameter.grad = torch._neg_view(torch.ones(3, 5))
    optimizer.step()
    assert parameter.equal(torch.ones(3, 5))


def refused(words: str, call) -> None:
    try:
        call()
    except Error as error:
        assert words in str(error), error
    else:
        raise AssertionError(f"not refused: {words}")


class Model(torch.nn.Module):
    """Layers with a weight that some steps do not use, one with an odd memory format, and a float64 one."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(2, 6, 3).to(memory_format=torch.channels_last)
        self.seldom = torch.nn.Linear(6, 6)
        self.norm = torch.nn.BatchNorm1d(6)
        self.last = torch.nn.Linear(6, 3)
        self.scale = torch.nn.Parameter(torch.ones(1, dtype=torch.float64))

    def forward(self, pictures: torch.Tensor, uses_all: bool) -> torch.Tensor:
        hidden = self.first(pictures).relu().mean(dim=(2, 3))
        if uses_all:
            hidden = hidden + self.seldom(hidden)
        return self.last(hidden) * self.scale.float()


def batch(step: int) -> "tuple[torch.Tensor, torch.Tensor]":
    generator = torch.Generator().manual_seed(step)
    pictures = torch.randn(BATCH, 2, 5, 5, generator=generator)
    return pictures, torch.randint(0, 3, (BATCH,), generator=generator)


def loss_of(model: Model, step: int, part: slice) -> torch.Tensor:
    pictures, classes = batch(step)
    # Only worker 0's model branches another way in step 3.
    uses_all = step != 3 or part.start != 0
    return torch.nn.functional.cross_entropy(model(pictures[part], uses_all), classes[part])


def part_of(rank: int, n: int) -> slice:
    return slice(rank * BATCH // n, (rank + 1) * BATCH // n)


def trained_alone(model: Model, make, n: int) -> Model:
    """What all workers together should come to, in one process."""
    model = copy.deepcopy(model)
    optimizer = make(model.parameters())
    for step in range(STEPS):
        optimizer.zero_grad()
        for rank in range(n):
            (loss_of(model, step, part_of(rank, n)) / n).backward()
        for parameter in model.parameters():
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        optimizer.step()
    return model


def same_everywhere(model: Model) -> None:
    for name, tensor in model.state_dict().items():
        wanted = bps.broadcast(tensor.contiguous(), 0, f"compare.{name}")
        assert wanted.equal(tensor), name


def training() -> None:
    bps.init()
    for number, make in enumerate(OPTIMIZERS):
        torch.manual_seed(bps.rank())
        model = Model()
        optimizer = make(model.parameters())
        bps.broadcast_parameters(model.state_dict(), root_rank=0)
        wanted = trained_alone(model, make, bps.size())
        optimizer = bps.DistributedOptimizer(optimizer, list(model.named_parameters()))
        bps.broadcast_optimizer_state(optimizer, root_rank=0)
        assert isinstance(optimizer, type(make(model.parameters())))
        for step in range(STEPS):
            optimizer.zero_grad()
            loss_of(model, step, part_of(bps.rank(), bps.size())).backward()
            optimizer.step()
        same_everywhere(model)
        for (name, got), right in zip(model.named_parameters(), wanted.parameters()):
            assert torch.allclose(got, right, rtol=1e-4, atol=1e-5), (number, name)
    bps.shutdown()


OPTIMIZERS = (
    lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
    lambda parameters: torch.optim.Adam(parameters, lr=0.01),
)


def settings() -> None:
    bps.init()
    several_passes()
    clipping_and_closures()
    schedulers()
    misuse()
    for compression, tolerance in (("f16", 1e-2), (bps.Compression.bf16, 1e-1)):
        compressed(compression, tolerance)
    bps.shutdown()


def training_goes_on() -> None:
    """The last worker dies before its third step, and another one while the others begin again from where worker 0 is, who may
    be a step ahead: the loop of docs/survive.md."""
    bps.init()
    torch.manual_seed(0)
    model = Model()
    optimizer = bps.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    bps.broadcast_parameters(model.state_dict(), root_rank=0)
    n_before, rank_before, step, is_lost = bps.size(), bps.rank(), 0, False
    while step < STEPS:
        if step == 2 and rank_before == n_before - 1:
            os.kill(os.getpid(), 9)
        try:
            if is_lost:
                bps.resume()
                if rank_before == n_before - 2:
                    os.kill(os.getpid(), 9)
                step = bps.broadcast_object(step, 0)
                bps.broadcast_parameters(model.state_dict(), root_rank=0)
                bps.broadcast_optimizer_state(optimizer, root_rank=0)
                is_lost = False
            optimizer.zero_grad()
            loss_of(model, step, part_of(bps.rank(), n_before)).backward()
            optimizer.step()
            step += 1
        except bps.LostProcess:
            is_lost = True
    assert bps.size() == n_before - 2
    same_everywhere(model)
    bps.shutdown()


def linear() -> "tuple[torch.nn.Linear, torch.Tensor]":
    torch.manual_seed(0)
    layer = torch.nn.Linear(8, 4)
    return layer, torch.full((2, 8), float(bps.rank() + 1))


def several_passes() -> None:
    layer, own = linear()
    optimizer = torch.optim.SGD(layer.parameters(), lr=1.0)
    optimizer = bps.DistributedOptimizer(optimizer, backward_passes_per_step=2, op=bps.Sum)
    before = layer.weight.detach().clone()
    for _ in range(2):
        layer(own).sum().backward()
    optimizer.step()
    n = bps.size()
    # Two passes over two rows, each of this worker's number, on all workers.
    assert torch.allclose(before - layer.weight, torch.full((4, 8), 4.0 * n * (n + 1) / 2))


def clipping_and_closures() -> None:
    layer, own = linear()
    optimizer = bps.DistributedOptimizer(torch.optim.SGD(layer.parameters(), lr=1.0), layer.named_parameters())
    layer(own).sum().backward()
    optimizer.synchronize()
    average = layer.weight.grad.clone()
    assert torch.allclose(average, torch.full((4, 8), float(bps.size() + 1)))
    torch.nn.utils.clip_grad_norm_(layer.parameters(), 0.5)
    with optimizer.skip_synchronize():
        optimizer.step()
    before = layer.weight.detach().clone()

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = layer(own).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    assert torch.allclose(before - layer.weight, average)


def schedulers() -> None:
    for is_made_before in (True, False):
        layer, own = linear()
        plain = torch.optim.SGD(layer.parameters(), lr=1.0)
        if is_made_before:
            scheduler = torch.optim.lr_scheduler.StepLR(plain, 1, gamma=0.5)
        optimizer = bps.DistributedOptimizer(plain, layer.named_parameters())
        if not is_made_before:
            scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
        bps.broadcast_optimizer_state(optimizer, 1)
        before = layer.weight.detach().clone()
        for _ in range(2):
            optimizer.zero_grad()
            layer(own).sum().backward()
            optimizer.step()
            scheduler.step()
        assert torch.allclose(before - layer.weight, torch.full((4, 8), 1.5 * (bps.size() + 1)))


def misuse() -> None:
    layer, own = linear()
    bps.init()
    for call in (bps.allreduce, bps.push_pull, lambda number: bps.grouped_allreduce([number]), lambda number: bps.broadcast(number, 0)):
        refused("a torch tensor is needed, not float", lambda: call(3.0))
    refused("a handle is needed", lambda: bps.synchronize(3))
    refused("a handle is needed", lambda: bps.poll(3))
    refused("takes names with their parameters", lambda: bps.broadcast_parameters(layer.parameters()))
    refused("takes names with their parameters", lambda: bps.broadcast_parameters(layer))
    refused("takes an optimizer", lambda: bps.DistributedOptimizer(layer))
    for name, instead in (("Adasum", "op=Average"), ("allgather", "collective"), ("elastic", "resume()"), ("nccl_built", "leave")):
        try:
            getattr(bps, name)
            raise AssertionError(f"{name} is there")
        except AttributeError as error:
            assert "which Horovod has" in str(error) and instead in str(error), error
    assert not hasattr(bps, "no_such_name")
    from ringscope_engine.torch._missing import INSTEAD

    assert not set(INSTEAD) & set(dir(bps))
    kind = torch.optim.SGD(layer.parameters(), lr=1.0)
    named = list(layer.named_parameters())
    refused("same name", lambda: bps.DistributedOptimizer(kind, [("x", parameter) for _, parameter in named]))
    refused("takes names with their parameters", lambda: bps.DistributedOptimizer(kind, layer.parameters()))
    refused("have no name", lambda: bps.DistributedOptimizer(kind, named[:1]))
    refused("not supported", lambda: bps.DistributedOptimizer(kind, named, staleness=3))
    optimizer = bps.DistributedOptimizer(kind, named)
    layer(own).sum().backward()
    refused("under way", optimizer.zero_grad)
    refused("more than 1 times before step", lambda: layer(own).sum().backward())
    # What the second pass added would be in some workers' sums and not in others'.
    refused("more than 1 times before step", optimizer.step)
    optimizer.zero_grad()
    layer(own).sum().backward()
    optimizer.step()


def compressed(compression, tolerance: float) -> None:
    layer, own = linear()
    name = str(getattr(compression, "name", compression))
    named = [(f"{name}.{parameter}", tensor) for parameter, tensor in layer.named_parameters()]
    optimizer = torch.optim.SGD(layer.parameters(), lr=1.0)
    optimizer = bps.DistributedOptimizer(optimizer, named, compression=compression)
    layer(own * 0.1).sum().backward()
    optimizer.synchronize()
    wanted = torch.full((4, 8), 0.1 * (bps.size() + 1))
    assert torch.allclose(layer.weight.grad, wanted, rtol=tolerance)


def ddp() -> None:
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    bps.init()
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 300), torch.nn.ReLU(), torch.nn.Linear(300, 4))
    replica = DistributedDataParallel(model, bucket_cap_mb=0.01)
    replica.register_comm_hook(bps.DdpState(), bps.ddp_hook)
    for step in range(4):
        gradients = []
        for rank in range(bps.size()):
            own = torch.randn(6, 8, generator=torch.Generator().manual_seed(10 * step + rank))
            gradients.append(torch.autograd.grad(model(own).square().mean(), list(model.parameters())))
            if rank == bps.rank():
                mine = own
        replica.zero_grad()
        replica(mine).square().mean().backward()
        for parameter, *parts in zip(model.parameters(), *gradients):
            assert torch.allclose(parameter.grad, sum(parts) / bps.size(), rtol=1e-4, atol=1e-6)
    dist.destroy_process_group()
    bps.shutdown()

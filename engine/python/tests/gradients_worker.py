"""What the workers of the tests of what may become of gradients between two steps do; each checks its own results."""

import gc
from typing import Callable

import ringscope_engine.torch as bps
import torch
from ringscope_engine import Error

RATE = 0.5


class Training:
    """One layer, each worker's own input, and what all gradients' sum is."""

    def __init__(self, name: str, passes: int = 1, op: int = bps.Average, **settings: float) -> None:
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(4, 3)
        self.own = torch.full((2, 4), float(bps.rank() + 1))
        named = [(f"{name}.{parameter}", tensor) for parameter, tensor in self.layer.named_parameters()]
        self.plain = torch.optim.SGD(self.layer.parameters(), lr=RATE, **settings)
        self.optimizer = bps.DistributedOptimizer(self.plain, named, backward_passes_per_step=passes, op=op)
        self.before = self.weight()
        self.sum = torch.full((3, 4), float(bps.size() * (bps.size() + 1)))

    def weight(self) -> torch.Tensor:
        return self.layer.weight.detach().clone()

    def backward(self) -> None:
        self.layer(self.own).sum().backward()

    def expect_change(self, gradient: torch.Tensor) -> None:
        """The weight has changed, since this was last called, by a step of this gradient."""
        after = self.weight()
        assert torch.allclose(self.before - after, RATE * gradient), (self.before - after, gradient)
        self.before = after

    def expect_plain_step(self) -> None:
        """A step as scripts take it is one of the average."""
        self.optimizer.zero_grad()
        self.backward()
        self.optimizer.step()
        self.expect_change(self.sum / bps.size())


def refused(words: str, call: Callable[[], object]) -> None:
    try:
        call()
    except Error as error:
        assert words in str(error), error
    else:
        raise AssertionError(f"not refused: {words}")


def under_way() -> None:
    """What becomes of gradients that are on their way."""
    bps.init()
    for part in (touched, exchanged, synchronized, replaced_after):
        part()
    bps.shutdown()


def loops() -> None:
    """What scripts do between steps that is right."""
    bps.init()
    for part in (accumulated, closures, views, later_parameters, wrapped_again, decided_by_loss):
        part()
    bps.shutdown()


def touched() -> None:
    """Whatever reads or changes a gradient under way waits until it is everyone's, and has that."""
    training = Training("touched")
    layer, weight = training.layer, training.layer.weight
    average = training.sum / bps.size()
    norm = float(torch.cat([average.flatten(), torch.full((3,), 2.0)]).norm())
    for touch, factor in (
        (lambda: torch.nn.utils.clip_grad_norm_(layer.parameters(), 0.1), 0.1 / norm),
        (lambda: torch.nn.utils.clip_grad_value_(layer.parameters(), 0.25), 0.25 / (bps.size() + 1)),
        # What a GradScaler does, and what it looks at before.
        (lambda: torch._foreach_mul_([parameter.grad for parameter in layer.parameters()], 0.5), 0.5),
        (lambda: weight.grad.is_sparse, 1.0),
        (lambda: weight.grad.mul_(2), 2.0),
        (lambda: weight.grad.data.clamp_(-0.25, 0.25), 0.25 / (bps.size() + 1)),
        (lambda: weight.grad.numpy().__imul__(0.5), 0.5),
        (lambda: torch.mul(average, 0.5, out=weight.grad), 0.5),
        (lambda: same(weight.grad.norm(), average.norm()), 1.0),
        (lambda: same(weight.grad[0], average[0]), 1.0),
        (lambda: same(torch.stack([average, weight.grad])[1], average), 1.0),
        (lambda: repr(weight.grad), 1.0),
    ):
        training.optimizer.zero_grad()
        training.backward()
        touch()
        # What Python's collector takes away leaves everyone's known as such.
        gc.collect()
        training.optimizer.step()
        training.expect_change(average * factor)
        assert type(weight.grad) is torch.Tensor and weight.grad.norm() > 0
    # One worker alone may look; a stand-in that was kept is the gradient that came of it.
    training.optimizer.zero_grad()
    training.backward()
    held = weight.grad
    if bps.rank() == 0:
        same(held, average)
    training.optimizer.step()
    training.expect_change(average)
    assert held.sum() == weight.grad.sum()
    # The optimizer that was wrapped, in place of the one that came of it.
    training.optimizer.zero_grad()
    training.backward()
    training.plain.step()
    training.expect_change(average)
    # Whoever looks, and computes others after that, might be alone.
    training.optimizer.zero_grad()
    training.backward()
    held = weight.grad.norm()
    refused("in another backward pass before step(), after gradient.touched.weight had been read", training.backward)
    refused("in another backward pass", training.optimizer.step)
    assert training.weight().equal(training.before)
    training.expect_plain_step()
    # Not while others are still computed.
    weight.register_hook(lambda gradient: gradient + layer.bias.grad.sum() * 0)
    training.optimizer.zero_grad()
    refused("in a backward pass", lambda: (weight.sum() + layer.bias.sum()).backward())
    training.optimizer.synchronize()


def same(got: torch.Tensor, wanted: torch.Tensor) -> None:
    assert torch.allclose(got, wanted), (got, wanted)


def exchanged() -> None:
    """Gradients that are no longer those that were sent: no step is taken, and the next ones are right."""
    training = Training("exchanged")
    layer, optimizer = training.layer, training.optimizer

    def doubled() -> None:
        for gradient in held:
            gradient.mul_(2)

    def replaced() -> None:
        layer.weight.grad = torch.ones(3, 4)

    for words, exchange in (
        ("changed in place", doubled),
        ("replaced by another tensor", replaced),
        ("set to None", lambda: layer.zero_grad(set_to_none=True)),
    ):
        training.expect_plain_step()
        held = [parameter.grad for parameter in layer.parameters()]
        optimizer.zero_grad(set_to_none=False)
        training.backward()
        exchange()
        refused(words, optimizer.step)
        assert training.weight().equal(training.before)
    optimizer.zero_grad()
    training.backward()
    layer.zero_grad(set_to_none=True)
    refused("set to None", training.backward)
    refused("set to None", optimizer.step)
    assert training.weight().equal(training.before)
    training.expect_plain_step()
    training.backward()
    with optimizer.skip_synchronize():
        refused("step() in skip_synchronize()", optimizer.step)
    refused("zero_grad() between", optimizer.zero_grad)
    refused("set_backward_passes_per_step() between", lambda: optimizer.set_backward_passes_per_step(2))
    # What all workers can do to leave a step out.
    optimizer.synchronize()
    training.expect_plain_step()


def synchronized() -> None:
    """After `synchronize` gradients are the script's, and a step sends nothing again."""
    for op in (bps.Average, bps.Sum):
        training = Training(f"synchronized.{op}", op=op)
        gradient = training.sum / (bps.size() if op == bps.Average else 1)
        for step in (training.optimizer.step, in_skip_synchronize(training.optimizer)):
            training.optimizer.zero_grad()
            training.backward()
            training.optimizer.synchronize()
            assert torch.allclose(training.layer.weight.grad, gradient)
            torch.nn.utils.clip_grad_value_(training.layer.parameters(), 0.25)
            step()
            training.expect_change(torch.full((3, 4), 0.25))


def replaced_after() -> None:
    """A gradient that a script puts in the place of everyone's is its own."""
    training = Training("replaced")
    for step in (training.optimizer.step, lambda: training.optimizer.step()):
        training.expect_plain_step()
        training.optimizer.zero_grad()
        training.backward()
        training.optimizer.synchronize()
        loss = training.layer(training.own).sum()
        for parameter, value in zip(training.layer.parameters(), torch.autograd.grad(loss, [*training.layer.parameters()])):
            parameter.grad = value
        refused("replaced by another tensor between synchronize() and step()", step)
        assert training.weight().equal(training.before)
        training.optimizer.synchronize()
        training.optimizer.step()
        training.expect_change(training.sum / bps.size())


def names() -> None:
    """Optimizers, and models of DDP, of equal names one after the other and at once."""
    bps.init()
    for part in (one_after_the_other, of_other_shapes, two_models_of_ddp):
        part()
    bps.shutdown()


def one_after_the_other() -> None:
    """What a lossy codec has left out of a model's gradients is in no later model's."""
    for codec in ("top-k", "one-bit", None):
        largest = []
        for factor in (1000.0, 0.001):
            weight = torch.nn.Parameter(torch.zeros(20_000))
            plain = torch.optim.SGD([weight], lr=1.0)
            optimizer = bps.DistributedOptimizer(plain, [("weight", weight)], compression=codec)
            (weight * factor * torch.linspace(1, 2, 20_000)).sum().backward()
            optimizer.step()
            largest.append(float(weight.detach().abs().max()))
            del plain, optimizer
        assert largest[0] > 1000 and largest[1] < 0.003, (codec, largest)


def of_other_shapes() -> None:
    """A search over widths: whether the one before is still there or not."""
    kept = []
    for width in (7, 8, 8, 7):
        layer = torch.nn.Linear(4, width)
        bps.broadcast_parameters(layer.state_dict(), root_rank=0)
        optimizer = bps.DistributedOptimizer(torch.optim.SGD(layer.parameters(), lr=RATE), layer.named_parameters())
        before = layer.weight.detach().clone()
        layer(torch.full((1, 4), bps.rank() + 1.0)).sum().backward()
        optimizer.step()
        same(before - layer.weight, torch.full((width, 4), RATE * (bps.size() + 1) / 2))
        kept = [optimizer] if width == 8 else []
    del kept


def short() -> None:
    """Gradients from RSUM_COMPRESSION_MIN_BYTES on go by themselves and encoded, those below together and as they are."""
    bps.init()
    named = [(f"{length}.{number}", torch.nn.Parameter(torch.zeros(length))) for length in (1000, 100) for number in (0, 1)]
    plain = torch.optim.SGD([parameter for _, parameter in named], lr=1.0)
    optimizer = bps.DistributedOptimizer(plain, named, compression=bps.Compression.topk(0.1))
    sum((parameter * torch.arange(1.0, len(parameter) + 1)).sum() for _, parameter in named).backward()
    optimizer.synchronize()
    assert [int(parameter.grad.count_nonzero()) for _, parameter in named] == [100, 100, 100, 100]
    bps.shutdown()


def two_models_of_ddp() -> None:
    """Of equal buckets, with one state, and a third one that loses nothing."""
    torch.distributed.init_process_group("gloo")
    state = bps.DdpState(compression="top-k")
    replicas = [torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(200, 200, bias=False)) for _ in range(3)]
    for replica, own in zip(replicas, (state, state, None)):
        replica.register_comm_hook(own, bps.ddp_hook)
    inputs = torch.linspace(1, 2, 200)[None]
    for _ in range(3):
        for replica, factor in zip(replicas, (1000.0, 0.001, 0.001)):
            replica.zero_grad()
            (replica(inputs) * factor).sum().backward()
        for replica in replicas[1:]:
            largest = float(replica.module.weight.grad.abs().max())
            # What was left out of the steps before comes with a later one.
            assert 0.001 < largest < 0.007, largest
    torch.distributed.destroy_process_group()


def closures() -> None:
    """A closure that synchronizes, to clip, has its gradients sent once; one that sets them itself has them sent each time."""
    for op in (bps.Average, bps.Sum):
        training = Training(f"closures.{op}", op=op)
        gradient = training.sum / (bps.size() if op == bps.Average else 1)

        def clipped() -> torch.Tensor:
            training.optimizer.zero_grad()
            loss = training.layer(training.own).sum()
            loss.backward()
            training.optimizer.synchronize()
            for parameter in training.layer.parameters():
                parameter.grad.mul_(0.5)
            training.optimizer.synchronize()
            return loss.detach()

        def set_itself() -> torch.Tensor:
            loss = training.layer(training.own).sum()
            for parameter, value in zip(training.layer.parameters(), torch.autograd.grad(loss, [*training.layer.parameters()])):
                parameter.grad = value
            return loss.detach()

        for _ in range(2):
            training.optimizer.step(clipped)
            training.expect_change(gradient / 2)
            training.optimizer.step(set_itself)
            training.expect_change(gradient)


def views() -> None:
    """Gradients that lie in one buffer, with and without a record of that."""
    for number, view in enumerate((lambda part: part, lambda part: part.detach())):
        training = Training(f"views.{number}")
        buffer = torch.zeros(15)
        training.layer.weight.grad = view(buffer[:12].view(3, 4))
        training.layer.bias.grad = view(buffer[12:])
        for _ in range(2):
            training.optimizer.zero_grad(set_to_none=False)
            training.backward()
            training.optimizer.step()
            training.expect_change(training.sum / bps.size())
            assert buffer[:12].view(3, 4).equal(training.layer.weight.grad)


def in_skip_synchronize(optimizer: torch.optim.Optimizer) -> Callable[[], None]:
    def step() -> None:
        with optimizer.skip_synchronize():
            optimizer.step()

    return step


def accumulated() -> None:
    """Several passes a step: gradients are the script's until the last of them."""
    training = Training("accumulated", passes=2)
    average = training.sum / bps.size()
    # Looked at and changed after the first pass.
    training.backward()
    training.layer.weight.grad.mul_(3)
    training.backward()
    training.optimizer.step()
    training.expect_change(4 * average)
    # One pass without sending, and one that is counted.
    training.optimizer.set_backward_passes_per_step(1)
    training.optimizer.zero_grad()
    with training.optimizer.no_sync():
        training.backward()
    training.backward()
    training.optimizer.step()
    training.expect_change(2 * average)
    training.optimizer.set_backward_passes_per_step(2)
    # The first pass is given up, by each of three means.
    for give_up in (
        training.optimizer.zero_grad,
        lambda: training.layer.zero_grad(set_to_none=True),
        lambda: training.layer.zero_grad(set_to_none=False),
    ):
        training.optimizer.zero_grad()
        training.backward()
        give_up()
        training.backward()
        training.optimizer.step()
        training.expect_change(average)
    # Two losses of one graph, and a step with fewer passes than were announced.
    training.optimizer.zero_grad()
    rows = training.layer(training.own)
    rows[0].sum().backward(retain_graph=True)
    rows[1].sum().backward()
    training.optimizer.step()
    training.expect_change(average)
    training.optimizer.zero_grad()
    training.backward()
    training.optimizer.step()
    training.expect_change(average)
    # A graph of the gradients makes torch replace them instead of adding to them.
    training.optimizer.zero_grad()
    for _ in range(2):
        training.layer(training.own).sum().backward(create_graph=True)
    training.optimizer.step()
    training.expect_change(2 * average)
    refused("one pass or more", lambda: training.optimizer.set_backward_passes_per_step(0))


def later_parameters() -> None:
    """Parameters that the optimizer learns of when it is wrapped already; ones that it is to leave alone from then on."""
    training = Training("members", weight_decay=0.1, momentum=0.5)
    layer, optimizer = training.layer, training.optimizer
    training.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    layer.weight.requires_grad_(False)
    before, bias = training.weight(), layer.bias.detach().clone()
    for _ in range(2):
        optimizer.zero_grad(set_to_none=True)
        training.backward()
        optimizer.step()
    assert training.weight().equal(before) and not layer.bias.equal(bias)
    layer.weight.requires_grad_(True)
    # New ones, by either of the two optimizers, and found before they are computed or when they are sent.
    late = [torch.nn.Parameter(torch.ones(2)) for _ in range(3)]
    optimizer.add_param_group({"params": late[:1], "lr": 1.0, "momentum": 0.0, "weight_decay": 0.0})
    for parameter in late[1:]:
        training.plain.add_param_group({"params": [parameter], "lr": 1.0, "momentum": 0.0, "weight_decay": 0.0})
        optimizer.zero_grad() if parameter is late[1] else layer.zero_grad()
        training.backward()
        sum((one * (bps.rank() + 1)).sum() for one in late).backward()
        optimizer.step()
    average = (bps.size() + 1) / 2
    # The second time theirs were added to what there was.
    for parameter, n_averages in zip(late, (3, 3, 2)):
        same(parameter.detach(), torch.full((2,), 1 - n_averages * average))
    optimizer.zero_grad()
    training.backward()
    refused("add_param_group() between", lambda: optimizer.add_param_group({"params": [torch.nn.Parameter(torch.ones(2))]}))
    optimizer.step()
    assert len(optimizer.param_groups) == 4

    frozen = torch.nn.Linear(2, 2)
    bps.broadcast_parameters(frozen.state_dict())
    frozen.weight.requires_grad_(False)
    other = bps.DistributedOptimizer(torch.optim.SGD(frozen.parameters(), lr=1.0), [*frozen.named_parameters()])
    frozen.weight.requires_grad_(True)
    before = frozen.weight.detach().clone()
    frozen(torch.full((1, 2), bps.rank() + 1.0)).sum().backward()
    other.step()
    same(before - frozen.weight, torch.full((2, 2), average))
    refused("is a DistributedOptimizer already", lambda: bps.DistributedOptimizer(other))
    turned = torch.nn.Linear(2, 1)
    optimizer = bps.DistributedOptimizer(torch.optim.SGD(turned.parameters(), lr=0.1), turned.named_parameters("turned"))
    turned(torch.ones(2)).backward()
    optimizer.step()
    turned.double()
    optimizer.zero_grad()
    turned(torch.ones(2, dtype=torch.float64)).backward()
    refused("wrap the optimizer again", optimizer.step)


def wrapped_again() -> None:
    """Another optimizer of the same parameters sends their gradients from then on; the first one still may."""
    first = Training("first")
    first.expect_plain_step()
    named = [(f"second.{name}", parameter) for name, parameter in first.layer.named_parameters()]
    first.backward()
    wrapped = lambda: bps.DistributedOptimizer(torch.optim.SGD(first.layer.parameters(), lr=RATE), named)
    refused("step() it first", wrapped)
    first.optimizer.synchronize()
    second = wrapped()
    for optimizer in (second, first.optimizer, second):
        optimizer.zero_grad()
        gradient = first.sum / bps.size()
        loss = first.layer(first.own).sum()
        if optimizer is first.optimizer:
            for parameter, value in zip(first.layer.parameters(), torch.autograd.grad(loss, [*first.layer.parameters()])):
                parameter.grad = value
        else:
            loss.backward()
        optimizer.step()
        first.expect_change(gradient)


def decided_by_loss() -> None:
    """LBFGS looks at the loss to tell whether it goes on: workers with different losses go on together."""
    for search in (None, "strong_wolfe"):
        torch.manual_seed(0)
        layer = torch.nn.Linear(6, 1)
        plain = torch.optim.LBFGS(layer.parameters(), lr=0.2, max_iter=12, line_search_fn=search)
        optimizer = bps.DistributedOptimizer(plain, [(f"{search}.{n}", p) for n, p in layer.named_parameters()])
        generator = torch.Generator().manual_seed(bps.rank())
        inputs = torch.randn(20, 6, generator=generator)
        wanted = inputs.sum(dim=1, keepdim=True) * 10 ** bps.rank()

        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = (layer(inputs) - wanted).square().mean()
            loss.backward()
            return loss

        losses = [float(optimizer.step(closure)) for _ in range(5)]
        assert losses[-1] < losses[0], losses
        everyone = bps.push_pull(torch.tensor(losses), name=f"losses.{search}")
        assert everyone.equal(torch.tensor(losses)), (everyone, losses)
        for name, parameter in layer.named_parameters():
            assert bps.broadcast(parameter, 0, f"{search}.same.{name}").equal(parameter)

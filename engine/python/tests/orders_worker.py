"""What the workers of the tests of the order do in which gradients are sent, and of what goes together."""

import hashlib
import os
from typing import Any, List

import ringscope_engine.torch as bps
import torch
from gradients_worker import refused
from ringscope_engine import _group
from ringscope_engine.torch import Compression, _plan

N_LAYERS, WIDTH = 6, 24


class Net(torch.nn.Module):
    """Layers that are declared in another order than that in which they are used."""

    def __init__(self, uses: List[int]) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.uses = uses
        for number in reversed(range(N_LAYERS)):
            setattr(self, f"l{number}", torch.nn.Linear(WIDTH, WIDTH))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        for number in self.uses:
            inputs = torch.tanh(getattr(self, f"l{number}")(inputs))
        return inputs


class Watched:
    """A training, and in which order gradients were ready and sent in the last step."""

    def __init__(self, name: str, uses: List[int]) -> None:
        self.net = Net(uses)
        named = [(f"{name}.{one}", parameter) for one, parameter in self.net.named_parameters()]
        self.ready: List[str] = []
        self.sent: List[str] = []
        self.n_early = 0
        for one, parameter in named:
            parameter.register_hook(lambda _, one=one: self.ready.append(f"gradient.{one}"))
        self.optimizer = bps.DistributedOptimizer(torch.optim.SGD(self.net.parameters(), lr=0.5), named)
        submit = _plan.Parcel.submit

        def noted(parcel: Any, op: int) -> None:
            if parcel.name.startswith(f"gradient.{name}."):
                self.sent.append(parcel.name)
            submit(parcel, op)

        _plan.Parcel.submit = noted

    def step(self) -> None:
        self.ready.clear(), self.sent.clear()
        self.optimizer.zero_grad()
        self.net(torch.full((3, WIDTH), 0.1 * (bps.rank() + 1))).square().sum().backward()
        self.n_early = len(self.sent)
        self.optimizer.step()

    def digest(self) -> str:
        values = torch.cat([parameter.detach().flatten() for parameter in self.net.parameters()])
        return hashlib.sha256(values.numpy().tobytes()).hexdigest()


def one_by_one() -> None:
    """Each gradient by itself: sent when it is ready, whatever the order of the declarations."""
    bps.init()
    natural = Watched("natural", [*range(N_LAYERS)])
    natural.step()
    # Nobody knows the order yet.
    assert natural.n_early == 0 and len(natural.sent) == 2 * N_LAYERS, natural.sent
    for _ in range(2):
        natural.step()
        assert natural.sent == natural.ready and natural.n_early == 2 * N_LAYERS, (natural.sent, natural.ready)
    # Worker 0's order counts, and others' gradients wait for their turns.
    differing = Watched("differing", [*range(N_LAYERS)] if bps.rank() == 0 else [3, 0, 4, 1, 5, 2])
    orders = set()
    for _ in range(3):
        differing.step()
        orders.add(tuple(differing.sent))
    assert len(orders) == 1 and differing.n_early == 2 * N_LAYERS
    everyone = bps.broadcast_object(differing.sent, 0)
    assert everyone == differing.sent, (everyone, differing.sent)
    # An order that has changed is found out, and one that is asked for while gradients are under way counts from the next step on.
    _plan.STEPS_BETWEEN = 4
    changing = Watched("changing", [*range(N_LAYERS)])
    for step in range(12):
        if step == 2:
            changing.net.uses.reverse()
        changing.step()
        if step in (3, 11):
            assert (changing.sent == changing.ready) == (step == 11), (step, changing.sent, changing.ready)
    # A parameter that is not used comes last, and holds up nothing from the second step on.
    unused = Watched("unused", [0, 1, 2, 4, 5])
    for _ in range(2):
        unused.step()
    assert unused.n_early == 2 * (N_LAYERS - 1) and unused.sent[: unused.n_early] == unused.ready, unused.sent
    print(same_bits())
    bps.shutdown()


def together() -> None:
    """Small ones go together, up to a limit, and the bits are the same."""
    bps.init()
    limit = int(os.environ["RSUM_FUSION_BYTES"])
    watched = Watched("together", [*range(N_LAYERS)])
    for _ in range(2):
        watched.step()
    layer_bytes = 4 * WIDTH * (WIDTH + 1)
    n_parcels = -(-N_LAYERS // (limit // layer_bytes))
    assert len(watched.sent) == n_parcels, (watched.sent, n_parcels)
    assert watched.n_early == n_parcels and all(" more (" in name for name in watched.sent), watched.sent
    print(same_bits())
    bps.shutdown()


def same_bits() -> str:
    """What a training comes to, whatever goes together."""
    watched = Watched("bits", [*range(N_LAYERS)])
    for _ in range(4):
        watched.step()
    return watched.digest()


def moved_meanwhile() -> None:
    """Tensors that are given other memory while their sums are under way."""
    for name, other, words in (
        ("same", torch.zeros(300_000), ""),
        ("shorter", torch.zeros(1), "another length or type"),
        ("other type", torch.zeros(300_000, dtype=torch.float64), "another length or type"),
    ):
        tensors = [torch.ones(3), torch.ones(300_000)]
        handle = bps.grouped_allreduce_async_(tensors, average=False, name=f"moved {name}")
        tensors[1].data = other
        try:
            bps.synchronize(handle)
            assert not words and tensors[1].eq(bps.size()).all() and other.eq(bps.size()).all()
        except bps.Error as error:
            assert words and words in str(error), error
            assert tensors[0].eq(1).all() and other.eq(0).all()


class Counted:
    """A gradient that counts how often its length is asked for."""

    is_rows, n_asked = False, 0

    def __init__(self) -> None:
        self.parameter = torch.zeros(1)

    def size_bytes(self) -> int:
        Counted.n_asked += 1
        return 4


def many_are_packed_in_little_time() -> None:
    slots: Any = [Counted() for _ in range(1000)]
    packed = _plan._packed(slots, 400, Compression.none, 1 << 16)
    assert [len(together) for together in packed] == [100] * 10
    # Once each for all that were put together before would be 50 times as often.
    assert Counted.n_asked <= 3 * len(slots), Counted.n_asked


def grouped() -> None:
    """Several tensors in one call, of several types, which Horovod has."""
    bps.init()
    n, rank = bps.size(), bps.rank()
    tensors = [torch.full((number + 1, 2), float(rank + number)) for number in range(20)]
    tensors += [torch.arange(3) * rank, torch.ones(4, dtype=torch.float64), torch.ones(4, 3).t() * rank]
    wanted = [sum(tensor - rank * change + other * change for other in range(n)) for tensor, change in zip(tensors, changes())]
    for got, right in zip(bps.grouped_allreduce(tensors, average=False, name="grouped"), wanted):
        assert got.equal(right) and got.dtype == right.dtype, (got, right)
    handle = bps.grouped_allreduce_async(tensors[:20], name="average")
    for got, right in zip(bps.synchronize(handle), wanted):
        assert torch.allclose(got, right / n), (got, right)
    assert bps.poll(handle)
    same = bps.grouped_allreduce_(tensors, average=False, name="grouped")
    for tensor, got, right in zip(tensors, same, wanted):
        assert got is tensor and tensor.equal(right), (tensor, right)
    assert bps.grouped_allreduce([]) == []
    moved_meanwhile()
    n_before = len(_group._in_flight)
    refused("elements of type torch.int16", lambda: bps.grouped_allreduce_([torch.ones(2), torch.ones(2, dtype=torch.int16)]))
    assert len(_group._in_flight) == n_before
    many_are_packed_in_little_time()
    os.environ["RSUM_FUSION_BYTES"] = "some"
    refused('RSUM_FUSION_BYTES: "some" is not a number', _plan.fusion_bytes)
    bps.shutdown()


def changes() -> List[torch.Tensor]:
    """How the tensors of `grouped` grow with the rank."""
    ones = [torch.ones(number + 1, 2) for number in range(20)]
    return [*ones, torch.arange(3), torch.zeros(4, dtype=torch.float64), torch.ones(3, 4)]

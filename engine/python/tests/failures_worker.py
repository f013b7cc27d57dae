"""What the workers of the tests of failures do, of a worker or of a broadcast: what is right afterwards."""

import os
from typing import Callable, List, Tuple

import ringscope_engine.torch as bps
import torch
from gradients_worker import Training, refused
from ringscope_engine import Error


def loss_between() -> None:
    """A worker dies, and the others are told by something else than a step while gradients are under way."""
    bps.init()
    training = Training("loss")
    training.expect_plain_step()
    training.optimizer.zero_grad()
    if bps.rank() == bps.size() - 1:
        os.kill(os.getpid(), 9)
    try:
        training.backward()
        bps.push_pull(torch.ones(1), name="metric")
        raise AssertionError("nobody was lost")
    except bps.LostProcess:
        bps.resume()
    bps.broadcast_parameters(training.layer.state_dict())
    training.before, training.sum = training.weight(), torch.full((3, 4), float(bps.size() * (bps.size() + 1)))
    training.expect_plain_step()
    bps.shutdown()


class WrittenOnce(torch.Tensor):
    """A tensor that takes new values once."""

    n_written = 0

    def copy_(self, *values: object, **settings: object) -> torch.Tensor:
        WrittenOnce.n_written += 1
        if WrittenOnce.n_written > 1:
            raise Error("written twice")
        return super().copy_(*values, **settings)


def broadcasts_fail() -> None:
    """A broadcast that does not come about leaves everything as it was."""
    bps.init()
    rank = bps.rank()
    own = torch.arange(6.0).reshape(2, 3) + rank
    model, transposed = torch.nn.Linear(3, 2), (torch.ones(3, 4) * rank).t()
    state = {**model.state_dict(), "transposed": transposed}
    tensors = [own, own.numpy(), *state.values()]
    before = [tensor.copy() if tensor is tensors[1] else tensor.clone() for tensor in tensors]
    bps.broadcast(torch.ones(5), 0, "five")
    mistakes: List[Tuple[str, Callable[[], object]]] = [
        ("five", lambda: bps.broadcast_(own, 0, "five")),
        ("no worker 9", lambda: bps.broadcast_(own, 9)),
    ]
    for words, mistake in mistakes:
        refused(words, mistake)
        expect_as_before(tensors, before)
    # One that cannot be written comes last.
    expanded = {**state, "expanded": torch.ones(3, 1).expand(3, 4)}
    refused("parameter.expanded cannot be replaced", lambda: bps.broadcast_parameters(expanded))
    expect_as_before(tensors, before)
    # One that can be written before, and no more once the values have come.
    refused("written twice", lambda: bps.broadcast_parameters({**state, "once": WrittenOnce(torch.ones(2))}))
    expect_as_before(tensors, before)
    bps.barrier()
    if rank == bps.size() - 1:
        os.kill(os.getpid(), 9)
    for call in (
        lambda: bps.broadcast_parameters(state),
        lambda: bps.broadcast_(own, 0),
        lambda: bps.synchronize(bps.broadcast_async_(own, 0)),
    ):
        try:
            call()
            raise AssertionError("nobody was lost")
        except bps.LostProcess:
            expect_as_before(tensors, before)


def expect_as_before(tensors: list, before: list) -> None:
    for tensor, wanted in zip(tensors, before):
        assert torch.equal(torch.as_tensor(tensor), torch.as_tensor(wanted)), (tensor, wanted)

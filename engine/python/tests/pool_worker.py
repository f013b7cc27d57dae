"""What the workers of the tests with a pool of servers do."""

import hashlib
import os
from unittest import mock

import ringscope_engine.torch as bps
import torch

STEPS = 40


def trains() -> None:
    """Prints how many servers there were, and a hash of the parameters, which is to be the same whatever the servers."""
    bps.init()
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 64))
    optimizer = bps.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.05), model.named_parameters())
    bps.broadcast_parameters(model.state_dict(), 0)
    torch.manual_seed(bps.rank())
    wanted, seen, step = int(os.environ["WAITS_FOR"]), [bps.servers()], 0
    while step < STEPS:
        # Half of the steps are made without a server, the others with as many as are waited for.
        servers = bps.adapt()
        assert servers == bps.servers()
        if servers != seen[-1]:
            seen.append(servers)
        if step == STEPS // 2 and servers < wanted:
            continue
        optimizer.zero_grad()
        model(torch.randn(16, 64)).square().mean().backward()
        optimizer.step()
        step += 1
    _say(seen, model)


def trains_by_itself() -> None:
    """The same, of a script that knows nothing of pools: two optimizers share the gradients of a loss."""
    bps.init()
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 64))
    # What is summed once more shows, unlike what is averaged once more.
    optimizers = [
        bps.DistributedOptimizer(torch.optim.SGD(layer.parameters(), 0.02), layer.named_parameters(str(place)), op=bps.Sum)
        for place, layer in enumerate([model[0], model[2]])
    ]
    bps.broadcast_parameters(model.state_dict(), 0)
    torch.manual_seed(bps.rank())
    wanted, seen, step = int(os.environ["WAITS_FOR"]), [bps.servers()], 0
    idle = torch.nn.Parameter(torch.zeros(1))
    waiting = bps.DistributedOptimizer(torch.optim.SGD([idle], 0.0), [("idle", idle)])
    while step < STEPS:
        if bps.servers() != seen[-1]:
            seen.append(bps.servers())
        if step == STEPS // 2 and bps.servers() < wanted:
            waiting.zero_grad()
            idle.sum().backward()
            waiting.step()
            continue
        for optimizer in optimizers:
            optimizer.zero_grad()
        model(torch.randn(16, 64)).square().mean().backward()
        before = bps.epoch()
        optimizers[0].step()
        assert bps.epoch() == before, "the other optimizer's gradients were under way"
        optimizers[1].step()
        step += 1
    _say(seen, model)


def obeys_its_switch() -> None:
    """Takes a step with each setting, and counts the calls."""
    parameter = torch.nn.Parameter(torch.zeros(1))
    bps.init()
    for settings, calls in [({"RSUM_POOL": "a:1"}, 1), ({"RSUM_POOL": "a:1", "RSUM_ADAPT": "0"}, 0), ({}, 0)]:
        with mock.patch.dict(os.environ, settings), mock.patch("ringscope_engine._group.adapt_if") as adapt:
            optimizer = bps.DistributedOptimizer(torch.optim.SGD([parameter], 0.1), [("one", parameter)])
            parameter.sum().backward()
            optimizer.step()
            assert adapt.call_count == calls, settings
    with mock.patch.dict(os.environ, {"RSUM_ADAPT": "no"}):
        try:
            bps.DistributedOptimizer(torch.optim.SGD([parameter], 0.1), [("one", parameter)])
        except bps.Error as error:
            assert "neither 1 nor 0" in str(error)
        else:
            raise AssertionError("a setting that makes no sense")
    bps.shutdown()


def _say(seen: "list[int]", model: torch.nn.Module) -> None:
    parameters = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    print(seen[0], seen[-1], hashlib.sha256(parameters.numpy().tobytes()).hexdigest())
    bps.shutdown()

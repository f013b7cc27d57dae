"""What the workers of the tests with a pool of servers do."""

import hashlib
import os

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
    parameters = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    print(seen[0], seen[-1], hashlib.sha256(parameters.numpy().tobytes()).hexdigest())
    bps.shutdown()

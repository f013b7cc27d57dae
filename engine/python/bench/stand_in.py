"""What it costs a step that nobody may touch gradients while they are under way. `cargo xtask bench python` runs it.

A step is `backward()` and `step()` of as many parameters as ResNet-50 has, of 64 values each, so that next to nothing is computed
or sent, by a group of one worker. Rounds with stand-ins for gradients and without take turns in one process.
"""

from __future__ import annotations

import os
import secrets
import socket
import statistics
import sys
import time
from typing import List, Optional

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    PORT = probe.getsockname()[1]
os.environ.update(
    RSUM_ROOT=f"127.0.0.1:{PORT}", RSUM_SECRET=secrets.token_hex(16), RSUM_WORKERS="1", RSUM_SERVERS="0", RSUM_RANK="0"
)

import ringscope_engine.torch as bps  # noqa: E402
import torch  # noqa: E402
from ringscope_engine.torch import _gradients  # noqa: E402

# ResNet-50's.
N_GRADIENTS = 161
ROUNDS, STEPS = 61, 20
# A hundredth of a step of ResNet-50 in which nothing is computed (166 ms, see "What being watched costs a summation step").
LIMIT_US = 10.0


class Nothing:
    """What a gradient has in place of a stand-in in the rounds without."""

    def __init__(self, name: str, parameter: torch.nn.Parameter, sender: object) -> None:
        self.gradient = parameter.grad

    def release(self) -> None:
        pass

    def mistake(self) -> Optional[str]:
        return None


def main() -> int:
    torch.set_num_threads(1)
    bps.init()
    parameters = [torch.nn.Parameter(torch.ones(64)) for _ in range(N_GRADIENTS)]
    named = [(str(index), parameter) for index, parameter in enumerate(parameters)]
    optimizer = bps.DistributedOptimizer(torch.optim.SGD(parameters, lr=1e-6), named)
    stand_in = _gradients.Claim
    took: List[List[float]] = [[], []]
    for number in range(ROUNDS + 1):
        for kind, claim in enumerate((Nothing, stand_in)):
            _gradients.Claim = claim
            begin = time.thread_time()
            for _ in range(STEPS):
                optimizer.zero_grad()
                sum(parameter.sum() for parameter in parameters).backward()
                optimizer.step()
            # The first round warms up.
            if number > 0:
                took[kind].append((time.thread_time() - begin) / STEPS)
    bps.shutdown()
    costs = [(with_it - without) / N_GRADIENTS * 1e6 for without, with_it in zip(*took)]
    without, with_it = (statistics.median(one) * 1e3 for one in took)
    print(f"PyTorch {torch.__version__}, {ROUNDS} rounds in turns of {STEPS} steps, {N_GRADIENTS} gradients\n")
    print(f"a step without stand-ins      {without:8.2f} ms of the thread")
    print(f"a step with them              {with_it:8.2f} ms")
    cost, least, most = statistics.median(costs), min(costs), max(costs)
    print(f"a gradient's stand-in         {cost:8.2f} us ({least:.2f} to {most:.2f})   limit {LIMIT_US:.0f}")
    return 0 if cost <= LIMIT_US else 1


if __name__ == "__main__":
    sys.exit(main())

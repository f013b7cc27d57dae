"""What the workers of the test of RSUM_DEBUG_EVERY do: the last one changes a parameter on its own."""

import os
import warnings

import ringscope_engine.torch as bps
import torch
from ringscope_engine import Error
from ringscope_engine.torch import _debug

CHANGED_AFTER = 3


def main() -> None:
    check_words()
    bps.init()
    if bps.rank() == 1:
        os.environ["RSUM_DEBUG_EVERY"] = os.environ.get("EVERY_OF_WORKER_1", os.environ["RSUM_DEBUG_EVERY"])
    torch.manual_seed(0)
    layers = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4).to(torch.bfloat16), torch.nn.Linear(4, 4), torch.nn.Linear(2, 2, bias=False))
    # Frozen: it gets no gradients, but has to be the same.
    layers[3].requires_grad_(False)
    optimizer = bps.DistributedOptimizer(torch.optim.SGD(layers.parameters(), lr=0.5), layers.named_parameters())
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for step in range(6):
            try:
                optimizer.zero_grad()
                sum(parameter.float().square().sum() for parameter in layers[:3].parameters()).backward()
                optimizer.step()
            except Error as error:
                print(step, error)
                break
            if step + 1 == CHANGED_AFTER and bps.rank() == bps.size() - 1:
                with torch.no_grad():
                    layers[1].bias[2] += 1
                    layers[2].bias[2] += 1
                    layers[3].weight[0, 0] += 1
        for warning in told:
            if "is another one" in str(warning.message):
                print(warning.message)
    bps.shutdown()


def check_words() -> None:
    differing = _debug.words("b", [2, 3], 0)
    assert differing == "parameter b of worker 1 is another one than that of worker 0", differing
    differing = _debug.words("a", [9, 1, 1, 8], 1)
    assert differing == (
        "parameter a of workers 0, 3 is another one than that of workers 1, 2; 1 other parameters differ, too"
    ), differing
    os.environ["RSUM_DEBUG_EVERY"], before = "often", os.environ["RSUM_DEBUG_EVERY"]
    try:
        _debug.Comparison("")
        raise AssertionError("not refused")
    except Error as error:
        assert '"often" is not a number of steps' in str(error), error
    os.environ["RSUM_DEBUG_EVERY"] = before

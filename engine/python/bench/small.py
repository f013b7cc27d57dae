"""What it costs to sum many small tensors, and how early gradients are sent. `cargo xtask bench python` runs it.

Four workers on one machine. 400 tensors of 1 KiB by a call each, in one call (`grouped_allreduce_`), and as one tensor of 400 KiB,
in turns; then steps of an optimizer with as many parameters, with small gradients sent together and each by itself; then a
model that declares its layers in the order in which it uses them, and one that declares them in reverse.
"""

from __future__ import annotations

import os
import secrets
import socket
import statistics
import subprocess
import sys
import time
from typing import Callable, Dict, List, Tuple

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import ringscope_engine.torch as bps  # noqa: E402
import torch  # noqa: E402
from ringscope_engine.torch import _plan  # noqa: E402

N_WORKERS, N_TENSORS, ELEMENTS = 4, 400, 256
ROUNDS, STEPS = 200, 15
# In one call they may take so many times as long as one tensor, by the medians.
LIMIT = 1.3
# Layers and their width, of the model that sends gradients early.
LAYERS, WIDTH = 8, 600


def main() -> int:
    if "RSUM_RANK" in os.environ:
        return worker()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        root = f"127.0.0.1:{probe.getsockname()[1]}"
    shared = {**os.environ, "RSUM_ROOT": root, "RSUM_SECRET": secrets.token_hex(16), "RSUM_SERVERS": "0"}
    shared.update(RSUM_WORKERS=str(N_WORKERS), OMP_NUM_THREADS="1")
    command = [sys.executable, os.path.abspath(__file__)]
    workers = [subprocess.Popen(command, env={**shared, "RSUM_RANK": str(rank)}) for rank in range(N_WORKERS)]
    return max(abs(worker.wait()) for worker in workers)


def worker() -> int:
    torch.set_num_threads(1)
    bps.init()
    calls = in_calls()
    steps = {limit: in_steps(limit) for limit in (0, 64 << 10, 1 << 20)}
    early = {order: in_order(order) for order in ("natural", "reversed")}
    bps.barrier()
    if bps.rank() == 0:
        tell(calls, steps, early)
    bps.shutdown()
    return 0 if calls["grouped"][0] <= LIMIT * calls["one"][0] else 1


def in_calls() -> Dict[str, List[float]]:
    """Milliseconds of each way to sum the tensors, in turns: the median, the quartiles and the best, worker 0's on all."""
    tensors = [torch.ones(ELEMENTS) for _ in range(N_TENSORS)]
    flat = torch.ones(N_TENSORS * ELEMENTS)
    for place, tensor in enumerate(tensors):
        bps.declare(f"small.{place}", tensor)

    def each() -> None:
        handles = [bps.push_pull_async_inplace(tensor, True, f"small.{place}") for place, tensor in enumerate(tensors)]
        for handle in handles:
            handle.wait()

    ways: Dict[str, Callable[[], object]] = {
        "each": each,
        "grouped": lambda: bps.grouped_allreduce_(tensors, name="grouped"),
        "one": lambda: bps.push_pull_inplace(flat, name="flat"),
    }
    took: Dict[str, List[float]] = {way: [] for way in ways}
    for number in range(ROUNDS):
        for way, call in ways.items():
            bps.barrier()
            begin = time.perf_counter()
            call()
            # The first ones warm up.
            if number >= 5:
                took[way].append((time.perf_counter() - begin) * 1e3)
    quartiles = {way: statistics.quantiles(one, n=4) for way, one in took.items()}
    told = [[middle, low, high, min(took[way])] for way, (low, middle, high) in quartiles.items()]
    return dict(zip(ways, bps.broadcast(torch.tensor(told, dtype=torch.float64), 0, "took").tolist()))


def in_steps(limit: int) -> float:
    """Milliseconds of a step of an optimizer with as many parameters, where gradients go together up to so many bytes."""
    os.environ["RSUM_FUSION_BYTES"] = str(limit)
    parameters = [torch.nn.Parameter(torch.ones(ELEMENTS)) for _ in range(N_TENSORS)]
    named = [(f"{limit}.{place}", parameter) for place, parameter in enumerate(parameters)]
    optimizer = bps.DistributedOptimizer(torch.optim.SGD(parameters, lr=1e-6, foreach=True), named)
    took: List[float] = []
    for number in range(STEPS):
        bps.barrier()
        begin = time.perf_counter()
        optimizer.zero_grad()
        sum(parameter.sum() for parameter in parameters).backward()
        optimizer.step()
        if number >= 2:
            took.append((time.perf_counter() - begin) * 1e3)
    return min(took)


class Net(torch.nn.Module):
    def __init__(self, order: str) -> None:
        super().__init__()
        numbers = range(LAYERS) if order == "natural" else reversed(range(LAYERS))
        for number in numbers:
            setattr(self, f"l{number}", torch.nn.Linear(WIDTH, WIDTH))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        for number in range(LAYERS):
            inputs = torch.tanh(getattr(self, f"l{number}")(inputs))
        return inputs


def in_order(order: str) -> Tuple[int, float, float, float]:
    """Gradients sent in the first 90 % of a backward pass; ms until the first of them, of the pass, and of the step after it."""
    os.environ["RSUM_FUSION_BYTES"] = "0"
    torch.manual_seed(0)
    model = Net(order)
    named = [(f"{order}.{name}", parameter) for name, parameter in model.named_parameters()]
    optimizer = bps.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.01), named)
    inputs, times, submit = torch.randn(512, WIDTH), [], _plan.Parcel.submit

    def noted(parcel: _plan.Parcel, op: int) -> None:
        times.append(time.perf_counter())
        submit(parcel, op)

    _plan.Parcel.submit = noted
    results = []
    for _ in range(8):
        optimizer.zero_grad()
        loss = model(inputs).square().sum()
        bps.barrier()
        times.clear()
        begin = time.perf_counter()
        loss.backward()
        end = time.perf_counter()
        optimizer.step()
        early = sum(one < begin + (end - begin) * 0.9 for one in times)
        stepped = time.perf_counter() - end
        results.append((early, (times[0] - begin) * 1e3, (end - begin) * 1e3, stepped * 1e3))
    _plan.Parcel.submit = submit
    return tuple(statistics.median(column) for column in zip(*results[2:]))  # type: ignore[return-value]


def tell(calls: Dict[str, List[float]], steps: Dict[int, float], early: Dict[str, Tuple[int, float, float, float]]) -> None:
    print(f"\nPyTorch {torch.__version__}, {N_WORKERS} workers on {os.cpu_count()} cores; {N_TENSORS} tensors of {4 * ELEMENTS} bytes\n")
    print("                             median   quartiles          best")
    names = {"each": "a call each", "grouped": "grouped_allreduce_", "one": "one tensor of as many bytes"}
    for way, (median, low, high, best) in calls.items():
        print(f"{names[way]:28}{median:7.2f} ms{low:8.2f} to {high:5.2f}{best:8.2f}")
    medians, bests = (calls["grouped"][place] / calls["one"][place] for place in (0, 3))
    print(f"in one call, of one tensor  {medians:7.2f} by medians, {bests:.2f} by the best; limit {LIMIT}\n")
    for limit, took in steps.items():
        print(f"a step, RSUM_FUSION_BYTES={limit:<8}{took:5.1f} ms")
    print()
    for order, (count, first, backward, step) in early.items():
        print(
            f"layers declared {order:8}: {count:.0f} of {2 * LAYERS} gradients sent in the first 90 % of backward, "
            f"the first after {first:.0f} of {backward:.0f} ms; {step:.0f} ms from there to the step's end"
        )


if __name__ == "__main__":
    sys.exit(main())

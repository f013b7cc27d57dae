"""The backend "rsccl" of torch.distributed beside Gloo, and MPI (mpi4py), in the same processes and turns. `cargo xtask bench
process-groups` runs it: `mpirun -n N python process_groups.py`, with 2 and 4 ranks on one machine.

For each collective and size the peers take turns in rounds; each round begins with another one. A figure is the median over
rounds of a call's mean time on rank 0, with the 10th and 90th percentile.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from typing import Any, Callable, Dict, List, Tuple

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from mpi4py import MPI  # noqa: E402

WORLD = MPI.COMM_WORLD
os.environ.update(RANK=str(WORLD.rank), WORLD_SIZE=str(WORLD.size), MASTER_ADDR="127.0.0.1")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

import ringscope_engine.c10d  # noqa: E402,F401

SIZES = [4, 64, 1 << 10, 8 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20]
# A round lasts about so long, and at least one call.
ROUND_S = 0.02
Call = Callable[[], Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="bytes")
    parser.add_argument("--only", nargs="+", default=list(COLLECTIVES), choices=list(COLLECTIVES))
    options = parser.parse_args()
    torch.set_num_threads(1)
    _meet()
    groups = {name: dist.new_group(backend=name) for name in ("rsccl", "gloo")}
    for collective in options.only:
        if WORLD.rank == 0:
            print(f"\n{collective}, {WORLD.size} ranks; median (10th to 90th percentile), us\n")
            print("| bytes | rsccl | Gloo | MPI | Gloo / rsccl |\n|---|---|---|---|---|")
        for size in options.sizes:
            calls = COLLECTIVES[collective](max(size // 4, 1), groups)
            times = measured(calls, options.rounds)
            if WORLD.rank == 0:
                medians = {name: statistics.median(of_peer) for name, of_peer in times.items()}
                cells = " | ".join(shown(times[name]) if name in times else "" for name in ("rsccl", "gloo", "mpi"))
                ratio = f"{medians['gloo'] / medians['rsccl']:.2f}" if "gloo" in medians else ""
                print(f"| {size} | {cells} | {ratio} |", flush=True)
    dist.destroy_process_group()


def _meet() -> None:
    store = None
    if WORLD.rank == 0:
        store = dist.TCPStore("127.0.0.1", 0, WORLD.size, True, wait_for_workers=False)
    port = WORLD.bcast(store.port if store is not None else None)
    if store is None:
        store = dist.TCPStore("127.0.0.1", port, WORLD.size, False)
    dist.init_process_group("gloo", store=store, rank=WORLD.rank, world_size=WORLD.size)


def _all_reduce(n: int, groups: Dict[str, Any]) -> Dict[str, Call]:
    x = torch.zeros(n)
    array = x.numpy()
    calls: Dict[str, Call] = {name: (lambda group=group: dist.all_reduce(x, group=group)) for name, group in groups.items()}
    calls["mpi"] = lambda: WORLD.Allreduce(MPI.IN_PLACE, array)
    return calls


def _broadcast(n: int, groups: Dict[str, Any]) -> Dict[str, Call]:
    x = torch.zeros(n)
    array = x.numpy()
    calls: Dict[str, Call] = {name: (lambda group=group: dist.broadcast(x, 0, group=group)) for name, group in groups.items()}
    calls["mpi"] = lambda: WORLD.Bcast(array)
    return calls


def _all_gather(n: int, groups: Dict[str, Any]) -> Dict[str, Call]:
    own, whole = torch.zeros(n), torch.zeros(WORLD.size, n)
    parts = list(whole)
    source, target = own.numpy(), whole.numpy()
    calls: Dict[str, Call] = {
        name: (lambda group=group: dist.all_gather(parts, own, group=group)) for name, group in groups.items()
    }
    calls["mpi"] = lambda: WORLD.Allgather(source, target)
    return calls


def _ping_pong(n: int, groups: Dict[str, Any]) -> Dict[str, Call]:
    """There and back between ranks 0 and 1."""
    x = torch.zeros(n)
    array = x.numpy()

    def of_torch(group: Any) -> None:
        if WORLD.rank == 0:
            dist.send(x, 1, group=group)
            dist.recv(x, 1, group=group)
        elif WORLD.rank == 1:
            dist.recv(x, 0, group=group)
            dist.send(x, 0, group=group)

    def of_mpi() -> None:
        if WORLD.rank == 0:
            WORLD.Send(array, 1)
            WORLD.Recv(array, 1)
        elif WORLD.rank == 1:
            WORLD.Recv(array, 0)
            WORLD.Send(array, 0)

    calls: Dict[str, Call] = {name: (lambda group=group: of_torch(group)) for name, group in groups.items()}
    calls["mpi"] = of_mpi
    return calls


def _ddp(n: int, groups: Dict[str, Any]) -> Dict[str, Call]:
    """A step of DistributedDataParallel over four layers of so many bytes each, with next to no computation."""
    calls: Dict[str, Call] = {}
    for name, group in groups.items():
        model = torch.nn.ParameterList([torch.nn.Parameter(torch.zeros(n)) for _ in range(4)])
        calls[name] = _step(torch.nn.parallel.DistributedDataParallel(_Summed(model), process_group=group))
    return calls


class _Summed(torch.nn.Module):
    def __init__(self, parameters: torch.nn.ParameterList) -> None:
        super().__init__()
        self.own = parameters

    def forward(self) -> torch.Tensor:
        return sum(one[0] for one in self.own)  # type: ignore[return-value]


def _step(model: torch.nn.Module) -> Call:
    return lambda: model().backward()


COLLECTIVES: Dict[str, Callable[[int, Dict[str, Any]], Dict[str, Call]]] = {
    "all_reduce": _all_reduce,
    "broadcast": _broadcast,
    "all_gather": _all_gather,
    "ping-pong": _ping_pong,
    "ddp": _ddp,
}


def measured(calls: Dict[str, Call], rounds: int) -> Dict[str, List[float]]:
    """Microseconds of a call in each round, by peer."""
    n_calls = {name: _calls_in_a_round(call) for name, call in calls.items()}
    times: Dict[str, List[float]] = {name: [] for name in calls}
    order = list(calls)
    for index in range(rounds):
        for name in order[index % len(order) :] + order[: index % len(order)]:
            WORLD.Barrier()
            times[name].append(_timed(calls[name], n_calls[name]) * 1e6)
    return times


def _calls_in_a_round(call: Call) -> int:
    WORLD.Barrier()
    _timed(call, 3)
    own = _timed(call, 3)
    return max(int(ROUND_S / max(WORLD.bcast(own), 1e-7)), 1)


def _timed(call: Call, n: int) -> float:
    begin = time.perf_counter()
    for _ in range(n):
        call()
    return (time.perf_counter() - begin) / n


def shown(times: List[float]) -> str:
    ordered = sorted(times)
    tenth = len(ordered) // 10
    return f"{statistics.median(ordered):.4g} ({ordered[tenth]:.4g} to {ordered[-1 - tenth]:.4g})"


if __name__ == "__main__":
    main()

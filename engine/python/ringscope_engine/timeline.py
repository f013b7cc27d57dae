"""One trace of the files that processes of a summation group leave in the folder RSUM_TIMELINE, for Perfetto and chrome://tracing:

    python3 -m ringscope_engine.timeline FOLDER > trace.json

Each worker is a process of the trace. A part of a tensor in a round is a bar there: `push` until the service has all of it, `wait` until
the last worker's was added, `answer` until the service sends the last byte of the sum, `pull` until the worker has it. The clocks of
other machines than rank 0's are set by what went both ways: of the least times that it took there and back, half is each one's.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Tuple

# Phases of a part, by the instants that they begin and end with.
PHASES = (("push", "began", "arrived"), ("wait", "arrived", "summed"), ("answer", "summed", "left"), ("pull", "left", "pulled"))
INSTANTS = ("began", "arrived", "summed", "left", "pulled")

# Group, epoch and generation.
_Run = Tuple[str, int, int]


class Part(NamedTuple):
    """One part of a tensor in one round, as one worker saw it."""

    run: _Run
    worker: int
    service: int
    key: int
    round: int
    tensor: str
    bytes: int
    # The worker whose contribution came last.
    last: Optional[int]
    # By name, in ns of rank 0's clock; all of INSTANTS, and `sent`, where nothing was dropped.
    at: Dict[str, int]


class Clock(NamedTuple):
    """How far a machine's clock is before rank 0's, in ns, and how far that may be off; None where nothing went both ways."""

    ahead_ns: Optional[int]
    off_ns: int


def read(folder: "str | Path") -> List[Dict[str, Any]]:
    """What all processes have left."""
    paths = sorted(Path(folder).glob("rsum-*.json"))
    if not paths:
        raise SystemExit(f"{folder}: there are no files of RSUM_TIMELINE")
    return [json.loads(path.read_text()) for path in paths]


def clocks(files: Iterable[Dict[str, Any]]) -> Dict[str, Clock]:
    """Of each machine, by its boot."""
    there = _by_rank(files)
    least: Dict[Tuple[str, str], int] = {}
    for ranks in there.values():
        for begin, end in (("sent", "arrived"), ("left", "pulled")):
            for one, other, took in _crossings(ranks, begin, end):
                least[one, other] = min(took, least.get((one, other), took))
    first = [ranks[min(ranks)]["boot"] for ranks in there.values()]
    known: Dict[str, Clock] = {boot: Clock(0, 0) for boot in first[:1]}
    todo = list(known)
    while todo:
        boot = todo.pop(0)
        for one, other in list(least):
            if one == boot and other not in known and (other, one) in least:
                there_ns, back_ns = least[one, other], least[other, one]
                before = known[boot]
                ahead = (before.ahead_ns or 0) + (there_ns - back_ns) // 2
                known[other] = Clock(ahead, before.off_ns + (there_ns + back_ns) // 2)
                todo.append(other)
    boots = {one["boot"] for ranks in there.values() for one in ranks.values()}
    return {boot: known.get(boot, Clock(None, 0)) for boot in boots}


def parts(files: List[Dict[str, Any]]) -> List[Part]:
    """Every part in every round, as each worker saw it."""
    ahead = {boot: clock.ahead_ns or 0 for boot, clock in clocks(files).items()}
    found: List[Part] = []
    for run, ranks in _by_rank(files).items():
        seen: Dict[Tuple[int, int, int, int], Dict[str, int]] = {}
        summed: Dict[Tuple[int, int, int], Tuple[int, int]] = {}
        for rank, one in ranks.items():
            for kind, key, number, other, at in one["instants"]:
                at -= ahead[one["boot"]]
                if kind == "summed":
                    summed[rank, key, number] = (at, other)
                elif kind in ("arrived", "left"):
                    seen.setdefault((other, rank, key, number), {})[kind] = at
                else:
                    seen.setdefault((rank, one["services"][other], key, number), {})[kind] = at
        names = {key: (f"{name}[{index}]", size) for one in ranks.values() for key, name, index, size in one["parts"]}
        for (worker, service, key, number), at in sorted(seen.items()):
            last = None
            if (service, key, number) in summed:
                at["summed"], last = summed[service, key, number]
            name, size = names.get(key, ("", 0))
            found.append(Part(run, worker, service, key, number, name, size, last, at))
    return found


def trace(files: List[Dict[str, Any]]) -> Dict[str, Any]:
    """In Chrome's trace event format."""
    all_parts = parts(files)
    first = min((at for part in all_parts for at in part.at.values()), default=0)
    events: List[Dict[str, Any]] = []
    runs = sorted({part.run for part in all_parts})
    hosts = {(_run(one), one["rank"]): one["host"] for one in files}
    for run, worker in sorted({(part.run, part.worker) for part in all_parts}):
        again = f", epoch {run[1]} generation {run[2]}" if len(runs) > 1 else ""
        name = f"worker {worker} ({hosts.get((run, worker), '')}){again}"
        events.append({"ph": "M", "pid": _pid(runs, run, worker), "name": "process_name", "args": {"name": name}})
    for part in all_parts:
        where = {"pid": _pid(runs, part.run, part.worker), "tid": part.service, "cat": "part"}
        where["id"] = f"{runs.index(part.run)}.{part.worker}.{part.key}.{part.round}"
        args = {"key": part.key, "round": part.round, "bytes": part.bytes, "service": part.service, "last": part.last}
        spans = [(part.tensor, "began", "pulled", args)] + [(name, begin, end, {}) for name, begin, end in PHASES]
        for name, begin, end, arguments in spans:
            if begin in part.at and end in part.at:
                for phase, at in (("b", part.at[begin]), ("e", part.at[end])):
                    events.append({**where, "ph": phase, "name": name, "ts": (at - first) / 1e3, "args": arguments})
    n_whole = sum(all(name in part.at for name in INSTANTS) for part in all_parts)
    machines = {one["host"]: clocks(files)[one["boot"]]._asdict() for one in files}
    other = {"parts": len(all_parts), "whole": n_whole, "dropped": sum(one["dropped"] for one in files), "clocks": machines}
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": other}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python3 -m ringscope_engine.timeline", description=__doc__.splitlines()[0])
    parser.add_argument("folder", help="what RSUM_TIMELINE named")
    made = trace(read(parser.parse_args().folder))
    json.dump(made, sys.stdout)
    told = made["otherData"]
    print(f"{told['whole']} of {told['parts']} parts are whole; {told['dropped']} instants had no room", file=sys.stderr)
    return 0


def _run(file: Dict[str, Any]) -> _Run:
    return (file["group"], file["epoch"], file["generation"])


def _by_rank(files: Iterable[Dict[str, Any]]) -> Dict[_Run, Dict[int, Dict[str, Any]]]:
    runs: Dict[_Run, Dict[int, Dict[str, Any]]] = {}
    for file in files:
        runs.setdefault(_run(file), {})[file["rank"]] = file
    return runs


def _crossings(ranks: Dict[int, Dict[str, Any]], begin: str, end: str) -> Iterable[Tuple[str, str, int]]:
    """From which machine to which something went, and for how long by their clocks."""
    began: Dict[Tuple[int, int, int, int], int] = {}
    for rank, one in ranks.items():
        for kind, key, number, other, at in one["instants"]:
            if kind == begin:
                began[rank, _other_rank(one, kind, other), key, number] = at
    for rank, one in ranks.items():
        for kind, key, number, other, at in one["instants"]:
            sender = _other_rank(one, kind, other)
            if kind == end and (sender, rank, key, number) in began and ranks[sender]["boot"] != one["boot"]:
                yield ranks[sender]["boot"], one["boot"], at - began[sender, rank, key, number]


def _other_rank(one: Dict[str, Any], kind: str, other: int) -> int:
    """Workers name services, which name workers by their ranks."""
    return int(one["services"][other]) if kind in ("began", "sent", "pulled") else other


def _pid(runs: List[_Run], run: _Run, worker: int) -> int:
    return runs.index(run) * 100_000 + worker + 1


if __name__ == "__main__":
    sys.exit(main())

"""Whether a summation group that runs for long needs more and more memory. `cargo xtask soak --summation --seconds 3600` runs it.

Two workers and a server push and pull tensors of several lengths over shared memory, one of them through a codec. What each
process has resident is looked at each second; the figure is the slope of a line through all looks after the first tenth, in
MB/h. Fails above the limit.
"""

from __future__ import annotations

import argparse
import os
import secrets
import socket
import subprocess
import sys
import time
from typing import Dict, List, Tuple

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

LIMIT_MB_H = 1.0
LENGTHS = (1, 1_000, 40_000, 1_000_000)


def work(seconds: float) -> None:
    import numpy

    import ringscope_engine as engine

    engine.init()
    tensors = [numpy.ones(n, numpy.float32) for n in LENGTHS]
    end, rounds, going = time.monotonic() + seconds, 0, numpy.ones(1, numpy.int64)
    while going[0] > 0:
        handles = [engine.push_pull_async(one, f"tensor.{index}", out=one) for index, one in enumerate(tensors)]
        handles.append(engine.push_pull_async(tensors[-1], "coded", compression="f16"))
        for handle in handles:
            handle.wait()
        rounds += 1
        # Worker 0 says for all when it is over.
        going = engine.push_pull(numpy.full(1, int(time.monotonic() < end and engine.rank() == 0)), "going", average=False)
    engine.shutdown()
    print(f"worker {os.environ['RSUM_RANK']}: {rounds} rounds", flush=True)


def resident_mb(pid: int) -> float:
    with open(f"/proc/{pid}/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def slope_mb_h(looks: List[Tuple[float, float]]) -> float:
    """Of the line of least squares through (seconds, MB)."""
    n = len(looks)
    mean_t, mean_mb = sum(t for t, _ in looks) / n, sum(mb for _, mb in looks) / n
    spread = sum((t - mean_t) ** 2 for t, _ in looks)
    return 3600 * sum((t - mean_t) * (mb - mean_mb) for t, mb in looks) / spread


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--server", required=True, help="path of ringscope-sumd")
    options = parser.parse_args()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {
        **os.environ,
        "RSUM_ROOT": f"127.0.0.1:{port}",
        "RSUM_SECRET": secrets.token_hex(16),
        "RSUM_WORKERS": "2",
        "RSUM_SERVERS": "1",
        "RSCCL_NICS": "lo=127.0.0.1",
    }
    command = [sys.executable, __file__, "--work", str(options.seconds)]
    processes = {"server": subprocess.Popen([options.server], env=environment)}
    for rank in range(2):
        processes[f"worker {rank}"] = subprocess.Popen(command, env={**environment, "RSUM_RANK": str(rank)})
    looks: Dict[str, List[Tuple[float, float]]] = {name: [] for name in processes}
    begun = time.monotonic()
    while all(process.poll() is None for process in processes.values()) and time.monotonic() < begun + options.seconds:
        for name, process in processes.items():
            looks[name].append((time.monotonic() - begun, resident_mb(process.pid)))
        time.sleep(1)
    ends = {name: process.wait(timeout=300) for name, process in processes.items()}
    is_good = not any(ends.values())
    for name, of_process in looks.items():
        later = of_process[len(of_process) // 10 :]
        slope = slope_mb_h(later)
        is_good &= slope < LIMIT_MB_H
        print(f"{name}: {later[0][1]:.1f} MB, {later[-1][1]:.1f} MB after {later[-1][0]:.0f} s, {slope:+.2f} MB/h (limit {LIMIT_MB_H})")
    return 0 if is_good else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        work(float(sys.argv[2]))
    else:
        sys.exit(main())

"""What RSUM_TIMELINE costs. `cargo xtask bench python` runs it.

Two workers and a server on one machine sum 400 tensors of 1 KiB by a call each, which is as many parts for as few bytes as there
may be; jobs with and without the timeline take turns. The best round of each job counts, and of those the median.
"""

from __future__ import annotations

import os
import secrets
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Dict, List

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import numpy  # noqa: E402
import ringscope_engine as engine  # noqa: E402

N_WORKERS, N_TENSORS, ELEMENTS = 2, 400, 256
# Instants of all of them have room.
ROUNDS, JOBS = 60, 7


def main() -> int:
    if "RSUM_RANK" in os.environ:
        return worker()
    took: Dict[str, List[float]] = {"without": [], "with": []}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(JOBS):
            took["without"].append(job({}))
            took["with"].append(job({"RSUM_TIMELINE": folder}))
    without, with_it = (statistics.median(times) for times in took.values())
    print(f"{N_WORKERS} workers and a server on {os.cpu_count()} cores; {N_TENSORS} tensors of {4 * ELEMENTS} bytes, a call each; {JOBS} jobs each\n")
    print(f"a round without a timeline   {without:8.2f} ms   {min(took['without']):.2f} to {max(took['without']):.2f}")
    print(f"a round with it              {with_it:8.2f} ms   {min(took['with']):.2f} to {max(took['with']):.2f}")
    return 0


def job(settings: Dict[str, str]) -> float:
    """Milliseconds of the best round."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        root = f"127.0.0.1:{probe.getsockname()[1]}"
    shared = {**os.environ, "RSUM_ROOT": root, "RSUM_SECRET": secrets.token_hex(16), "RSUM_SERVERS": "1", **settings}
    shared.update(RSUM_WORKERS=str(N_WORKERS), OMP_NUM_THREADS="1")
    server = subprocess.Popen([Path(os.environ["RSCCL_LIBRARY"]).with_name("ringscope-sumd")], env=shared, stderr=subprocess.PIPE)
    command = [sys.executable, os.path.abspath(__file__)]
    workers = [
        subprocess.Popen(command, env={**shared, "RSUM_RANK": str(rank)}, stdout=subprocess.PIPE, text=True) for rank in range(N_WORKERS)
    ]
    best = max(float(one.communicate()[0]) for one in workers)
    server.communicate()
    return best


def worker() -> int:
    engine.init()
    arrays = [numpy.ones(ELEMENTS, numpy.float32) for _ in range(N_TENSORS)]
    for place, array in enumerate(arrays):
        engine.declare(f"small.{place}", array)
    took = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        handles = [engine.push_pull_async(array, f"small.{place}", out=array) for place, array in enumerate(arrays)]
        for handle in handles:
            handle.wait()
        took.append((time.perf_counter() - begin) * 1e3)
    # The first ones warm up.
    print(min(took[5:]))
    engine.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())

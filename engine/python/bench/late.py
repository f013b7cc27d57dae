"""What a server keeps of the others' contributions while one worker is late. `cargo xtask bench python` runs it.

Four workers and a server over TCP sum 64 tensors of 4 MiB; worker 0 comes when the others have pushed all that the server takes: it has
taken no more memory for two seconds. For each limit (`RSUM_KEPT_BYTES`): the server's memory at its highest, and the time from worker 0's first
push to its last sum.
"""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Dict, Tuple

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import numpy  # noqa: E402
import ringscope_engine as engine  # noqa: E402

N_WORKERS, N_TENSORS, ELEMENTS = 4, 64, 1 << 20
LIMITS = (1 << 40, 1 << 26, 0)
# How long nothing has moved before worker 0 comes.
STILL_S = 2.0


def main() -> int:
    if "RSUM_RANK" in os.environ:
        return worker()
    megabytes = N_TENSORS * ELEMENTS * 4 // 1_000_000
    print(f"\n{N_WORKERS} workers and a server on {os.cpu_count()} cores; {N_TENSORS} tensors, {megabytes} MB; worker 0 is late\n")
    for limit in LIMITS:
        peak_mib, seconds = measured(limit)
        print(f"RSUM_KEPT_BYTES={limit:<14} server {peak_mib:5.0f} MiB at its highest; sums {seconds:5.2f} s after worker 0 came", flush=True)
    return 0


def measured(limit: int) -> Tuple[float, float]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        root = f"127.0.0.1:{probe.getsockname()[1]}"
    shared = {**os.environ, "RSUM_ROOT": root, "RSUM_SECRET": secrets.token_hex(16), "RSUM_WORKERS": str(N_WORKERS), "RSUM_SERVERS": "1"}
    shared.update(RSCCL_SHM_DISABLE="1", RSUM_KEPT_BYTES=str(limit), NCCL_DEBUG="NONE")
    server_program = str(Path(os.environ["RSCCL_LIBRARY"]).with_name("ringscope-sumd"))
    server = subprocess.Popen([server_program], env=shared, stderr=subprocess.DEVNULL)
    command = [sys.executable, os.path.abspath(__file__)]

    def start(rank: int) -> "subprocess.Popen[str]":
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE} if rank == 0 else {}
        return subprocess.Popen(command, env={**shared, "RSUM_RANK": str(rank)}, text=True, **pipes)

    workers = [start(rank) for rank in range(N_WORKERS)]
    late = workers[0]
    threading.Thread(target=let_in, args=(late, server.pid)).start()
    assert late.stdout is not None
    seconds = float(late.stdout.readline())
    peak_mib = status_of(server.pid)["VmHWM"] / 1024
    late.stdout.close()
    for one in [*workers, server]:
        if one.wait() != 0:
            raise SystemExit(f"a process of the job ended with status {one.returncode}")
    return peak_mib, seconds


def let_in(late: "subprocess.Popen[str]", server: int) -> None:
    """Lets worker 0 go on once the server has taken no more memory for a while."""
    before, still_since = 0, time.monotonic()
    while time.monotonic() - still_since < STILL_S:
        highest = status_of(server).get("VmHWM", 0)
        # It has less than one sum of its share before the first pushes.
        if highest != before or highest * 1024 < N_TENSORS * ELEMENTS:
            before, still_since = highest, time.monotonic()
        time.sleep(0.1)
    assert late.stdin is not None
    late.stdin.write("go\n")
    late.stdin.close()


def status_of(pid: int) -> Dict[str, int]:
    """In KiB, what is in KiB."""
    lines = (line.split() for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return {words[0].rstrip(":"): int(words[1]) for words in lines if words[-1] == "kB"}


def worker() -> int:
    rank = int(os.environ["RSUM_RANK"])
    engine.init()
    arrays = [numpy.full(ELEMENTS, rank + 1, numpy.float32) for _ in range(N_TENSORS)]
    for number, array in enumerate(arrays):
        engine.declare(f"late.{number}", array)
    engine.push_pull(numpy.ones(1, numpy.float32), "start")
    if rank == 0:
        sys.stdin.readline()
    begin = time.perf_counter()
    handles = [engine.push_pull_async(array, f"late.{number}", False, out=array) for number, array in enumerate(arrays)]
    for handle in handles:
        handle.wait()
    if rank == 0:
        print(time.perf_counter() - begin, flush=True)
    wanted = sum(range(1, N_WORKERS + 1))
    if any((array != wanted).any() for array in arrays):
        raise SystemExit("a sum is wrong")
    engine.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())

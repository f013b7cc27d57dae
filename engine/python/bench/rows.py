"""What a step of a table costs whose gradients are sparse, beside dense ones. `cargo xtask bench python` runs it.

Two workers on one machine over TCP, each with an address of its own in a network namespace (root, iproute2, util-linux): a table of
100 000 rows of 64 floats, of which each worker touches some, others than the other one. Bytes are those that the namespace's
interface has sent, headers and barriers in them. Then the same over links of given rates.
"""

from __future__ import annotations

import os
import secrets
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import List, Tuple

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import ringscope_engine.torch as bps  # noqa: E402
import torch  # noqa: E402

N_WORKERS, N_ROWS, WIDTH = 2, 100_000, 64
# Rows that each worker touches; None: the table's gradients are dense, and 256 rows of them are not zero.
TOUCHED = [None, 256, 10_000, 100_000]
STEPS = 11
LINKS_MBIT_S = [0, 10_000, 1_000, 100]
# As of codecs (engine/examples/bench_summation/codecs.rs): each worker's address has a link of its own. 0: none is shaped.
SHAPE = """rate=$1; shift
ip link set lo mtu 9000 up
if [ $rate = 0 ]; then exec "$@"; fi
tc qdisc add dev lo root handle 1: htb default 9
tc class add dev lo parent 1: classid 1:9 htb rate 100gbit quantum 60000
for worker in 0 1; do
  tc class add dev lo parent 1: classid 1:1$worker htb rate ${rate}mbit burst 256k cburst 256k quantum 60000
  tc filter add dev lo parent 1: protocol ip u32 match ip src 127.0.2$worker.1/32 flowid 1:1$worker
done
exec "$@"
"""


def main() -> int:
    if "RSUM_RANK" in os.environ:
        return worker()
    if "RATE" in os.environ:
        return workers()
    print(f"PyTorch {torch.__version__}, {N_WORKERS} workers on {os.cpu_count()} cores; a table of {N_ROWS} x {WIDTH}; {STEPS - 1} steps")
    for rate in LINKS_MBIT_S:
        print(f"\nlinks of {rate} Mbit/s" if rate else "\nloopback", flush=True)
        command = ["unshare", "--net", "sh", "-ec", SHAPE, "shape", str(rate), sys.executable, os.path.abspath(__file__)]
        status = subprocess.run(command, env={**os.environ, "RATE": str(rate)}).returncode
        if status != 0:
            return status
    return 0


def workers() -> int:
    shared = {**os.environ, "RSUM_ROOT": "127.0.0.1:7001", "RSUM_SECRET": secrets.token_hex(16), "RSUM_SERVERS": "0"}
    shared.update(RSUM_WORKERS=str(N_WORKERS), OMP_NUM_THREADS="1", RSCCL_SHM_DISABLE="1")
    if os.environ["RATE"] != "0":
        shared["RSUM_NIC_MBIT_S"] = os.environ["RATE"]
    command = [sys.executable, os.path.abspath(__file__)]
    own = [{"RSUM_RANK": str(rank), "RSCCL_NICS": f"lo=127.0.2{rank}.1", "RSCCL_HOST": f"host-{rank}"} for rank in range(N_WORKERS)]
    started = [subprocess.Popen(command, env={**shared, **one}) for one in own]
    return max(abs(one.wait()) for one in started)


def worker() -> int:
    torch.set_num_threads(1)
    bps.init()
    for touched in TOUCHED:
        took, sent = steps(touched)
        if bps.rank() == 0:
            kind = "dense" if touched is None else f"sparse, {touched} rows"
            least, most = min(took), max(took)
            print(f"{kind:20} {sent / 1e3:10.1f} kB {statistics.median(took):9.2f} ms a step {least:9.2f} to {most:.2f}", flush=True)
    bps.shutdown()
    return 0


def steps(touched: "int | None") -> Tuple[List[float], float]:
    """Milliseconds of each step, from the backward pass on until its sum is there, and bytes that both workers send in one."""
    table = torch.nn.Embedding(N_ROWS, WIDTH, sparse=touched is not None)
    named = [(f"{touched}.table", table.weight)]
    optimizer = bps.DistributedOptimizer(torch.optim.SGD(table.parameters(), lr=1e-3), named)
    generator = torch.Generator().manual_seed(bps.rank())
    took, sent = [], 0.0
    for number in range(STEPS):
        optimizer.zero_grad(set_to_none=True)
        rows = torch.randperm(N_ROWS, generator=generator)[: touched or 256]
        loss = table(rows).square().sum()
        bps.barrier()
        before, begin = sent_bytes(), time.perf_counter()
        loss.backward()
        optimizer.synchronize()
        milliseconds = (time.perf_counter() - begin) * 1e3
        bps.barrier()
        # The first one declares the table.
        if number > 0:
            took.append(milliseconds)
            sent += sent_bytes() - before
        optimizer.step()
    return took, sent / (STEPS - 1)


def sent_bytes() -> int:
    """By the namespace's one interface."""
    line = next(line for line in Path("/proc/net/dev").read_text().splitlines() if line.strip().startswith("lo:"))
    return int(line.split(":")[1].split()[8])


if __name__ == "__main__":
    sys.exit(main())

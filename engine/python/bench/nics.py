"""Whether the rates that a summation group measures are those of its links. `cargo xtask bench python` runs it.

Three workers and a server, each with an address of its own in a network namespace (root, iproute2, util-linux), whose link carries
what is given here; nobody is told. The server says what was measured, and how long it took all to be in the group.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import List

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import numpy  # noqa: E402
import ringscope_engine as engine  # noqa: E402

N_WORKERS = 3
# Of the workers and the server, in Mbit/s; and how far off a measured one may be, which no machine here promises above 1 Gbit/s.
CASES = [[100] * 4, [1_000] * 4, [10_000] * 4, [100, 1_000, 1_000, 1_000], [1_000, 1_000, 1_000, 100]]
MOST_OFF, UP_TO_MBIT_S = 0.2, 1_000
HEALTH = "127.0.0.1:7002"
SHAPE = """count=$1; shift
ip link set lo mtu 9000 up
tc qdisc add dev lo root handle 1: htb default 99
tc class add dev lo parent 1: classid 1:99 htb rate 100gbit quantum 60000
for machine in $(seq 1 $count); do
  tc class add dev lo parent 1: classid 1:1$machine htb rate ${1}mbit burst 256k cburst 256k quantum 60000
  tc filter add dev lo parent 1: protocol ip u32 match ip src 127.0.3$machine.1/32 flowid 1:1$machine
  shift
done
exec "$@"
"""


def main() -> int:
    if "RSUM_RANK" in os.environ:
        return worker()
    if "INSIDE" in os.environ:
        return group([int(rate) for rate in os.environ["INSIDE"].split(",")])
    print(f"{N_WORKERS} workers and a server on {os.cpu_count()} cores; Mbit/s by rank: links, and what was measured")
    status = 0
    for rates in CASES:
        text = [str(rate) for rate in rates]
        command = ["unshare", "--net", "sh", "-ec", SHAPE, "shape", str(len(rates)), *text, sys.executable, os.path.abspath(__file__)]
        status |= subprocess.run(command, env={**os.environ, "INSIDE": ",".join(text)}).returncode
    return status


def group(rates: List[int]) -> int:
    shared = {**os.environ, "RSUM_ROOT": "127.0.0.1:7001", "RSUM_SECRET": secrets.token_hex(16), "RSUM_SERVERS": "1"}
    shared.update(RSUM_WORKERS=str(N_WORKERS), RSCCL_SHM_DISABLE="1")
    own = [{"RSCCL_NICS": f"lo=127.0.3{rank + 1}.1", "RSCCL_HOST": f"host-{rank}"} for rank in range(N_WORKERS + 1)]
    library = Path(os.environ["RSCCL_LIBRARY"])
    server = subprocess.Popen([library.with_name("ringscope-sumd"), "--health", HEALTH], env={**shared, **own[-1]}, stderr=subprocess.PIPE)
    command = [sys.executable, os.path.abspath(__file__)]
    workers = [
        subprocess.Popen(command, env={**shared, **own[rank], "RSUM_RANK": str(rank)}, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for rank in range(N_WORKERS)
    ]
    took = [float(one.stdout.readline()) for one in workers if one.stdout]
    here = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with here.open(f"http://{HEALTH}/status") as answer:
        nics = json.load(answer)["group"]["nics"]
    for one in workers:
        # All of them before any is waited for: they leave together.
        if one.stdin:
            one.stdin.close()
    for one in workers:
        one.wait()
    server.communicate()
    measured = [nic["measured"] or 0 for nic in nics]
    print(f"{str(rates):28} {str(measured):32} in the group after {max(took):.2f} s", flush=True)
    off = [abs(got / rate - 1) for got, rate in zip(measured, rates) if max(rates) <= UP_TO_MBIT_S]
    return int(any(one > MOST_OFF for one in off))


def worker() -> int:
    begin = time.perf_counter()
    engine.init()
    print(time.perf_counter() - begin, flush=True)
    engine.push_pull(numpy.ones(4, numpy.float32), "ones")
    sys.stdin.readline()
    engine.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What a user does first with the installed package: two workers and a server that sum. `cargo xtask wheel` runs it."""

import os
import secrets
import socket
import subprocess
import sys

import numpy

import ringscope_engine as engine


def work() -> None:
    engine.init()
    total = engine.push_pull(numpy.full(1 << 18, engine.rank() + 1.0, numpy.float32), "ones", average=False)
    assert float(total.min()) == float(total.max()) == 3.0, total
    engine.shutdown()


def main() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {name: text for name, text in os.environ.items() if not name.startswith(("RSCCL_", "RSUM_", "LD_"))}
    environment.update(
        RSUM_ROOT=f"127.0.0.1:{port}", RSUM_SECRET=secrets.token_hex(16), RSUM_WORKERS="2", RSUM_SERVERS="1", RSCCL_NICS="lo=127.0.0.1"
    )
    server = os.path.join(os.path.dirname(sys.executable), "ringscope-sumd")
    processes = [subprocess.Popen([server], env=environment)]
    for rank in range(2):
        processes.append(subprocess.Popen([sys.executable, __file__, "work"], env={**environment, "RSUM_RANK": str(rank)}))
    ends = [process.wait(timeout=120) for process in processes]
    assert ends == [0, 0, 0], f"server and workers ended with {ends}"
    print(f"Python {sys.version.split()[0]}: two workers and a server have summed, all from {engine.__file__}")


if __name__ == "__main__":
    work() if sys.argv[1:] == ["work"] else main()

"""Jobs of real processes: workers that run a function of a test module, and servers."""

from __future__ import annotations

import importlib.util
import os
import random
import secrets
import socket
import subprocess
import sys
import unittest
from pathlib import Path
from typing import Mapping, Optional

PACKAGE = Path(__file__).parent.parent
BUILD = Path(os.environ.get("RINGSCOPE_BIN", PACKAGE.parent.parent / "target/debug"))
# Longer than any test takes on a machine that does other things too.
LIMIT_S = 180
# Below those that Linux takes for connections: a process that tries to connect to one of these before anybody listens
# there could get that very port for its own end, and so connect to itself.
PORTS = (10000, 32768)


def library() -> Path:
    """The library under test."""
    return Path(os.environ.get("RSCCL_LIBRARY", BUILD / "librsccl.so"))


def needs_torch(test: unittest.TestCase) -> None:
    """Fails where there is no PyTorch."""
    if importlib.util.find_spec("torch") is None:
        test.fail("PyTorch is missing: apt-get install python3-torch, and /usr/bin/python3 to run this")


def free_address() -> str:
    """A port of this machine that nobody listens on, and that the kernel gives to nobody who connects."""
    while True:
        port = random.randrange(*PORTS)
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return f"127.0.0.1:{port}"


class Job:
    """`n_workers` processes that run `module.function` (in tests/), and `n_servers` servers."""

    def __init__(
        self,
        function: str,
        n_workers: int,
        n_servers: int = 0,
        settings: Optional[Mapping[str, str]] = None,
        of_worker: Optional[Mapping[int, Mapping[str, str]]] = None,
    ) -> None:
        """`of_worker` are settings that some of the workers have for themselves."""
        # torch's rendezvous, and that of collectives, are beside the group's.
        root, (host, port) = free_address(), free_address().split(":")
        shared = {
            **os.environ,
            "RSCCL_LIBRARY": str(library()),
            "RSCCL_NICS": "lo=127.0.0.1",
            "RSCCL_TIMEOUT_S": str(LIMIT_S),
            "RSUM_ROOT": root,
            "RSUM_SECRET": secrets.token_hex(16),
            "RSUM_WORKERS": str(n_workers),
            "RSUM_SERVERS": str(n_servers),
            "WORLD_SIZE": str(n_workers),
            "MASTER_ADDR": host,
            "MASTER_PORT": port,
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": f"{PACKAGE}{os.pathsep}{Path(__file__).parent}",
            **(settings or {}),
        }
        module, name = function.split(".")
        command = [sys.executable, "-c", f"import {module}; {module}.{name}()"]
        self.servers = [_start([str(BUILD / "ringscope-sumd")], shared) for _ in range(n_servers)]
        self.workers = [
            _start(command, {**shared, "RSUM_RANK": str(rank), "RANK": str(rank), **(of_worker or {}).get(rank, {})})
            for rank in range(n_workers)
        ]

    def results(self) -> list[tuple[int, str, str]]:
        """How each worker ended: its status, what it printed, its complaints. The job is over then."""
        try:
            ends = [worker.communicate(timeout=LIMIT_S) for worker in self.workers]
            return [(worker.returncode, *end) for worker, end in zip(self.workers, ends)]
        finally:
            for process in self.workers + self.servers:
                process.kill()
                process.communicate()

    def expect_success(self, test: unittest.TestCase) -> list[str]:
        """What each worker printed, where all succeeded."""
        printed = []
        for rank, (status, output, complaints) in enumerate(self.results()):
            test.assertEqual(status, 0, f"worker {rank}: {complaints}")
            printed.append(output)
        return printed


def _start(command: list[str], environment: Mapping[str, str]) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        command, env=dict(environment), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )

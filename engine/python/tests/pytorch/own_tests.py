"""PyTorch's own tests of process groups, which it ships inside itself, on the backend "rsccl": how many pass.

    python own_tests.py                       those for any backend, as the backend "rsccl"
    python own_tests.py --as gloo             also those that PyTorch has for Gloo alone, with rsccl in Gloo's place
    python own_tests.py --only test_isend     some of them

Needs the package `expecttest` beside PyTorch, and RSCCL_LIBRARY. `cargo xtask pytorch` runs it.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import logging
import os
import sys
import tempfile
import time
import types
import unittest
from pathlib import Path
from typing import Any, List, Tuple

# Processes of a test are started anew from this file, and find the choice in their environment.
os.environ.setdefault("BACKEND", "rsccl")
os.environ.setdefault("WORLD_SIZE", "2")
os.environ.setdefault("TEMP_DIR", tempfile.gettempdir())
os.environ.setdefault("RSCCL_NICS", "lo=127.0.0.1")

import torch  # noqa: E402
from torch.distributed import distributed_c10d  # noqa: E402
from torch.testing._internal.common_distributed import DistTestCases  # noqa: E402

from ringscope_engine import c10d  # noqa: E402

BACKEND = os.environ["BACKEND"]

# What PyTorch knows of each backend by name.
if BACKEND == "rsccl":
    for feature in ("ddp", "subgroup"):
        DistTestCases.backend_feature[feature].add(BACKEND)
    DistTestCases.skip_collective["sendrecv anysource"].add(BACKEND)
else:

    def _in_its_place(store: Any, rank: int, size: int, *_: Any, timeout: Any, **__: Any) -> c10d.ProcessGroup:
        made = c10d.ProcessGroup(store, rank, size, timeout)
        # PyTorch notes there which ranks they are.
        setattr(made, "options", types.SimpleNamespace())
        return made

    setattr(distributed_c10d, "ProcessGroupGloo", _in_its_place)
    # What compares ranks' calls at TORCH_DISTRIBUTED_DEBUG=DETAIL takes Gloo's own class alone; the library compares them always.
    setattr(distributed_c10d, "_create_process_group_wrapper", lambda wrapped_pg, **_: wrapped_pg)

from torch.testing._internal.distributed import distributed_test  # noqa: E402

logging.getLogger().setLevel(logging.ERROR)
# The backend tells PyTorch's profiler nothing, which Gloo does.
for backends in (distributed_test.PROFILING_SUPPORTED_BACKENDS, distributed_test.SEND_RECV_PROFILING_SUPPORTED_BACKENDS):
    backends.clear()

with contextlib.suppress(ImportError):
    from torch.nn.parallel import _replicated_tensor_ddp_utils

    # The tests of PyTorch 1.13 switch on an experiment of its own that cannot be imported by Python 3.11.
    _replicated_tensor_ddp_utils._set_ddp_with_replicated_tensor = lambda _: None

# What fails, and why that is no fault of the backend. Anything else that fails is.
NO_SOURCE = "recv() without a source is refused, as by NCCL"
MONITORED = "PyTorch offers monitored_barrier for a backend called gloo alone"
KNOWN = {
    "rsccl": {},
    "gloo": {
        "test_ddp_logging_data_cpu": "it expects that the backend's name is gloo",
        "test_monitored_barrier_gloo": MONITORED,
        "test_monitored_barrier_gloo_rank_0_timeout": MONITORED,
        "test_monitored_barrier_gloo_subgroup": MONITORED,
        "test_send_recv_any_source": NO_SOURCE,
        "test_send_recv_any_source_autograd_profiler": NO_SOURCE,
        "test_send_recv_any_source_torch_profiler": NO_SOURCE,
    },
}


class Own(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):  # type: ignore[misc]
    """All tests that PyTorch has for a process group."""

    def setUp(self) -> None:
        super().setUp()
        self._spawn_processes()


class Counted(unittest.TestResult):
    """What became of each test."""

    def __init__(self) -> None:
        super().__init__()
        self.ends: List[Tuple[str, str, str]] = []

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self._begin = time.monotonic()

    def _end(self, test: unittest.TestCase, end: str, words: str = "") -> None:
        name = test.id().rsplit(".", 1)[-1]
        self.ends.append((name, end, words))
        print(f"{name}: {end} ({time.monotonic() - self._begin:.1f} s) {words}", flush=True)

    def addSuccess(self, test: unittest.TestCase) -> None:
        self._end(test, "passed")

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        self._end(test, "not applicable", reason)

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        self._end(test, "failed", str(err[1]).strip().splitlines()[-1] if str(err[1]).strip() else repr(err[1]))

    addFailure = addError


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--as", dest="backend", choices=["rsccl", "gloo"], default="rsccl")
    parser.add_argument("--only", nargs="+", metavar="TEST")
    options = parser.parse_args()
    if options.backend != BACKEND:
        os.environ["BACKEND"] = options.backend
        os.execv(sys.executable, [sys.executable, *sys.argv])
    names = options.only or unittest.TestLoader().getTestCaseNames(Own)
    result = Counted()
    unittest.TestSuite(Own(name) for name in names).run(result)
    return report(result)


def report(result: Counted) -> int:
    ends = collections.Counter(end for _, end, _ in result.ends)
    reasons = collections.Counter(words for _, end, words in result.ends if end == "not applicable")
    print(f"\nPyTorch {torch.__version__}, its own tests, as {BACKEND}:")
    for reason, count in reasons.most_common():
        print(f"  not applicable, {count}: {reason}")
    unexpected = [(name, words) for name, end, words in result.ends if end == "failed" and name not in KNOWN[BACKEND]]
    for name, reason in KNOWN[BACKEND].items():
        if any(name == ended and end == "failed" for ended, end, _ in result.ends):
            print(f"  failed, as known: {name}: {reason}")
    for name, words in unexpected:
        print(f"  FAILED: {name}: {words}")
    print(f"{ends['passed']} passed, {ends['failed']} failed, {ends['not applicable']} not applicable")
    return 1 if unexpected else 0


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent.parent))
    sys.exit(main())

"""Signals end every call that waits for others, with real processes and signals."""

import os
import signal
import statistics
import time
import unittest
from typing import List, Tuple

from _job import BUILD, Job, needs_torch

AT_END = "the end of the script"
# A busy machine lets a process wait for its turn; on an idle one it is a fifth of a second. Unmended it was for ever.
LIMIT_S = 10.0


# Those of `signals_worker.CALLS`.
CALLS = (
    "init",
    "the first push",
    "push_pull",
    "wait",
    "suspend",
    "shutdown",
    "the end of the script",
    "step",
    "collective.init",
    "Communicator",
    "all_reduce, small",
    "all_reduce, large",
    "Link",
    "Link.ready",
    "Link.finish",
    "Receiver.wait",
)


class Signals(unittest.TestCase):
    def setUp(self) -> None:
        needs_torch(self)

    def ends(self, call: str, number: int, handler: str) -> Tuple[float, int]:
        """How long it takes from a signal in a call to the end of the process, and its status."""
        settings = {"WAITS_IN": call, "HANDLER": handler, "PYTHONUNBUFFERED": "1", "RTENSOR_LIBRARY": str(BUILD / "librtensor.so")}
        job = Job("signals_worker.main", 2, 0, settings)
        first = job.workers[0]
        try:
            self.assertEqual(first.stdout.readline(), "ready\n", call)
            wait_until_it_waits(first.pid)
            begin = time.monotonic()
            first.send_signal(number)
            first.wait(timeout=60)
            return time.monotonic() - begin, first.returncode
        finally:
            for worker in job.workers:
                worker.kill()
                worker.communicate()

    def expect(self, number: int, handler: str, statuses: List[int]) -> None:
        took = {}
        for call in CALLS:
            with self.subTest(call=call, signal=number):
                took[call], status = self.ends(call, number, handler)
                self.assertLess(took[call], LIMIT_S, call)
                # At the end of the script nobody handles signals any more.
                self.assertIn(status, [-number] if call == AT_END else statuses, call)
        if os.environ.get("RINGSCOPE_FIGURES"):
            most = max(took, key=lambda call: took[call])
            print(f"\nsignal {number}: median {statistics.median(took.values()):.3f} s, most {took[most]:.3f} s in {most}")

    def test_ctrl_c_ends_every_call(self) -> None:
        self.expect(signal.SIGINT, "none", [-signal.SIGINT])

    def test_sigterm_ends_every_call_where_python_handles_it(self) -> None:
        self.expect(signal.SIGTERM, "exits", [3])


def wait_until_it_waits(pid: int) -> None:
    """Until the process has used no time on a CPU for a while: what it calls waits for others then."""
    used, since = -1.0, time.monotonic()
    while time.monotonic() - since < 0.3:
        with open(f"/proc/{pid}/schedstat") as schedstat:
            now = float(schedstat.read().split()[0])
        if now - used > 5e6:
            used, since = now, time.monotonic()
        time.sleep(0.01)


if __name__ == "__main__":
    unittest.main()

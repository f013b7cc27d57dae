"""When each part was where, by the files that processes leave."""

import json
import subprocess
import sys
import tempfile
import unittest
from typing import Any, Dict, List

from _job import PACKAGE, Job
from ringscope_engine import timeline
from timeline_worker import ROUNDS, SHAPES

PART_ELEMENTS = 500


class Timeline(unittest.TestCase):
    def test_every_part_has_its_instants_in_order(self) -> None:
        for settings in ({}, {"RSCCL_SHM_DISABLE": "1"}):
            with self.subTest(settings=settings), tempfile.TemporaryDirectory() as folder:
                job = {"RSUM_TIMELINE": folder, "RSUM_PARTITION_BYTES": str(4 * PART_ELEMENTS), **settings}
                Job("timeline_worker.main", 2, 1, job).expect_success(self)
                files = timeline.read(folder)
                self.assertEqual(sum(one["dropped"] for one in files), 0)
                self.check_parts(timeline.parts(files))
                self.check_trace(folder)

    def check_parts(self, parts: "List[timeline.Part]") -> None:
        n_parts = sum(-(-elements // PART_ELEMENTS) for elements in SHAPES.values())
        self.assertEqual(len(parts), 2 * ROUNDS * n_parts)
        self.assertEqual({part.worker for part in parts}, {0, 1})
        # The server and both workers own some.
        self.assertEqual({part.service for part in parts}, {0, 1, 2})
        for part in parts:
            at = [part.at[name] for name in timeline.INSTANTS]
            self.assertEqual(at, sorted(at), part)
            self.assertTrue(part.at["began"] <= part.at["sent"] <= part.at["pulled"], part)
            self.assertIn(part.last, (0, 1))
        # Who came last is who arrived last, and both know the same sum.
        rounds: Dict[Any, List[timeline.Part]] = {}
        for part in parts:
            rounds.setdefault((part.run, part.key, part.round), []).append(part)
        for one, other in rounds.values():
            self.assertEqual(one.at["summed"], other.at["summed"])
            self.assertEqual(max(one, other, key=lambda part: part.at["arrived"]).worker, one.last)

    def check_trace(self, folder: str) -> None:
        command = [sys.executable, "-m", "ringscope_engine.timeline", folder]
        printed = subprocess.run(command, env={"PYTHONPATH": str(PACKAGE)}, capture_output=True, text=True, check=True)
        made = json.loads(printed.stdout)
        told = made["otherData"]
        self.assertEqual((told["parts"], told["dropped"]), (told["whole"], 0))
        spans = [event for event in made["traceEvents"] if event["ph"] != "M"]
        # Each bar and its four phases begin and end.
        self.assertEqual(len(spans), 2 * 5 * told["parts"])
        self.assertTrue(all(event["ts"] >= 0 for event in spans))

    def test_clocks_of_machines_are_set_by_what_went_both_ways(self) -> None:
        """A server whose clock is 5 s ahead; 30 us there, 10 us back at the least."""
        shared = {"group": "a", "epoch": 0, "generation": 0, "services": [1, 0], "dropped": 0, "pid": 1}
        ahead = 5_000_000_000
        worker = {"rank": 0, "boot": "w", "host": "w", "instants": [], "parts": [[3, "t", 0, 8]], **shared}
        server = {"rank": 1, "boot": "s", "host": "s", "instants": [], "parts": [[3, "t", 0, 8]], **shared}
        for number, (there, back) in enumerate([(30_000, 90_000), (70_000, 10_000)]):
            start = 1_000_000 * number
            worker["instants"] += [["began", 3, number, 0, start], ["sent", 3, number, 0, start + 5_000]]
            server["instants"] += [["arrived", 3, number, 0, start + 5_000 + there + ahead]]
            server["instants"] += [["summed", 3, number, 0, start + 200_000 + ahead], ["left", 3, number, 0, start + 210_000 + ahead]]
            worker["instants"] += [["pulled", 3, number, 0, start + 210_000 + back]]
        clock = timeline.clocks([worker, server])["s"]
        self.assertEqual((clock.ahead_ns, clock.off_ns), (ahead + 10_000, 20_000))
        for part in timeline.parts([worker, server]):
            at = [part.at[name] for name in timeline.INSTANTS]
            self.assertEqual(at, sorted(at))


if __name__ == "__main__":
    unittest.main()

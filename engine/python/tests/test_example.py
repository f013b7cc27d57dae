"""The digits example, as far as it goes in a few steps."""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from _job import BUILD, LIMIT_S, PACKAGE, needs_torch

TRAIN = PACKAGE.parent.parent / "examples/digits/train.py"


class Digits(unittest.TestCase):
    def test_summation_and_all_reduce_come_to_the_same_bits(self) -> None:
        needs_torch(self)
        with tempfile.TemporaryDirectory() as folder:
            reports = [report(path, Path(folder, path)) for path in ("summation", "all-reduce")]
        for what in ("losses", "parameters_sha256", "accuracy"):
            self.assertEqual(reports[0][what], reports[1][what])
        self.assertLess(reports[0]["losses"][-1], reports[0]["losses"][0])


def report(path: str, out: Path) -> "dict[str, object]":
    command = [sys.executable, str(TRAIN), "--path", path, "--steps", "12", "--out", str(out), "--bin", str(BUILD)]
    subprocess.run(command, capture_output=True, check=True, timeout=LIMIT_S)
    return json.loads(out.read_text())


if __name__ == "__main__":
    unittest.main()

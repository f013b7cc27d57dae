"""What training scripts do with an optimizer, in all modes, against one process that trains with all data.

Makes the table in docs/gradients.md: `RINGSCOPE_BLESS=1` writes it.
"""

import json
import os
import unittest
from pathlib import Path
from typing import Any, Dict, List

from _job import PACKAGE, Job, needs_torch

PAGE = PACKAGE / "docs/gradients.md"
BEGIN, END = "<!-- idioms -->\n", "<!-- /idioms -->\n"
N_WORKERS = 2

# What a mode is called, how many servers it has, what is set for it, and how far parameters may be from those of one process,
# as a part of the way that they have gone. Asynchronous sums are rounded in another order.
MODES: Dict[str, Any] = {
    "synchronous": (0, {}, 0.0),
    # Small gradients in several parcels, not all in one.
    "with a server": (1, {"RSUM_FUSION_BYTES": "4096"}, 0.0),
    "two passes": (1, {"PASSES": "2"}, 0.0),
    "f16": (1, {"CODEC": "f16"}, 0.01),
    "top-k, half": (1, {"CODEC": "top-k"}, 1.0),
    "`RSUM_ASYNC=1`": (1, {"RSUM_ASYNC": "1"}, 1e-4),
}
# Where a mode has another answer than `exact`, or `bounded` where it is not exact.
REFUSED = {
    "`p.grad = p.grad * …`": ["synchronous", "with a server", "two passes", "f16", "top-k, half"],
    "`backward()` twice": ["synchronous", "with a server", "two passes", "f16", "top-k, half"],
    "a layer unfrozen later": ["`RSUM_ASYNC=1`"],
    "`add_param_group`": ["`RSUM_ASYNC=1`"],
    "two optimizers, the same names and shapes": ["`RSUM_ASYNC=1`"],
    "`copy.deepcopy`, wrapped again": ["`RSUM_ASYNC=1`"],
    "`pickle`, wrapped again": ["`RSUM_ASYNC=1`"],
}
NOT_APPLICABLE = "not applicable"


class Idioms(unittest.TestCase):
    def setUp(self) -> None:
        needs_torch(self)

    def test_idioms_come_to_what_one_process_comes_to_or_are_refused_by_all(self) -> None:
        table = {mode: self.outcomes(mode) for mode in MODES}
        self.compare_with_page(table)

    def outcomes(self, mode: str) -> Dict[str, str]:
        n_servers, settings, bound = MODES[mode]
        settings = {"RSUM_TIMEOUT_S": "60", **settings}
        printed = Job("idioms_worker.main", N_WORKERS, n_servers, settings).expect_success(self)
        workers: List[Any] = [json.loads(output.splitlines()[-1]) for output in printed]
        outcomes = {}
        for idiom in workers[0]:
            with self.subTest(mode=mode, idiom=idiom):
                outcomes[idiom] = self.outcome([worker[idiom] for worker in workers], bound)
                if outcomes[idiom] != NOT_APPLICABLE:
                    is_refused = mode in REFUSED.get(idiom, [])
                    wanted = "refused" if is_refused else "bounded" if bound else "exact"
                    self.assertEqual(outcomes[idiom], wanted, workers[0][idiom])
        return outcomes

    def outcome(self, workers: List[Any], bound: float) -> str:
        """What became of one idiom on all workers. However it ended, they have the same parameters after each step."""
        first = workers[0]
        for worker in workers[1:]:
            self.assertEqual(worker["hashes"], first["hashes"])
            self.assertEqual(bool(worker["error"]), bool(first["error"]))
        if first["error"].startswith(NOT_APPLICABLE):
            return NOT_APPLICABLE
        self.assertLessEqual(max(worker["off"] for worker in workers), bound)
        if first["error"]:
            return "refused"
        self.assertGreaterEqual(len(first["hashes"]), 4)
        if bound == 0.0:
            self.assertEqual(first["hashes"], first["wanted"])
        # A step that changes nothing is none, but for those that a scaler leaves out.
        self.assertGreaterEqual(len(set(first["hashes"])), 3)
        return "bounded" if bound else "exact"

    def compare_with_page(self, table: Dict[str, Dict[str, str]]) -> None:
        text = PAGE.read_text()
        before, rest = text.split(BEGIN)
        written, after = rest.split(END)
        rows = [f"| | {' | '.join(MODES)} |", "|---" * (len(MODES) + 1) + "|"]
        for idiom in table["synchronous"]:
            cells = [table[mode][idiom] for mode in MODES]
            if NOT_APPLICABLE in cells:
                # This PyTorch does not have it: what another one came to stands.
                rows += [row for row in written.splitlines() if row.startswith(f"| {idiom} |")]
            else:
                rows.append(f"| {idiom} | {' | '.join(cells)} |")
        made = "\n".join(rows) + "\n"
        if os.environ.get("RINGSCOPE_BLESS"):
            PAGE.write_text(before + BEGIN + made + END + after)
            return
        self.assertEqual(written, made, "RINGSCOPE_BLESS=1 writes the table anew")


if __name__ == "__main__":
    unittest.main()

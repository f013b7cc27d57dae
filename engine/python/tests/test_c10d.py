"""The backend "rsccl" of torch.distributed, between processes."""

import re
import sys
import unittest
from pathlib import Path

from _job import LIMIT_S, PACKAGE, Job, needs_torch

sys.path.insert(0, str(PACKAGE))

SCRIPTS = Path(__file__).parent / "scripts"
SIZES = (1, 2, 3)


class C10d(unittest.TestCase):
    def setUp(self) -> None:
        needs_torch(self)

    def among(self, function: str, sizes=SIZES) -> None:
        for size in sizes:
            with self.subTest(size=size):
                Job(f"c10d_worker.{function}", size).expect_success(self)

    def test_reductions_of_each_type_and_operation(self) -> None:
        self.among("reductions")

    def test_complex_numbers_are_summed(self) -> None:
        self.among("complex_numbers")

    def test_collectives_that_move(self) -> None:
        self.among("moves")

    def test_each_type_in_each_layout(self) -> None:
        self.among("layouts", (1, 2))

    def test_the_negative_and_the_conjugate_bit_are_seen(self) -> None:
        self.among("bits")

    def test_calls_on_one_tensor_that_are_under_way_together(self) -> None:
        self.among("orders")

    def test_what_is_received_may_lie_in_what_is_sent(self) -> None:
        self.among("overlaps")

    def test_messages_go_both_ways_at_once(self) -> None:
        self.among("messages", (2, 4))

    def test_groups_work_beside_each_other(self) -> None:
        self.among("groups", (2, 4))

    def test_what_follows_a_future_may_wait_for_another(self) -> None:
        self.among("futures", (2,))

    def test_a_name_may_be_another_groups_later(self) -> None:
        self.among("other_members", (3,))

    def test_mistakes_are_refused_and_harm_nothing(self) -> None:
        self.among("refusals", (2,))

    def test_ranks_that_call_different_things_are_told(self) -> None:
        for printed in Job("c10d_worker.unlike_calls", 2).expect_success(self):
            self.assertEqual(printed.strip(), "refused")

    def test_a_rank_that_does_not_come_is_waited_for_no_longer_than_the_time_out(self) -> None:
        for printed in Job("c10d_worker.late_rank", 3).expect_success(self):
            self.assertEqual(printed.strip(), "told")

    def test_a_failure_may_be_asked_for_again(self) -> None:
        self.among("told_again", (1,))

    def test_a_killed_rank_is_named(self) -> None:
        *survivors, (status, _, _) = Job("c10d_worker.killed_rank", 3).results()
        self.assertEqual(status, -9)
        for status, printed, complaints in survivors:
            self.assertEqual(status, 0, complaints)
            self.assertIn("told after", printed)

    def test_survivors_of_a_killed_rank_of_ddp_hear_of_it_and_do_not_crash(self) -> None:
        *survivors, (status, _, _) = Job("c10d_worker.killed_rank_of_ddp", 3).results()
        self.assertEqual(status, -9)
        for status, printed, complaints in survivors:
            self.assertEqual(status, 0, complaints)
            self.assertIn("told in step 5", printed)

    def test_ctrl_c_ends_a_wait(self) -> None:
        job = Job("c10d_worker.interrupted", 2)
        printed, complaints = job.workers[0].communicate(timeout=LIMIT_S)
        self.assertRegex(printed, r"^\d", complaints)
        # 0.1 s on a quiet machine.
        self.assertLess(float(printed), 5.0)
        for process in job.workers:
            process.kill()
            process.communicate()

    def test_a_ddp_script_gives_the_bits_that_gloo_gives(self) -> None:
        printed = {backend: self.trained("ddp.py", backend) for backend in ("gloo", "rsccl")}
        self.assertEqual(len(printed["gloo"]), 2)
        self.assertEqual(printed["gloo"], printed["rsccl"])

    def test_communicators_are_named_by_their_part_of_the_design(self) -> None:
        from ringscope_engine.c10d._names import LONGEST, name_of

        for arguments, pair, name in (
            (("mesh_tp", "7", range(4, 8)), "", "tp 4-7"),
            (("mesh_dp", "7", range(1, 16, 4)), "", "dp 1,5,9,13"),
            (("mesh_dp", "7", range(0, 64, 4)), "", "dp 0-60:4"),
            (("PIPELINE_MODEL_PARALLEL_GROUP", "7", (0, 8)), "0>8", "PIPELINE_MODEL_PARALLEL_GROUP 0,8 0>8"),
            (("undefined", "7", (0, 3, 4)), "", "group 7 0,3,4"),
            (("", "7", range(0, 40, 3)), "3>6", "group 7 0-39:3 3>6"),
        ):
            self.assertEqual(name_of(*arguments, is_world=False, pair=pair), name)
        self.assertEqual(name_of("default_pg", "0", (), is_world=True), "world")
        self.assertEqual(name_of("", "0", (), is_world=True, pair="0>1"), "world 0>1")
        self.assertEqual(len(name_of("x" * 100, "7", range(4, 8), is_world=False)), LONGEST)

    def trained(self, script: str, backend: str) -> list[str]:
        """What each rank of a script printed of its parameters."""
        settings = {"SCRIPT": str(SCRIPTS / script), "BACKEND": backend}
        printed = "".join(Job("c10d_worker.script", 2, settings=settings).expect_success(self))
        return sorted(re.findall(r"rank \d+: parameters \w+", printed))


if __name__ == "__main__":
    unittest.main()

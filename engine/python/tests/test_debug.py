"""Parameters that are not the same on all workers are found out, between processes."""

import unittest

from _job import Job, needs_torch

DIFFERENCE = (
    "parameter 1.bias of worker 2 is another one than that of workers 0, 1; 2 other parameters differ, too (RSUM_DEBUG_EVERY=2)"
)


class Debug(unittest.TestCase):
    def setUp(self) -> None:
        needs_torch(self)

    def printed(self, settings: "dict[str, str]") -> "list[str]":
        return Job("debug_worker.main", 3, 1, {"RSUM_DEBUG_EVERY": "2", **settings}).expect_success(self)

    def test_a_difference_ends_the_step_on_all_workers(self) -> None:
        wanted = f"4 after 4 steps {DIFFERENCE}: begin again from a checkpoint, or by broadcast_parameters\n"
        self.assertEqual(self.printed({}), [wanted] * 3)

    def test_a_difference_is_warned_of_where_that_is_set(self) -> None:
        self.assertEqual(self.printed({"RSUM_DEBUG_ON_DIFFERENCE": "warn"}), [f"after 4 steps {DIFFERENCE}\n"] * 3)

    def test_a_setting_that_differs_between_workers_is_named(self) -> None:
        settings = {"RSUM_DEBUG_EVERY": "2", "EVERY_OF_WORKER_1": "3"}
        for _, printed, _ in Job("debug_worker.main", 3, 1, settings).results():
            self.assertIn("RSUM_DEBUG_EVERY=3", printed)
            self.assertIn("RSUM_DEBUG_EVERY=2", printed)

    def test_it_is_refused_where_sums_are_asynchronous(self) -> None:
        for _, _, complaints in Job("debug_worker.main", 1, 1, {"RSUM_DEBUG_EVERY": "2", "RSUM_ASYNC": "1"}).results():
            self.assertIn("RSUM_DEBUG_EVERY is for synchronous sums", complaints)

    def test_nobody_looks_where_that_is_not_set(self) -> None:
        self.assertEqual(self.printed({"RSUM_DEBUG_EVERY": "0"}), [""] * 3)


if __name__ == "__main__":
    unittest.main()

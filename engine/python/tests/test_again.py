"""Groups that follow each other in the same processes, and workers that do not do the same."""

import unittest

from _job import Job


class Again(unittest.TestCase):
    def test_who_is_quick_waits_for_the_next_group_until_the_last_one_is_over(self) -> None:
        for n_workers, n_servers in ((2, 0), (3, 0)):
            Job("again_worker.again", n_workers, n_servers, {"RSCCL_TIMEOUT_S": "20"}).expect_success(self)

    def test_who_goes_on_after_another_one_has_ended_is_told_so_at_once(self) -> None:
        for n_servers in (0, 1):
            (status, told, complaints), (other, _, _) = Job("again_worker.goes_on_alone", 2, n_servers).results()
            self.assertEqual((status, other), (0, 0), complaints)
            self.assertIn("worker 1 had left the group when worker 0 declared more tensors", told)

    def test_who_is_waited_for_is_said_without_any_setting(self) -> None:
        for status, _, complaints in Job("again_worker.crosswise", 2, 0, {"RSUM_WARN_S": "1", "RSUM_TIMEOUT_S": "4"}).results():
            self.assertEqual(status, 0, complaints)
            self.assertRegex(complaints, 'WARN .* waits for its push .*RSUM_WARN_S')

    def test_settings_that_differ_are_named_to_all_whoever_comes_first(self) -> None:
        for _ in range(4):
            job = Job("again_worker.meets", 2, 0, {"RSCCL_TIMEOUT_S": "5"}, {1: {"RSUM_WORKERS": "3", "WORLD_SIZE": "3"}})
            for _, told, complaints in job.results():
                self.assertRegex(told, "RSUM_WORKERS, RSUM_SERVERS and RSUM_ON_LOSS must be the same", complaints)

    def test_who_waits_is_told_who_was_turned_away(self) -> None:
        job = Job("again_worker.meets", 2, 0, {"RSCCL_TIMEOUT_S": "4"}, {1: {"RSUM_SECRET": "another one"}})
        (_, waits, _), (_, turned_away, _) = job.results()
        self.assertIn("RSUM_SECRET is another one there", turned_away)
        self.assertRegex(waits, "worker 1 is missing.* was turned away: RSUM_SECRET is another one there")


if __name__ == "__main__":
    unittest.main()

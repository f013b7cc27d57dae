"""Optimizers over asynchronous sums, between processes."""

import unittest

from _job import Job, needs_torch

ASYNCHRONOUS = {"RSUM_ASYNC": "1"}


class Asynchronous(unittest.TestCase):
    def setUp(self) -> None:
        needs_torch(self)

    def test_workers_converge_and_come_to_the_same_parameters(self) -> None:
        for n_workers, n_servers in ((2, 1), (3, 0)):
            with self.subTest(n_workers=n_workers, n_servers=n_servers):
                job = Job("asynchronous_worker.training", n_workers, n_servers, ASYNCHRONOUS)
                self.assertEqual(len(set(job.expect_success(self))), 1)

    def test_one_worker_takes_the_steps_of_a_plain_optimizer(self) -> None:
        Job("asynchronous_worker.alone", 1, 1, ASYNCHRONOUS).expect_success(self)

    def test_no_worker_is_further_ahead_than_the_bound(self) -> None:
        for bound in (0, 2):
            with self.subTest(bound=bound):
                settings = {**ASYNCHRONOUS, "RSUM_STALENESS": str(bound)}
                Job("asynchronous_worker.bounded", 3, 1, settings).expect_success(self)

    def test_training_goes_on_without_a_lost_worker(self) -> None:
        job = Job("asynchronous_worker.goes_on", 3, 1, {**ASYNCHRONOUS, "RSUM_ON_LOSS": "continue"})
        *survivors, _ = job.results()
        for status, _, complaints in survivors:
            self.assertEqual(status, 0, complaints)
        self.assertEqual(len({printed for _, printed, _ in survivors}), 1)

    def test_what_is_for_synchronous_sums_is_refused_and_the_group_goes_on(self) -> None:
        Job("asynchronous_worker.refusals", 2, 1, ASYNCHRONOUS).expect_success(self)


if __name__ == "__main__":
    unittest.main()

"""Collectives between processes."""

import unittest

from _job import Job, needs_torch


class Collectives(unittest.TestCase):
    def test_every_operation_gives_what_numpy_gives(self) -> None:
        for n_ranks in (2, 3):
            with self.subTest(n_ranks=n_ranks):
                Job("collective_worker.every_operation", n_ranks).expect_success(self)

    def test_tensors_are_taken_as_arrays_are(self) -> None:
        needs_torch(self)
        Job("collective_worker.tensors", 2).expect_success(self)

    def test_a_lost_rank_is_named(self) -> None:
        results = Job("collective_worker.lost", 3).results()
        for rank in (0, 2):
            status, printed, complaints = results[rank]
            self.assertEqual(status, 0, complaints)
            self.assertIn("rank 1", printed)


if __name__ == "__main__":
    unittest.main()

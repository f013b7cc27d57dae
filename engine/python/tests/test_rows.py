"""Sparse gradients of tables, between processes."""

import unittest

from _job import Job, needs_torch


class Rows(unittest.TestCase):
    def setUp(self) -> None:
        needs_torch(self)

    def test_steps_are_those_of_one_process_whoever_touches_which_rows(self) -> None:
        for n_workers, n_servers, settings in [
            (2, 1, {}),
            # Parts of a few rows.
            (3, 0, {"RSUM_PARTITION_BYTES": "1000"}),
            (2, 0, {"RSUM_COMPRESSION_MIN_BYTES": "1000000000"}),
        ]:
            with self.subTest(n_workers=n_workers, settings=settings):
                Job("rows_worker.exact", n_workers, n_servers, settings).expect_success(self)

    def test_what_cannot_be_sent_is_refused_with_words(self) -> None:
        Job("rows_worker.refusals", 2, 1).expect_success(self)

    def test_the_next_group_goes_on_with_the_same_tables(self) -> None:
        Job("rows_worker.resumed", 2, 1).expect_success(self)

    def test_sums_are_not_summed_again(self) -> None:
        Job("rows_worker.sums", 2, 0).expect_success(self)


if __name__ == "__main__":
    unittest.main()

"""In which order gradients are sent, and which of them together, between processes."""

import unittest

from _job import Job, needs_torch


class Orders(unittest.TestCase):
    def setUp(self) -> None:
        needs_torch(self)

    def test_gradients_are_sent_when_they_are_ready_and_what_goes_together_changes_no_bit(self) -> None:
        hashes = set(Job("orders_worker.one_by_one", 3, 1, {"RSUM_FUSION_BYTES": "0"}).expect_success(self))
        for limit in ("5000", "8000"):
            hashes |= set(Job("orders_worker.together", 3, 1, {"RSUM_FUSION_BYTES": limit}).expect_success(self))
        self.assertEqual(len(hashes), 1)

    def test_several_tensors_go_in_one_call(self) -> None:
        Job("orders_worker.grouped", 3, 1).expect_success(self)


if __name__ == "__main__":
    unittest.main()

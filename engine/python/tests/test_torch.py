"""The summation service on torch's tensors, between processes."""

import unittest

from _job import Job, needs_torch

# Workers and servers.
GROUPS = ((2, 0), (2, 1), (4, 2))


class Torch(unittest.TestCase):
    def setUp(self) -> None:
        needs_torch(self)

    def test_operations_have_the_names_of_byteps_and_horovod(self) -> None:
        Job("torch_worker.operations", 2, 1).expect_success(self)

    def test_training_together_is_training_on_all_the_data(self) -> None:
        for n_workers, n_servers in GROUPS:
            with self.subTest(n_workers=n_workers, n_servers=n_servers):
                Job("torch_worker.training", n_workers, n_servers).expect_success(self)

    def test_the_optimizer_keeps_what_its_settings_promise(self) -> None:
        Job("torch_worker.settings", 2, 1).expect_success(self)

    def test_training_goes_on_without_two_lost_workers(self) -> None:
        *survivors, _, _ = Job("torch_worker.training_goes_on", 4, 1, {"RSUM_ON_LOSS": "continue"}).results()
        for status, _, complaints in survivors:
            self.assertEqual(status, 0, complaints)

    def test_ddp_gets_its_averages_through_the_hook(self) -> None:
        Job("torch_worker.ddp", 2, 1).expect_success(self)


if __name__ == "__main__":
    unittest.main()

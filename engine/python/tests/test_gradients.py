"""What may become of gradients between two steps, and what is refused, between processes."""

import unittest

from _job import Job, needs_torch


class Gradients(unittest.TestCase):
    def setUp(self) -> None:
        needs_torch(self)

    def survivors_succeed(self, function: str, settings: "dict[str, str]") -> None:
        *survivors, _ = Job(f"failures_worker.{function}", 3, 1, settings).results()
        for status, _, complaints in survivors:
            self.assertEqual(status, 0, complaints)

    def test_no_step_is_taken_with_gradients_that_somebody_else_had_under_way(self) -> None:
        Job("gradients_worker.under_way", 2, 1).expect_success(self)

    def test_what_is_right_between_steps_goes_on_and_what_comes_later_is_refused(self) -> None:
        Job("gradients_worker.loops", 2, 1).expect_success(self)

    def test_models_of_equal_names_have_nothing_of_each_other(self) -> None:
        Job("gradients_worker.names", 2, 1).expect_success(self)

    def test_short_gradients_are_encoded_where_that_is_set(self) -> None:
        Job("gradients_worker.short", 2, 1, {"RSUM_COMPRESSION_MIN_BYTES": "1024"}).expect_success(self)

    def test_sums_are_not_summed_again(self) -> None:
        Job("sums_worker.sums", 2, 1).expect_success(self)

    def test_a_loss_between_backward_and_step_is_got_over(self) -> None:
        self.survivors_succeed("loss_between", {"RSUM_ON_LOSS": "continue"})

    def test_a_broadcast_that_fails_leaves_tensors_as_they_were(self) -> None:
        self.survivors_succeed("broadcasts_fail", {})


if __name__ == "__main__":
    unittest.main()

"""The summation service on numpy arrays, between processes."""

import unittest

from _job import Job

# Workers and servers.
GROUPS = ((2, 0), (2, 1), (4, 2))
SMALL_PARTS = {"RSUM_PARTITION_BYTES": "65536"}


class Groups(unittest.TestCase):
    def test_sums_are_folded_in_the_order_of_the_workers_whatever_the_servers(self) -> None:
        hashes: "dict[int, set[str]]" = {}
        for n_workers, n_servers in (*GROUPS, (4, 0)):
            with self.subTest(n_workers=n_workers, n_servers=n_servers):
                printed = Job("group_worker.sums", n_workers, n_servers, SMALL_PARTS).expect_success(self)
                hashes.setdefault(n_workers, set()).update(printed)
        for n_workers, different in hashes.items():
            self.assertEqual(len(different), 1, f"{n_workers} workers")

    def test_many_rounds_may_be_under_way(self) -> None:
        for n_workers, n_servers in GROUPS:
            with self.subTest(n_workers=n_workers, n_servers=n_servers):
                Job("group_worker.many_under_way", n_workers, n_servers).expect_success(self)

    def test_what_was_submitted_and_never_waited_for_is_given_back(self) -> None:
        Job("group_worker.drops_handles", 2, 1).expect_success(self)

    def test_a_handle_of_a_group_that_was_left_is_none_of_the_next_one(self) -> None:
        Job("group_worker.handles_of_another_group", 1).expect_success(self)

    def test_what_a_handler_raises_at_the_end_of_a_round_loses_no_result(self) -> None:
        Job("group_worker.interrupted_at_its_end", 2).expect_success(self)

    def test_a_process_ends_by_its_exception_though_a_large_round_is_under_way(self) -> None:
        _, (status, _, complaints) = Job("group_worker.ends_with_a_large_round_under_way", 2).results()
        self.assertEqual(status, 1, complaints)
        self.assertIn("by an exception", complaints)

    def test_several_threads_may_wait_for_one_handle(self) -> None:
        Job("group_worker.threads_wait", 2, 1).expect_success(self)

    def test_a_broadcast_changes_no_bit(self) -> None:
        Job("group_worker.broadcasts", 2, 1).expect_success(self)

    def test_a_broadcast_from_two_roots_is_refused_on_all_workers(self) -> None:
        Job("group_worker.two_roots", 2, 1).expect_success(self)

    def test_what_cannot_be_sent_is_refused_and_the_group_goes_on(self) -> None:
        Job("group_worker.refusals", 2).expect_success(self)

    def test_groups_may_sum_asynchronously(self) -> None:
        Job("group_worker.asynchronous", 3, 1, {"RSUM_ASYNC": "1"}).expect_success(self)

    def test_a_lost_worker_is_named(self) -> None:
        for end in ("signal", "exception"):
            with self.subTest(end=end):
                *survivors, _ = Job("group_worker.lost", 3, 1, {"ENDS_BY": end}).results()
                for status, printed, complaints in survivors:
                    self.assertEqual(status, 0, complaints)
                    self.assertRegex(printed, "worker 2|rank 2")

    def test_the_others_go_on_without_a_lost_worker(self) -> None:
        *survivors, _ = Job("group_worker.goes_on", 3, 1, {"RSUM_ON_LOSS": "continue"}).results()
        for status, _, complaints in survivors:
            self.assertEqual(status, 0, complaints)

    def test_a_suspended_group_goes_on_with_fewer_servers(self) -> None:
        Job("group_worker.suspends", 2, 2).expect_success(self)

    def test_a_forked_child_is_no_member_and_ends_by_itself(self) -> None:
        Job("group_worker.forks", 2, 1).expect_success(self)

    def test_a_script_that_ends_well_leaves_the_group(self) -> None:
        Job("group_worker.ends_without_shutdown", 2, 1).expect_success(self)


if __name__ == "__main__":
    unittest.main()

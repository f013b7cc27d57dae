"""Groups that follow each other in the same processes."""

import unittest

from _job import Job


class Again(unittest.TestCase):
    def test_who_is_quick_waits_for_the_next_group_until_the_last_one_is_over(self) -> None:
        for n_workers, n_servers in ((2, 0), (3, 0)):
            Job("again_worker.again", n_workers, n_servers, {"RSCCL_TIMEOUT_S": "20"}).expect_success(self)


if __name__ == "__main__":
    unittest.main()

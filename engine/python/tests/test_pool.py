"""A training whose servers a pool lends while it runs."""

import os
import secrets
import subprocess
import unittest

from _job import BUILD, Job, free_address, needs_torch


class Pools(unittest.TestCase):
    def test_a_training_ends_with_the_same_bits_whatever_the_pool_lends(self) -> None:
        self.train("trains", {"RSUM_ADAPT": "0"})

    def test_a_script_that_knows_nothing_of_pools_gets_their_servers(self) -> None:
        self.train("trains_by_itself", {})

    def test_an_optimizer_can_be_told_to_leave_it_to_the_script(self) -> None:
        needs_torch(self)
        Job("pool_worker.obeys_its_switch", 1).expect_success(self)

    def train(self, how: str, settings: "dict[str, str]") -> None:
        needs_torch(self)
        alone = Job(f"pool_worker.{how}", 2, 0, {"WAITS_FOR": "0"}).expect_success(self)
        pool, secret = free_address(), secrets.token_hex(16)
        environment = {**os.environ, "RSUM_SECRET": secret, "RSCCL_NICS": "lo=127.0.0.1"}
        commands = [["--broker", pool], ["--pool", pool], ["--pool", pool]]
        processes = [
            subprocess.Popen([str(BUILD / "ringscope-sumd"), *command], env=environment, stderr=subprocess.DEVNULL)
            for command in commands
        ]
        own = {"WAITS_FOR": "2", "RSUM_POOL": pool, "RSUM_SECRET": secret, "RSUM_SERVERS": "2"}
        try:
            lent = Job(f"pool_worker.{how}", 2, 0, {**own, **settings}).expect_success(self)
        finally:
            for process in processes:
                process.kill()
                process.wait()
        self.assertEqual({line.split()[2] for line in alone}, {line.split()[2] for line in lent})
        self.assertEqual([line.split()[:2] for line in alone + lent], [["0", "0"]] * 2 + [["0", "2"]] * 2)


if __name__ == "__main__":
    unittest.main()

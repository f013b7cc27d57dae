"""Workers that are killed while parameters are broadcast."""

import random
import unittest

from _job import Job, needs_torch

WORKERS = 3
# Latest moment of a death: there are some broadcasts by then, on a busy machine one.
LATEST_S = 0.4


class Deaths(unittest.TestCase):
    def test_a_death_in_a_broadcast_leaves_all_of_one_version(self) -> None:
        needs_torch(self)
        seed = random.randrange(1 << 32)
        draw = random.Random(seed)
        # Who dies, and whose values the others get: that one, who gives the rendezvous, both, or neither.
        for victim, source in [(0, 0), (1, 1), (0, 1), (2, 0)]:
            delay = draw.uniform(0, LATEST_S)
            with self.subTest(seed=seed, victim=victim, source=source, delay=delay):
                settings = {"RSUM_ON_LOSS": "continue", "VICTIM": str(victim), "SOURCE": str(source)}
                job = Job("deaths_worker.broadcasts_until_death", WORKERS, 1, {**settings, "DELAY_S": str(delay)})
                results = job.results()
                self.assertEqual(results.pop(victim)[0], -9)
                self.assertEqual([status for status, _, _ in results], [0, 0], results)
                (said, other) = (output.split() for _, output, _ in results)
                self.assertEqual((said, said[1]), (other, str(WORKERS - 1)))


if __name__ == "__main__":
    unittest.main()

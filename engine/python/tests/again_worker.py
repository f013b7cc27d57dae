"""What the workers of the tests of groups that follow each other in one process do."""

import numpy
import ringscope_engine as engine

ROUNDS = 25


def again() -> None:
    """Joins a group, sums, leaves it, and joins the next one at once."""
    for number in range(ROUNDS):
        engine.init()
        ones = numpy.full(100, number, numpy.float32)
        assert (engine.push_pull(ones, "ones", average=False) == number * engine.size()).all()
        engine.shutdown()

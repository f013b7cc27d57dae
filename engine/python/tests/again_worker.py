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


def goes_on_alone() -> None:
    """Worker 1 ends; worker 0 has one more tensor."""
    engine.init()
    engine.push_pull(numpy.ones(2, numpy.float32), "both")
    if engine.rank() == 0:
        try:
            engine.push_pull(numpy.ones(2, numpy.float32), "one more")
        except engine.Error as error:
            print(error)


def crosswise() -> None:
    """Each waits in a round that the other one has not come to."""
    engine.init()
    names = ["one", "other"]
    for name in names:
        engine.declare(name, numpy.ones(2, numpy.float32))
    for name in names if engine.rank() == 0 else reversed(names):
        try:
            engine.push_pull(numpy.ones(2, numpy.float32), name)
        except engine.Error:
            return


def meets() -> None:
    """Says why there is no group."""
    try:
        engine.init()
    except engine.Error as error:
        print(error)

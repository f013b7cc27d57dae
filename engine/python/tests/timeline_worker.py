"""A worker whose group leaves a timeline."""

import numpy
import ringscope_engine as engine

# Several parts, one of which has its tensor alone; the second tensor comes in another generation.
SHAPES = {"gradient.first": 5000, "gradient.second": 300}
ROUNDS = 4


def main() -> None:
    engine.init()
    for name, elements in SHAPES.items():
        for _ in range(ROUNDS):
            total = engine.push_pull(numpy.ones(elements, numpy.float32), name, average=False)
            assert (total == engine.size()).all()
    engine.shutdown()

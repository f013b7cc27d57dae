"""Asynchronous sums (RSUM_ASYNC=1): what the services keep, from its first values on, and a barrier made of it.

The first round of a tensor gives everyone worker 0's values; later ones add to them and give what there is then.
"""

from __future__ import annotations

import time
from typing import TypeVar

import numpy

from . import _group
from ._errors import Error
from ._group import SUM, Handle

Array = TypeVar("Array")

BARRIER = "barrier"
# Between two looks at who else has come: the first is no longer than a round trip, the last still soon enough for a person.
FIRST_PAUSE_S, LAST_PAUSE_S = 0.0005, 0.02

# Tensors that have their values, each with the group in which: the one that follows it keeps none.
_begun: dict[str, tuple[int, int]] = {}
# How often this worker has come to the barrier in a group.
_arrivals: dict[tuple[int, int], int] = {}


def declare_barrier() -> None:
    """Declares what `barrier` needs, before anything is pushed: a store takes no declarations after that."""
    _group.declare(BARRIER, numpy.zeros(1, numpy.int64))


def has_begun(name: str) -> bool:
    """Whether a tensor has its first values in this group."""
    return _begun.get(name) == _group.generation()


def begin_async(array: Array, root: int, name: str) -> Handle[Array]:
    """Makes worker 0's values the first ones of a tensor, which are also the result. All workers call it, once."""
    if root != 0:
        raise Error(f"asynchronous sums begin with the values of worker 0, not with those of worker {root}")
    if has_begun(name):
        raise Error(f"{name} has its values already: what is pushed from now on is added to them")
    handle = _group.submit(array, array, name, SUM, is_summed=False)
    _begun[name] = _group.generation()
    return handle


def barrier() -> None:
    """Waits until all workers have come here as often as this one: each adds one, and looks until the count says so."""
    group = _group.generation()
    if not has_begun(BARRIER):
        begin_async(numpy.zeros(1, numpy.int64), 0, BARRIER).wait()
    _arrivals[group] = _arrivals.get(group, 0) + 1
    awaited, pause_s = _arrivals[group] * _group.size(), FIRST_PAUSE_S
    count = _added(1)
    while count < awaited:
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, LAST_PAUSE_S)
        count = _added(0)


def _added(arrivals: int) -> int:
    return int(_group.push_pull(numpy.full(1, arrivals, numpy.int64), BARRIER, average=False)[0])

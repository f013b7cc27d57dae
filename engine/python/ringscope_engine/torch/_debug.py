"""Whether all workers have the same parameters (`RSUM_DEBUG_EVERY=n`): their hashes are compared every n steps.

Each worker puts its hashes in its own row of a table that is zero elsewhere, so that the sum over all workers has everyone's: one
small round. The same on all workers, as the settings are, so all raise the same error in the same step. Who watches the group is told of each
comparison, so that ringscope shows the difference, and that there is none.
"""

from __future__ import annotations

import hashlib
import os
import warnings
from typing import Callable, Dict, List, Sequence, Tuple

import torch

from .. import _group
from .._errors import Error
from .._group import SUM

EVERY, ON_DIFFERENCE = "RSUM_DEBUG_EVERY", "RSUM_DEBUG_ON_DIFFERENCE"


class Comparison:
    """The parameters of an optimizer, compared every so many steps."""

    def __init__(self, prefix: str) -> None:
        self._prefix, self._every, self._is_warned_of = prefix, every(), _warns()
        self._n_steps = 0

    def look(self, all_named: Callable[[], Sequence[Tuple[str, torch.Tensor]]]) -> None:
        """Before a step's gradients are sent: raises an `Error`, or warns, where a step before it has left them different."""
        self._n_steps += 1
        if self._every == 0 or (self._n_steps - 1) % self._every != 0:
            return
        named = all_named()
        table = torch.zeros((_group.size(), len(named)), dtype=torch.int64)
        table[_group.rank()] = torch.tensor([hash_of(parameter) for _, parameter in named], dtype=torch.int64)
        # Where the setting differs between workers, so do the names, which the error has.
        name = f"{self._prefix}hashes.{EVERY}={self._every}.{table.shape[0]}.{table.shape[1]}"
        rows = _group.submit(table, table, name, SUM).wait().tolist()
        different = [place for place in range(len(named)) if len({row[place] for row in rows}) > 1]
        first, hashes = (named[different[0]][0], [row[different[0]] for row in rows]) if different else ("", [])
        _group.compared(self._n_steps - 1, self._every, len(named), len(different), first, hashes)
        if not different:
            return
        text = f"after {self._n_steps - 1} steps {words(first, hashes, len(different) - 1)} ({EVERY}={self._every})"
        if not self._is_warned_of:
            raise Error(f"{text}: begin again from a checkpoint, or by broadcast_parameters")
        warnings.warn(text, RuntimeWarning, stacklevel=2)


def hash_of(tensor: torch.Tensor) -> int:
    """Of the bits of all elements, in their order."""
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    words = hashlib.blake2b(flat.view(torch.uint8).numpy(), digest_size=8)
    return int.from_bytes(words.digest(), "little", signed=True)


def words(parameter: str, hashes: Sequence[int], n_others: int) -> str:
    """Which parameter is the first that differs, and on which workers, in words."""
    parties: Dict[int, List[int]] = {}
    for worker, value in enumerate(hashes):
        parties.setdefault(value, []).append(worker)
    # Most are right; where as many have each, worker 0 is.
    right = max(parties.values(), key=lambda workers: (len(workers), -workers[0]))
    wrong = sorted(worker for workers in parties.values() if workers is not right for worker in workers)
    more = f"; {n_others} other parameters differ, too" if n_others else ""
    return f"parameter {parameter} of {_workers(wrong)} is another one than that of {_workers(right)}{more}"


def _workers(numbers: Sequence[int]) -> str:
    return ("worker " if len(numbers) == 1 else "workers ") + ", ".join(str(number) for number in numbers)


def every() -> int:
    """After how many steps parameters are compared; 0: never."""
    text = os.environ.get(EVERY, "0").strip()
    if not text.isdigit():
        raise Error(f'{EVERY}: "{text}" is not a number of steps; 0: parameters are not compared')
    return int(text)


def _warns() -> bool:
    text = os.environ.get(ON_DIFFERENCE, "stop").strip()
    if text not in ("stop", "warn"):
        raise Error(f'{ON_DIFFERENCE}: "{text}" is neither stop nor warn')
    return text == "warn"

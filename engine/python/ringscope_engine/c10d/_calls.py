"""What ranks called, in words: for errors of ranks that called different things, where the library knows only that."""

from __future__ import annotations

import re
import time
from typing import Any, List, Optional, Sequence

import torch

from ._tensors import operation_name

# In the library's errors of that kind (engine/collective/src/net/verdict.rs).
_UNLIKE = re.compile(r"called .*(with another|instead of)")
# How many others are asked, and for how long: each fails at about the same time.
MAX_ASKED = 4
ASKED_S = 1.0
_PAUSE_S = 0.01
# Of so many tensors the shapes are told.
_MAX_TENSORS = 4


def in_words(what: str, tensors: Sequence[torch.Tensor], opts: Any) -> str:
    """`all_reduce of float32 (2, 3) by SUM`; without what is not there."""
    shown = [f"{_name_of(tensor.dtype)} {tuple(tensor.shape)}" for tensor in tensors[:_MAX_TENSORS]]
    if len(tensors) > _MAX_TENSORS:
        shown.append(f"{len(tensors) - _MAX_TENSORS} more")
    of = f" of {', '.join(shown)}" if shown else ""
    by = f" by {operation_name(opts.reduceOp)}" if hasattr(opts, "reduceOp") else ""
    root = f" with root {opts.rootRank}" if hasattr(opts, "rootRank") else ""
    return f"{what}{of}{by}{root}"


class Told:
    """Where the ranks of a group tell each other what they had called when that was not the same: keys of the group's store."""

    def __init__(self, store: Any, key: str, rank: int) -> None:
        self._store, self._key, self._rank = store, key, rank
        self._found: Optional[str] = None

    def explained(self, error: str, own: str) -> str:
        """An error, and where ranks called different things what they called; `own` is what this one did."""
        if not _UNLIKE.search(error):
            return error
        if self._found is None:
            named = [int(number) for number in re.findall(r"ranks? (\d+)", error)]
            others = [rank for rank in dict.fromkeys(named) if rank != self._rank][:MAX_ASKED]
            self._found = "; ".join(self._exchanged(own, others))
        return f"{error} (`#n` is the library's own count, in which a barrier is an all_reduce). Called: {self._found}"

    def _exchanged(self, own: str, others: List[int]) -> List[str]:
        told = {self._rank: own}
        try:
            self._store.set(f"{self._key}/{self._rank}", own)
            self._store.add(f"{self._key}/{self._rank}/made", 1)
            deadline = time.monotonic() + ASKED_S
            while len(told) <= len(others) and time.monotonic() < deadline:
                for rank in others:
                    # A `get` would wait.
                    if rank not in told and self._store.add(f"{self._key}/{rank}/made", 0):
                        told[rank] = bytes(self._store.get(f"{self._key}/{rank}")).decode(errors="replace")
                time.sleep(_PAUSE_S)
        except Exception:  # noqa: BLE001  the store may be gone with its rank; the error itself is what counts
            pass
        return [f"rank {rank}: {words}" for rank, words in sorted(told.items())]


def _name_of(dtype: torch.dtype) -> str:
    return str(dtype).rpartition(".")[2]

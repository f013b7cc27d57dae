"""Copies of a wrapped optimizer, by `copy.deepcopy`, `pickle` or `torch.save`: its settings and state, and nobody to share with.

A copy has parameters of its own that no other worker knows of, so it takes no step before it is wrapped itself.
"""

from __future__ import annotations

from typing import Any, Dict, Tuple, Type

import torch

from .._errors import Error


class Copied:
    """What a wrapped optimizer does when it is copied."""

    plain_class: Type[torch.optim.Optimizer]
    extension: type
    is_copy = True

    def __reduce_ex__(self, _: Any) -> Any:
        return _restored, (self.plain_class, self.extension), self.__getstate__()

    def __getattr__(self, name: str) -> Any:
        # What the copy has not: who shares with other workers.
        if name in ("_gradients", "_weights", "_is_synchronizing"):
            raise Error("this is a copy of a DistributedOptimizer, which shares nothing with other workers: wrap it as well")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


_classes: Dict[Tuple[type, type], Any] = {}


def extended_class(plain: Type[torch.optim.Optimizer], by: type) -> Any:
    """The class of an optimizer and of what it gets in addition."""
    if (plain, by) not in _classes:
        _classes[plain, by] = type(plain.__name__, (by, plain), {"plain_class": plain, "extension": by})
    return _classes[plain, by]


def _restored(plain: Type[torch.optim.Optimizer], by: type) -> Any:
    return object.__new__(extended_class(plain, by))

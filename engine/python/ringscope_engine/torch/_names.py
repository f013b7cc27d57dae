"""Names of gradients, which tell those of one optimizer or model from those of others that have the same names.

What a lossy codec leaves out of a gradient is kept by its name, also when the model is gone: another one never gets that name. Nor
can a name be another length's or codec's. All workers make the same optimizers in the same order, and so come to the same names.
"""

from __future__ import annotations

import weakref
from typing import Dict, Iterable, List, Sequence, Tuple

import torch

from .. import _group
from .._compression import Codec

# What gradients of each name have been, since this process has joined its group: the library knows no more of those before.
_used: Dict[str, Tuple[int, torch.dtype, Codec]] = {}
# The first parameters of DDP's buckets, by what else their names have in them.
_buckets: Dict[str, List["weakref.ref[torch.Tensor]"]] = {}
_n_joined = 0


def use(name: str, parameter: torch.Tensor, codec: Codec) -> None:
    """A parameter's gradient goes by this name from now on."""
    _forget_other_groups()
    _used[name] = (parameter.numel(), parameter.dtype, codec)


def is_free(name: str, parameter: torch.Tensor, codec: Codec) -> bool:
    """Whether a parameter's gradient may go by this name, which no gradient has that is sent now."""
    _forget_other_groups()
    if name not in _used:
        return True
    return not codec.is_lossy and _used[name] == (parameter.numel(), parameter.dtype, codec)


def are_free(prefix: str, named: Iterable[Tuple[str, torch.Tensor]], codec: Codec) -> bool:
    """The same for many, behind a prefix."""
    return all(is_free(prefix + name, parameter, codec) for name, parameter in named)


def bucket_name(shared: str, codec: Codec, parameters: Sequence[torch.Tensor]) -> str:
    """The name of a bucket of DDP that all buckets of its place, type and length have but those of other codecs.

    With a lossy codec it is the first parameter's own.
    """
    _forget_other_groups()
    name = f"{shared}.{codec.label()}" if codec.number else shared
    if not codec.is_lossy:
        return name
    owners = _buckets.setdefault(name, [])
    number = next((place for place, owner in enumerate(owners) if owner() is parameters[0]), len(owners))
    if number == len(owners):
        owners.append(weakref.ref(parameters[0]))
    return f"{name}.{number + 1}"


def _forget_other_groups() -> None:
    global _n_joined
    joined = _group.generation()[0]
    if joined != _n_joined:
        _n_joined = joined
        _used.clear()
        _buckets.clear()

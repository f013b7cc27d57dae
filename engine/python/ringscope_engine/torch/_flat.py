"""Many small tensors in one and back. A call of torch for each would take longer than to send them."""

from __future__ import annotations

import ctypes
from typing import Any, List, Sequence

import torch

_flatten: Any = torch._C._nn.flatten_dense_tensors  # type: ignore[attr-defined,unused-ignore]


def gathered(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """A new tensor with the elements of all, which are of one type, in their order."""
    with torch.no_grad():
        flat: torch.Tensor = _flatten(list(tensors))
        # Of one it is the tensor itself.
        return flat.clone() if len(tensors) == 1 else flat


def scatter(flat: torch.Tensor, into: Sequence[torch.Tensor]) -> None:
    """Replaces the elements of all by those of `flat`, bit for bit."""
    if flat.device.type != "cpu" or not all([own.is_contiguous() for own in into]):
        parts: List[torch.Tensor] = torch.split(flat, [own.numel() for own in into])  # type: ignore[no-untyped-call,unused-ignore]
        for own, part in zip(into, parts):
            own.detach().copy_(part.view(own.shape))
        return
    address, item_bytes, move = flat.data_ptr(), flat.element_size(), ctypes.memmove
    for own in into:
        n_bytes = own.numel() * item_bytes
        move(own.data_ptr(), address, n_bytes)
        address += n_bytes

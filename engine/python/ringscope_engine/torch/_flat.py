"""Many small tensors in one and back. A call of torch for each would take longer than to send them."""

from __future__ import annotations

from array import array
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch

from .._errors import Error
from .._library import summation

_flatten: Any = torch._C._nn.flatten_dense_tensors  # type: ignore[attr-defined,unused-ignore]
# Called for hundreds of tensors: `map` with a method of the class calls it without a step of Python's between.
_address_of, _length_of = torch.Tensor.data_ptr, torch.Tensor.numel
_is_contiguous = torch.Tensor.is_contiguous
# The memory of such a one has the other signs.
_is_negative = torch.Tensor.is_neg
# What DDP asks for the buckets of its gradients, those of one type and device; not in a PyTorch that is built without `distributed`.
_buckets: Any = getattr(torch.distributed, "_compute_bucket_assignment_by_size", None)


def places_by_kind(tensors: Sequence[torch.Tensor]) -> List[List[int]]:
    """Which tensors are of one type and device, each kind's in their order."""
    if tensors and _buckets is not None:
        kinds: List[List[int]] = _buckets(tensors, [1 << 62])[0]
        return kinds
    places: Dict[Tuple[torch.dtype, torch.device], List[int]] = {}
    for place, tensor in enumerate(tensors):
        places.setdefault((tensor.dtype, tensor.device), []).append(place)
    return list(places.values())


class Pieces:
    """Tensors of one type and device, and where they lie: none of them may be moved, resized or freed until they are dropped,
    but where `again` is asked before the next use."""

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        self.tensors = tensors
        self._lengths = array("Q", map(_length_of, tensors))
        self._kind = (tensors[0].dtype, tensors[0].device)
        self._addresses: Optional["array[int]"] = None
        if tensors[0].is_cpu and all(map(_is_contiguous, tensors)) and not any(map(_is_negative, tensors)):
            self._addresses = array("Q", map(_address_of, tensors))

    def again(self) -> "Pieces":
        """The same tensors where they lie now: their owner may have given them other memory."""
        now = Pieces(self.tensors)
        if now._lengths != self._lengths or self._kind != now._kind or len(places_by_kind(self.tensors)) > 1:
            raise Error("a tensor has got another length or type while it was summed: wait for the handle before changing it")
        return now

    def gathered(self) -> torch.Tensor:
        """A new tensor with the elements of all, in their order."""
        if self._addresses is None:
            with torch.no_grad():
                whole: torch.Tensor = _flatten(list(self.tensors))
                # Of one it is the tensor itself.
                return whole.clone() if len(self.tensors) == 1 else whole
        whole = torch.empty(sum(self._lengths), dtype=self.tensors[0].dtype)
        self._copy("rsum_gather", whole, self._addresses)
        return whole

    def scatter(self, whole: torch.Tensor) -> None:
        """Replaces the elements of all by those of `whole`, bit for bit."""
        if self._addresses is None:
            parts: List[torch.Tensor] = torch.split(whole, self._lengths.tolist())  # type: ignore[no-untyped-call,unused-ignore]
            for own, part in zip(self.tensors, parts):
                own.detach().copy_(part.view(own.shape))
            return
        self._copy("rsum_scatter", whole, self._addresses)

    def _copy(self, name: str, whole: torch.Tensor, addresses: "array[int]") -> None:
        where, lengths = addresses.buffer_info()[0], self._lengths.buffer_info()[0]
        summation(name, whole.data_ptr(), len(addresses), where, lengths, whole.element_size())

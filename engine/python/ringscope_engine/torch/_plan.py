"""In which order gradients are sent, and which of them together: the same on all workers.

The order is that in which worker 0's backward pass had them ready in the first step, after which it tells the others; those that
it did not have come last. It is told anew every `STEPS_BETWEEN` steps, as models change, and in every new group. Small
gradients go together, neighbours in the first order, until they are as long as `RSUM_FUSION_BYTES`; sums are made element by
element, so that changes no bit. With a codec those go together that it leaves as they are. What goes together stays together: only
the order of parcels changes.
"""

from __future__ import annotations

import hashlib
import os
from typing import Dict, List, Optional, Sequence, Tuple, Union

import torch

from .. import _group
from .._compression import Codec, Compression
from .._errors import Error
from .._group import SUM, Handle
from ._flat import Pieces
from ._names import use
from ._rows import RowsParcel, kind_of, settle_kind
from ._slot import Slot

# Measured, see "Small tensors" in BENCHMARKS.md: beyond it nothing is gained, and the last parcel is not late.
DEFAULT_FUSION_BYTES = 1 << 20
# A model that has changed its order wastes as many steps at most; a look costs one small round.
STEPS_BETWEEN = 100
# Below this nothing is encoded, where RSUM_COMPRESSION_MIN_BYTES says nothing else (codec/choice.rs).
DEFAULT_MIN_COMPRESS_BYTES = 65_536


class Parcel:
    """Gradients that are sent together: one in its own memory, or several in one that they are copied to."""

    def __init__(self, slots: Sequence[Slot], codec: Codec) -> None:
        self.slots, self._codec, self._priority = list(slots), codec, 0
        self.name = slots[0].name
        if len(slots) > 1:
            names = hashlib.sha256("\n".join(slot.name for slot in slots).encode()).hexdigest()[:8]
            self.name = f"{slots[0].name} and {len(slots) - 1} more ({names})"
        self._sizes = [slot.parameter.numel() for slot in slots]
        self._handle: Optional[Handle[torch.Tensor]] = None

    def is_under_way(self) -> bool:
        """Whether it was submitted and not waited for."""
        return self._handle is not None

    def declare(self, priority: int) -> None:
        """Makes it known to the group."""
        self._priority = priority
        like = torch.empty(sum(self._sizes), dtype=self.slots[0].parameter.dtype, device=self.slots[0].parameter.device)
        _group.declare(self.name, like, priority=priority, compression=self._codec)

    def submit(self, op: int) -> None:
        """Sends what this worker contributes."""
        if len(self.slots) == 1:
            sent = self.slots[0].contribution().contiguous().resolve_neg()
        else:
            sent = Pieces([slot.contribution() for slot in self.slots]).gathered()
        try:
            self._handle = _group.submit(sent, sent, self.name, op, self._priority, self._codec)
        except Error as error:
            if "is declared already" not in str(error):
                raise
            text = f"{error}: gradients have another type than at the first step (model.double()?): wrap the optimizer again"
            raise Error(text, error.code) from None

    def finish(self) -> str:
        """Waits, and puts each result where it belongs, unless somebody else was there meanwhile: what the first one did."""
        if self._handle is None:
            return ""
        result = self._handle.wait()
        self._handle = None
        mistakes = [mistake for mistake in [slot.mistake() for slot in self.slots] if mistake is not None]
        if mistakes:
            return mistakes[0]
        if len(self.slots) == 1 or any(slot.parameter.grad is None for slot in self.slots):
            parts: List[torch.Tensor] = torch.split(result.view(-1), self._sizes)  # type: ignore[no-untyped-call,unused-ignore]
            for slot, part in zip(self.slots, parts):
                own = slot.target(part)
                if own is not None and own.data_ptr() != part.data_ptr():
                    own.detach().copy_(part.view(own.shape))
            return ""
        Pieces([target for target in [slot.target(result) for slot in self.slots] if target is not None]).scatter(result)
        return ""

    def give_up(self) -> None:
        """Waits until nothing is under way, however that ends."""
        handle, self._handle = self._handle, None
        if handle is not None:
            try:
                handle.wait()
            except Error:
                pass


AnyParcel = Union[Parcel, RowsParcel]


class Plan:
    """The parcels of an optimizer, in the order in which they are submitted."""

    def __init__(self, prefix: str, codec: Codec) -> None:
        self.parcels: List[AnyParcel] = []
        self._prefix, self._codec = prefix, codec
        # Gradients in the order in which parcels were made of them: those of the first step, those that came later, and so on.
        self._made_of: List[List[Slot]] = []
        self._group: Optional[Tuple[int, int]] = None
        self._n_slots, self._n_steps = 0, 0
        # Their order from the next step on.
        self._next: Optional[List[AnyParcel]] = None

    def is_agreed(self, slots: Sequence[Slot]) -> bool:
        """Whether all workers know the order of all these gradients."""
        return self._n_slots == len(slots) and self._group == _group.generation()

    def count_step(self) -> None:
        """A step's gradients were sent."""
        self._n_steps += 1
        if self._next is not None:
            self.parcels, self._next = self._next, None

    def agree(self, slots: Sequence[Slot], ready: Sequence[Slot]) -> None:
        """Before gradients are sent that were not: takes worker 0's order, where it is time to. All workers come here."""
        if self.is_agreed(slots) and self._n_steps < STEPS_BETWEEN:
            return
        early = set(ready)
        order = [*ready, *(slot for slot in reversed(slots) if slot not in early)]
        known = {slot for batch in self._made_of for slot in batch}
        new = [slot for slot in order if slot not in known]
        batches = [*self._made_of, new] if new else self._made_of
        places = {slot: place for place, slot in enumerate(slots)}
        own = [fusion_bytes(), min_compress_bytes(), *(places[slot] for slot in order)]
        for number, batch in enumerate(batches):
            own += [value for slot in batch for value in (number, places[slot])]
        # Worker 0's, and behind it what all know of gradients, summed.
        told = torch.tensor([*(own if _group.rank() == 0 else [0] * len(own)), *map(kind_of, slots)], dtype=torch.int64)
        name = f"{self._prefix}order.{len(slots)}"
        limit, min_bytes, *rest = _group.submit(told, told, name, SUM).wait().tolist()
        rest, kinds = rest[: -len(slots)], rest[-len(slots) :]
        for slot, kind in zip(slots, kinds):
            settle_kind(slot, kind)
        order = [slots[place] for place in rest[: len(slots)]]
        made_of = rest[len(slots) :]
        batches = [[] for _ in range(max(made_of[::2], default=-1) + 1)]
        for number, place in zip(made_of[::2], made_of[1::2]):
            batches[number].append(slots[place])
        self._take(batches, order, limit, min_bytes)
        self._group, self._n_slots, self._n_steps = _group.generation(), len(slots), 0

    def _take(self, batches: List[List[Slot]], order: List[Slot], limit: int, min_bytes: int) -> None:
        before = {parcel.name: parcel for parcel in self.parcels}
        parcels: List[AnyParcel] = []
        for batch in batches:
            for together in _packed(batch, limit, self._codec, min_bytes):
                codec = _codec_for(together[0], self._codec) if len(together) == 1 else Compression.none
                is_rows = len(together) == 1 and together[0].is_rows
                parcel: AnyParcel = RowsParcel(together[0]) if is_rows else Parcel(together, codec)
                parcels.append(before.get(parcel.name, parcel))
        times: Dict[Slot, int] = {slot: time for time, slot in enumerate(order)}
        parcels.sort(key=lambda parcel: max(times[slot] for slot in parcel.slots))
        # What is ready last is of the first layers, which the next forward pass needs first.
        for place, parcel in enumerate(parcels):
            if parcel.name not in before:
                parcel.declare(-place)
        self._made_of = batches
        for slot in order:
            use(slot.name, slot.parameter, self._codec)
        if any(parcel.is_under_way() for parcel in self.parcels):
            # This step goes on in the order that was.
            new = [parcel for parcel in parcels if parcel.name not in before]
            self.parcels, self._next = [*self.parcels, *new], parcels
        else:
            self.parcels, self._next = parcels, None


def _packed(slots: Sequence[Slot], limit: int, codec: Codec, min_bytes: int) -> List[List[Slot]]:
    """Which gradients go together, in the order in which the first of each are ready."""
    packed: List[List[Slot]] = []
    # With how many bytes each has.
    open_by_kind: Dict[Tuple[torch.dtype, torch.device], Tuple[List[Slot], int]] = {}
    for slot in slots:
        most = limit if _codec_for(slot, codec) == Compression.none else min(limit, min_bytes)
        is_small = slot.size_bytes() < most and not slot.is_rows
        kind = (slot.parameter.dtype, slot.parameter.device)
        together, n_bytes = open_by_kind.get(kind, ([], 0)) if is_small else ([], 0)
        if not together or n_bytes + slot.size_bytes() > limit:
            together, n_bytes = [], 0
            packed.append(together)
        together.append(slot)
        if is_small:
            open_by_kind[kind] = (together, n_bytes + slot.size_bytes())
    return packed


def _codec_for(slot: Slot, codec: Codec) -> Codec:
    return codec if slot.parameter.dtype == torch.float32 else Compression.none


def fusion_bytes() -> int:
    """Up to how many bytes small tensors are sent together; 0: each by itself."""
    return _bytes_of("RSUM_FUSION_BYTES", DEFAULT_FUSION_BYTES)


def min_compress_bytes() -> int:
    """From how many bytes on a gradient is encoded, and so goes by itself."""
    return _bytes_of("RSUM_COMPRESSION_MIN_BYTES", DEFAULT_MIN_COMPRESS_BYTES)


def _bytes_of(setting: str, default: int) -> int:
    text = os.environ.get(setting, "").strip()
    if not text:
        return default
    if not text.isdigit():
        raise Error(f'{setting}: "{text}" is not a number of bytes')
    return int(text)

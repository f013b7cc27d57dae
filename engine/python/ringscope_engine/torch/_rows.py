"""Gradients of tables: sparse ones, as `torch.nn.Embedding(…, sparse=True)` makes them, of which only the rows that were touched travel.

A table's gradient is sent from a buffer with all rows, each with one element more: 1 where this worker has touched the row, and zeros
in all of it where not. The codec `rows` sends what is no row of zeros, there and back, so the sum says which rows anybody
has touched, also where it is zero. The result is a sparse gradient of just those rows, coalesced.

The buffer is as large as the table, in float32 in this machine's memory, and kept from step to step with zeros in it.
"""

from __future__ import annotations

from typing import Any, Dict, Optional

import torch

from .. import _group
from .._compression import Codec, Compression
from .._errors import Error
from .._group import Handle
from ._slot import Slot

# What is summed exactly in float32, and rounded once where it is shorter, as dense gradients are.
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
# What a worker knows of a gradient when all agree: nothing, that it is sparse, that it is dense; summed over all workers.
NOTHING, SPARSE, DENSE = 0, 1, 1 << 32

# Indices are this module's own; PyTorch from 2.0 on checks them, or warns that it does not.
_unchecked: Dict[str, Any] = (
    {"check_invariants": False} if hasattr(torch.sparse, "check_sparse_tensor_invariants") else {}
)


def kind_of(slot: Slot) -> int:
    """What this worker knows of a gradient."""
    if slot.is_rows is not None:
        return SPARSE if slot.is_rows else DENSE
    gradient = slot.own_gradient()
    if gradient is None:
        return NOTHING
    return SPARSE if gradient.is_sparse else DENSE


def settle_kind(slot: Slot, total: int) -> None:
    """Decides by the sum of what all workers know whether a gradient is one of rows; an `Error`, on all workers, where they differ."""
    n_sparse, n_dense = total % DENSE, total // DENSE
    if n_sparse and n_dense:
        raise Error(
            f"{slot.name} is sparse on {n_sparse} and dense on {n_dense} of {_group.size()} workers: "
            "make the layer the same on all of them (sparse=True or False)"
        )
    slot.is_rows = n_sparse > 0


def check_kind(slot: Slot) -> None:
    """Raises an `Error` for a gradient that cannot be sent as what all workers have agreed on."""
    gradient = slot.own_gradient()
    if gradient is None:
        return
    if not gradient.is_sparse:
        if slot.is_rows:
            raise Error(f"{slot.name} is dense, and has been sparse before: a layer's gradients are one or the other")
        return
    if slot.is_rows is False:
        raise Error(
            f"{slot.name} is sparse, and was not when the workers agreed on gradients: on one of them at least the first step "
            "must use the layer; or make its gradients dense (sparse=False)"
        )
    # What was set to zero in place is sparse in all dimensions, and has nothing.
    if gradient._nnz() > 0 and gradient.sparse_dim() != 1 or gradient.dtype not in DTYPES:
        raise Error(
            f"{slot.name} is sparse in {gradient.sparse_dim()} dimensions, of {gradient.dtype}; sparse gradients are sent that are so "
            "in the first alone, of float32, float16 or bfloat16: make the layer's gradients dense (sparse=False)"
        )


def nothing_touched(parameter: torch.Tensor) -> torch.Tensor:
    """The gradient of a step that used no row."""
    indices = torch.empty((1, 0), dtype=torch.int64, device=parameter.device)
    return _coalesced(indices, parameter.detach().new_empty((0, *parameter.shape[1:])), parameter)


class RowsParcel:
    """The gradient of one table, as `_plan.Parcel` is one of others."""

    def __init__(self, slot: Slot) -> None:
        self.slots, self.name, self._priority = [slot], f"{slot.name}.rows", 0
        parameter = slot.parameter
        # The rows, and the elements of one in the buffer.
        self._shape = (parameter.shape[0], parameter.numel() // max(parameter.shape[0], 1) + 1)
        self._codec: Codec = Compression.rows(self._shape[1])
        # None before the first step, and after an error: who knows what is in it.
        self._buffer: Optional[torch.Tensor] = None
        self._handle: Optional[Handle[torch.Tensor]] = None

    def is_under_way(self) -> bool:
        """Whether it was submitted and not waited for."""
        return self._handle is not None

    def declare(self, priority: int) -> None:
        """Makes it known to the group."""
        self._priority = priority
        _group.declare(self.name, torch.empty(self._shape), priority=priority, compression=self._codec)

    def submit(self, op: int) -> None:
        """Sends what this worker contributes."""
        own = self.slots[0].own_gradient()
        buffer, self._buffer = self._buffer, None
        if buffer is None:
            buffer = torch.zeros(self._shape)
        if own is not None and own._nnz() > 0:
            rows = own.detach().coalesce()
            touched, values = rows.indices()[0].cpu(), rows.values().to("cpu", torch.float32)
            buffer[:, 0].index_fill_(0, touched, 1.0)
            buffer[:, 1:].index_copy_(0, touched, values.reshape(-1, self._shape[1] - 1))
        self._handle = _group.submit(buffer, buffer, self.name, op, self._priority, self._codec)

    def finish(self) -> str:
        """Waits, and gives the parameter the rows that anybody has touched, unless somebody else was there meanwhile: what the
        first one did."""
        if self._handle is None:
            return ""
        # After a signal it is under way still.
        buffer, slot = self._handle.wait(), self.slots[0]
        self._handle = None
        touched = buffer[:, 0].nonzero().view(-1)
        values = buffer[:, 1:].index_select(0, touched)
        buffer.index_fill_(0, touched, 0.0)
        self._buffer = buffer
        mistake = slot.mistake()
        if mistake is not None:
            return mistake
        parameter = slot.parameter
        values = values.to(parameter.device, parameter.dtype).view(-1, *parameter.shape[1:])
        slot.put_rows(_coalesced(touched.to(parameter.device)[None], values, parameter))
        return ""

    def give_up(self) -> None:
        """Waits until nothing is under way, however that ends."""
        handle, self._handle = self._handle, None
        if handle is not None:
            try:
                handle.wait()
            except Error:
                pass


def _coalesced(indices: torch.Tensor, values: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    made: torch.Tensor = torch.sparse_coo_tensor(indices, values, like.shape, **_unchecked)
    return made._coalesced_(True)  # type: ignore[attr-defined,no-any-return,unused-ignore]

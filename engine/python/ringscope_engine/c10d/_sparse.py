"""Sums of sparse tensors: all ranks' indices and values are gathered, and added where they meet."""

from __future__ import annotations

from typing import Callable, List

import torch

# For what a rank says of its tensor; the sizes of a tensor of 64 dimensions fit.
TOLD_BYTES = 1536

# Fills the list with all ranks' tensors, of which this rank's is the second argument.
Gather = Callable[[List[torch.Tensor], torch.Tensor], None]


def sum_into(tensor: torch.Tensor, n_ranks: int, gather: Gather) -> None:
    """Replaces a sparse COO tensor by the sum of all ranks' ones; refuses those of other shapes and types on all ranks."""
    own = tensor.coalesce()
    n_each = _agreed(own, n_ranks, gather)
    indices = [torch.empty((own.sparse_dim(), n), dtype=torch.int64, device="cpu") for n in n_each]
    shape = own.values().shape[1:]
    values = [torch.empty((n, *shape), dtype=own.dtype, device="cpu") for n in n_each]
    gather(indices, own.indices())
    gather(values, own.values())
    tensor.copy_(torch.sparse_coo_tensor(torch.cat(indices, 1), torch.cat(values), own.shape).coalesce())


def _agreed(own: torch.Tensor, n_ranks: int, gather: Gather) -> List[int]:
    """How many values each rank has, where all have tensors of one shape and type."""
    kind = f"{tuple(own.shape)} of {own.dtype}, sparse in {own.sparse_dim()}"
    text = f"{own._nnz()} {kind}".encode()[:TOLD_BYTES]
    told = torch.tensor(list(text.ljust(TOLD_BYTES)), dtype=torch.uint8, device="cpu")
    of_all = [torch.empty_like(told) for _ in range(n_ranks)]
    gather(of_all, told)
    n_each = []
    for rank, one in enumerate(of_all):
        n_values, other = bytes(one.tolist()).decode().rstrip().split(" ", 1)
        if other != kind:
            raise RuntimeError(f"rsccl: all_reduce: sparse tensors differ: {kind} here, {other} on rank {rank}")
        n_each.append(int(n_values))
    return n_each

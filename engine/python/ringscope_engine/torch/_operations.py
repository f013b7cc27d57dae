"""Pushing and pulling tensors: the names of BytePS, and those of Horovod for the same.

Tensors are dense, contiguous, and on the CPU or on a CUDA GPU: there, what the current stream has to do comes before, and
results are there for all streams once they were waited for. Nothing here is recorded for autograd.
"""

from __future__ import annotations

from typing import List, Optional, Sequence, Tuple

import torch

from .. import _group, _store
from .._buffers import buffer_of
from .._compression import AnyCodec
from .._errors import Error
from .._group import AVERAGE, SUM, Handle
from ._flat import Pieces, places_by_kind

# Horovod's names for what becomes of the contributions.
Average, Sum = AVERAGE, SUM

declare = _group.declare
poll = _group.poll
synchronize = _group.synchronize
wait = _group.wait


def push_pull_async_inplace(
    tensor: torch.Tensor,
    average: bool = True,
    name: Optional[str] = None,
    version: int = 0,
    priority: int = 0,
    compression: AnyCodec = None,
) -> Handle[torch.Tensor]:
    """`push_pull_inplace` without waiting: `synchronize(handle)` gives the tensor, which may not be touched before."""
    operation = AVERAGE if average else SUM
    return _group.submit(_detached(tensor), tensor, name, operation, priority, compression)


def push_pull_async(
    tensor: torch.Tensor,
    average: bool = True,
    name: Optional[str] = None,
    version: int = 0,
    priority: int = 0,
    compression: AnyCodec = None,
) -> Handle[torch.Tensor]:
    """`push_pull` without waiting: `synchronize(handle)` gives the result; `tensor` may not be changed before."""
    source = _detached(tensor)
    operation = AVERAGE if average else SUM
    return _group.submit(source, torch.empty_like(source), name, operation, priority, compression)


def push_pull(
    tensor: torch.Tensor,
    average: bool = True,
    name: Optional[str] = None,
    version: int = 0,
    priority: int = 0,
    compression: AnyCodec = None,
) -> torch.Tensor:
    """The average over all workers of what each passes as `tensor`, or the sum: a new tensor of its shape and type.

    `name` says which tensor this is a round of; without it rounds of one length and type are told apart by their order.
    `priority` (lower goes first) and `compression` count at the first use of a name. `version` has no meaning here. All
    workers call it, in the same order.
    """
    return push_pull_async(tensor, average, name, version, priority, compression).wait()


def push_pull_inplace(
    tensor: torch.Tensor,
    average: bool = True,
    name: Optional[str] = None,
    version: int = 0,
    priority: int = 0,
    compression: AnyCodec = None,
) -> torch.Tensor:
    """The same, with the result in `tensor`."""
    return push_pull_async_inplace(tensor, average, name, version, priority, compression).wait()


def allreduce_async_(
    tensor: torch.Tensor,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    compression: AnyCodec = None,
) -> Handle[torch.Tensor]:
    """Horovod's `push_pull_async_inplace`."""
    return push_pull_async_inplace(tensor, _is_average(average, op), name, compression=compression)


def allreduce_async(
    tensor: torch.Tensor,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    compression: AnyCodec = None,
) -> Handle[torch.Tensor]:
    """Horovod's `push_pull_async`."""
    return push_pull_async(tensor, _is_average(average, op), name, compression=compression)


def allreduce_(
    tensor: torch.Tensor,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
) -> torch.Tensor:
    """Horovod's `push_pull_inplace`."""
    return allreduce_async_(tensor, average, name, op).wait()


def allreduce(
    tensor: torch.Tensor,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    compression: AnyCodec = None,
    op: Optional[int] = None,
) -> torch.Tensor:
    """Horovod's `push_pull`."""
    return allreduce_async(tensor, average, name, op, compression).wait()


class Grouped(Handle[List[torch.Tensor]]):
    """A push and pull of several tensors under way: those of one type and device in one, which their results are copied from."""

    def __init__(self, tensors: Sequence[torch.Tensor], results: List[torch.Tensor], name: str, operation: int) -> None:
        super().__init__(None, results)
        self._is_in_place = results is tensors
        self._parts: List[Tuple[Handle[torch.Tensor], Pieces]] = []
        kinds = places_by_kind(tensors)
        sent: List[Tuple[torch.Tensor, Pieces]] = []
        for places in kinds:
            own, into = [tensors, results] if len(kinds) == 1 else [[of[place] for place in places] for of in (tensors, results)]
            pieces = Pieces(own)
            flat = pieces.gathered()
            if len(kinds) > 1:
                # Before any is under way.
                buffer_of(flat, may_be_on_gpu=True)
            sent.append((flat, pieces if self._is_in_place else Pieces(into)))
        for flat, pieces in sent:
            # Others of the same name may go as another number of elements.
            handle = _group.submit(flat, flat, f"{name}.{str(flat.dtype)[6:]}.{flat.numel()}", operation)
            self._parts.append((handle, pieces))

    def poll(self) -> bool:
        """Whether all results are there, or will never be; where a thread waits for them, only once that has them."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            return all(handle.poll() for handle, _ in self._parts)
        finally:
            self._lock.release()

    def wait(self) -> List[torch.Tensor]:
        """Waits until all results are there."""
        return self.finish(may_have_moved=self._is_in_place)

    def finish(self, *, may_have_moved: bool) -> List[torch.Tensor]:
        """The same; `may_have_moved` tells whether the program could have given tensors other memory since they were sent."""
        with self._lock:
            sums = _group.wait_for_all(handle for handle, _ in self._parts)
            places = [into.again() if may_have_moved else into for _, into in self._parts]
            for total, into in zip(sums, places):
                into.scatter(total)
            self._parts = []
        return self._result


def grouped_allreduce_async_(
    tensors: Sequence[torch.Tensor],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
) -> Grouped:
    """`grouped_allreduce_` without waiting: `synchronize(handle)` gives the tensors."""
    tensors = _all_checked(tensors)
    return Grouped(tensors, tensors, name or "grouped", AVERAGE if _is_average(average, op) else SUM)


def grouped_allreduce_async(
    tensors: Sequence[torch.Tensor],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
) -> Handle[List[torch.Tensor]]:
    """`grouped_allreduce` without waiting: `synchronize(handle)` gives the results."""
    tensors = _all_checked(tensors)
    results = [torch.empty_like(tensor, memory_format=torch.contiguous_format) for tensor in tensors]
    return Grouped(tensors, results, name or "grouped", AVERAGE if _is_average(average, op) else SUM)


def grouped_allreduce_(
    tensors: Sequence[torch.Tensor],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
) -> List[torch.Tensor]:
    """Replaces each tensor by the average over all workers, or the sum. Many small ones take little longer than one."""
    return grouped_allreduce_async_(tensors, average, name, op).finish(may_have_moved=False)


def grouped_allreduce(
    tensors: Sequence[torch.Tensor],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
) -> List[torch.Tensor]:
    """The averages, or sums, of several tensors: new ones, in one call. All workers pass the same shapes and types."""
    return grouped_allreduce_async(tensors, average, name, op).wait()


def broadcast_async_(
    tensor: torch.Tensor, root_rank: int, name: Optional[str] = None
) -> Handle[torch.Tensor]:
    """`broadcast_` without waiting."""
    return _group.broadcast_async(tensor, root_rank, name)


def broadcast_async(
    tensor: torch.Tensor, root_rank: int, name: Optional[str] = None
) -> Handle[torch.Tensor]:
    """`broadcast` without waiting."""
    return _group.broadcast_own_async(_detached(tensor).clone(), root_rank, name)


def broadcast_(tensor: torch.Tensor, root_rank: int, name: Optional[str] = None) -> torch.Tensor:
    """Replaces `tensor` on all workers by what it is on worker `root_rank`, bit for bit; where it fails, `tensor` is as it was."""
    return broadcast_async_(tensor, root_rank, name).wait()


def broadcast(tensor: torch.Tensor, root_rank: int, name: Optional[str] = None) -> torch.Tensor:
    """A new tensor, what `tensor` is on worker `root_rank`."""
    return broadcast_async(tensor, root_rank, name).wait()


def barrier() -> None:
    """Waits until all workers are here: a push and pull of one byte, or several where sums are asynchronous.

    There it needs a tensor of its own, which `DistributedOptimizer` and `broadcast_parameters` declare.
    """
    if _group.is_asynchronous():
        _store.barrier()
        return
    push_pull(torch.zeros(1, dtype=torch.uint8), average=False, name="barrier")


def _detached(tensor: torch.Tensor) -> torch.Tensor:
    if not isinstance(tensor, torch.Tensor):
        raise Error(f"a torch tensor is needed, not {type(tensor).__name__}: torch.tensor(…) makes one of a number")
    return tensor.detach()


def _all_checked(tensors: Sequence[torch.Tensor]) -> List[torch.Tensor]:
    if isinstance(tensors, torch.Tensor):
        raise Error("a list of torch tensors is needed, not one: allreduce() takes one")
    tensors = list(tensors)
    if not all(issubclass(kind, torch.Tensor) for kind in set(map(type, tensors))):
        for tensor in tensors:
            _detached(tensor)
    return tensors


def _is_average(average: Optional[bool], op: Optional[int]) -> bool:
    if average is not None and op is not None:
        raise Error("either `average` or `op` says what becomes of the contributions, not both")
    if op not in (None, AVERAGE, SUM):
        raise Error(f"there is no operation {op!r}; there are Average and Sum")
    return average if average is not None else op != SUM

"""torch's tensors as the library takes them: contiguous, in this machine's memory, of one of NCCL's types."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any, Callable, FrozenSet, List, NamedTuple, Optional, Sequence, Tuple

import torch
import torch.distributed as dist

from ._lane import Lane
from ._work import wait_for

BYTES = 1  # ncclUint8
# ncclDataType_t of what the library reduces.
REDUCED = {
    torch.int8: 0,
    torch.uint8: 1,
    torch.int32: 2,
    torch.int64: 4,
    torch.float16: 6,
    torch.float32: 7,
    torch.float64: 8,
    torch.bfloat16: 9,
}
for _name, _code in (("float8_e4m3fn", 10), ("float8_e5m2", 11), ("uint32", 3), ("uint64", 5)):
    if hasattr(torch, _name):
        REDUCED[getattr(torch, _name)] = _code
# Types without one, and those in which they are reduced: the low bits of the result are the same.
WIDER = {torch.int16: torch.int32, torch.bool: torch.uint8}
if hasattr(torch, "uint16"):
    WIDER[torch.uint16] = torch.int32
# Complex types, and those of their two parts, which are summed each for itself.
PARTS = {torch.complex32: torch.float16, torch.complex64: torch.float32, torch.complex128: torch.float64}

# ncclRedOp_t.
SUM, PROD, MAX, MIN, AVG = range(5)
# Those that the library has not: all contributions are gathered and folded here.
FOLDED: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "BAND": torch.bitwise_and,
    "BOR": torch.bitwise_or,
    "BXOR": torch.bitwise_xor,
}
_OPERATIONS = {"SUM": SUM, "PRODUCT": PROD, "MAX": MAX, "MIN": MIN, "AVG": AVG}


class Reduction(NamedTuple):
    """How contributions become one: one of the library's operations, or a function that folds two."""

    code: int
    fold: Optional[Callable[[torch.Tensor, torch.Tensor], torch.Tensor]]


class Memory(NamedTuple):
    """A tensor as the library takes it. `tensor` is the caller's own, or a copy of it."""

    tensor: torch.Tensor
    address: int
    elements: int
    n_bytes: int


def reduction_of(op: Any, dtype: torch.dtype) -> Reduction:
    """torch's ReduceOp, on elements of a type."""
    for name, code in _OPERATIONS.items():
        if op == getattr(dist.ReduceOp, name):
            return Reduction(_checked(name, code, dtype), None)
    for name, fold in FOLDED.items():
        if op == getattr(dist.ReduceOp, name):
            if dtype.is_floating_point or dtype.is_complex:
                raise RuntimeError(f"rsccl: Cannot use ReduceOp.{name} with non-integral dtype {dtype}")
            return Reduction(SUM, fold)
    raise RuntimeError(f"rsccl: {op} is not supported: take SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR or BXOR")


def operation_name(op: Any) -> str:
    """torch's name of a ReduceOp."""
    names = [name for name in (*_OPERATIONS, *FOLDED) if op == getattr(dist.ReduceOp, name)]
    return names[0] if names else str(op)


def _checked(name: str, code: int, dtype: torch.dtype) -> int:
    if dtype == torch.bool:
        # As ProcessGroupNCCL does: a sum of truths is whether any is true.
        if code == AVG:
            raise RuntimeError("rsccl: Cannot use ReduceOp.AVG with Bool: average floats")
        return MAX if code == SUM else code
    if dtype in PARTS and code not in (SUM, AVG):
        raise RuntimeError(f"rsccl: Cannot reduce {dtype} by ReduceOp.{name}: complex numbers are summed and averaged")
    if dtype not in REDUCED and dtype not in WIDER and dtype not in PARTS:
        raise RuntimeError(f"rsccl: Cannot reduce {dtype} by ReduceOp.{name}: take another type")
    return code


def is_plain(tensor: torch.Tensor) -> bool:
    """Whether the library may take its memory as it is: in one piece, and its bytes are its values, without torch's bits for
    "negative" and "conjugate", with which a view's values are others than those in memory."""
    return tensor.device.type == "cpu" and not tensor.is_sparse and tensor.is_contiguous() and not (tensor.is_neg() or tensor.is_conj())


def contiguous(tensor: torch.Tensor, dtype: Optional[torch.dtype] = None) -> Memory:
    """A tensor to be read, in this type if one is given."""
    if tensor.is_sparse:
        raise RuntimeError("rsccl: Tensors must be dense: to_dense() first, or all_reduce, which takes sparse ones")
    own = tensor if is_plain(tensor) else tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    if dtype is not None and dtype != own.dtype:
        own = own.detach().to(dtype)
    return _memory_of(own)


def _memory_of(plain: torch.Tensor) -> Memory:
    elements = plain.numel()
    return Memory(plain, plain.data_ptr(), elements, elements * plain.element_size())


class Places:
    """Where a call reads. Nothing may be received there before all has been sent."""

    def __init__(self, memories: Sequence[Memory]) -> None:
        self._starts: List[int] = []
        # The furthest end of this place and those before it.
        self._ends: List[int] = []
        for memory in sorted(memories, key=lambda memory: memory.address):
            self._starts.append(memory.address)
            self._ends.append(max(memory.address + memory.n_bytes, self._ends[-1] if self._ends else 0))

    def have(self, address: int, n_bytes: int) -> bool:
        """Whether some of these bytes are read."""
        n_before = bisect_left(self._starts, address + n_bytes)
        return n_bytes > 0 and n_before > 0 and self._ends[n_before - 1] > address


class Written:
    """What one call reads and writes: where a tensor cannot be taken as it is, its copy is, and the result put into it at the end.

    A call comes after those before it of its lane, whose memory the library writes in their order. Copies are made and put
    back outside of that order, so those of one tensor wait here for each other."""

    def __init__(self, lane: Lane, limit_s: Callable[[], float]) -> None:
        """`limit_s` says how long an earlier call is waited for."""
        self._lane, self._limit_s = lane, limit_s
        self._copies: List[Tuple[torch.Tensor, torch.Tensor]] = []
        self._into_too: Sequence[torch.Tensor] = ()
        self._finish_too: Optional[Callable[[], None]] = None
        # What the library reads or writes until the call is over.
        self.held: List[torch.Tensor] = []

    def hold(self, *tensors: torch.Tensor) -> None:
        """Their memory lives until the call is over."""
        self.held += tensors

    def reads(self, tensor: torch.Tensor, dtype: Optional[torch.dtype] = None) -> Memory:
        """A tensor's values, in this type if one is given."""
        self.comes_after(tensor, is_copied=dtype not in (None, tensor.dtype) or not is_plain(tensor))
        memory = contiguous(tensor, dtype)
        self.hold(memory.tensor)
        return memory

    def into(
        self,
        tensor: torch.Tensor,
        *,
        is_read: bool = False,
        dtype: Optional[torch.dtype] = None,
        beside: Optional[Places] = None,
    ) -> Memory:
        """Memory for a tensor's result, in which are its values if they are read before; of another type if one is given, and
        beside these places."""
        own = _memory_of(tensor) if dtype in (None, tensor.dtype) and is_plain(tensor) else None
        if own is not None and (beside is None or not beside.have(own.address, own.n_bytes)):
            self.comes_after(tensor, is_copied=False)
            memory = own
        else:
            # One copy for the type, the strides and the bits: the result goes back in one step, whatever the tensor is.
            if is_read or tensor.is_sparse:
                memory = self.reads(tensor, dtype)
            else:
                memory = _memory_of(torch.empty(tensor.shape, dtype=dtype or tensor.dtype, device="cpu"))
            self._copies.append((tensor, memory.tensor))
        self.hold(memory.tensor)
        return memory

    def comes_after(self, tensor: torch.Tensor, *, is_copied: bool) -> None:
        """Waits for earlier calls whose results are still to be put into a tensor's memory; where its values are copied now,
        also for those that work on it as it is."""
        if self._lane.unput:
            storage = storage_of(tensor)
            for work in reversed(list(self._lane.unput)):
                if storage in work.puts_into:
                    work.wait()
                    break
        if is_copied:
            storage = storage_of(tensor)
            for ticket in self._lane.under_way():
                if storage and any(storage_of(held) == storage for held in ticket.held or ()):
                    wait_for(ticket, self._limit_s())
                    break

    def through(self, tensor: torch.Tensor, values: torch.Tensor) -> None:
        """`values` will be put into `tensor` at the end."""
        self._copies.append((tensor, values))

    def at_end(self, tensors: Sequence[torch.Tensor], finish: Callable[[], None]) -> None:
        """`finish` will put results into these tensors at the end."""
        self._into_too, self._finish_too = tensors, finish

    def finish(self) -> Optional[Callable[[], None]]:
        """What puts results where they belong; None where they are there."""
        return self._put if self._copies else self._finish_too

    def puts_into(self) -> FrozenSet[int]:
        """The memory that `finish` writes."""
        return frozenset(storage_of(tensor) for tensor in [*(tensor for tensor, _ in self._copies), *self._into_too])

    def _put(self) -> None:
        with torch.no_grad():
            for tensor, values in self._copies:
                tensor.copy_(values.view(tensor.shape) if values.numel() == tensor.numel() else values)


def reducible(tensor: torch.Tensor) -> torch.dtype:
    """The type in which a tensor is reduced."""
    return WIDER[tensor.dtype] if tensor.dtype in WIDER else tensor.dtype


def numbers(memory: Memory) -> Tuple[int, int]:
    """How many numbers are reduced, and their ncclDataType_t."""
    dtype = memory.tensor.dtype
    return (2 * memory.elements, REDUCED[PARTS[dtype]]) if dtype in PARTS else (memory.elements, REDUCED[dtype])


def same(tensors: Sequence[torch.Tensor], what: str) -> None:
    """Refuses tensors of several types."""
    kinds = {tensor.dtype for tensor in tensors}
    if len(kinds) > 1:
        raise RuntimeError(f"rsccl: {what}: Invalid usage of tensors with different dtypes: found {', '.join(map(str, kinds))}")


def one_after_another(tensors: Sequence[torch.Tensor]) -> Optional[int]:
    """The address at which tensors lie one behind the other, as the chunks of one: then nothing need be copied."""
    first: int = tensors[0].data_ptr()
    at = first
    for tensor in tensors:
        if not is_plain(tensor) or tensor.data_ptr() != at:
            return None
        at += tensor.numel() * tensor.element_size()
    return first


def are_of_one_storage(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether one tensor could have all their memory."""
    return len({storage_of(tensor) for tensor in tensors}) == 1


def storage_of(tensor: torch.Tensor) -> int:
    """Where a tensor's memory begins, which it may share with others; 0 for one without."""
    if tensor.is_sparse:
        return 0
    # PyTorch before 2.0 has but the storage of a type.
    of: Any = tensor
    storage = of.untyped_storage() if hasattr(of, "untyped_storage") else of.storage()
    return int(storage.data_ptr())

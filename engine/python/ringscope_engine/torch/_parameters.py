"""Makes all workers begin with the same parameters, optimizer state and other objects."""

from __future__ import annotations

import contextlib
import io
from typing import Any, Callable, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

import torch

from .. import _group, _store
from .._buffers import CARRIED_AS, DATATYPES
from .._errors import Error
from .._group import Handle

# The smallest tensor in which an object travels. Its length is a power of two of bytes from here on, so that there are few
# tensors of different lengths, however many objects are sent.
SMALLEST_BYTES = 1024
# Of parameters' names in the group.
PREFIX = "parameter."

NamedTensors = Union[Mapping[str, Any], Iterable[Tuple[str, Any]]]


def broadcast_parameters(params: NamedTensors, root_rank: int = 0, prefix: str = PREFIX) -> None:
    """Replaces parameters and buffers by those of worker `root_rank`: `model.state_dict()` or `model.named_parameters()`.

    What is no tensor is left as it is. Tensors need not be contiguous. All workers call it, with the same names. Where it
    fails, all tensors are as they were; for that it holds a copy of each. In a group that sums asynchronously they are what
    training begins with: once, before the first step, from worker 0.
    """
    items = params.items() if isinstance(params, Mapping) else pairs_of(params, "broadcast_parameters()")
    named = [(prefix + name, value.detach()) for name, value in items if isinstance(value, torch.Tensor)]
    tensors = [(name, own) for name, own in named if own.numel() > 0]
    sent = [(name, own.clone(memory_format=torch.contiguous_format).resolve_conj().resolve_neg()) for name, own in tensors]
    for (name, own), (_, copy) in zip(tensors, sent):
        _check_replaceable(name, own, copy)
    send: Callable[[torch.Tensor, int, str], Handle[torch.Tensor]] = _store.begin_async
    if not _group.is_asynchronous():
        # Another model may have had the name, with another shape.
        carried = [(name, _carried(copy)) for name, copy in sent]
        sent = [(_group.free_name(name, root_rank, copy), copy) for name, copy in carried]
        send = _group.broadcast_own_async
    # All at once: each push of what is new to the group makes all workers agree anew.
    for name, copy in sent:
        _group.declare(name if _group.is_asynchronous() else _group.name_from(name, root_rank), copy)
    if _group.is_asynchronous():
        _store.declare_barrier()
    received = _group.wait_for_all(send(copy, root_rank, name) for name, copy in sent)
    _replace([own for _, own in tensors], [_as(own, values) for (_, own), values in zip(tensors, received)])


def _carried(copy: torch.Tensor) -> torch.Tensor:
    """Its bytes, which a broadcast leaves as they are, where the library does not know its type: int16, complex numbers."""
    return copy if str(copy.dtype)[6:] in (*DATATYPES, *CARRIED_AS) else copy.reshape(-1).view(torch.uint8)


def _as(own: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    return values if values.dtype == own.dtype else values.view(own.dtype).view(own.shape)


def pairs_of(named: Any, what: str) -> List[Tuple[str, Any]]:
    """Names and what has them; an `Error` that says what `what` takes where these are not."""
    pairs = list(named) if isinstance(named, Iterable) and not isinstance(named, torch.Tensor) else [named]
    for pair in pairs:
        if not (isinstance(pair, (tuple, list)) and len(pair) == 2 and isinstance(pair[0], str)):
            raise Error(
                f"{what} takes names with their parameters, such as model.named_parameters(), not {type(pair).__name__}: without "
                "names nobody knows which parameters of other workers they belong to"
            )
    return [(name, value) for name, value in pairs]


def _check_replaceable(name: str, own: torch.Tensor, copy: torch.Tensor) -> None:
    """Raises an `Error` for a tensor that cannot be written, before anything is sent: writes into it what is there."""
    try:
        own.copy_(copy)
    except RuntimeError as error:
        raise Error(f"{name} cannot be replaced, and no tensor was: {error}") from error


def _replace(tensors: Sequence[torch.Tensor], received: Sequence[torch.Tensor]) -> None:
    """Replaces all tensors by what was received, or none; in `received` is then what they were."""
    written: List[Tuple[torch.Tensor, torch.Tensor]] = []
    try:
        for own, values in zip(tensors, received):
            before = own.clone()
            written.append((own, before))
            own.copy_(values)
            values.copy_(before)
            written[-1] = (own, values)
    except BaseException:
        # The last one first: two may be in the same memory.
        for own, before in reversed(written):
            # One that cannot be written to is as it was.
            with contextlib.suppress(Exception):
                own.copy_(before)
        raise


def broadcast_optimizer_state(
    optimizer: torch.optim.Optimizer, root_rank: int = 0, prefix: str = PREFIX
) -> None:
    """Replaces an optimizer's state and settings (learning rates, momenta, counts) by those of worker `root_rank`."""
    _group.refuse_asynchronous("broadcast_optimizer_state", "each worker keeps its own, so leave it out")
    state = broadcast_object(
        optimizer.state_dict() if _group.rank() == root_rank else None, root_rank, f"{prefix}optimizer"
    )
    if _group.rank() != root_rank:
        optimizer.load_state_dict(state)


def broadcast_object(obj: Any, root_rank: int = 0, name: Optional[str] = None) -> Any:
    """What `obj` is on worker `root_rank`, as `torch.save` writes it; the others' own is not looked at.

    Only among workers that trust each other: what comes is unpickled.
    """
    name = name or "object"
    is_root = _group.rank() == root_rank
    payload = _packed(obj) if is_root else b""
    length = torch.tensor([len(payload)], dtype=torch.int64)
    n_bytes = int(_group.broadcast(length, root_rank, f"{name}.length"))
    room = torch.zeros(max(SMALLEST_BYTES, 1 << (n_bytes - 1).bit_length()), dtype=torch.uint8)
    if is_root:
        room[:n_bytes] = torch.frombuffer(bytearray(payload), dtype=torch.uint8)
    _group.broadcast(room, root_rank, f"{name}.{room.numel()}")
    return obj if is_root else _unpacked(bytes(room[:n_bytes].numpy()))


def _packed(obj: Any) -> bytes:
    into = io.BytesIO()
    torch.save(obj, into)
    return into.getvalue()


def _unpacked(payload: bytes) -> Any:
    try:
        return torch.load(io.BytesIO(payload), weights_only=False)
    except TypeError:
        # PyTorch before 1.13 has no such argument.
        return torch.load(io.BytesIO(payload))

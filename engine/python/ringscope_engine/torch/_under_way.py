"""What stands for a gradient while it is on its way, so that nobody changes or reads what is neither one worker's nor all's.

The sum is made in the gradient's own memory: from `backward()` to `step()` it may hold this worker's values, everyone's, or
some of both. Who reads or changes it there (`clip_grad_norm_`, a `GradScaler`, a script's `p.grad.mul_`) waits until it
is everyone's, and gets that.
"""

from __future__ import annotations

from typing import Any, Iterator, Optional, Protocol

import torch

INSTEAD = "Call optimizer.synchronize() first, on all workers; gradients are everyone's then, and step() uses them as they are"


class Sender(Protocol):
    """Who sends gradients."""

    def settle(self, name: str) -> None:
        """Makes all gradients everyone's, because the one of this name is looked at; an `Error` where that cannot be."""


class UnderWay(torch.Tensor):
    """A gradient's stand-in, in the same memory. Whatever is done with it waits for the sum and is done with the gradient."""

    ringscope_claim: "Claim"

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        for stand_in in _stand_ins_in([args, kwargs]):
            stand_in.ringscope_claim.settle()
        return func(*_with_gradients(args), **_with_gradients(kwargs))


class Claim:
    """A parameter's gradient from the moment when it is ready until it is everyone's."""

    def __init__(self, name: str, parameter: torch.nn.Parameter, sender: Sender) -> None:
        self.gradient: torch.Tensor = _gradient_of(parameter)
        self._name, self._parameter, self._sender = name, parameter, sender
        # Counts what torch writes through any tensor that shares the memory; what the library writes it knows nothing of. Where
        # several gradients are views of one buffer, it counts the backward pass's own additions to the others too.
        self._version = None if _is_part(self.gradient) else self.gradient._version
        self._address = _address(self.gradient)
        stand_in = torch.Tensor._make_subclass(UnderWay, self.gradient.detach())
        stand_in.ringscope_claim = self
        parameter.grad = stand_in
        self._stand_in: Optional[torch.Tensor] = stand_in

    def settle(self) -> None:
        """Waits until the gradient is everyone's; also where it is under way once more, and somebody has kept the stand-in."""
        self._sender.settle(self._name)

    def release(self) -> None:
        """Gives the parameter its gradient back, unless it has got another one."""
        if self._stand_in is not None and self._parameter.grad is self._stand_in:
            self._parameter.grad = self.gradient
        # What refers to itself is left to Python's collector, which would end weak references to the gradient with it.
        self._stand_in = None

    def mistake(self) -> Optional[str]:
        """What has become of the gradient in the meantime that it cannot be everyone's."""
        if self._parameter.grad is not self._stand_in:
            what = "set to None" if self._parameter.grad is None else "replaced by another tensor, or set to None and made anew,"
            return f"{self._name} was {what} between backward() and step(), while its sum was under way. {INSTEAD}"
        is_changed = self._version is not None and self.gradient._version != self._version
        if is_changed or _address(self.gradient) != self._address:
            return f"{self._name} was changed in place between backward() and step(), while its sum was under way. {INSTEAD}"
        return None


def _gradient_of(parameter: torch.nn.Parameter) -> torch.Tensor:
    gradient: Optional[torch.Tensor] = parameter.grad
    assert gradient is not None, "a gradient that is ready"
    return gradient


# PyTorch before 2.0 has it under a name of its own: what it calls storage() makes an object of a type first.
_storage_of: Any = getattr(torch.Tensor, "untyped_storage", None) or torch.Tensor._storage  # type: ignore[attr-defined,unused-ignore]


def _is_part(tensor: torch.Tensor) -> bool:
    """Whether the memory is longer than the tensor."""
    if tensor.is_sparse:
        return False
    return bool(_storage_of(tensor).nbytes() > tensor.numel() * tensor.element_size())


def _address(tensor: torch.Tensor) -> int:
    """Where its elements are; of a sparse one, those that it has."""
    elements = tensor._values() if tensor.is_sparse else tensor
    return int(elements.data_ptr())


def is_claimed(parameter: torch.nn.Parameter) -> bool:
    """Whether somebody sends the parameter's gradient now."""
    return isinstance(parameter.grad, UnderWay)


def _stand_ins_in(argument: Any) -> Iterator[UnderWay]:
    """The stand-ins in an argument, which may be lists of tensors."""
    if isinstance(argument, UnderWay):
        yield argument
    elif isinstance(argument, (list, tuple)):
        for one in argument:
            yield from _stand_ins_in(one)
    elif isinstance(argument, dict):
        yield from _stand_ins_in(list(argument.values()))


def _with_gradients(argument: Any) -> Any:
    """The argument with gradients in place of stand-ins."""
    if isinstance(argument, UnderWay):
        return argument.ringscope_claim.gradient
    if isinstance(argument, (list, tuple)) and type(argument) in (list, tuple):
        return type(argument)(_with_gradients(one) for one in argument)
    if isinstance(argument, dict):
        return {key: _with_gradients(one) for key, one in argument.items()}
    return argument

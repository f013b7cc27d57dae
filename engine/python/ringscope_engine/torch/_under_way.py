"""What stands for a gradient while it is on its way, so that nobody changes or reads what is neither one worker's nor all's.

The sum is made in the gradient's own memory: from `backward()` to `step()` it may hold this worker's values, everyone's, or
some of both. What `clip_grad_norm_`, `GradScaler` or a script's `p.grad.mul_` would do to it there would be right on no worker.
"""

from __future__ import annotations

from typing import Any, Iterable, Optional

import torch

from .._errors import Error

INSTEAD = "Call optimizer.synchronize() first, on all workers; gradients are everyone's then, and step() uses them as they are"


class UnderWay(torch.Tensor):
    """A gradient's stand-in, in the same memory, of which nothing can be had."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        one = _first_in([*args, *(kwargs or {}).values()])
        name = getattr(one, "ringscope_name", "a gradient")
        raise Error(
            f"{name} was to be read or changed between backward() and step(), while its sum over all workers is under way. "
            + INSTEAD
        )


class Claim:
    """A parameter's gradient from the moment when it is ready until it is everyone's."""

    def __init__(self, name: str, parameter: torch.nn.Parameter) -> None:
        self.gradient: torch.Tensor = parameter.grad  # type: ignore[assignment]
        self._name, self._parameter = name, parameter
        # Counts what torch writes through any tensor that shares the memory; what the library writes it knows nothing of. Where
        # several gradients are views of one buffer, it counts the backward pass's own additions to the others too.
        self._version = None if _is_part(self.gradient) else self.gradient._version
        self._address = self.gradient.data_ptr()
        self._stand_in = torch.Tensor._make_subclass(UnderWay, self.gradient.detach())
        self._stand_in.ringscope_name = name
        parameter.grad = self._stand_in

    def release(self) -> None:
        """Gives the parameter its gradient back, unless it has got another one."""
        if self._parameter.grad is self._stand_in:
            self._parameter.grad = self.gradient

    def mistake(self) -> Optional[str]:
        """What has become of the gradient in the meantime that it cannot be everyone's."""
        if self._parameter.grad is not self._stand_in:
            what = "set to None" if self._parameter.grad is None else "replaced by another tensor, or set to None and made anew,"
            return f"{self._name} was {what} between backward() and step(), while its sum was under way. {INSTEAD}"
        is_changed = self._version is not None and self.gradient._version != self._version
        if is_changed or self.gradient.data_ptr() != self._address:
            return f"{self._name} was changed in place between backward() and step(), while its sum was under way. {INSTEAD}"
        return None


def _is_part(tensor: torch.Tensor) -> bool:
    """Whether the memory is longer than the tensor."""
    # PyTorch before 2.0 has but the storage of a type.
    storage = tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()
    return bool(storage.nbytes() > tensor.numel() * tensor.element_size())


def is_claimed(parameter: torch.nn.Parameter) -> bool:
    """Whether somebody sends the parameter's gradient now."""
    return isinstance(parameter.grad, UnderWay)


def _first_in(arguments: Iterable[Any]) -> Optional[UnderWay]:
    """The first stand-in among arguments, some of which may be lists of tensors."""
    for argument in arguments:
        within = argument if isinstance(argument, (list, tuple)) else [argument]
        for one in within:
            if isinstance(one, UnderWay):
                return one
    return None

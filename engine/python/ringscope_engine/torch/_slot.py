"""One parameter's gradient between two steps: what was added to it, who may have it, and what it is sent as."""

from __future__ import annotations

import weakref
from typing import Optional, Tuple

import torch

from ._under_way import Claim


class Slot:
    """One parameter's gradient. Where it stands among the others is the same on all workers."""

    def __init__(self, name: str, place: int, parameter: torch.nn.Parameter) -> None:
        self.name, self.place, self.parameter = name, place, parameter
        self.passes = 0
        # The gradient that the passes added to: another one has none of them in it.
        self.counted: Optional[torch.Tensor] = None
        self.claim: Optional[Claim] = None
        # Whether it is claimed only because others are, and a pass may still add to it.
        self.is_uncomputed = False
        # The gradient that the last step left a sum in, and its version then.
        self.sum: Optional[Tuple["weakref.ref[torch.Tensor]", int]] = None
        # Whether only the rows travel that were touched (`_rows`); None before all workers have agreed on it.
        self.is_rows: Optional[bool] = None
        # The gradient that is everyone's since the last `synchronize`.
        self.everyones: Optional["weakref.ref[torch.Tensor]"] = None

    def size_bytes(self) -> int:
        """Of the gradient."""
        return int(self.parameter.numel() * self.parameter.element_size())

    def count(self) -> None:
        """One more pass has added to the gradient."""
        if self.counted is not self.parameter.grad:
            self.passes, self.counted = 0, self.parameter.grad
        self.passes += 1

    def note_sum(self) -> None:
        """What a step, or clipping before it, has written into the sum leaves it one."""
        own: Optional[torch.Tensor] = self.parameter.grad
        if self.sum is not None and own is not None and self.sum[0]() is own:
            self.sum = (self.sum[0], own._version)

    def has_last_sum(self, n_additions: int) -> bool:
        """Whether the last step's sum is in the gradient still, which nobody has touched but so many passes."""
        own: Optional[torch.Tensor] = self.parameter.grad
        if self.sum is None or own is None:
            return False
        gradient, version = self.sum
        return gradient() is own and own._version == version + n_additions

    def note_everyones(self) -> None:
        """What the parameter has for a gradient now is everyone's."""
        self.everyones = None if self.parameter.grad is None else weakref.ref(self.parameter.grad)

    def has_everyones(self) -> bool:
        """Whether it has that gradient still; somebody may have changed it, on all workers alike."""
        return self.parameter.grad is (None if self.everyones is None else self.everyones())

    def release(self) -> None:
        """Gives the gradient back."""
        claim, self.claim, self.is_uncomputed = self.claim, None, False
        if claim is not None:
            claim.release()

    def forget(self) -> None:
        """The same, and no pass has added to it."""
        self.release()
        self.passes, self.counted = 0, None

    def own_gradient(self) -> Optional[torch.Tensor]:
        """What this worker has computed; None where that is nothing."""
        if self.claim is not None:
            return None if self.is_uncomputed and not self.claim.gradient.is_sparse else self.claim.gradient
        own: Optional[torch.Tensor] = self.parameter.grad
        return own

    def contribution(self) -> torch.Tensor:
        """What this worker contributes."""
        if self.claim is not None:
            return self.claim.gradient.detach()
        parameter = self.parameter
        if parameter.grad is None:
            zeros: torch.Tensor = torch.zeros_like(parameter)
            # One that was frozen later has no gradient, and a step leaves it as it is.
            if parameter.requires_grad:
                parameter.grad = zeros
            return zeros.detach()
        own: torch.Tensor = parameter.grad
        return own.detach()

    def mistake(self) -> Optional[str]:
        """Gives the gradient back once its sum is there; or what somebody has done with it meanwhile."""
        mistake = None if self.claim is None else self.claim.mistake()
        if self.claim is not None and mistake is None:
            self.claim.release()
        return mistake

    def put_rows(self, result: torch.Tensor) -> None:
        """Takes the rows that anybody has touched."""
        own: Optional[torch.Tensor] = self.parameter.grad
        if own is not None and own.is_sparse and own.sparse_dim() == 1:
            with torch.no_grad():
                own.copy_(result)._coalesced_(True)
        else:
            own = result
        # Whoever has kept the stand-in has this.
        if self.claim is not None:
            self.claim.gradient = own
        self.parameter.grad = own
        self.sum = (weakref.ref(own), own._version)

    def leave_out_untouched(self) -> None:
        """Before a step: of a table that nobody has used there is no gradient, as in one process."""
        own: Optional[torch.Tensor] = self.parameter.grad
        if self.is_rows and own is not None and own.is_sparse and own._nnz() == 0:
            self.parameter.grad = None
            self.note_everyones()

    def target(self, result: torch.Tensor) -> Optional[torch.Tensor]:
        """Where a result belongs; nowhere, if it is zero and the parameter was frozen."""
        if self.parameter.grad is None:
            if not bool(result.any()):
                return None
            self.parameter.grad = torch.empty_like(self.parameter)
        own: torch.Tensor = self.parameter.grad
        self.sum = (weakref.ref(own), own._version)
        return own

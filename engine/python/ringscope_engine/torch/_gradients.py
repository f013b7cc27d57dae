"""The gradients of an optimizer on their way to all workers, while the backward pass still computes others.

They are submitted in one order on all workers, that of the last layer to the first, in which a backward pass mostly has them
ready: one that is ready early waits for those after it. Without that, workers whose models branch differently could wait
for each other. On the wire the first layer's parts go first, since the next forward pass needs them first.

From the moment when a gradient is ready until it is everyone's, nobody else may have it: see `_under_way`.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch

from .. import _group
from .._compression import Codec, Compression
from .._errors import Error
from .._group import SUM, Handle
from ._members import Members
from ._under_way import Claim, is_claimed

PREFIX = "gradient."


class _Slot:
    """One parameter's gradient."""

    def __init__(self, name: str, priority: int, parameter: torch.nn.Parameter) -> None:
        self.name, self.priority, self.parameter = name, priority, parameter
        self.passes = 0
        # The gradient that the passes added to: another one has none of them in it.
        self.counted: Optional[torch.Tensor] = None
        self.claim: Optional[Claim] = None
        self.handle: Optional[Handle[torch.Tensor]] = None
        # The gradient that the last step left a sum in, and its version then.
        self.sum: Optional[Tuple["weakref.ref[torch.Tensor]", int]] = None
        # The gradient that is everyone's since the last `synchronize`.
        self.everyones: Optional["weakref.ref[torch.Tensor]"] = None

    def count(self) -> None:
        """One more pass has added to the gradient."""
        if self.counted is not self.parameter.grad:
            self.passes, self.counted = 0, self.parameter.grad
        self.passes += 1

    def note_sum(self) -> None:
        """What a step, or clipping before it, has written into the sum leaves it one."""
        if self.sum is not None and self.parameter.grad is not None and self.sum[0]() is self.parameter.grad:
            self.sum = (self.sum[0], self.parameter.grad._version)

    def has_last_sum(self, n_additions: int) -> bool:
        """Whether the last step's sum is in the gradient still, which nobody has touched but so many passes."""
        if self.sum is None or self.parameter.grad is None:
            return False
        gradient, version = self.sum
        return gradient() is self.parameter.grad and self.parameter.grad._version == version + n_additions

    def note_everyones(self) -> None:
        """What the parameter has for a gradient now is everyone's."""
        self.everyones = None if self.parameter.grad is None else weakref.ref(self.parameter.grad)

    def has_everyones(self) -> bool:
        """Whether it has that gradient still; somebody may have changed it, on all workers alike."""
        return self.parameter.grad is (None if self.everyones is None else self.everyones())

    def forget(self) -> None:
        """Gives the gradient back, and no pass has added to it."""
        claim, self.claim = self.claim, None
        if claim is not None:
            claim.release()
        self.passes, self.counted = 0, None


class Gradients:
    """The gradients of an optimizer on their way."""

    def __init__(
        self,
        named: List[Tuple[str, torch.nn.Parameter]],
        codec: Codec,
        passes: int,
        op: int,
    ) -> None:
        self._passes = _checked(passes)
        self._codec, self._op = codec, op
        self.members = Members(named)
        # Whether they were made everyone's, and none was computed since.
        self._are_synchronized = False
        self._slots = [_Slot(PREFIX + name, index, parameter) for index, (name, parameter) in enumerate(named)]
        # Slots from here on were submitted, in this group.
        self._first_submitted, self._group = len(self._slots), _group.generation()
        # Gradients of parameters on several GPUs are computed by several threads.
        self._lock = threading.Lock()
        for slot in self._slots:
            _take_over(slot.parameter, self)
        for slot in self._slots:
            like = torch.empty_like(slot.parameter, memory_format=torch.contiguous_format)
            _group.declare(slot.name, like, priority=slot.priority, compression=self._codec_for(slot))
        # What holds the hooks: a gradient accumulator lives no longer than somebody refers to it.
        self._hooks = [_call_when_ready(slot.parameter, self._ready(slot)) for slot in self._slots]

    def are_under_way(self) -> bool:
        """Whether any was submitted to the group that there is now, and not waited for."""
        if self._first_submitted < len(self._slots) and self._group != _group.generation():
            self._begin_anew()
        return self._first_submitted < len(self._slots)

    def are_synchronized(self) -> bool:
        """Whether they are everyone's, and none was computed since."""
        return self._are_synchronized and self._group == _group.generation()

    def use_up(self) -> None:
        """A step was taken with them, or others are about to be computed: they are everyone's no more."""
        self._are_synchronized = False
        for slot in self._slots:
            slot.note_sum()

    def check_everyones(self) -> None:
        """Raises an `Error` if a gradient is another one than that which was made everyone's."""
        again = "zero_grad() before gradients are computed anew" if self._op == SUM else "call synchronize() again"
        for slot in self._slots:
            if not slot.has_everyones():
                raise Error(
                    f"{slot.name} was replaced by another tensor between synchronize() and step(), which is this worker's alone: "
                    f"{again}, or change it in place, in the same way on all workers"
                )

    def refuse_under_way(self, what: str) -> None:
        """Raises an `Error` while gradients are computed or sent for a step."""
        if self.are_under_way() or any(slot.passes > 0 for slot in self._slots):
            raise Error(f"{what} between backward() and step(): gradients are this worker's alone; synchronize() first")

    def set_passes(self, passes: int) -> None:
        """Changes after how many passes a gradient is sent."""
        if self.are_under_way() or any(slot.passes > 0 for slot in self._slots):
            raise Error("set_backward_passes_per_step() between backward() and step(): call it after step()")
        self._passes = _checked(passes)

    def give_up(self) -> None:
        """Before gradients are set to zero: nothing was computed for the next step. Refused once any was sent."""
        if self.are_under_way():
            raise Error(
                "zero_grad() between backward() and step(): gradients are under way, and the other workers would take a step "
                "with them. Call step(); or, on all workers, synchronize() first and leave the step out"
            )
        self._begin_anew()

    def synchronize(self) -> None:
        """Submits what was not, also where a parameter took no part in the loss, and waits for all. Nothing to do where they
        are everyone's already."""
        if self.are_synchronized():
            if all(slot.has_everyones() for slot in self._slots):
                return
            if self._op == SUM:
                # The others are sums, and so may be what the new ones were made of.
                self.check_everyones()
        self.are_under_way()
        for slot in self._slots:
            slot.passes = self._passes
        try:
            self._submit()
            for slot in self._slots:
                self._finish(slot)
        finally:
            self._begin_anew()
        for slot in self._slots:
            slot.note_everyones()
        self._are_synchronized = True

    def loss_of_all(self, loss: Any) -> Any:
        """The average of all workers' losses, or their sum, as gradients are."""
        value = torch.tensor([float(loss)], dtype=torch.float64)
        name = "loss." + "".join(slot.name for slot in self._slots[:1])
        total = _group.submit(value, value, name, self._op).wait().item()
        return torch.full_like(loss.detach(), total) if isinstance(loss, torch.Tensor) else total

    def stop(self) -> None:
        """Sends gradients at `synchronize` only, because another optimizer sends them when they are ready."""
        if self.are_under_way():
            raise Error("DistributedOptimizer() of parameters whose gradients another one has under way: step() it first")
        self._begin_anew()
        for hook in self._hooks:
            with contextlib.suppress(AttributeError):
                hook.remove()
        self._hooks.clear()

    def _ready(self, slot: _Slot) -> Callable[[], None]:
        # Of an optimizer that is no more nothing is sent.
        mine = weakref.ref(self)

        def count() -> None:
            gradients = mine()
            if gradients is not None and gradients._hooks:
                with gradients._lock:
                    gradients._count(slot)

        return count

    def _count(self, slot: _Slot) -> None:
        self.are_under_way()
        self._are_synchronized = False
        mistake = self._mistake_of_another_pass(slot)
        if mistake is not None:
            raise Error(mistake)
        try:
            _check_dense(slot)
            if slot.passes == 0:
                self._refuse_last_sum(slot, 1)
            slot.count()
            if slot.passes >= self._passes:
                slot.claim = Claim(slot.name, slot.parameter)
            self._submit()
        except Error:
            self._begin_anew()
            raise

    def _mistake_of_another_pass(self, slot: _Slot) -> Optional[str]:
        if slot.claim is None:
            return None
        if not is_claimed(slot.parameter):
            return slot.claim.mistake()
        return (
            f"{slot.name} was computed more than {self._passes} times before step(): sum the losses and call backward() once, "
            "or raise backward_passes_per_step"
        )

    def _submit(self) -> None:
        """Submits the gradients that are ready and whose turn it is."""
        while self._first_submitted > 0:
            slot = self._slots[self._first_submitted - 1]
            if slot.passes < self._passes:
                return
            sent = self._sent(slot).contiguous()
            self._first_submitted, self._group = self._first_submitted - 1, _group.generation()
            slot.handle = _group.submit(
                sent, sent, slot.name, self._op, slot.priority, self._codec_for(slot)
            )

    def _sent(self, slot: _Slot) -> torch.Tensor:
        """What this worker contributes."""
        if slot.claim is not None:
            return slot.claim.gradient.detach()
        parameter = slot.parameter
        if parameter.grad is None:
            zeros = torch.zeros_like(parameter)
            # One that was frozen later has no gradient, and a step leaves it as it is.
            if parameter.requires_grad:
                parameter.grad = zeros
            return zeros.detach()
        _check_dense(slot)
        self._refuse_last_sum(slot, 0)
        return parameter.grad.detach()

    def _refuse_last_sum(self, slot: _Slot, n_additions: int) -> None:
        """A sum that is summed again would be there as often as there are workers."""
        if self._op == SUM and slot.has_last_sum(n_additions) and bool(slot.parameter.grad.any()):
            raise Error(
                f"{slot.name} has the sum of the last step in it, which would be summed again: zero_grad() before backward()"
            )

    def _finish(self, slot: _Slot) -> None:
        """Waits for one gradient and puts it where it belongs, unless somebody else was there meanwhile."""
        handle, slot.handle = slot.handle, None
        if handle is None:
            return
        result = handle.wait()
        if slot.claim is not None:
            mistake = slot.claim.mistake()
            if mistake is not None:
                raise Error(mistake)
            slot.claim.release()
        own = slot.parameter.grad
        if own is None:
            if not bool(result.any()):
                return
            slot.parameter.grad = own = torch.empty_like(slot.parameter)
        if own.data_ptr() != result.data_ptr():
            own.detach().copy_(result)
        if self._op == SUM:
            slot.sum = (weakref.ref(own), own._version)

    def _begin_anew(self) -> None:
        """After an error too: what is under way is over before anybody touches the gradients again."""
        self._are_synchronized = False
        for slot in self._slots:
            handle, slot.handle = slot.handle, None
            if handle is not None:
                with contextlib.suppress(Error):
                    handle.wait()
            slot.forget()
        self._first_submitted = len(self._slots)

    def _codec_for(self, slot: _Slot) -> Codec:
        return self._codec if slot.parameter.dtype == torch.float32 else Compression.none


# Who sends a parameter's gradient when it is ready, by the parameter's id: one optimizer, the last that was made for it.
_senders: Dict[int, "weakref.ref[Gradients]"] = {}


def _take_over(parameter: torch.nn.Parameter, by: Gradients) -> None:
    before = _senders.get(id(parameter))
    sender = before() if before is not None else None
    # An id is used again once its parameter is gone: those of a sender that lives are not.
    if sender is not None and sender is not by:
        sender.stop()
    _senders[id(parameter)] = weakref.ref(by)


def _checked(passes: int) -> int:
    if passes < 1:
        raise Error(f"backward_passes_per_step={passes}: gradients are sent after one pass or more")
    return passes


def _check_dense(slot: _Slot) -> None:
    gradient = slot.parameter.grad
    if gradient is not None and gradient.is_sparse:
        raise Error(
            f"{slot.name} is sparse, and a sparse gradient cannot be sent: make the layer's gradients dense (sparse=False)"
        )


def _call_when_ready(parameter: torch.nn.Parameter, call: Callable[[], None]) -> Any:
    """Calls after each time that a gradient was added to a parameter's; what must live as long as that is to happen."""
    if hasattr(parameter, "register_post_accumulate_grad_hook"):
        return parameter.register_post_accumulate_grad_hook(lambda _: call())
    # PyTorch before 2.1: the accumulator is reached through the graph of a view.
    accumulator = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
    accumulator.register_hook(lambda *_: call())
    return accumulator

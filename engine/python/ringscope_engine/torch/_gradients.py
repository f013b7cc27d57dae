"""The gradients of an optimizer on their way to all workers, while the backward pass still computes others.

They are submitted in one order on all workers, that of the last layer to the first, in which a backward pass mostly has them
ready: one that is ready early waits for those after it. Without that, workers whose models branch differently could wait
for each other. On the wire the first layer's parts go first, since the next forward pass needs them first.

From the moment when a gradient is ready until it is everyone's, nobody else may have it: see `_under_way`. Who looks at it
waits for all of them, as `synchronize` does; a backward pass after that is refused, since it may be this worker's alone.

Parameters that come later, or are unfrozen, are found before gradients are computed, or at the latest when they are sent.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import threading
import weakref
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Set, Tuple

import torch

from .. import _group
from .._compression import Codec, Compression
from .._errors import Error
from .._group import SUM, Handle
from ._under_way import INSTEAD, Claim, is_claimed

PREFIX = "gradient."


class _Slot:
    """One parameter's gradient."""

    def __init__(self, name: str, priority: int, parameter: torch.nn.Parameter) -> None:
        self.name, self.priority, self.parameter = name, priority, parameter
        self.passes = 0
        # The gradient that the passes added to: another one has none of them in it.
        self.counted: Optional[torch.Tensor] = None
        self.claim: Optional[Claim] = None
        # Whether it is claimed only because others are, and a pass may still add to it.
        self.is_uncomputed = False
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

    def release(self) -> None:
        """Gives the gradient back."""
        claim, self.claim, self.is_uncomputed = self.claim, None, False
        if claim is not None:
            claim.release()

    def forget(self) -> None:
        """The same, and no pass has added to it."""
        self.release()
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
        """`named`: the optimizer's parameters and others that it may get later; those that need gradients are sent."""
        self._passes = _checked(passes)
        self._codec, self._op = codec, op
        # Whether they were made everyone's, and none was computed since; the gradient that was looked at, if that was why.
        self._are_synchronized, self._looked_at = False, ""
        # What no step may be taken after, until gradients are set to zero.
        self._mistake = ""
        self._is_sending = self._is_backward = self._is_held = False
        self._names = {id(parameter): (weakref.ref(parameter), name) for name, parameter in named}
        self._slots: List[_Slot] = []
        self._known: Set[int] = set()
        # The optimizer, whose groups may grow.
        self.owner: Callable[[], Optional[torch.optim.Optimizer]] = lambda: None
        # Slots from here on were submitted, in this group.
        self._first_submitted, self._group = 0, _group.generation()
        # Gradients of parameters on several GPUs are computed by several threads; a mistake of a pass ends the whole work.
        self._lock = threading.RLock()
        # What holds the hooks: a gradient accumulator lives no longer than somebody refers to it.
        self._hooks: List[Any] = []
        self._are_hooked = True
        self._prefix = _free_prefix({name for name, _ in named})
        _alive.add(self)

    def names(self) -> Set[str]:
        """Of the parameters, where it still sends their gradients when they are ready."""
        return {name for _, name in self._names.values()} if self._are_hooked else set()

    def adopt(self, groups: Iterable[Mapping[str, Any]]) -> None:
        """Sends gradients also of parameters in these groups that it did not have, or that needed none."""
        count, new = 0, []
        for group in groups:
            for parameter in group["params"]:
                if id(parameter) not in self._known and (parameter.requires_grad or parameter.grad is not None):
                    new.append((self._name_of(parameter, count), parameter))
                count += 1
        if not new:
            return
        # In the order of the names that were given, which is that of the layers.
        places = {name: place for place, (_, name) in enumerate(self._names.values())}
        new.sort(key=lambda one: places.get(one[0], len(places)))
        first = -len(self._slots) if self._slots else 0
        slots = [_Slot(self._prefix + name, first + place, parameter) for place, (name, parameter) in enumerate(new)]
        for slot in slots:
            self._known.add(id(slot.parameter))
            _take_over(slot.parameter, self)
        for slot in slots:
            like = torch.empty_like(slot.parameter, memory_format=torch.contiguous_format)
            _group.declare(slot.name, like, priority=slot.priority, compression=self._codec_for(slot))
        # They are sent last: others may be on their way.
        self._slots, self._first_submitted = slots + self._slots, self._first_submitted + len(slots)
        if self._are_hooked:
            ready = [slot for slot in slots if slot.parameter.requires_grad]
            self._hooks += [_call_when_ready(slot.parameter, self._ready(slot)) for slot in ready]

    def _name_of(self, parameter: torch.nn.Parameter, place: int) -> str:
        known, name = self._names.get(id(parameter), (None, ""))
        # An id is used again once its parameter is gone.
        if known is None or known() is not parameter:
            taken = {name for _, name in self._names.values()}
            name = next(name for name in _numbered(place) if name not in taken)
            self._names[id(parameter)] = (weakref.ref(parameter), name)
        return name

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
        self._are_synchronized, self._looked_at = False, ""
        for slot in self._slots:
            slot.note_sum()

    def check_everyones(self) -> None:
        """Raises an `Error` if a gradient is another one than that which was made everyone's."""
        self.refuse_mistake()
        again = "zero_grad() before gradients are computed anew" if self._op == SUM else "call synchronize() again"
        for slot in self._slots:
            if not slot.has_everyones():
                raise Error(
                    f"{slot.name} was replaced by another tensor between synchronize() and step(), which is this worker's alone: "
                    f"{again}, or change it in place, in the same way on all workers"
                )

    def refuse_under_way(self, what: str) -> None:
        """Raises an `Error` while gradients are computed or sent for a step."""
        self.refuse_mistake()
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
        self._mistake = ""

    def settle(self, name: str) -> None:
        """Makes them everyone's because somebody looks at one of them: who does so alone waits no longer than in `step`."""
        if self._is_backward or self._is_sending:
            raise Error(
                f"{name} was to be read or changed in a backward pass, while its sum over all workers is under way. {INSTEAD}"
            )
        if self.are_under_way() or any(slot.claim is not None for slot in self._slots):
            optimizer = self.owner()
            if optimizer is not None:
                self.adopt(optimizer.param_groups)
            self.synchronize()
            self._looked_at = name

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """In it, gradients of a backward pass are added to and not sent."""
        before, self._is_held = self._is_held, True
        try:
            yield
        finally:
            self._is_held = before

    def synchronize(self) -> None:
        """Submits what was not, also where a parameter took no part in the loss, and waits for all. Nothing to do where they
        are everyone's already."""
        self._looked_at = ""
        if self.are_synchronized():
            self.refuse_mistake()
            if all(slot.has_everyones() for slot in self._slots):
                return
            if self._op == SUM:
                # The others are sums, and so may be what the new ones were made of.
                self.check_everyones()
        self.are_under_way()
        for slot in self._slots:
            slot.passes = self._passes
        self._is_sending = True
        try:
            self._submit()
            for slot in self._slots:
                self._finish(slot)
        except Exception:
            self._begin_anew()
            raise
        finally:
            # After a signal they are under way still.
            self._is_sending = False
        self._begin_anew()
        # Only now: the other workers wait for this one's part all the same.
        self.refuse_mistake()
        for slot in self._slots:
            slot.note_everyones()
        self._are_synchronized = True

    def refuse_mistake(self) -> None:
        """Raises an `Error` if something was done with gradients that makes a step wrong."""
        if self._mistake:
            raise Error(f"{self._mistake}. optimizer.zero_grad() begins anew")

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
        self._are_hooked = False

    def _ready(self, slot: _Slot) -> Callable[[], None]:
        # Of an optimizer that is no more nothing is sent.
        mine = weakref.ref(self)

        def count() -> None:
            gradients = mine()
            if gradients is not None and gradients._are_hooked:
                with gradients._lock:
                    gradients._count(slot)

        return count

    def _count(self, slot: _Slot) -> None:
        if not self._is_backward:
            self._is_backward = True
            torch.autograd.Variable._execution_engine.queue_callback(self._end_backward)
        self.are_under_way()
        self._mistake = self._mistake or self._mistake_of_another_pass(slot)
        if self._mistake:
            raise Error(self._mistake)
        self._are_synchronized = False
        try:
            _check_dense(slot)
            if slot.passes == 0:
                self._refuse_last_sum(slot, 1)
            if self._is_held:
                return
            slot.count()
            if slot.passes >= self._passes:
                slot.claim = Claim(slot.name, slot.parameter, self)
            self._submit()
        except Error:
            self._begin_anew()
            raise

    def _end_backward(self) -> None:
        """Once any gradient is under way, those that a pass did not compute are, too: who looks at them has to wait as well."""
        self._is_backward = False
        if any(slot.claim is not None for slot in self._slots):
            for slot in self._slots:
                if slot.claim is None and not is_claimed(slot.parameter):
                    self._claim_uncomputed(slot)

    def _claim_uncomputed(self, slot: _Slot) -> None:
        parameter = slot.parameter
        if parameter.grad is None and parameter.requires_grad:
            parameter.grad = torch.zeros_like(parameter)
        if parameter.grad is None or parameter.grad.is_sparse or (self._op == SUM and slot.has_last_sum(0)):
            return
        slot.claim, slot.is_uncomputed = Claim(slot.name, parameter, self), True

    def _mistake_of_another_pass(self, slot: _Slot) -> str:
        if self._looked_at:
            return (
                f"{slot.name} was computed in another backward pass before step(), after {self._looked_at} had been read or changed, "
                "which made gradients everyone's: look at them after the last backward(), or call synchronize() there on all workers"
            )
        if slot.is_uncomputed:
            slot.release()
        if slot.claim is None:
            return ""
        if not is_claimed(slot.parameter):
            return slot.claim.mistake() or ""
        return (
            f"{slot.name} was computed more than {self._passes} times before step(): sum the losses and call backward() once, "
            "raise backward_passes_per_step, or call all but the last in `with optimizer.no_sync()`"
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
        if slot.handle is None:
            return
        result = slot.handle.wait()
        slot.handle = None
        if slot.claim is not None:
            mistake = slot.claim.mistake()
            if mistake is not None:
                self._mistake = self._mistake or mistake
                return
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
        self._are_synchronized, self._looked_at, self._is_backward = False, "", False
        for slot in self._slots:
            handle, slot.handle = slot.handle, None
            if handle is not None:
                with contextlib.suppress(Error):
                    handle.wait()
            slot.forget()
        self._first_submitted = len(self._slots)

    def _codec_for(self, slot: _Slot) -> Codec:
        return self._codec if slot.parameter.dtype == torch.float32 else Compression.none


# All that there are.
_alive: "weakref.WeakSet[Gradients]" = weakref.WeakSet()


def _free_prefix(names: Set[str]) -> str:
    """What tells these gradients from those of other optimizers whose parameters have the same names."""
    if any(not names.isdisjoint(other.names()) for other in _alive):
        # Those that nobody has any more count on no worker.
        gc.collect()
    taken = {other._prefix for other in _alive if not names.isdisjoint(other.names())}
    prefixes = (PREFIX if number == 1 else f"{PREFIX}{number}." for number in range(1, len(taken) + 2))
    return next(prefix for prefix in prefixes if prefix not in taken)


def _numbered(place: int) -> Iterator[str]:
    """Names for a parameter that was given none."""
    yield f"parameter.{place}"
    for number in itertools.count(2):
        yield f"parameter.{place}.{number}"


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

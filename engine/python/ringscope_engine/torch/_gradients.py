"""The gradients of an optimizer on their way to all workers, while the backward pass still computes others.

They are submitted in one order on all workers, that in which worker 0's backward pass had them ready (`_plan`): one that is ready
early waits for those before it. Without that, workers whose models branch differently could wait for each other. On the
wire the first layer's parts go first, since the next forward pass needs them first.

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
from .._compression import Codec
from .._errors import Error
from .._group import SUM
from ._debug import Comparison
from ._names import are_free, is_free, use
from ._plan import Plan
from ._rows import check_kind, nothing_touched
from ._slot import Slot
from ._under_way import INSTEAD, Claim, is_claimed

PREFIX = "gradient."


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
        self._slots: List[Slot] = []
        self._known: Set[int] = set()
        # The optimizer, whose groups may grow.
        self.owner: Callable[[], Optional[torch.optim.Optimizer]] = lambda: None
        # The group that the gradients of this step are of, and how many parcels of the plan were submitted there.
        self._group, self._n_submitted = _group.generation(), 0
        self._ready_slots: List[Slot] = []
        # Gradients of parameters on several GPUs are computed by several threads; a mistake of a pass ends the whole work.
        self._lock = threading.RLock()
        # What holds the hooks: a gradient accumulator lives no longer than somebody refers to it.
        self._hooks: List[Any] = []
        self._are_hooked = True
        self._prefix = _free_prefix(named, codec)
        for name, parameter in named:
            use(self._prefix + name, parameter, codec)
        self._plan, self._comparison = Plan(self._prefix, codec), Comparison(self._prefix)
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
        places = {name: place for place, (_, name) in enumerate(self._names.values())}
        slots = [Slot(self._prefix + name, places[name], parameter) for name, parameter in new]
        for slot in slots:
            self._known.add(id(slot.parameter))
            _take_over(slot.parameter, self)
        self._slots = sorted([*self._slots, *slots], key=lambda slot: slot.place)
        if self._are_hooked:
            ready = [slot for slot in slots if slot.parameter.requires_grad]
            self._hooks += [_call_when_ready(slot.parameter, self._ready(slot)) for slot in ready]

    def _all_named(self) -> List[Tuple[str, torch.Tensor]]:
        """Also those that get no gradients."""
        named = [(name, parameter()) for parameter, name in self._names.values()]
        return [(name, parameter) for name, parameter in named if parameter is not None]

    def _name_of(self, parameter: torch.nn.Parameter, place: int) -> str:
        known, name = self._names.get(id(parameter), (None, ""))
        # An id is used again once its parameter is gone.
        if known is None or known() is not parameter:
            taken = {name for _, name in self._names.values()}
            free = (name for name in _numbered(place) if is_free(self._prefix + name, parameter, self._codec))
            name = next(name for name in free if name not in taken)
            use(self._prefix + name, parameter, self._codec)
            self._names[id(parameter)] = (weakref.ref(parameter), name)
        return name

    def are_under_way(self) -> bool:
        """Whether any is ready, or was submitted, in the group that there is now."""
        is_any = self._n_submitted > 0 or bool(self._ready_slots)
        if is_any and self._group != _group.generation():
            self._begin_anew()
            return False
        return is_any

    def are_synchronized(self) -> bool:
        """Whether they are everyone's, and none was computed since."""
        return self._are_synchronized and self._group == _group.generation()

    def use_up(self) -> None:
        """A step was taken with them, or others are about to be computed: they are everyone's no more."""
        self._are_synchronized, self._looked_at = False, ""
        for slot in self._slots:
            slot.note_sum()

    def leave_out_untouched(self) -> None:
        """Before a step: of tables that nobody has used there are no gradients."""
        for slot in self._slots:
            slot.leave_out_untouched()

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
        if self.are_under_way():
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
        self._is_sending, self._group = True, _group.generation()
        try:
            # Of them all workers have made as many as this one, whatever else they do between two steps.
            self._comparison.look(self._all_named)
            self._plan.agree(self._slots, self._ready_slots)
            for slot in self._slots:
                slot.passes = self._passes
            self._submit()
            for parcel in self._plan.parcels:
                mistake = parcel.finish()
                self._mistake = self._mistake or mistake
        except Exception:
            self._begin_anew()
            raise
        finally:
            # After a signal they are under way still.
            self._is_sending = False
        self._plan.count_step()
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

    def _ready(self, slot: Slot) -> Callable[[], None]:
        # Of an optimizer that is no more nothing is sent.
        mine = weakref.ref(self)

        def count() -> None:
            gradients = mine()
            if gradients is not None and gradients._are_hooked:
                with gradients._lock:
                    gradients._count(slot)

        return count

    def _count(self, slot: Slot) -> None:
        if not self._is_backward:
            self._is_backward = True
            torch.autograd.Variable._execution_engine.queue_callback(self._end_backward)
        self.are_under_way()
        self._mistake = self._mistake or self._mistake_of_another_pass(slot)
        if self._mistake:
            raise Error(self._mistake)
        self._are_synchronized = False
        try:
            check_kind(slot)
            if slot.passes == 0:
                self._refuse_last_sum(slot, 1)
            if self._is_held:
                return
            slot.count()
            if slot.passes >= self._passes:
                slot.claim, self._group = Claim(slot.name, slot.parameter, self), _group.generation()
                self._ready_slots.append(slot)
                if self._plan.is_agreed(self._slots):
                    self._submit()
        except Error:
            self._begin_anew()
            raise

    def _end_backward(self) -> None:
        """Once any gradient is under way, those that a pass did not compute are, too: who looks at them has to wait as well."""
        self._is_backward = False
        if self._ready_slots:
            for slot in self._slots:
                if slot.claim is None and not is_claimed(slot.parameter):
                    self._claim_uncomputed(slot)

    def _claim_uncomputed(self, slot: Slot) -> None:
        parameter = slot.parameter
        if parameter.grad is None and parameter.requires_grad:
            parameter.grad = nothing_touched(parameter) if slot.is_rows else torch.zeros_like(parameter)
        if parameter.grad is None or (self._op == SUM and slot.has_last_sum(0)):
            return
        slot.claim, slot.is_uncomputed = Claim(slot.name, parameter, self), True

    def _mistake_of_another_pass(self, slot: Slot) -> str:
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
        """Submits the parcels that are ready and whose turn it is."""
        parcels = self._plan.parcels
        while self._n_submitted < len(parcels):
            parcel = parcels[self._n_submitted]
            # The last one of them is mostly the last that is ready.
            if any(slot.passes < self._passes for slot in reversed(parcel.slots)):
                return
            for slot in parcel.slots:
                if slot.claim is None and slot.parameter.grad is not None:
                    check_kind(slot)
                    self._refuse_last_sum(slot, 0)
            parcel.submit(self._op)
            self._n_submitted += 1

    def _refuse_last_sum(self, slot: Slot, n_additions: int) -> None:
        """A sum that is summed again would be there as often as there are workers."""
        if self._op == SUM and slot.has_last_sum(n_additions) and _has_anything(slot.parameter.grad):
            raise Error(
                f"{slot.name} has the sum of the last step in it, which would be summed again: zero_grad() before backward()"
            )

    def _begin_anew(self) -> None:
        """After an error too: what is under way is over before anybody touches the gradients again."""
        self._are_synchronized, self._looked_at, self._is_backward = False, "", False
        for parcel in self._plan.parcels:
            parcel.give_up()
        for slot in self._slots:
            slot.forget()
        self._n_submitted = 0
        self._ready_slots.clear()


# All that there are.
_alive: "weakref.WeakSet[Gradients]" = weakref.WeakSet()


def are_any_of_this_group() -> bool:
    """Whether any optimizer has gradients that are lost or sent again in another group: on their way, or not used yet."""
    return any(one.are_under_way() or one.are_synchronized() for one in _alive)


def _free_prefix(named: List[Tuple[str, torch.nn.Parameter]], codec: Codec) -> str:
    """What tells these gradients from those of other optimizers whose parameters have the same names."""
    names = {name for name, _ in named}
    if any(not names.isdisjoint(other.names()) for other in _alive):
        # Those that nobody has any more count on no worker.
        gc.collect()
    taken = {other._prefix for other in _alive if not names.isdisjoint(other.names())}
    prefixes = (PREFIX if number == 1 else f"{PREFIX}{number}." for number in itertools.count(1))
    return next(prefix for prefix in prefixes if prefix not in taken and are_free(prefix, named, codec))


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


def _has_anything(gradient: Any) -> bool:
    return bool((gradient._values() if gradient.is_sparse else gradient).any())


def _checked(passes: int) -> int:
    if passes < 1:
        raise Error(f"backward_passes_per_step={passes}: gradients are sent after one pass or more")
    return passes


def _call_when_ready(parameter: torch.nn.Parameter, call: Callable[[], None]) -> Any:
    """Calls after each time that a gradient was added to a parameter's; what must live as long as that is to happen."""
    if hasattr(parameter, "register_post_accumulate_grad_hook"):
        return parameter.register_post_accumulate_grad_hook(lambda _: call())
    # PyTorch before 2.1: the accumulator is reached through the graph of a view.
    accumulator = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
    accumulator.register_hook(lambda *_: call())
    return accumulator

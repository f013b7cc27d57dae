"""An optimizer whose gradients are averaged over all workers while the backward pass still computes others.

Gradients are submitted in one order on all workers, that of the last layer to the first, in which a backward pass mostly
has them ready: one that is ready early waits for those after it. Without that, workers whose models branch differently
could wait for each other. On the wire the first layer's parts go first, since the next forward pass needs them first.

In a group that sums asynchronously it is another one, see `_weights`.
"""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterable, Iterator, List, Optional, Tuple

import torch

from .. import _group
from .._compression import AnyCodec, Codec, Compression, codec_of
from .._errors import Error
from .._group import AVERAGE, Handle
from ._weights import AsynchronousOptimizer, Weights

PREFIX = "gradient."


def DistributedOptimizer(
    optimizer: torch.optim.Optimizer,
    named_parameters: Optional[Iterable[Tuple[str, torch.nn.Parameter]]] = None,
    compression: AnyCodec = Compression.none,
    backward_passes_per_step: int = 1,
    op: int = AVERAGE,
    **ignored: Any,
) -> torch.optim.Optimizer:
    """`optimizer`, whose `step` first waits for the gradients of all workers; an instance of its class, with its state.

    `named_parameters`: `model.named_parameters()`, whose order is that of the layers; without it parameters are numbered.
    `compression`: a codec or its name, for float32 gradients. `backward_passes_per_step`: gradients of so many backward
    passes are added up, not averaged, before they are sent. `op`: Average or Sum.

    Settings of Horovod and BytePS that do not change the result (num_groups, staleness=0, …) are accepted.

    With RSUM_ASYNC=1 no gradients are sent: `step` is this worker's own, and adds its change of the parameters to those of
    all. n workers then take n steps where they took one of averages, so the rate is to be n times smaller for as much
    progress per batch.
    """
    for name, value in ignored.items():
        _check_ignored(name, value)
    named, codec = _named(optimizer, named_parameters), codec_of(compression)
    if _group.is_asynchronous():
        if codec != Compression.none:
            raise Error(f"compression {codec.name} is for gradients; with RSUM_ASYNC=1 there is none")
        return _extended(optimizer, AsynchronousOptimizer, _weights=Weights(named))
    gradients = Gradients(named, codec, backward_passes_per_step, op)
    return _extended(optimizer, _Distributed, _gradients=gradients, _is_synchronizing=True)


def _extended(optimizer: torch.optim.Optimizer, by: type, **attributes: Any) -> torch.optim.Optimizer:
    """An instance of the optimizer's class and of another one, with the optimizer's state."""
    kind = type(optimizer.__class__.__name__, (by, optimizer.__class__), {})
    extended: Any = object.__new__(kind)
    # One state of both, so that a scheduler of the one sets the rates of the other, whichever it was made for. A scheduler
    # also wraps the `step` of its optimizer: there it would hide ours.
    extended.__dict__ = optimizer.__dict__
    extended.__dict__.pop("step", None)
    extended.__dict__.update(attributes)
    return extended


class _Distributed:
    """What the class of an optimizer gets in addition."""

    _gradients: "Gradients"
    _is_synchronizing: bool

    def synchronize(self) -> None:
        """Waits until all gradients are those of all workers: for clipping them, say; then `step` in `skip_synchronize`."""
        self._gradients.synchronize()

    @contextlib.contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """In it, `step` uses gradients as they are."""
        self._is_synchronizing = False
        try:
            yield
        finally:
            self._is_synchronizing = True

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Changes after how many backward passes a gradient is sent, between two steps."""
        self._gradients.passes = passes

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """Waits for the gradients and takes a step; with a `closure`, after each time that it computed them."""
        if not self._is_synchronizing:
            return super().step(closure)  # type: ignore[misc]
        if closure is None:
            self.synchronize()
            return super().step()  # type: ignore[misc]
        return super().step(self._followed(closure))  # type: ignore[misc]

    def settle(self) -> None:
        """Nothing to do: workers have the same parameters after each step. Asynchronous ones come to them here."""

    def zero_grad(self, *arguments: Any, **settings: Any) -> None:
        """As of any optimizer; not while gradients are under way."""
        if self._gradients.are_under_way():
            raise Error("zero_grad() between backward() and step(): gradients are under way; synchronize() first")
        super().zero_grad(*arguments, **settings)  # type: ignore[misc]

    def _followed(self, closure: Callable[[], Any]) -> Callable[[], Any]:
        def computed_and_sent() -> Any:
            loss = closure()
            self.synchronize()
            return loss

        return computed_and_sent


class _Slot:
    """One parameter's gradient."""

    def __init__(self, name: str, priority: int, parameter: torch.nn.Parameter) -> None:
        self.name, self.priority, self.parameter = name, priority, parameter
        self.passes = 0
        self.handle: Optional[Handle[torch.Tensor]] = None


class Gradients:
    """The gradients of an optimizer on their way."""

    def __init__(
        self,
        named: List[Tuple[str, torch.nn.Parameter]],
        codec: Codec,
        passes: int,
        op: int,
    ) -> None:
        self.passes = passes
        self._codec, self._op = codec, op
        self._slots = [_Slot(PREFIX + name, index, parameter) for index, (name, parameter) in enumerate(named)]
        # Slots from here on were submitted.
        self._first_submitted = len(self._slots)
        # What holds the hooks: a gradient accumulator lives no longer than somebody refers to it.
        self._hooks: List[Any] = []
        for slot in self._slots:
            like = torch.empty_like(slot.parameter, memory_format=torch.contiguous_format)
            _group.declare(slot.name, like, priority=slot.priority, compression=self._codec_for(slot))
            self._hooks.append(_call_when_ready(slot.parameter, self._ready(slot)))

    def are_under_way(self) -> bool:
        """Whether any was submitted and not waited for."""
        return self._first_submitted < len(self._slots)

    def synchronize(self) -> None:
        """Submits what was not, also where a parameter took no part in the loss, and waits for all."""
        for slot in self._slots:
            slot.passes = self.passes
        try:
            self._submit()
            for slot in self._slots:
                self._finish(slot)
        finally:
            self._begin_anew()

    def _ready(self, slot: _Slot) -> Callable[[], None]:
        def count() -> None:
            if slot.handle is not None or slot.passes >= self.passes:
                raise Error(
                    f"{slot.name} was computed more than {self.passes} times before step(): "
                    "raise backward_passes_per_step"
                )
            slot.passes += 1
            try:
                self._submit()
            except Error:
                self._begin_anew()
                raise

        return count

    def _submit(self) -> None:
        """Submits the gradients that are ready and whose turn it is."""
        while self._first_submitted > 0:
            slot = self._slots[self._first_submitted - 1]
            if slot.passes < self.passes:
                return
            self._first_submitted -= 1
            sent = _gradient_of(slot.parameter).contiguous()
            slot.handle = _group.submit(
                sent, sent, slot.name, self._op, slot.priority, self._codec_for(slot)
            )

    def _finish(self, slot: _Slot) -> None:
        handle, slot.handle = slot.handle, None
        if handle is None:
            return
        result, own = handle.wait(), slot.parameter.grad
        if own is not None and own.data_ptr() != result.data_ptr():
            own.detach().copy_(result)

    def _begin_anew(self) -> None:
        """After an error too: what is under way is over before anybody touches the gradients again."""
        for slot in self._slots:
            handle, slot.handle, slot.passes = slot.handle, None, 0
            if handle is not None:
                with contextlib.suppress(Error):
                    handle.wait()
        self._first_submitted = len(self._slots)

    def _codec_for(self, slot: _Slot) -> Codec:
        return self._codec if slot.parameter.dtype == torch.float32 else Compression.none


def _gradient_of(parameter: torch.nn.Parameter) -> torch.Tensor:
    if parameter.grad is None:
        parameter.grad = torch.zeros_like(parameter)
    if parameter.grad.is_sparse:
        raise Error("a sparse gradient cannot be sent: make the layer's gradients dense (sparse=False)")
    return parameter.grad.detach()


def _call_when_ready(parameter: torch.nn.Parameter, call: Callable[[], None]) -> Any:
    """Calls after each time that a gradient was added to a parameter's; what must live as long as that is to happen."""
    if hasattr(parameter, "register_post_accumulate_grad_hook"):
        return parameter.register_post_accumulate_grad_hook(lambda _: call())
    # PyTorch before 2.1: the accumulator is reached through the graph of a view.
    accumulator = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
    accumulator.register_hook(lambda *_: call())
    return accumulator


def _named(
    optimizer: torch.optim.Optimizer,
    named_parameters: Optional[Iterable[Tuple[str, torch.nn.Parameter]]],
) -> List[Tuple[str, torch.nn.Parameter]]:
    """The optimizer's parameters that get gradients, named, in the order of the layers."""
    own = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    if named_parameters is None:
        named = [(f"parameter.{index}", parameter) for index, parameter in enumerate(own)]
    else:
        named = list(named_parameters)
    names = [name for name, _ in named]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise Error(f"parameters with the same name: {', '.join(sorted(twice))}")
    owned, known = {id(parameter) for parameter in own}, {id(parameter) for _, parameter in named}
    if not owned <= known:
        raise Error(f"{len(owned - known)} of the optimizer's parameters have no name in named_parameters")
    return [(name, parameter) for name, parameter in named if id(parameter) in owned and parameter.requires_grad]


def _check_ignored(name: str, value: Any) -> None:
    harmless = {
        "gradient_predivide_factor": (1.0,),
        "num_groups": None,
        "groups": None,
        "sparse_as_dense": (False,),
        "staleness": (0,),
        "pipesgd_warmup_iter": None,
    }
    if name not in harmless:
        raise TypeError(f"DistributedOptimizer() has no setting {name!r}")
    allowed = harmless[name]
    if allowed is not None and value not in allowed:
        raise Error(f"{name}={value!r} is not supported here: leave it out")

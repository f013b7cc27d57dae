"""An optimizer whose gradients are averaged over all workers, see `_gradients`; in a group that sums asynchronously it is
another one, see `_weights`.
"""

from __future__ import annotations

import contextlib
import weakref
from collections import Counter
from typing import Any, Callable, Iterable, Iterator, List, Optional, Tuple

import torch

from .. import _group
from .._compression import AnyCodec, Compression, codec_of
from .._errors import Error
from .._group import AVERAGE, SUM
from ._copies import Copied, extended_class
from ._debug import EVERY, every
from ._gradients import Gradients
from ._lending import adapt_after_step, is_wanted
from ._parameters import pairs_of
from ._weights import AsynchronousOptimizer, Weights


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

    From `backward()` to `step()` gradients are under way: what changes or reads them there waits for all of them, and has
    everyone's.

    In a job whose servers a pool lends (RSUM_POOL) each step ends with the servers that there are then; RSUM_ADAPT=0 leaves
    that to the script.

    It has in addition: `synchronize()`, which makes gradients everyone's before `step()`; `skip_synchronize()`, in which `step()` takes
    them as they are; `no_sync()`, in which backward passes send nothing; `set_backward_passes_per_step(n)`; and `settle()`, which
    gives all workers the same parameters where sums are asynchronous.

    Settings of Horovod and BytePS that do not change the result (num_groups, staleness=0, …) are accepted.

    With RSUM_ASYNC=1 no gradients are sent: `step` is this worker's own, and adds its change of the parameters to those of
    all. n workers then take n steps where they took one of averages, so the rate is to be n times smaller for as much
    progress per batch.
    """
    is_wanted()
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise Error(f"DistributedOptimizer() takes an optimizer of torch.optim, not {type(optimizer).__name__}")
    for name, value in ignored.items():
        _check_ignored(name, value)
    if isinstance(optimizer, (_Distributed, AsynchronousOptimizer)) and not optimizer.is_copy:
        raise Error("this optimizer is a DistributedOptimizer already")
    if op not in (AVERAGE, SUM):
        raise Error(f"there is no operation {op!r}; there are Average and Sum")
    named, codec = _named(optimizer, named_parameters), codec_of(compression)
    if _group.is_asynchronous():
        if codec != Compression.none:
            raise Error(f"compression {codec.name} is for gradients; with RSUM_ASYNC=1 there is none")
        if every() > 0:
            raise Error(f"{EVERY} is for synchronous sums: with RSUM_ASYNC=1 parameters are the same after settle() alone; leave it out")
        owned = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
        trained = [(name, one) for name, one in named if id(one) in owned and one.requires_grad]
        asynchronous: torch.optim.Optimizer = _extended(optimizer, AsynchronousOptimizer, _weights=Weights(trained))
        return asynchronous
    gradients = Gradients(named, codec, backward_passes_per_step, op)
    gradients.adopt(optimizer.param_groups)
    extended: torch.optim.Optimizer = _extended(optimizer, _Distributed, _gradients=gradients, _is_synchronizing=True)
    gradients.owner = weakref.ref(extended)
    return extended


def _extended(optimizer: torch.optim.Optimizer, by: type, **attributes: Any) -> Any:
    """An instance of the optimizer's class and of another one, with the optimizer's state."""
    plain = optimizer.plain_class if isinstance(optimizer, Copied) else optimizer.__class__
    extended: Any = object.__new__(extended_class(plain, by))
    # One state of both, so that a scheduler of the one sets the rates of the other, whichever it was made for. A scheduler
    # also wraps the `step` of its optimizer: there it would hide ours.
    extended.__dict__ = optimizer.__dict__
    extended.__dict__.pop("step", None)
    extended.__dict__.update(attributes, is_copy=False)
    return extended


class _Distributed(Copied):
    """What the class of an optimizer gets in addition."""

    _gradients: "Gradients"
    _is_synchronizing: bool

    def synchronize(self) -> None:
        """Waits until all gradients are those of all workers: to clip or unscale them, say; `step` uses them as they are."""
        self._gradients.adopt(self.param_groups)
        self._gradients.synchronize()

    @contextlib.contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """In it, `step` uses gradients as they are: after `synchronize`."""
        self._is_synchronizing = False
        try:
            yield
        finally:
            self._is_synchronizing = True

    def no_sync(self) -> Any:
        """In `with optimizer.no_sync()`, backward passes add to the gradients and nothing is sent: for all but the last one."""
        return self._gradients.held()

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Changes after how many backward passes a gradient is sent, between two steps."""
        self._gradients.set_passes(passes)

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """Waits for the gradients and takes a step; with a `closure`, after each time that it computed them."""
        gradients = self._gradients
        gradients.adopt(self.param_groups)
        if not self._is_synchronizing:
            gradients.refuse_under_way("step() in skip_synchronize()")
        elif closure is not None:
            closure = self._followed(closure)
        elif gradients.are_synchronized():
            gradients.check_everyones()
        else:
            gradients.synchronize()
        if closure is None:
            gradients.leave_out_untouched()
        outcome = super().step(closure)  # type: ignore[misc]
        gradients.use_up()
        adapt_after_step()
        return outcome

    def settle(self) -> None:
        """Nothing to do: workers have the same parameters after each step. Asynchronous ones come to them here."""

    def zero_grad(self, *arguments: Any, **settings: Any) -> None:
        """As of any optimizer; not while gradients are under way."""
        self._gradients.give_up()
        self._gradients.adopt(self.param_groups)
        super().zero_grad(*arguments, **settings)  # type: ignore[misc]

    def add_param_group(self, param_group: Any) -> None:
        """As of any optimizer; all workers call it, between two steps."""
        self._gradients.refuse_under_way("add_param_group()")
        super().add_param_group(param_group)  # type: ignore[misc]
        self._gradients.adopt(self.param_groups)

    def _followed(self, closure: Callable[[], Any]) -> Callable[[], Any]:
        def computed_and_sent() -> Any:
            self._gradients.use_up()
            loss = closure()
            # Nothing to do where the closure has synchronized, to clip, say.
            self.synchronize()
            self._gradients.leave_out_untouched()
            # It decides by the loss whether it calls the closure once more: the same on all workers.
            return self._gradients.loss_of_all(loss) if isinstance(self, torch.optim.LBFGS) else loss

        return computed_and_sent


def _named(
    optimizer: torch.optim.Optimizer,
    named_parameters: Optional[Iterable[Tuple[str, torch.nn.Parameter]]],
) -> List[Tuple[str, torch.nn.Parameter]]:
    """Parameters by name, in the order of the layers: all of the optimizer's, and others that it may get later."""
    own = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    if named_parameters is None:
        named = [(f"parameter.{index}", parameter) for index, parameter in enumerate(own)]
    else:
        named = pairs_of(named_parameters, "DistributedOptimizer()")
    twice = [name for name, n_times in Counter(name for name, _ in named).items() if n_times > 1]
    if twice:
        raise Error(f"parameters with the same name: {', '.join(sorted(twice))}")
    owned, known = {id(parameter) for parameter in own}, {id(parameter) for _, parameter in named}
    if not owned <= known:
        raise Error(f"{len(owned - known)} of the optimizer's parameters have no name in named_parameters")
    # A parameter that several layers share goes by its first name.
    firsts = {id(parameter): name for name, parameter in reversed(named)}
    return [(name, parameter) for name, parameter in named if firsts[id(parameter)] == name]


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

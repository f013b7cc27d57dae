"""An optimizer over asynchronous sums: the services keep the parameters, and workers add what their own steps change.

A step pushes w' - w of this worker's parameters and takes what comes back, with others' differences in it (BytePS, OSDI 2020,
theorem 2). Momenta and the like are each worker's own. In floats w + (w' - w) is w' where the difference is not rounded.
"""

from __future__ import annotations

import contextlib
import gc
import weakref
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Tuple

import torch

from .. import _group, _store
from .._buffers import buffer_of, neutral_of
from .._errors import Error
from .._group import SUM, Handle
from ._copies import Copied
from ._members import Members, refuse_group
from ._parameters import PREFIX


class AsynchronousOptimizer(Copied):
    """What the class of an optimizer gets in addition in a group that sums asynchronously."""

    _weights: "Weights"

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """A step of this worker alone, whose change is added to the store's parameters, which are then this worker's."""
        self._weights.members.check(self.param_groups)
        self._weights.begin()
        before = self._weights.copied()
        outcome = super().step(closure)  # type: ignore[misc]
        # A closure computes gradients that were not there before.
        self._weights.members.check(self.param_groups)
        self._weights.add_change(before)
        return outcome

    def settle(self) -> None:
        """Takes the parameters with all changes of all workers in, the same bits on each. All workers call it."""
        self._weights.begin()
        _store.barrier()
        self._weights.pull()
        # Nobody adds to them before all have them.
        _store.barrier()

    def synchronize(self) -> None:
        """Nothing to wait for: gradients are this worker's own."""

    @contextlib.contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """Nothing to skip: a step waits for no gradients."""
        yield

    def no_sync(self) -> Any:
        """Nothing to hold back: no gradients are sent."""
        return contextlib.nullcontext()

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Nothing to set: gradients add up here until a step is taken."""

    def add_param_group(self, param_group: Any) -> None:
        """Refused: what a step changes of parameters that come later would be each worker's own."""
        refuse_group()


class Weights:
    """The parameters of an optimizer, and what the store has of them."""

    def __init__(self, named: List[Tuple[str, torch.nn.Parameter]]) -> None:
        self.members = Members(named)
        _take_names(named)
        # Not their memory, which a script may replace (`parameter.data = …`).
        self._parameters = [(PREFIX + name, one) for name, one in named if one.numel() > 0]
        for priority, (name, own) in enumerate(self._named()):
            like = torch.empty_like(own, memory_format=torch.contiguous_format)
            _group.declare(name, like, priority=priority)
        _store.declare_barrier()

    def _named(self) -> List[Tuple[str, torch.Tensor]]:
        return [(name, one.detach()) for name, one in self._parameters]

    def begin(self) -> None:
        """Takes worker 0's parameters, unless `broadcast_parameters` has done so in this group."""
        missing = [(name, own) for name, own in self._named() if not _store.has_begun(name)]
        copied = ((name, own, own.clone(memory_format=torch.contiguous_format)) for name, own in missing)
        _take((own, _store.begin_async(copy, 0, name)) for name, own, copy in copied)

    def copied(self) -> List[torch.Tensor]:
        """The parameters as they are."""
        return [own.clone(memory_format=torch.contiguous_format) for _, own in self._named()]

    def add_change(self, before: List[torch.Tensor]) -> None:
        """Adds what has changed since `before`, whose memory it uses for that, and takes what there is then."""
        for (_, own), copy in zip(self._named(), before):
            torch.sub(own, copy, out=copy)
        self._add(before)

    def pull(self) -> None:
        """Takes what there is."""
        nothing = self.copied()
        for change in nothing:
            change.fill_(neutral_of(buffer_of(change).datatype))
        self._add(nothing)

    def _add(self, changes: List[torch.Tensor]) -> None:
        def submitted() -> Iterator[Tuple[torch.Tensor, Handle[torch.Tensor]]]:
            for priority, ((name, own), change) in enumerate(zip(self._named(), changes)):
                into = own if own.is_contiguous() else torch.empty_like(change)
                yield own, _group.submit(change, into, name, SUM, priority)

        _take(submitted())


# Whose the parameters of a name are, of the optimizers that there are.
_owners: Dict[str, "weakref.ref[torch.nn.Parameter]"] = {}


def _take_names(named: List[Tuple[str, torch.nn.Parameter]]) -> None:
    """Refuses names that other parameters have: what one optimizer changes would be added to the other's."""
    if any(_is_anothers(name, parameter) for name, parameter in named):
        # Those that nobody has any more count on no worker.
        gc.collect()
    for name, parameter in named:
        if _is_anothers(name, parameter):
            raise Error(
                f"a parameter of another optimizer has the name {name!r} already: give each optimizer's named_parameters names of "
                'their own, such as [("second." + name, parameter) for name, parameter in model.named_parameters()]'
            )
        _owners[name] = weakref.ref(parameter)


def _is_anothers(name: str, parameter: torch.nn.Parameter) -> bool:
    owner = _owners[name]() if name in _owners else None
    return owner is not None and owner is not parameter


def _take(submitted: Iterable[Tuple[torch.Tensor, Handle[torch.Tensor]]]) -> None:
    """Waits for all results, also when some fail, and puts each where it belongs if none did."""
    targets: List[torch.Tensor] = []

    def handles() -> Iterator[Handle[torch.Tensor]]:
        for own, handle in submitted:
            targets.append(own)
            yield handle

    for own, result in zip(targets, _group.wait_for_all(handles())):
        if result.data_ptr() != own.data_ptr():
            own.copy_(result)

"""An optimizer's parameters as they were when it was wrapped: later ones would be shared with nobody."""

from __future__ import annotations

from typing import Any, Iterable, List, Mapping, NoReturn, Tuple

import torch

from .._errors import Error

INSTEAD = "wrap an optimizer that has all its parameters, with requires_grad set"


class Members:
    """Which parameters an optimizer shares with other workers."""

    def __init__(self, named: List[Tuple[str, torch.nn.Parameter]]) -> None:
        self._parameters = [parameter for _, parameter in named]
        self._known = {id(parameter) for parameter in self._parameters}

    def check(self, groups: Iterable[Mapping[str, Any]]) -> None:
        """Refuses parameters that a step would change on this worker alone."""
        for group in groups:
            for parameter in group["params"]:
                # Without a gradient a step leaves it as it is.
                if id(parameter) not in self._known and parameter.grad is not None:
                    shape = tuple(parameter.shape)
                    raise Error(
                        f"a parameter of shape {shape} has a gradient and was not there, or needed none, when the optimizer "
                        f"was wrapped: workers would come to different values of it; {INSTEAD}"
                    )


def refuse_group() -> NoReturn:
    """For `add_param_group` of a wrapped optimizer."""
    raise Error(f"add_param_group() after DistributedOptimizer(): other workers know nothing of new parameters; {INSTEAD}")

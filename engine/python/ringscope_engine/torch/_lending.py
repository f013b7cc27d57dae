"""Servers of a pool (`RSUM_POOL`) that come and go between an optimizer's steps, without a word of the script.

After a step, since then its gradients are used up. Another optimizer may have some under way still, which a change of the
group would lose, and perhaps on some workers only: so all workers say whether they may, in the small round in which they learn
how many servers there are, and nothing changes unless all may.
"""

from __future__ import annotations

import contextlib
import os

from .. import _group
from .._errors import Error, LostProcess
from ._gradients import are_any_of_this_group

ADAPT = "RSUM_ADAPT"


def is_wanted() -> bool:
    """Whether a job with a pool takes and gives servers by itself."""
    text = os.environ.get(ADAPT, "1").strip()
    if text not in ("0", "1"):
        raise Error(f'{ADAPT}: "{text}" is neither 1 nor 0: then the script calls adapt() itself')
    return text == "1"


def adapt_after_step() -> None:
    """Goes on with the servers that the pool lends now. All workers call it, after as many steps."""
    if _group.has_pool() and is_wanted():
        # The step was taken: who is told of a loss by it would take it again. The next push tells of that.
        with contextlib.suppress(LostProcess):
            _group.adapt_if(not are_any_of_this_group())

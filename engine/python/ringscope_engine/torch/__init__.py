"""The summation service on torch's CPU and CUDA tensors, under the names that scripts for BytePS and Horovod use.

    import ringscope_engine.torch as bps        # in place of byteps.torch
    import ringscope_engine.torch as hvd        # in place of horovod.torch

See the package's README for what each name becomes.
"""

from typing import Any

from .. import (
    Compression,
    Error,
    Handle,
    LostProcess,
    adapt,
    epoch,
    init,
    is_initialized,
    local_rank,
    local_size,
    rank,
    resume,
    servers,
    shutdown,
    size,
    suspend,
)
from . import _missing
from ._ddp import DdpState, ddp_hook
from ._operations import (
    Average,
    Sum,
    allreduce,
    allreduce_,
    allreduce_async,
    allreduce_async_,
    barrier,
    broadcast,
    broadcast_,
    broadcast_async,
    broadcast_async_,
    declare,
    grouped_allreduce,
    grouped_allreduce_,
    grouped_allreduce_async,
    grouped_allreduce_async_,
    poll,
    push_pull,
    push_pull_async,
    push_pull_async_inplace,
    push_pull_inplace,
    synchronize,
    wait,
)
from ._optimizer import DistributedOptimizer
from ._parameters import broadcast_object, broadcast_optimizer_state, broadcast_parameters

__all__ = [
    "Average",
    "Compression",
    "DdpState",
    "DistributedOptimizer",
    "Error",
    "Handle",
    "LostProcess",
    "Sum",
    "adapt",
    "allreduce",
    "allreduce_",
    "allreduce_async",
    "allreduce_async_",
    "barrier",
    "broadcast",
    "broadcast_",
    "broadcast_async",
    "broadcast_async_",
    "broadcast_object",
    "broadcast_optimizer_state",
    "broadcast_parameters",
    "ddp_hook",
    "declare",
    "epoch",
    "grouped_allreduce",
    "grouped_allreduce_",
    "grouped_allreduce_async",
    "grouped_allreduce_async_",
    "init",
    "is_initialized",
    "local_rank",
    "local_size",
    "poll",
    "push_pull",
    "push_pull_async",
    "push_pull_async_inplace",
    "push_pull_inplace",
    "rank",
    "resume",
    "servers",
    "shutdown",
    "size",
    "suspend",
    "synchronize",
    "wait",
]


def __getattr__(name: str) -> Any:
    raise _missing.refuse(__name__, name)

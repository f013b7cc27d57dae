"""Summation services and collectives for training on CPUs and GPUs, over librsccl.so.

Here: the summation service on numpy arrays. n workers push arrays and pull their sums, with the help of k servers that do
nothing else. `ringscope_engine.torch`: the same on torch tensors, with an optimizer and a DDP hook, under the names that
scripts for Horovod and BytePS use. `ringscope_engine.collective`: all_reduce and the other collectives.
"""

from ._compression import Codec, Compression
from ._errors import Error, LostProcess
from ._group import (
    Handle,
    adapt,
    broadcast,
    broadcast_async,
    declare,
    epoch,
    init,
    is_initialized,
    local_rank,
    local_size,
    poll,
    push_pull,
    push_pull_async,
    rank,
    resume,
    servers,
    shutdown,
    size,
    suspend,
    synchronize,
    wait,
)

__all__ = [
    "Codec",
    "Compression",
    "Error",
    "Handle",
    "LostProcess",
    "adapt",
    "broadcast",
    "broadcast_async",
    "declare",
    "epoch",
    "init",
    "is_initialized",
    "local_rank",
    "local_size",
    "poll",
    "push_pull",
    "push_pull_async",
    "rank",
    "resume",
    "servers",
    "shutdown",
    "size",
    "suspend",
    "synchronize",
    "wait",
]

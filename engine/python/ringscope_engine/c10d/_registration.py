"""Tells torch.distributed that there is a backend "rsccl"."""

from __future__ import annotations

import inspect
from typing import Any

import torch.distributed as dist

from ._process_group import ProcessGroup

NAME = "rsccl"


def register() -> None:
    """Makes `init_process_group("rsccl")` known; again has no effect."""
    if not dist.is_available() or NAME.upper() in dist.Backend._plugins:
        return
    settings: dict[str, Any] = {}
    if "devices" in inspect.signature(dist.Backend.register_backend).parameters:
        settings["devices"] = ["cpu", "cuda"]
    add: Any = dist.Backend.register_backend
    add(NAME, _make, extended_api=True, **settings)


def _make(options: Any, _: Any = None) -> ProcessGroup:
    return ProcessGroup(
        options.store,
        options.group_rank,
        options.group_size,
        options.timeout,
        options.group_id,
        options.global_ranks_in_group,
    )

"""The backend "rsccl" of torch.distributed: collectives and P2P of librsccl.so on torch's tensors.

    torch.distributed.init_process_group("rsccl")

PyTorch 2.5 and later find it by themselves where the package is installed; before, `import ringscope_engine.c10d` first.
See the package's README for what each collective becomes, and what is refused.
"""


def register() -> None:
    """Makes `init_process_group("rsccl")` known; again has no effect. PyTorch's `torch.backends` entry point calls it."""
    from ._registration import register as tell

    tell()


# PyTorch calls `register` at the end of its own import: where this module is imported before torch, that is here.
import torch  # noqa: E402, F401

from ._process_group import ProcessGroup  # noqa: E402

__all__ = ["ProcessGroup", "register"]

register()

"""The backend "rsccl" of torch.distributed: collectives and P2P of librsccl.so on torch's tensors.

    torch.distributed.init_process_group("rsccl")

PyTorch 2.5 and later find it by themselves where the package is installed; before, `import ringscope_engine.c10d` first.
See the package's README for what each collective becomes, and what is refused.
"""

from ._process_group import ProcessGroup
from ._registration import register

__all__ = ["ProcessGroup", "register"]

register()

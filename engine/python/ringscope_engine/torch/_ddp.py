"""A communication hook for torch's DistributedDataParallel, which sends its buckets through the summation service.

    model = DistributedDataParallel(model)
    model.register_comm_hook(None, ddp_hook)
"""

# Annotations are evaluated here: torch compares those of a hook with its own classes.
import queue
import threading
from dataclasses import dataclass
from typing import Any, Optional

import torch
import torch.distributed as dist

from .. import _group
from .._compression import AnyCodec, Compression, codec_of
from .._group import AVERAGE, SUM
from ._names import bucket_name


@dataclass
class DdpState:
    """How buckets travel; what `register_comm_hook` takes as its state. None is one of these."""

    average: bool = True
    compression: AnyCodec = Compression.none
    prefix: str = "gradient.bucket."


def ddp_hook(
    state: Optional[DdpState],
    bucket: dist.GradBucket,  # type: ignore[name-defined,unused-ignore]
) -> torch.futures.Future[torch.Tensor]:
    """Replaces the gradients in a bucket by their average over all workers; what DDP waits for.

    A failure is an exception of `backward()`. Buckets of the first layers, which DDP has ready last, go first on the wire.
    """
    _group.refuse_asynchronous("ddp_hook", "use push_pull of differences of weights instead")
    state = state or DdpState()
    tensor = bucket.buffer()
    codec = codec_of(state.compression if tensor.dtype == torch.float32 else None)
    # DDP builds its buckets anew after the first step: those of another length are other tensors.
    shared = f"{state.prefix}{bucket.index()}.{tensor.dtype}.{tensor.numel()}".replace("torch.", "")
    name = bucket_name(shared, codec, bucket.parameters())
    operation = AVERAGE if state.average else SUM
    handle = _group.submit(tensor, tensor, name, operation, -bucket.index(), codec)
    devices = [tensor.device] if tensor.is_cuda else None
    future: torch.futures.Future[torch.Tensor] = torch.futures.Future(devices=devices)
    _waiter.await_(handle, future)
    return future


class _Waiter:
    """A thread that waits for buckets in the order of their submission, and tells DDP."""

    def __init__(self) -> None:
        self._queue: "queue.SimpleQueue[Any]" = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._is_running = False

    def await_(self, handle: Any, future: Any) -> None:
        self._queue.put((handle, future))
        with self._lock:
            if not self._is_running:
                self._is_running = True
                threading.Thread(target=self._run, name="ringscope-ddp", daemon=True).start()

    def _run(self) -> None:
        while True:
            handle, future = self._queue.get()
            try:
                future.set_result(handle.wait())
            except Exception as error:  # noqa: BLE001  whatever it is, DDP must not wait for ever
                future.set_exception(error)


_waiter = _Waiter()

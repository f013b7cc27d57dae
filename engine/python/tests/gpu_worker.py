"""What the workers of the tests with a GPU do, on stand-ins for torch's CUDA tensors in the memory of a driver without a
device (engine/tests/c/fake_cuda.c), which nobody else can touch."""

import contextlib
import ctypes
import os
import sys
import types
from typing import Callable

import numpy
import ringscope_engine as engine
from ringscope_engine import Error, _group
from ringscope_engine._buffers import buffer_of

SLOW_US = 3000


class Driver:
    """The driver, with a stream."""

    def __init__(self) -> None:
        self.functions = ctypes.CDLL(os.environ["FAKE_CUDA"])
        for name in ("fake_alloc", "fake_stream"):
            getattr(self.functions, name).restype = ctypes.c_void_p
        self.functions.fake_use_device(0)
        self.stream = ctypes.c_void_p(self.functions.fake_stream(0, SLOW_US))

    def stand_in_for_torch(self) -> None:
        """`torch.cuda`, as far as it is used."""
        torch = types.ModuleType("torch")
        stream = types.SimpleNamespace(cuda_stream=self.stream.value)
        torch.cuda = types.SimpleNamespace(
            device=lambda device: contextlib.nullcontext(), current_stream=lambda device: stream
        )
        sys.modules["torch"] = torch


class Tensor:
    """float32 on GPU 0."""

    dtype, layout = "torch.float32", "torch.strided"
    device = types.SimpleNamespace(type="cuda", index=0)

    def __init__(self, driver: Driver, n_elements: int) -> None:
        self.driver, self.shape = driver, (n_elements,)
        self.address = ctypes.c_void_p(driver.functions.fake_alloc(0, ctypes.c_size_t(4 * n_elements)))

    def become(self, values: numpy.ndarray) -> None:
        """By a kernel on the stream, some time later."""
        self.keeps = numpy.ascontiguousarray(values, numpy.float32)
        source = ctypes.c_void_p(self.keeps.ctypes.data)
        self.driver.functions.fake_kernel(self.driver.stream, self.address, source, ctypes.c_size_t(self.keeps.nbytes))

    def values(self) -> numpy.ndarray:
        found = numpy.empty(self.shape, numpy.float32)
        self.driver.functions.fake_read(ctypes.c_void_p(found.ctypes.data), self.address, ctypes.c_size_t(found.nbytes))
        return found

    def data_ptr(self) -> int:
        return self.address.value or 0

    def numel(self) -> int:
        return self.shape[0]

    def is_contiguous(self) -> bool:
        return True

    def is_neg(self) -> bool:
        return False


def sums() -> None:
    driver = Driver()
    driver.stand_in_for_torch()
    engine.init()
    n, own = engine.size(), numpy.arange(70001) + engine.rank()
    tensor, result = Tensor(driver, own.size), Tensor(driver, own.size)
    tensor.become(own)
    assert _group.submit(tensor, result, "gradient", _group.SUM).wait() is result
    total = sum(numpy.arange(70001) + rank for rank in range(n)).astype(numpy.float32)
    assert (result.values() == total).all()
    tensor.become(own * 2)
    _group.submit(tensor, tensor, "gradient", _group.AVERAGE).wait()
    assert (tensor.values() == 2 * total / n).all()
    # The same tensor from this machine's memory, and to it.
    assert (engine.push_pull(own.astype(numpy.float32), "gradient", average=False) == total).all()
    host = numpy.empty(own.size, numpy.float32)
    tensor.become(own)
    assert (_group.submit(tensor, host, "gradient", _group.SUM).wait() == total).all()
    driver.functions.fake_capture(driver.stream, True)
    refused("captured into a graph", lambda: _group.submit(tensor, tensor, "gradient", _group.SUM))
    driver.functions.fake_capture(driver.stream, False)
    refused("copy it with .cpu() first", lambda: buffer_of(tensor))
    engine.shutdown()
    left = [getattr(driver.functions, f"fake_n_{what}")() for what in ("pinned", "events", "streams", "sins")]
    assert left == [0, 0, 0, 0], left


def refused(words: str, call: Callable[[], object]) -> None:
    try:
        call()
    except Error as error:
        assert words in str(error), error
    else:
        raise AssertionError(f"not refused: {words}")

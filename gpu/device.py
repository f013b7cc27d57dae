"""Where a rank's buffers and streams live: a GPU (CUDA's runtime library), or host memory with librsccl's streams.

Both classes offer the same methods, so that a rank never asks which of them it has. `no_graphs` is the reason why nothing
can be captured, or None.
"""

import ctypes
from ctypes import POINTER, byref, c_int, c_size_t, c_uint, c_ulonglong, c_void_p


class DeviceError(Exception):
    """A function of the device failed."""


class Host:
    """Host memory; a stream is a worker thread of librsccl."""

    no_graphs = "the engine has no CUDA graphs"

    def __init__(self, nccl):
        self.functions = nccl
        nccl.rscclStreamCreate.argtypes = [POINTER(c_void_p)]
        nccl.rscclStreamSynchronize.argtypes = [c_void_p]

    def stream(self):
        stream = c_void_p()
        self._check("rscclStreamCreate", self.functions.rscclStreamCreate(byref(stream)))
        return stream

    def synchronize(self, stream):
        self._check("rscclStreamSynchronize", self.functions.rscclStreamSynchronize(stream))

    def buffer(self, content):
        """Memory that holds these bytes."""
        return ctypes.create_string_buffer(content, len(content))

    def address(self, buffer):
        return c_void_p(ctypes.addressof(buffer))

    def read(self, buffer, size):
        return ctypes.string_at(ctypes.addressof(buffer), size)

    def facts(self):
        return {"device": "host"}

    def _check(self, function, code):
        if code != 0:
            raise DeviceError("%s returned %d" % (function, code))


class Cuda:
    """The one GPU that this process sees. Prototypes as in cuda_runtime_api.h of CUDA 11.4 to 13."""

    no_graphs = None

    PROTOTYPES = {
        "cudaSetDevice": [c_int],
        "cudaMalloc": [POINTER(c_void_p), c_size_t],
        "cudaFree": [c_void_p],
        "cudaMemcpy": [c_void_p, c_void_p, c_size_t, c_int],
        "cudaMemsetAsync": [c_void_p, c_int, c_size_t, c_void_p],
        "cudaStreamCreateWithFlags": [POINTER(c_void_p), c_uint],
        "cudaStreamSynchronize": [c_void_p],
        "cudaStreamBeginCapture": [c_void_p, c_int],
        "cudaStreamEndCapture": [c_void_p, POINTER(c_void_p)],
        "cudaGraphInstantiateWithFlags": [POINTER(c_void_p), c_void_p, c_ulonglong],
        "cudaGraphLaunch": [c_void_p, c_void_p],
        "cudaGraphExecDestroy": [c_void_p],
        "cudaGraphDestroy": [c_void_p],
        "cudaDeviceGetAttribute": [POINTER(c_int), c_int, c_int],
        "cudaDriverGetVersion": [POINTER(c_int)],
        "cudaRuntimeGetVersion": [POINTER(c_int)],
    }
    HOST_TO_DEVICE, DEVICE_TO_HOST = 1, 2
    NON_BLOCKING = 1
    # The strictest: any unsafe call of any thread, a collector's too, would break the capture.
    CAPTURE_GLOBAL = 0
    COMPUTE_CAPABILITY_MAJOR, COMPUTE_CAPABILITY_MINOR = 75, 76

    def __init__(self, path):
        self.runtime = ctypes.CDLL(path)
        for name, arguments in self.PROTOTYPES.items():
            function = getattr(self.runtime, name)
            function.argtypes = arguments
            function.restype = c_int
        self.runtime.cudaGetErrorString.argtypes = [c_int]
        self.runtime.cudaGetErrorString.restype = ctypes.c_char_p
        self._call("cudaSetDevice", 0)

    def stream(self):
        stream = c_void_p()
        self._call("cudaStreamCreateWithFlags", byref(stream), self.NON_BLOCKING)
        return stream

    def synchronize(self, stream):
        self._call("cudaStreamSynchronize", stream)

    def buffer(self, content):
        """Memory that holds these bytes."""
        address = c_void_p()
        self._call("cudaMalloc", byref(address), len(content))
        self.write(address, content)
        return address

    def write(self, buffer, content):
        self._call("cudaMemcpy", buffer, content, len(content), self.HOST_TO_DEVICE)

    def fill(self, buffer, size, stream):
        self._call("cudaMemsetAsync", buffer, 0, size, stream)

    def address(self, buffer):
        return buffer

    def read(self, buffer, size):
        content = ctypes.create_string_buffer(size)
        self._call("cudaMemcpy", content, buffer, size, self.DEVICE_TO_HOST)
        return content.raw

    def capture(self, stream, calls):
        """Captures what `calls` enqueues, and returns the executable graph."""
        graph, executable = c_void_p(), c_void_p()
        self._call("cudaStreamBeginCapture", stream, self.CAPTURE_GLOBAL)
        calls()
        self._call("cudaStreamEndCapture", stream, byref(graph))
        self._call("cudaGraphInstantiateWithFlags", byref(executable), graph, 0)
        self._call("cudaGraphDestroy", graph)
        return executable

    def launch(self, executable, stream):
        self._call("cudaGraphLaunch", executable, stream)

    def forget(self, executable):
        self._call("cudaGraphExecDestroy", executable)

    def facts(self):
        """Versions and compute capability."""
        value = c_int()
        facts = {"device": "cuda"}
        for name, function in [("cuda_driver", "cudaDriverGetVersion"), ("cuda_runtime", "cudaRuntimeGetVersion")]:
            self._call(function, byref(value))
            facts[name] = "%d.%d" % (value.value // 1000, value.value % 1000 // 10)
        parts = []
        for attribute in (self.COMPUTE_CAPABILITY_MAJOR, self.COMPUTE_CAPABILITY_MINOR):
            self._call("cudaDeviceGetAttribute", byref(value), attribute, 0)
            parts.append(str(value.value))
        facts["compute_capability"] = ".".join(parts)
        return facts

    def _call(self, name, *arguments):
        code = getattr(self.runtime, name)(*arguments)
        if code != 0:
            words = self.runtime.cudaGetErrorString(code).decode()
            raise DeviceError("%s returned %d: %s" % (name, code, words))

"""One worker of a summation group: pushes and pulls tensors on the GPU and in this machine's memory, and compares.

Argument: path of the plan (JSON), of which `device`, `cudart` and `dir` are used. RSUM_RANK says which worker this is, and
SUMMING_LIBRARY where the engine is. What it found goes to `rank-R.json` in the plan's folder; it then leaves when its stdin ends.
"""

import array
import ctypes
import json
import os
import statistics
import sys
import time
from ctypes import c_char_p, c_int, c_uint64, c_void_p

from device import Cuda, Host

FLOAT32, ITEM_BYTES = 7, 4
SUM = 0
# One element, an odd count, several parts of 4 096 000 bytes.
COUNTS = (1, 100003, 4 << 20)
ROUNDS = 5
TIMED_COUNT, TIMED_ROUNDS = 16 << 20, 7


class Summing:
    """The worker."""

    def __init__(self, plan):
        self.library = ctypes.CDLL(os.environ["SUMMING_LIBRARY"], ctypes.RTLD_GLOBAL)
        self.is_cuda = plan["device"] == "cuda"
        self.device = Cuda(plan["cudart"]) if self.is_cuda else Host(self.library)
        both = [c_int, c_void_p, c_void_p, c_int]
        for name, arguments in {
            "rsum_init": [], "rsum_shutdown": [], "rsum_rank": [], "rsum_size": [], "rsum_wait": [c_int],
            "rsum_declare": [c_char_p, c_uint64, c_int, c_void_p],
            "rsum_push_pull": both, "rsum_push_pull_async": both, "rsum_push_pull_on_stream": both + [c_void_p],
        }.items():
            getattr(self.library, name).argtypes = arguments
        self.library.rsum_last_error.restype = c_char_p
        self.stream = self.device.stream()
        self.check("rsum_init", self.library.rsum_init())
        self.rank, self.n_workers = self.library.rsum_rank(), self.library.rsum_size()
        self.wrong = []

    def check(self, name, code):
        if code != 0:
            raise RuntimeError("%s returned %d: %s" % (name, code, self.library.rsum_last_error().decode()))

    def wait(self, name, handle):
        self.check(name, self.library.rsum_wait(handle) if handle >= 0 else -1 - handle)

    def declare(self, name, count):
        tensor = self.library.rsum_declare(name.encode(), count, FLOAT32, None)
        self.check("rsum_declare", 0 if tensor >= 0 else -1 - tensor)
        return tensor

    def from_host(self, tensor, content):
        """The sum of what all have in this machine's memory."""
        send, recv = (ctypes.create_string_buffer(part, len(content)) for part in (content, b""))
        self.check("rsum_push_pull", self.library.rsum_push_pull(tensor, send, recv, SUM))
        return recv.raw

    def on_stream(self, tensor, send, recv):
        """The same of what all have on the GPU, where there is one; a handle."""
        addresses = [self.device.address(buffer) for buffer in (send, recv)]
        if self.is_cuda:
            return self.library.rsum_push_pull_on_stream(tensor, *addresses, SUM, self.stream)
        return self.library.rsum_push_pull_async(tensor, *addresses, SUM)

    def compare(self):
        """The same values both ways, several tensors at once, in several rounds."""
        tensors = [[self.declare("%s %d" % (way, count), count) for way in ("device", "host")] for count in COUNTS]
        for number in range(ROUNDS):
            contents = [values(self.rank, number, count) for count in COUNTS]
            buffers = [(self.device.buffer(content), self.device.buffer(bytes(len(content)))) for content in contents]
            handles = [self.on_stream(tensor[0], *pair) for tensor, pair in zip(tensors, buffers)]
            for handle in handles:
                self.wait("rsum_wait", handle)
            for count, tensor, content, pair in zip(COUNTS, tensors, contents, buffers):
                found = self.device.read(pair[1], len(content))
                wanted = self.from_host(tensor[1], content)
                if found != wanted:
                    self.wrong.append("round %d of %d elements: the GPU's sum is not the host's" % (number, count))
                if number == 0 and found != exact(self.n_workers, count):
                    self.wrong.append("round %d of %d elements: not the sum" % (number, count))

    def time(self):
        """Seconds of a push and pull of one large tensor, each way."""
        tensors = [self.declare("timed %s" % way, TIMED_COUNT) for way in ("device", "host")]
        content = bytes(TIMED_COUNT * ITEM_BYTES)
        buffer = self.device.buffer(content)
        send = ctypes.create_string_buffer(content, len(content))

        def on_device():
            self.wait("rsum_wait", self.on_stream(tensors[0], buffer, buffer))

        def on_host():
            self.check("rsum_push_pull", self.library.rsum_push_pull(tensors[1], send, send, SUM))

        times = {"device": [], "host": []}
        for _ in range(TIMED_ROUNDS + 1):
            for name, push_pull in (("device", on_device), ("host", on_host)):
                started = time.perf_counter()
                push_pull()
                times[name].append(time.perf_counter() - started)
        # The first of each pins memory, and touches its own for the first time.
        return {name: statistics.median(seconds[1:]) for name, seconds in times.items()}

    def refused(self):
        """What the library says to device memory in a call for this machine's; nothing where there is no GPU."""
        if not self.is_cuda:
            return None
        tensor = self.declare("refused", 1)
        address = self.device.address(self.device.buffer(bytes(ITEM_BYTES)))
        code = self.library.rsum_push_pull(tensor, address, address, SUM)
        return [code, self.library.rsum_last_error().decode()]

    def captured(self):
        """What it says while the stream is being captured."""
        if not self.is_cuda:
            return None
        tensor = self.declare("captured", 1)
        address = self.device.address(self.device.buffer(bytes(ITEM_BYTES)))
        handles = []

        def call():
            handles.append(self.library.rsum_push_pull_on_stream(tensor, address, address, SUM, self.stream))

        self.device.forget(self.device.capture(self.stream, call))
        return [-1 - handles[0], self.library.rsum_last_error().decode()]


def values(worker, number, count):
    """A worker's contribution to a round: sums of two are rounded from the second round on."""
    step = (worker + 1) * (1.0 if number == 0 else 1.1 + number / 7)
    return array.array("f", [(index % 1021 - 510) * step for index in range(count)]).tobytes()


def exact(n_workers, count):
    """The sum of the first round, whose values are small whole numbers."""
    factor = sum(worker + 1 for worker in range(n_workers))
    return array.array("f", [(index % 1021 - 510) * factor for index in range(count)]).tobytes()


def main():
    with open(sys.argv[1]) as file:
        plan = json.load(file)
    worker = Summing(plan)
    worker.compare()
    found = {"rank": worker.rank, "times": worker.time(), "refused": worker.refused(), "captured": worker.captured()}
    found["wrong"] = worker.wrong
    path = os.path.join(plan["dir"], "rank-%d.json" % worker.rank)
    with open(path + ".new", "w") as file:
        json.dump(found, file)
    os.rename(path + ".new", path)
    sys.stdin.read()
    worker.check("rsum_shutdown", worker.library.rsum_shutdown())


main()

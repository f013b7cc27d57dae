"""One rank: does the steps of a plan, verifies every result, counts its own calls, and waits to be let go.

Argument: path of the plan (JSON). RANK says which rank this is. What it did goes to `rank-R.json` in the plan's folder; it
then keeps its communicator until its stdin ends, so that daemon, log and RAS can be asked while it lives.
"""

import json
import os
import statistics
import sys
import threading
import time

import operations
from device import Cuda, Host
from nccl import ITEM_BYTES, Nccl

RENDEZVOUS_S = 60
WARM_UP_CALLS = 3
# More than a stream's queue holds.
FILLERS = 5000
# A filler that gets nothing enqueued for so long stands before a full queue.
STANDS_S = 1.0
JOIN_S = 10


class Call:
    """One call with its buffers and the output that it must give."""

    def __init__(self, worker, primitive, count):
        self.worker, self.primitive, self.count = worker, primitive, count
        content, self.wanted = operations.expected(primitive, worker.rank, worker.n_ranks, count)
        self.size = len(content) if self.wanted is None else len(self.wanted)
        device = worker.device
        self.buffers = device.buffer(content), device.buffer(bytes(self.size))

    def enqueue(self):
        send, recv = (self.worker.device.address(buffer) for buffer in self.buffers)
        operations.call(self.worker, self.primitive, send, recv, self.count)

    def verify(self):
        if self.wanted is None:
            return
        found = self.worker.device.read(self.buffers[1], self.size)
        if found != self.wanted:
            at = next(index for index in range(self.size) if found[index] != self.wanted[index]) // ITEM_BYTES
            self.worker.wrong.append("%s of %d elements: element %d is wrong" % (self.primitive, self.count, at))


class Worker:
    """The rank."""

    def __init__(self, plan, rank):
        self.plan, self.rank, self.n_ranks = plan, rank, plan["n_ranks"]
        self.issued, self.captured, self.replayed, self.times = {}, {}, {}, {}
        self.wrong, self.not_run, self.n_verified = [], [], 0
        self.filler, self.n_filled, self.fill_error, self.is_leaving = None, 0, None, False
        self.nccl = Nccl(plan["library"], plan["reach"])
        self.device = Cuda(plan["cudart"]) if plan["device"] == "cuda" else Host(self.nccl.functions)
        self.stream = self.device.stream()
        self.comm = self.nccl.init(self.n_ranks, self.meet(), rank)

    def meet(self):
        """Rank 0 leaves the unique id in the plan's folder; the others pick it up."""
        path = os.path.join(self.plan["dir"], "unique-id")
        if self.rank == 0:
            unique_id = self.nccl.unique_id()
            with open(path + ".new", "wb") as file:
                file.write(unique_id)
            os.rename(path + ".new", path)
            return unique_id
        ends = time.monotonic() + RENDEZVOUS_S
        while time.monotonic() < ends:
            if os.path.exists(path):
                with open(path, "rb") as file:
                    return file.read()
            time.sleep(0.005)
        raise TimeoutError("rank 0 left no unique id within %d s" % RENDEZVOUS_S)

    def run(self, step):
        """One step of the plan."""
        kind = step["step"]
        try:
            getattr(self, "step_" + kind)(step)
        except Exception as error:  # a step that may be refused is told, and the rank goes on
            if not step.get("may_fail"):
                raise
            self.not_run.append({"step": kind, "reason": str(error)})

    def step_eager(self, step):
        for primitive in step["primitives"]:
            call = Call(self, primitive, step["count"])
            for _ in range(step["rounds"]):
                call.enqueue()
                self.count(call, self.issued)
            self.finish([call])

    def step_group(self, step):
        """Several calls between one ncclGroupStart and ncclGroupEnd."""
        for _ in range(step["rounds"]):
            calls = [Call(self, primitive, step["count"]) for primitive in step["primitives"]]
            self.enqueue_group(calls)
            for call in calls:
                self.count(call, self.issued)
            self.finish(calls)

    def step_graph(self, step):
        """The calls captured once into a CUDA graph, which then runs several times."""
        if self.device.no_graphs:
            self.not_run.append({"step": "graph", "reason": self.device.no_graphs})
            return
        calls = [Call(self, primitive, step["count"]) for primitive in step["primitives"]]
        self.device.synchronize(self.stream)
        graph = self.device.capture(self.stream, lambda: [call.enqueue() for call in calls])
        for call in calls:
            self.count(call, self.captured)
        for _ in range(step["replays"]):
            self.device.launch(graph, self.stream)
            for call in calls:
                self.count(call, self.replayed)
        self.finish(calls)
        self.device.forget(graph)

    def step_symmetric(self, step):
        """One call between symmetric windows."""
        call = Call(self, step["primitive"], step["count"])
        content, _ = operations.expected(call.primitive, self.rank, self.n_ranks, call.count)
        windows = [self.nccl.symmetric_buffer(self.comm, size) for size in (len(content), call.size)]
        self.device.write(windows[0], content)
        call.buffers = windows
        call.enqueue()
        self.count(call, self.issued)
        self.finish([call])

    def step_time(self, step):
        """Times of single all-reduces, one after the other: of the call alone, and until it is done."""
        for size, n_calls in step["sizes"]:
            call = Call(self, "all_reduce", size // ITEM_BYTES)
            called, done = [], []
            for number in range(WARM_UP_CALLS + n_calls):
                started = time.perf_counter()
                call.enqueue()
                returned = time.perf_counter()
                self.device.synchronize(self.stream)
                ended = time.perf_counter()
                self.count(call, self.issued)
                if number >= WARM_UP_CALLS:
                    called.append(returned - started)
                    done.append(ended - started)
            self.finish([call])
            self.times[str(size)] = {"call_s": statistics.median(called), "done_s": statistics.median(done)}

    def step_hang(self, step):
        """The last rank misses an all-reduce; the others go on to fill the queue behind it, with `calls` or `memsets`."""
        if self.rank == self.n_ranks - 1:
            return
        call = Call(self, "all_reduce", step["count"])
        call.enqueue()
        enqueue = call.enqueue if step["fill"] == "calls" else lambda: self.device.fill(call.buffers[0], 4, self.stream)
        self.filler = threading.Thread(target=self.fill, args=(enqueue,), daemon=True)
        self.filler.start()
        before, since = 0, time.monotonic()
        while time.monotonic() - since < STANDS_S and self.filler.is_alive():
            if self.n_filled != before:
                before, since = self.n_filled, time.monotonic()
            time.sleep(0.05)

    def fill(self, enqueue):
        try:
            while self.n_filled < FILLERS and not self.is_leaving:
                enqueue()
                self.n_filled += 1
        except Exception as error:  # an aborted communicator refuses the call
            self.fill_error = str(error)

    def leave(self):
        """Ends the communicator as the plan says: `destroy`, `abort`, or `exit` with it."""
        self.is_leaving = True
        how = self.plan["leave"]
        if how == "exit":
            return
        started = time.monotonic()
        self.nccl.call("ncclCommDestroy" if how == "destroy" else "ncclCommAbort", self.comm)
        left = {"left_s": time.monotonic() - started}
        if self.filler:
            self.filler.join(JOIN_S)
            left["filler_ended"] = not self.filler.is_alive()
        write(self.plan["dir"], "left-%d.json" % self.rank, left)

    def enqueue_group(self, calls):
        self.nccl.call("ncclGroupStart")
        for call in calls:
            call.enqueue()
        self.nccl.call("ncclGroupEnd")

    def finish(self, calls):
        self.device.synchronize(self.stream)
        for call in calls:
            call.verify()
            self.n_verified += call.wanted is not None

    def count(self, call, counted):
        for primitive, calls, size in operations.counts_as(call.primitive, call.count):
            totals = counted.setdefault(primitive, {"calls": 0, "bytes": 0})
            totals["calls"] += calls
            totals["bytes"] += size

    def report(self):
        return {
            "rank": self.rank,
            "pid": os.getpid(),
            "nccl_version": self.nccl.version(),
            "device": self.device.facts(),
            "issued": self.issued,
            "captured": self.captured,
            "replayed": self.replayed,
            "times": self.times,
            "n_filled": self.n_filled,
            "fill_error": self.fill_error,
            "wrong": self.wrong,
            "n_verified": self.n_verified,
            "not_run": self.not_run,
        }


def main():
    with open(sys.argv[1]) as file:
        plan = json.load(file)
    worker = Worker(plan, int(os.environ["RANK"]))
    for step in plan["steps"]:
        worker.run(step)
    write(plan["dir"], "rank-%d.json" % worker.rank, worker.report())
    sys.stdin.read()
    worker.leave()


def write(folder, name, document):
    """Leaves a document where the others look for it, whole."""
    path = os.path.join(folder, name)
    with open(path + ".new", "w") as file:
        json.dump(document, file)
    os.rename(path + ".new", path)


main()

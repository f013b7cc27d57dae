"""What the workers of the tests of signals do: the first waits for ever, and says when; others never come."""

import os
import signal
import sys
import time
from typing import Any, Callable, Dict

import numpy
import ringscope_engine as engine
from ringscope_engine import collective, tensors

OWN = numpy.ones(10, numpy.float32)


def main() -> None:
    """Waits in the call that WAITS_IN says, with handlers as HANDLER says."""
    # Whoever starts the tests in the background may have had it ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if os.environ["HANDLER"] == "exits":
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
    CALLS[os.environ["WAITS_IN"]]()


def ready() -> None:
    print("ready", flush=True)


def stay() -> None:
    """What the others do."""
    while True:
        time.sleep(1)


def alone(call: Callable[[], Any]) -> Callable[[], None]:
    """All have begun; the first calls, and the others do not."""

    def run() -> None:
        engine.init()
        engine.push_pull(OWN, "round")
        if engine.rank() != 0:
            stay()
        ready()
        call()

    return run


def init() -> None:
    if os.environ["RANK"] != "0":
        stay()
    ready()
    engine.init()


def first_push() -> None:
    engine.init()
    if engine.rank() != 0:
        stay()
    ready()
    engine.push_pull(OWN, "new")


def backward() -> None:
    import ringscope_engine.torch as bps
    import torch

    bps.init()
    layer = torch.nn.Linear(4, 4)
    optimizer = bps.DistributedOptimizer(torch.optim.SGD(layer.parameters(), lr=1.0), layer.named_parameters())
    for step in range(3):
        if step == 2:
            if bps.rank() != 0:
                stay()
            ready()
        optimizer.zero_grad()
        layer(torch.ones(4)).sum().backward()
        optimizer.step()


def reduced(elements: int) -> Callable[[], None]:
    def run() -> None:
        own = numpy.ones(elements, numpy.float32)
        communicator = collective.init()
        communicator.all_reduce(own, own)
        if communicator.rank != 0:
            stay()
        ready()
        communicator.all_reduce(own, own)

    return run


def meeting() -> None:
    if os.environ["RANK"] != "0":
        stay()
    ready()
    collective.init(timeout_s=100)


def made() -> None:
    if os.environ["RANK"] != "0":
        stay()
    ready()
    collective.Communicator(collective.unique_id(), 2, 0)


def linked(call: Callable[[tensors.Link], Any]) -> Callable[[], None]:
    """The first listens for the second, which declares nothing and calls nothing."""

    def run() -> None:
        is_first = os.environ["RANK"] == "0"
        link = tensors.Link("local", f"signals-{os.environ['RSUM_ROOT'].replace(':', '-')}", listens=is_first)
        if not is_first:
            stay()
        ready()
        call(link)

    return run


def received(call: Callable[[tensors.Link, tensors.Receiver], Any]) -> Callable[[], None]:
    """The same, where the second has declared an edge on which it sends nothing."""

    def run() -> None:
        is_first = os.environ["RANK"] == "0"
        link = tensors.Link("local", f"signals-{os.environ['RSUM_ROOT'].replace(':', '-')}", listens=is_first)
        if not is_first:
            link.send("edge", 3)
            link.ready()
            stay()
        edge = link.receive("edge", 3)
        link.ready()
        ready()
        call(link, edge)

    return run


def listen() -> None:
    if os.environ["RANK"] != "0":
        stay()
    ready()
    tensors.Link("tcp", "127.0.0.1:0", listens=True)


CALLS: Dict[str, Callable[[], None]] = {
    "init": init,
    "the first push": first_push,
    "push_pull": alone(lambda: engine.push_pull(OWN, "round")),
    "wait": alone(lambda: engine.push_pull_async(OWN, "round").wait()),
    "suspend": alone(engine.suspend),
    "shutdown": alone(engine.shutdown),
    "the end of the script": alone(lambda: None),
    "step": backward,
    "collective.init": meeting,
    "Communicator": made,
    "all_reduce, small": reduced(10),
    "all_reduce, large": reduced(1 << 20),
    "Link": listen,
    "Link.ready": linked(lambda link: link.ready()),
    "Link.finish": received(lambda link, _: link.finish()),
    "Receiver.wait": received(lambda _, edge: edge.wait()),
}

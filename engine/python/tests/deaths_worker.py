"""What the workers of the tests of deaths in broadcasts do."""

import os
import threading

import ringscope_engine.torch as bps
import torch

TENSORS, ELEMENTS = 24, 40_000


def broadcasts_until_death() -> None:
    """Broadcasts one version of a model after the other until a worker dies: each has all of a version, and the rest goes on
    with that of its first worker."""
    bps.init()
    rank, source = bps.rank(), int(os.environ["SOURCE"])
    model = {f"layer{number}": torch.zeros(ELEMENTS) for number in range(TENSORS)}
    bps.broadcast_parameters(model, source)
    if rank == int(os.environ["VICTIM"]):
        threading.Timer(float(os.environ["DELAY_S"]), os.kill, (os.getpid(), 9)).start()
    version = 0
    try:
        while True:
            if rank == source:
                for tensor in model.values():
                    tensor.fill_(version + 1)
            bps.broadcast_parameters(model, source)
            version += 1
            assert held(model) == version
    except bps.LostProcess:
        assert held(model) == version + (rank == source), (held(model), version)
    bps.resume()
    version = bps.broadcast_object(held(model), 0)
    bps.broadcast_parameters(model, 0)
    assert held(model) == version
    print(version, bps.size())
    bps.shutdown()


def held(model: "dict[str, torch.Tensor]") -> int:
    """The version that all elements of all tensors are of."""
    versions = torch.cat(list(model.values())).unique()
    assert len(versions) == 1, f"of several versions: {versions}"
    return int(versions[0])

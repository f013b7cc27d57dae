"""Data-parallel training on handwritten digits, with one of four ways of sharing what is learnt.

    train.py --path summation     4 workers push and pull through 2 summation servers (ringscope_engine.torch)
    train.py --path all-reduce    the same workers all-reduce, in the order of the ranks (ringscope_engine.collective)
    train.py --path gloo          torch's own DistributedDataParallel over Gloo
    train.py --path asynchronous  nobody waits for gradients: each worker adds its own steps to what the services keep

Started without RANK it starts servers and workers, each a process, and writes what came of it. Everything that is random
has a seed, and the first two fold gradients in the same order, so their losses and parameters are the same bit for bit. What
the last one comes to depends on who is faster; RSUM_STALENESS bounds by how many steps.
"""

import argparse
import hashlib
import json
import os
import secrets
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "fixtures/digits/digits.csv.gz"
PATHS = ("summation", "all-reduce", "gloo", "asynchronous")
N_WORKERS, N_SERVERS = 4, 2
HOST = "127.0.0.1"
PATIENCE_S = 120
SEED = 20
PIXELS, DIGITS, FULL = 64, 10, 16.0
HIDDEN = (256, 128)
# The rest of the 1 797 pictures is for the accuracy. A worker's share of a step is a quarter of a batch.
N_TRAINING, BATCH = 1440, 96
LEARNING_RATE, MOMENTUM = 0.05, 0.9
# Steps that an asynchronous worker may be ahead of the slowest one: some, so that it can go on while another is late.
STALENESS = 4
# The model has 203 304 bytes of parameters: parts of the usual 4 MB would leave most services without any.
PARTITION_BYTES = 16384


def main():
    arguments = parsed()
    if "RANK" in os.environ:
        train(arguments)
        return 0
    return start(arguments)


def parsed():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--path", choices=PATHS, required=True, help="how what is learnt is shared")
    parser.add_argument("--steps", type=int, default=300, help="steps of 96 pictures [default: 300]")
    parser.add_argument("--compression", default="none", help="none, f16, bf16, one-bit or top-k: with --path summation")
    parser.add_argument("--out", type=Path, help="where losses, accuracy and the parameters' hash go, as JSON")
    parser.add_argument("--bin", type=Path, default=ROOT / "target/release", help="folder of librsccl.so and ringscope-sumd")
    return parser.parse_args()


def start(arguments):
    """Servers and workers; the report of all workers in one."""
    shared = environment(arguments)
    command = [sys.executable, str(Path(__file__).resolve()), *sys.argv[1:]]
    servers, workers = [], []
    with tempfile.TemporaryDirectory() as folder:
        try:
            if arguments.path in ("summation", "asynchronous"):
                sumd = str(arguments.bin / "ringscope-sumd")
                servers = [subprocess.Popen([sumd], env=shared) for _ in range(N_SERVERS)]
            for rank in range(N_WORKERS):
                own = {"RANK": str(rank), "RSUM_RANK": str(rank)}
                report = ["--out", f"{folder}/{rank}.json"]
                workers.append(subprocess.Popen(command + report, env={**shared, **own}))
            if any([worker.wait() for worker in workers]):
                return 1
        finally:
            for process in workers + servers:
                process.kill()
                process.wait()
        reports = [json.loads(Path(folder, f"{rank}.json").read_text()) for rank in range(N_WORKERS)]
    return deliver(arguments, reports)


def environment(arguments):
    packages = [str(ROOT / "engine/python"), *filter(None, [os.environ.get("PYTHONPATH")])]
    is_asynchronous = arguments.path == "asynchronous"
    staleness = os.environ.get("RSUM_STALENESS", str(STALENESS))
    return {
        "RSUM_PARTITION_BYTES": str(PARTITION_BYTES),
        # All workers compute the fingerprint of every result that they pull: the model is small.
        "RSUM_FINGERPRINTS": "1",
        **os.environ,
        **({"RSUM_ASYNC": "1", "RSUM_STALENESS": staleness} if is_asynchronous else {}),
        "PYTHONPATH": os.pathsep.join(packages),
        "RSCCL_LIBRARY": os.environ.get("RSCCL_LIBRARY", str(arguments.bin / "librsccl.so")),
        # On a busy machine PyTorch is loaded much later by one worker than by another.
        "RSCCL_TIMEOUT_S": str(PATIENCE_S),
        "RSCCL_DETERMINISTIC": "rank-order",
        "RSUM_ROOT": f"{HOST}:{free_port()}",
        "RSUM_SECRET": secrets.token_hex(16),
        "RSUM_WORKERS": str(N_WORKERS),
        "RSUM_SERVERS": str(N_SERVERS),
        "MASTER_ADDR": HOST,
        "MASTER_PORT": free_port(),
        "WORLD_SIZE": str(N_WORKERS),
        "OMP_NUM_THREADS": "1",
    }


def free_port():
    """One of this machine that nobody listens on."""
    while True:
        # Random, so below those that Linux takes for connections: who connects too early could get the port for its own end.
        port = 10000 + secrets.randbelow(20000)
        with socket.socket() as probe:
            if probe.connect_ex((HOST, port)) != 0:
                return str(port)


def deliver(arguments, reports):
    """The job's report: losses averaged over the workers, whose parameters must be the same."""
    hashes = {report["parameters_sha256"] for report in reports}
    if len(hashes) > 1:
        print("the workers have different parameters", file=sys.stderr)
        return 1
    losses = [sum(shares) / N_WORKERS for shares in zip(*(report["losses"] for report in reports))]
    whole = {**reports[0], "losses": losses}
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps(whole))
    print(
        f"{arguments.path}: loss {losses[-1]:.6f}, accuracy {whole['accuracy']:.4f}, "
        f"{whole['step_ms']:.2f} ms a step, parameters {hashes.pop()[:16]}"
    )
    return 0


def train(arguments):
    """One worker."""
    import torch

    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    rank = int(os.environ["RANK"])
    model = torch.nn.Sequential(
        torch.nn.Linear(PIXELS, HIDDEN[0]),
        torch.nn.ReLU(),
        torch.nn.Linear(HIDDEN[0], HIDDEN[1]),
        torch.nn.ReLU(),
        torch.nn.Linear(HIDDEN[1], DIGITS),
    )
    ways = {"summation": Summation, "all-reduce": AllReduce, "gloo": Gloo, "asynchronous": Asynchronous}
    way = ways[arguments.path](arguments)
    optimizer = torch.optim.SGD(model.parameters(), lr=way.learning_rate, momentum=MOMENTUM)
    replica, optimizer = way.distributed(model, optimizer)

    pictures, digits = data()
    losses, steps_ms = [], []
    for batch in batches(arguments.steps, rank):
        began = time.perf_counter()
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(replica(pictures[batch]), digits[batch])
        loss.backward()
        way.before_step(model)
        optimizer.step()
        steps_ms.append((time.perf_counter() - began) * 1e3)
        losses.append(loss.item())
    way.after_training(optimizer)
    with torch.no_grad():
        right = model(pictures[N_TRAINING:]).argmax(dim=1) == digits[N_TRAINING:]
    report = {
        "path": arguments.path,
        "losses": losses,
        "accuracy": right.float().mean().item(),
        "parameters_sha256": fingerprint(model),
        "step_ms": statistics.median(steps_ms),
        "tensors": len(list(model.parameters())),
    }
    arguments.out.write_text(json.dumps(report))
    way.finish()


class Way:
    """What the ways of sharing differ in."""

    learning_rate = LEARNING_RATE

    def before_step(self, model):
        """Gradients are the average of all workers' when this returns, or the optimizer waits for that."""

    def after_training(self, optimizer):
        """All workers have the same parameters when this returns."""


class Summation(Way):
    """Gradients are pushed while the backward pass still computes others."""

    def __init__(self, arguments):
        import ringscope_engine.torch as bps

        self.bps, self.compression = bps, arguments.compression
        bps.init()

    def distributed(self, model, optimizer):
        named = list(model.named_parameters())
        optimizer = self.bps.DistributedOptimizer(optimizer, named, compression=self.compression)
        self.bps.broadcast_parameters(model.state_dict(), root_rank=0)
        self.broadcast_state(optimizer)
        return model, optimizer

    def broadcast_state(self, optimizer):
        self.bps.broadcast_optimizer_state(optimizer, root_rank=0)

    def finish(self):
        self.bps.shutdown()


class Asynchronous(Summation):
    """Each worker takes steps by its own gradients, and adds what they change to parameters that the services keep."""

    # Four steps are taken for one of the others.
    learning_rate = LEARNING_RATE / N_WORKERS

    def broadcast_state(self, optimizer):
        """Momenta are each worker's own."""

    def after_training(self, optimizer):
        optimizer.settle()


class AllReduce(Way):
    """Gradients are all-reduced one after the other after the backward pass."""

    def __init__(self, arguments):
        from ringscope_engine import collective

        self.communicator = collective.init(name="gradients", timeout_s=PATIENCE_S)

    def distributed(self, model, optimizer):
        for parameter in model.parameters():
            self.communicator.broadcast(parameter.data, root=0)
        return model, optimizer

    def before_step(self, model):
        for parameter in model.parameters():
            self.communicator.all_reduce(parameter.grad, parameter.grad, op="avg")

    def finish(self):
        self.communicator.destroy()


class Gloo(Way):
    """torch's DistributedDataParallel: it folds in another order, so its bits differ."""

    def __init__(self, arguments):
        import torch.distributed

        self.dist = torch.distributed
        self.dist.init_process_group("gloo")

    def distributed(self, model, optimizer):
        from torch.nn.parallel import DistributedDataParallel

        return DistributedDataParallel(model), optimizer

    def finish(self):
        self.dist.destroy_process_group()


def data():
    """All pictures, as numbers from 0 to 1, and their digits; shuffled with the seed."""
    import torch

    table = numpy.loadtxt(DATA, delimiter=",", dtype=numpy.int64)
    table = table[numpy.random.default_rng(SEED).permutation(len(table))]
    pictures = torch.from_numpy((table[:, :PIXELS] / FULL).astype(numpy.float32))
    return pictures, torch.from_numpy(table[:, PIXELS].copy())


def batches(steps, rank):
    """For each step, this worker's pictures: each epoch goes through all training pictures in another order."""
    order, generator = numpy.empty(0, int), numpy.random.default_rng(SEED)
    for _ in range(steps):
        if len(order) < BATCH:
            order = generator.permutation(N_TRAINING)
        batch, order = order[:BATCH], order[BATCH:]
        yield batch[rank::N_WORKERS]


def fingerprint(model):
    digest = hashlib.sha256()
    for parameter in model.state_dict().values():
        digest.update(parameter.numpy().tobytes())
    return digest.hexdigest()


if __name__ == "__main__":
    sys.exit(main())

r"""The same job with PyTorch: its DataLoader over the loader, and tensors that `ringscope_engine.collective` sums.

    RANK=0 WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT=7001 RSUM_SECRET=... PYTHONPATH=engine/python \
        ringscope run --job loader -- python3 with_torch.py DATA

--loaders 1 has the batches taken by a process of their own, as most training does.
"""

import argparse
import os
from pathlib import Path

import torch
from ringscope_engine import collective
from torch.utils.data import DataLoader, IterableDataset

from loader import Loader

BATCH_BYTES = 4096


class Batches(IterableDataset):
    """What the loader reads, as tensors."""

    def __init__(self, path):
        self._path = path

    def __iter__(self):
        for batch in Loader(self._path, BATCH_BYTES):
            yield torch.frombuffer(bytearray(batch), dtype=torch.uint8).float()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder with a file rank-R for each rank")
    parser.add_argument("--meet", type=Path, help="not needed: ranks meet at MASTER_ADDR:MASTER_PORT")
    parser.add_argument("--loaders", type=int, default=0, help="processes that load [default: 0: this one does]")
    arguments = parser.parse_args()
    rank = int(os.environ["RANK"])
    batches = DataLoader(Batches(arguments.data / f"rank-{rank}"), batch_size=None, num_workers=arguments.loaders)
    steps = 0
    with collective.init() as world:
        for batch in batches:
            world.all_reduce(batch, batch, op="avg")
            steps += 1
    print(f"rank {rank}: {steps} steps")


if __name__ == "__main__":
    main()

"""Pipeline parallel training, a stage a rank: torchrun pipeline.py --backend gloo (or rsccl).

Prints a hash of the stage's parameters after the last step, one line a rank.
"""

import argparse
import hashlib
import os

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

parser = argparse.ArgumentParser()
parser.add_argument("--backend", default="gloo")
parser.add_argument("--steps", type=int, default=5)
options = parser.parse_args()

dist.init_process_group(options.backend)
rank, n_ranks = dist.get_rank(), dist.get_world_size()
torch.manual_seed(rank)
torch.set_num_threads(1)
group = dist.new_group(list(range(n_ranks)), group_desc="pp")
layer = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.Tanh())
stage = PipelineStage(layer, rank, n_ranks, torch.device("cpu"), group=group)
schedule = Schedule1F1B(stage, 4, loss_fn=torch.nn.functional.mse_loss)
optimizer = torch.optim.SGD(layer.parameters(), 0.1)
data = torch.Generator().manual_seed(7)
for step in range(options.steps):
    inputs = torch.randn(16, 32, generator=data)
    optimizer.zero_grad()
    if rank == 0:
        schedule.step(inputs)
    elif rank == n_ranks - 1:
        schedule.step(target=inputs.roll(1, 1))
    else:
        schedule.step()
    optimizer.step()

digest = hashlib.sha256(b"".join(one.detach().numpy().tobytes() for one in layer.parameters()))
print(f"rank {os.environ['RANK']}: parameters {digest.hexdigest()[:16]}")
dist.destroy_process_group()

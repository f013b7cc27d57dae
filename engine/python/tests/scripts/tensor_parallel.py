"""Tensor parallel training inside data parallel groups: a mesh of two dimensions. torchrun tensor_parallel.py --backend gloo
(or rsccl), with an even number of ranks.

Prints a hash of the whole parameters after the last step, one line a rank.
"""

import argparse
import hashlib
import os

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

parser = argparse.ArgumentParser()
parser.add_argument("--backend", default="gloo")
parser.add_argument("--steps", type=int, default=5)
options = parser.parse_args()

dist.init_process_group(options.backend)
torch.manual_seed(0)
torch.set_num_threads(1)
mesh = init_device_mesh("cpu", (dist.get_world_size() // 2, 2), mesh_dim_names=("dp", "tp"))


class Feed(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = torch.nn.Linear(32, 128), torch.nn.Linear(128, 32)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return inputs + self.down(torch.nn.functional.gelu(self.up(inputs)))


model = torch.nn.Sequential(Feed(), Feed())
for layer in model:
    parallelize_module(layer, mesh["tp"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
    fully_shard(layer, mesh=mesh["dp"])
fully_shard(model, mesh=mesh["dp"])
optimizer = torch.optim.SGD(model.parameters(), 0.05)
data = torch.Generator().manual_seed(mesh["dp"].get_local_rank())
for step in range(options.steps):
    inputs = torch.randn(8, 32, generator=data)
    optimizer.zero_grad()
    (model(inputs) - inputs.roll(1, 1)).square().mean().backward()
    optimizer.step()

digest = hashlib.sha256(b"".join(one.full_tensor().detach().numpy().tobytes() for one in model.parameters()))
print(f"rank {os.environ['RANK']}: parameters {digest.hexdigest()[:16]}")
dist.destroy_process_group()

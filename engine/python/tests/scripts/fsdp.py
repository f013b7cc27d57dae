"""Sharded data parallel training (FSDP2) over a device mesh: torchrun fsdp.py --backend gloo (or rsccl).

Prints a hash of the whole parameters after the last step, one line a rank.
"""

import argparse
import hashlib
import os

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

parser = argparse.ArgumentParser()
parser.add_argument("--backend", default="gloo")
parser.add_argument("--steps", type=int, default=5)
options = parser.parse_args()

dist.init_process_group(options.backend)
torch.manual_seed(0)
torch.set_num_threads(1)
mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("fsdp",))
model = torch.nn.Sequential(*(torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU()) for _ in range(4)))
for layer in model:
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
data = torch.Generator().manual_seed(dist.get_rank())
for step in range(options.steps):
    inputs = torch.randn(8, 64, generator=data)
    optimizer.zero_grad()
    loss = (model(inputs) - inputs.roll(1, 1)).square().mean()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()

digest = hashlib.sha256(b"".join(one.full_tensor().detach().numpy().tobytes() for one in model.parameters()))
print(f"rank {os.environ['RANK']}: parameters {digest.hexdigest()[:16]}")
dist.destroy_process_group()

"""Data parallel training, as a user of PyTorch writes it: torchrun ddp.py --backend gloo (or rsccl).

Prints a hash of the parameters after the last step, one line a rank.
"""

import argparse
import hashlib
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

parser = argparse.ArgumentParser()
parser.add_argument("--backend", default="gloo")
parser.add_argument("--steps", type=int, default=5)
options = parser.parse_args()

dist.init_process_group(options.backend)
rank = dist.get_rank()
torch.manual_seed(rank)
torch.set_num_threads(1)
model = torch.nn.Sequential(
    torch.nn.Conv2d(1, 8, 3),
    torch.nn.BatchNorm2d(8),
    torch.nn.ReLU(),
    torch.nn.Flatten(),
    torch.nn.Linear(8 * 12 * 12, 64),
    torch.nn.ReLU(),
    torch.nn.Linear(64, 10),
)
parallel = DistributedDataParallel(model, bucket_cap_mb=1)
optimizer = torch.optim.SGD(parallel.parameters(), 0.05, momentum=0.9)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
data = torch.Generator().manual_seed(rank)
for step in range(options.steps):
    inputs = torch.randn(16, 1, 14, 14, generator=data)
    labels = torch.randint(0, 10, (16,), generator=data)
    optimizer.zero_grad()
    with parallel.no_sync():
        torch.nn.functional.cross_entropy(parallel(inputs), labels).backward()
    loss = torch.nn.functional.cross_entropy(parallel(inputs.flip(0)), labels.flip(0))
    loss.backward()
    torch.nn.utils.clip_grad_norm_(parallel.parameters(), 1.0)
    optimizer.step()
    scheduler.step()

losses = [None] * dist.get_world_size()
dist.all_gather_object(losses, round(float(loss), 3))
checkpoint = [model.state_dict() if rank == 0 else None]
dist.broadcast_object_list(checkpoint, 0)
model.load_state_dict(checkpoint[0])
digest = hashlib.sha256(b"".join(one.detach().numpy().tobytes() for one in model.parameters()))
print(f"rank {os.environ['RANK']}: parameters {digest.hexdigest()[:16]}, losses {losses}")
dist.destroy_process_group()

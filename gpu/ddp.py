"""One rank of a small data-parallel training with PyTorch: linked NCCL, calls that PyTorch makes of itself."""

import hashlib
import json
import os
import sys

import torch
import torch.distributed as dist

STEPS = 10


def main():
    with open(sys.argv[1]) as file:
        plan = json.load(file)
    rank = int(os.environ["RANK"])
    torch.cuda.set_device(0)
    store = "file://" + os.path.join(plan["dir"], "store")
    dist.init_process_group("nccl", init_method=store, rank=rank, world_size=plan["n_ranks"])
    torch.manual_seed(7)
    model = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 16)).cuda()
    parallel = torch.nn.parallel.DistributedDataParallel(model, device_ids=[0], bucket_cap_mb=1)
    buckets = [0]

    def count(_, bucket):
        buckets[0] += 1
        work = dist.all_reduce(bucket.buffer().div_(plan["n_ranks"]), async_op=True)
        return work.get_future().then(lambda done: done.value()[0])

    parallel.register_comm_hook(None, count)
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.01)
    torch.manual_seed(rank)
    for _ in range(STEPS):
        optimizer.zero_grad()
        parallel(torch.randn(32, 256, device="cuda")).square().mean().backward()
        optimizer.step()
    torch.cuda.synchronize()
    content = b"".join(parameter.detach().cpu().numpy().tobytes() for parameter in model.parameters())
    report = {
        "rank": rank,
        "nccl_version": version(),
        "parameters": hashlib.sha256(content).hexdigest(),
        "buckets": buckets[0],
        "issued": {},
        "captured": {},
        "wrong": [],
        "n_verified": 1,
        "not_run": [],
    }
    path = os.path.join(plan["dir"], "rank-%d.json" % rank)
    with open(path + ".new", "w") as file:
        json.dump(report, file)
    os.rename(path + ".new", path)
    sys.stdin.read()
    dist.destroy_process_group()


def version():
    major, minor, patch = torch.cuda.nccl.version()[:3]
    return major * 10000 + minor * 100 + patch


main()

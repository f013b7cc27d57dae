"""One rank of PyTorch that meets a hang: the last rank misses an all-reduce, and the watchdog of the others ends them."""

import datetime
import json
import os
import sys

import torch
import torch.distributed as dist

WATCHDOG_S = 8
# Behind the call that hangs. NCCL takes some 26 ms of each to abort it.
CALLS = 100


def main():
    with open(sys.argv[1]) as file:
        plan = json.load(file)
    rank = int(os.environ["RANK"])
    torch.cuda.set_device(0)
    store = "file://" + os.path.join(plan["dir"], "store")
    timeout = datetime.timedelta(seconds=WATCHDOG_S)
    dist.init_process_group("nccl", init_method=store, rank=rank, world_size=plan["n_ranks"], timeout=timeout)
    tensor = torch.ones(1024, device="cuda")
    dist.all_reduce(tensor)
    torch.cuda.synchronize()
    path = os.path.join(plan["dir"], "rank-%d.json" % rank)
    with open(path + ".new", "w") as file:
        json.dump({"rank": rank}, file)
    os.rename(path + ".new", path)
    if rank == plan["n_ranks"] - 1:
        sys.stdin.read()
        os._exit(0)
    for _ in range(CALLS):
        dist.all_reduce(tensor)
    torch.cuda.synchronize()


main()

"""What Horovod has and this package has not, and what to use in its place."""

from __future__ import annotations

from typing import Dict

COLLECTIVES = "use ringscope_engine.collective, or torch.distributed with the backend rsccl"
BUILT = "leave the question out: the library has one transport of its own, for CPUs and GPUs"

INSTEAD: Dict[str, str] = {
    "Adasum": "use op=Average",
    "Min": COLLECTIVES,
    "Max": COLLECTIVES,
    "Product": COLLECTIVES,
    "allgather": COLLECTIVES,
    "allgather_async": COLLECTIVES,
    "grouped_allgather": COLLECTIVES,
    "allgather_object": "use torch.distributed.all_gather_object, or broadcast_object from each worker",
    "alltoall": COLLECTIVES,
    "alltoall_async": COLLECTIVES,
    "reducescatter": COLLECTIVES,
    "reducescatter_async": COLLECTIVES,
    "grouped_reducescatter": COLLECTIVES,
    "sparse_allreduce_async": "give the layer's parameters to DistributedOptimizer, which sends sparse gradients",
    "join": "give all workers as many batches, for all take the same steps; RSUM_ASYNC=1 is for those that do not",
    "elastic": "use RSUM_ON_LOSS=continue and resume(), see docs/survive.md",
    "SyncBatchNorm": "use torch.nn.SyncBatchNorm over torch.distributed with the backend rsccl",
    "cross_rank": "use rank() // local_size(), where hosts have as many workers each",
    "cross_size": "use size() // local_size(), where hosts have as many workers each",
    "is_homogeneous": "compare local_size() of all workers, by broadcast_object",
    "ProcessSet": "use torch.distributed.new_group with the backend rsccl, for a part of the workers",
    "add_process_set": "use torch.distributed.new_group with the backend rsccl, for a part of the workers",
    "global_process_set": "leave it out: sums are of all workers",
    "start_timeline": "set RSUM_TIMELINE to a folder, see engine/README.md; or run the script under `ringscope run`",
    "stop_timeline": "leave it out: RSUM_TIMELINE is for the whole run",
    "mpi_threads_supported": "leave the question out: calls from several threads are supported, and there is no MPI",
    "mpi_enabled": BUILT,
    "mpi_built": BUILT,
    "gloo_enabled": BUILT,
    "gloo_built": BUILT,
    "nccl_built": BUILT,
    "ddl_built": BUILT,
    "ccl_built": BUILT,
    "cuda_built": BUILT,
    "rocm_built": BUILT,
}


def refuse(module: str, name: str) -> AttributeError:
    """The error for a name that the module has not."""
    text = f"module {module!r} has no attribute {name!r}"
    return AttributeError(f"{text}, which Horovod has: {INSTEAD[name]}" if name in INSTEAD else text)

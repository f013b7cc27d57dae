"""A group of torch.distributed over communicators of librsccl.so.

Collectives of a group run on one communicator, in the order of the calls. Sends and receives have one of their own for each
two ranks and direction, so that a send which waits for its receiver holds up nothing else.
"""

from __future__ import annotations

import hashlib
import weakref
from datetime import timedelta
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch
import torch.distributed as dist

from .._errors import Error
from .._library import collective_call, collective_error, function
from . import _tensors
from ._calls import Told, in_words
from ._lane import Lane, Meeting
from ._names import name_of
from ._sparse import sum_into
from ._tensors import BYTES, Places, Written, numbers, reducible, reduction_of, same
from ._work import Failure, Work

# A function of the library, and its arguments but communicator and stream.
Calls = List[Tuple[str, Tuple[Any, ...]]]
Base: Any = getattr(dist, "ProcessGroup")

# PyTorch's word for a call without a time-out of its own.
_UNSET = dist.AllreduceOptions().timeout


class ProcessGroup(Base):  # type: ignore[misc]
    """One group, of which this process is a member."""

    def __init__(
        self,
        store: Any,
        rank: int,
        size: int,
        timeout: timedelta,
        number: str = "",
        global_ranks: Sequence[int] = (),
    ) -> None:
        """`number` is what PyTorch calls the group; `global_ranks` are its members, none: all ranks of the job."""
        super().__init__(rank, size)
        self._store, self._rank, self._size = store, rank, size
        self._timeout_s = timeout.total_seconds()
        self._number, self._description, self._global_ranks = number, "", list(global_ranks)
        # A store may still have the ids of another group of this name, of the same members or of others.
        named = ",".join(map(str, self._global_ranks or range(size)))
        self._members = hashlib.sha256(named.encode()).hexdigest()[:16]
        self._generation = store.add(f"rsccl/{self._members}/{rank}", 1)
        self._told = Told(store, f"rsccl/{self._members}/{self._generation}/called", rank)
        self._lanes: Dict[Optional[Tuple[int, int]], Lane] = {}
        self._n_calls = 0
        self._closing = weakref.finalize(self, _close, self._lanes)

    def getBackendName(self) -> str:  # noqa: N802  PyTorch's name
        """The name that it is registered under."""
        return "rsccl"

    def name(self) -> str:
        """The same."""
        return "rsccl"

    def rank(self) -> int:
        """Number of this process in the group."""
        return self._rank

    def size(self) -> int:
        """Number of processes in the group."""
        return self._size

    def getGroupName(self) -> str:  # noqa: N802
        """PyTorch's name of the group: a number, or the hash of its members."""
        return self._number

    def setGroupName(self, name: str) -> None:  # noqa: N802
        """What PyTorch calls it from now on."""
        self._number = name

    def getGroupDesc(self) -> str:  # noqa: N802
        """What the group is for, in the program's words."""
        return self._description

    def setGroupDesc(self, description: str) -> None:  # noqa: N802
        """What the group is for; communicators that are made later are named by it."""
        self._description = description

    # PyTorch's C++ asks by these names, its Python by the others.
    getRank, getSize = rank, size  # noqa: N815

    def _get_backend(self, device: Any) -> "ProcessGroup":
        return self

    @property
    def supports_coalescing(self) -> bool:
        """Whether calls have to be put together for it: sends and receives need not."""
        return False

    @property
    def supports_splitting(self) -> bool:
        """Whether a communicator is split for a new group: each is made anew."""
        return False

    def _set_sequence_number_for_group(self) -> None:
        self._n_calls = 0

    def _get_sequence_number_for_group(self) -> int:
        return self._n_calls

    def set_timeout(self, timeout: timedelta) -> None:
        """How long a wait of this group lasts at most."""
        self._timeout_s = timeout.total_seconds()

    _set_default_timeout = set_timeout

    def shutdown(self) -> None:
        """Destroys the communicators; what is under way fails."""
        self._closing()

    def abort(self) -> None:
        """Ends what is under way, also on the other ranks."""
        for lane in list(self._lanes.values()):
            lane.abort(Error(f"{lane.name} was aborted"))

    # Collectives

    def allreduce(self, tensors: List[torch.Tensor], opts: Any = None) -> Any:
        """Each tensor becomes the reduction of all ranks' ones."""
        tensor = self._checked_one(tensors, "allreduce")
        if tensor.layout != torch.strided:
            op = dist.ReduceOp.SUM if opts is None else opts.reduceOp
            return self._allreduce_sparse(tensor, op, opts)
        return self._allreduce(tensors, opts)

    def allreduce_coalesced(self, tensors: List[torch.Tensor], opts: Any = None) -> Any:
        """The same of several tensors of one type, at once."""
        self._check_some(tensors, "allreduce_coalesced")
        for index, tensor in enumerate(tensors):
            if tensor.layout != torch.strided:
                raise RuntimeError(f"rsccl: allreduce_coalesced: tensor {index} is {tensor.layout}: take all_reduce for it alone")
        return self._allreduce(tensors, opts)

    def _allreduce(self, tensors: List[torch.Tensor], opts: Any) -> Any:
        op = dist.ReduceOp.SUM if opts is None else opts.reduceOp
        reduction, written, calls = reduction_of(op, tensors[0].dtype), self._written(opts), []
        if reduction.fold is not None:
            own = list(tensors)
            return self._fold("all_reduce", own, reduction.fold, lambda at, total: own[at].copy_(total), tensors, written, opts)
        for tensor in tensors:
            at = written.into(tensor, is_read=True, dtype=reducible(tensor))
            calls.append(("ncclAllReduce", (at.address, at.address, *numbers(at), reduction.code)))
        return self._run("all_reduce", calls, tensors, written, opts)

    def reduce(self, tensors: List[torch.Tensor], opts: Any) -> Any:
        """The reduction of all ranks' tensors, which the root's becomes; the others' stay as they are."""
        tensor = self._checked_one(tensors, "reduce")
        root = self._checked(opts.rootRank, "reduce")
        reduction, written = reduction_of(opts.reduceOp, tensor.dtype), self._written(opts)
        if reduction.fold is not None:

            def put(_: int, total: torch.Tensor) -> None:
                if self._rank == root:
                    tensor.copy_(total)

            return self._fold("reduce", [tensor], reduction.fold, put, tensors, written, opts)
        wider = reducible(tensor)
        at = written.into(tensor, is_read=True, dtype=wider) if self._rank == root else written.reads(tensor, wider)
        arguments = (at.address, at.address, *numbers(at), reduction.code, root)
        return self._run("reduce", [("ncclReduce", arguments)], tensors, written, opts)

    def broadcast(self, tensors: List[torch.Tensor], opts: Any) -> Any:
        """Each tensor becomes what it is on the root."""
        self._check_some(tensors, "broadcast")
        root, written, calls = self._checked(opts.rootRank, "broadcast"), self._written(opts), []
        for tensor in tensors:
            at = written.into(tensor, is_read=True) if root != self._rank else written.reads(tensor)
            calls.append(("ncclBroadcast", (at.address, at.address, at.n_bytes, BYTES, root)))
        return self._run("broadcast", calls, tensors, written, opts)

    def allgather(self, outputs: List[List[torch.Tensor]], inputs: List[torch.Tensor], opts: Any = None) -> Any:
        """All ranks' tensors, in the order of the ranks; they may be of different lengths."""
        if len(outputs) != len(inputs):
            raise ValueError("rsccl: allgather: requires as many lists of outputs as inputs")
        written, calls = self._written(opts), []
        for into, own in zip(outputs, inputs):
            if len(into) != self._size:
                raise ValueError(f"rsccl: allgather: invalid output tensor list (expected {self._size} tensors, got {len(into)})")
            same([own, *into], "allgather")
            if into[self._rank].numel() != own.numel():
                raise ValueError(
                    f"rsccl: allgather: invalid tensor size at index {self._rank} (expected {tuple(own.shape)}, got {tuple(into[self._rank].shape)})"
                )
            calls += self._gathers(into, own, written)
        return self._run("all_gather", calls, [one for into in outputs for one in into], written, opts, outputs)

    def _gathers(self, into: List[torch.Tensor], own: torch.Tensor, written: Written) -> Calls:
        source = written.reads(own)
        if all(tensor.numel() == own.numel() for tensor in into):
            start = _tensors.one_after_another(into)
            is_in_place = start is not None and source.address == start + self._rank * source.n_bytes
            if start is not None and (is_in_place or not Places([source]).have(start, self._size * source.n_bytes)):
                for tensor in into:
                    written.comes_after(tensor, is_copied=False)
            else:
                whole = torch.empty((self._size, own.numel()), dtype=own.dtype, device="cpu")
                written.hold(whole)
                start = whole.data_ptr()
                for tensor, values in zip(into, whole):
                    written.through(tensor, values)
            return [("ncclAllGather", (source.address, start, source.n_bytes, BYTES))]
        calls: Calls = []
        elsewhere = Places([source])
        for root, tensor in enumerate(into):
            at = written.into(tensor, beside=elsewhere if root != self._rank else None)
            sent = source.address if root == self._rank else at.address
            calls.append(("ncclBroadcast", (sent, at.address, at.n_bytes, BYTES, root)))
        return calls

    def all_gather_single(self, output: torch.Tensor, own: torch.Tensor, opts: Any = None) -> Any:
        """All ranks' tensors one behind the other in `output`."""
        return self.all_gather_single_coalesced([output], [own], opts)

    def all_gather_single_coalesced(self, outputs: List[torch.Tensor], inputs: List[torch.Tensor], opts: Any = None) -> Any:
        """The same of several tensors at once."""
        written, calls = self._written(opts), []
        for output, own in zip(outputs, inputs):
            same([output, own], "all_gather_single")
            if output.numel() != own.numel() * self._size:
                raise ValueError(
                    f"rsccl: output tensor size must be equal to world_size times input tensor size: {output.numel()} elements for "
                    f"{self._size} of {own.numel()}"
                )
            source = written.reads(own)
            is_in_place = source.address == output.data_ptr() + self._rank * source.n_bytes
            at = written.into(output, beside=None if is_in_place else Places([source]))
            calls.append(("ncclAllGather", (source.address, at.address, source.n_bytes, BYTES)))
        return self._run("all_gather_into_tensor", calls, outputs, written, opts)

    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def allgather_coalesced(self, outputs: List[List[torch.Tensor]], inputs: List[torch.Tensor], opts: Any = None) -> Any:
        """`allgather` of several tensors at once: a list of each rank's ones."""
        if len(outputs) != self._size or any(len(of_rank) != len(inputs) for of_rank in outputs):
            raise ValueError(f"rsccl: allgather_coalesced: requires {self._size} lists of {len(inputs)} outputs")
        by_tensor = [[of_rank[index] for of_rank in outputs] for index in range(len(inputs))]
        return self.allgather(by_tensor, inputs, opts)

    def reduce_scatter(self, outputs: List[torch.Tensor], inputs: List[List[torch.Tensor]], opts: Any) -> Any:
        """The reduction of all ranks' list, of which each rank gets the tensor of its number."""
        if len(outputs) != len(inputs) or any(len(parts) != self._size for parts in inputs):
            raise ValueError(f"rsccl: reduce_scatter: invalid input tensor list: it needs {self._size} tensors for each output")
        if any(part.numel() != own.numel() for own, parts in zip(outputs, inputs) for part in parts):
            raise ValueError("rsccl: reduce_scatter: inputs and output must have the same number of elements")
        whole, written = [], self._written(opts)
        for own, parts in zip(outputs, inputs):
            same([own, *parts], "reduce_scatter")
            if _tensors.are_of_one_storage(parts) and _tensors.one_after_another(parts) is not None:
                whole.append(_as_one(parts))
                continue
            for part in parts:
                written.comes_after(part, is_copied=True)
            whole.append(torch.cat([part.reshape(-1) for part in parts]))
        return self._reduce_scatters(outputs, whole, written, opts)

    def reduce_scatter_single(self, output: torch.Tensor, whole: torch.Tensor, opts: Any) -> Any:
        """The reduction of all ranks' tensor, of which each rank gets the part of its number."""
        return self.reduce_scatter_single_coalesced([output], [whole], opts)

    def reduce_scatter_single_coalesced(self, outputs: List[torch.Tensor], inputs: List[torch.Tensor], opts: Any) -> Any:
        """The same of several tensors at once."""
        for output, whole in zip(outputs, inputs):
            same([output, whole], "reduce_scatter_single")
            if whole.numel() != output.numel() * self._size:
                raise ValueError(
                    f"rsccl: input tensor must be the same size as output size times world size: {whole.numel()} elements for "
                    f"{self._size} of {output.numel()}"
                )
        return self._reduce_scatters(outputs, inputs, self._written(opts), opts)

    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def _reduce_scatters(self, outputs: List[torch.Tensor], inputs: List[torch.Tensor], written: Written, opts: Any) -> Any:
        calls: Calls = []
        reduction = reduction_of(opts.reduceOp, outputs[0].dtype)
        if reduction.fold is not None:

            def put(at: int, total: torch.Tensor) -> None:
                outputs[at].copy_(total.reshape(self._size, -1)[self._rank].view(outputs[at].shape))

            return self._fold("reduce_scatter", inputs, reduction.fold, put, outputs, written, opts)
        for output, whole in zip(outputs, inputs):
            source, at = written.reads(whole, reducible(whole)), written.into(output, dtype=reducible(output))
            arguments = (source.address, at.address, *numbers(at), reduction.code)
            calls.append(("ncclReduceScatter", arguments))
        return self._run("reduce_scatter", calls, outputs, written, opts)

    def gather(self, outputs: List[List[torch.Tensor]], inputs: List[torch.Tensor], opts: Any) -> Any:
        """All ranks' tensors on the root."""
        own, root, written = self._checked_one(inputs, "gather"), self._checked(opts.rootRank, "gather"), self._written(opts)
        source = written.reads(own)
        if self._rank != root:
            if outputs:
                raise ValueError("rsccl: gather: requires empty output on non-root")
            return self._run("gather", _sends([(root, source)]), [], written, opts)
        if len(outputs) != 1 or len(outputs[0]) != self._size:
            raise ValueError(f"rsccl: gather: invalid output: it needs one list of {self._size} tensors")
        self._alike(own, outputs[0], "gather")
        elsewhere = Places([source])
        into = [written.into(tensor, beside=elsewhere if rank != root else None) for rank, tensor in enumerate(outputs[0])]
        calls = _sends([(root, source)]) + _recvs(enumerate(into))
        return self._run("gather", calls, outputs[0], written, opts, outputs)

    def scatter(self, outputs: List[torch.Tensor], inputs: List[List[torch.Tensor]], opts: Any) -> Any:
        """Each rank gets the tensor of its number in the root's list."""
        own, root, written = self._checked_one(outputs, "scatter"), self._checked(opts.rootRank, "scatter"), self._written(opts)
        sources: List[_tensors.Memory] = []
        if self._rank == root:
            if len(inputs) != 1 or len(inputs[0]) != self._size:
                raise ValueError(f"rsccl: scatter: invalid input: it needs one list of {self._size} tensors")
            self._alike(own, inputs[0], "scatter")
            sources = [written.reads(tensor) for tensor in inputs[0]]
        elif inputs:
            raise ValueError("rsccl: scatter: requires empty input on non-root")
        at = written.into(own, beside=Places(sources[:root] + sources[root + 1 :]))
        return self._run("scatter", _recvs([(root, at)]) + _sends(enumerate(sources)), outputs, written, opts)

    def all_to_all_single(
        self,
        output: torch.Tensor,
        whole: torch.Tensor,
        output_sizes: List[int],
        input_sizes: List[int],
        opts: Any = None,
    ) -> Any:
        """Part i goes to rank i, and rank i's part for this one comes: equal parts, or so many rows of the first dimension."""
        same([output, whole], "all_to_all_single")
        written = self._written(opts)
        source = written.reads(whole)
        at = written.into(output, beside=Places([source]))
        if not output_sizes and not input_sizes:
            if source.n_bytes != at.n_bytes or (whole.dim() and whole.size(0) % self._size):
                raise ValueError(
                    f"rsccl: all_to_all_single: Tensor's dim 0 does not divide equally across group size: {tuple(whole.shape)} to "
                    f"{tuple(output.shape)} among {self._size} ranks"
                )
            arguments = (source.address, at.address, source.n_bytes // self._size, BYTES)
            return self._run("all_to_all", [("ncclAlltoAll", arguments)], [output], written, opts)
        sent = self._split(whole, input_sizes, source)
        received = self._split(output, output_sizes, at)
        return self._run("all_to_all", _sends(sent) + _recvs(received), [output], written, opts)

    alltoall_base = all_to_all_single

    def alltoall(self, outputs: List[torch.Tensor], inputs: List[torch.Tensor], opts: Any = None) -> Any:
        """The same with a tensor for each rank."""
        if len(outputs) != self._size or len(inputs) != self._size:
            raise ValueError(f"rsccl: all_to_all: requires {self._size} tensors in each list")
        same([*outputs, *inputs], "all_to_all")
        written = self._written(opts)
        sources = [written.reads(one) for one in inputs]
        places = Places(sources)
        into = [written.into(one, beside=places) for one in outputs]
        calls = _sends(enumerate(sources)) + _recvs(enumerate(into))
        return self._run("all_to_all", calls, outputs, written, opts)

    def barrier(self, opts: Any = None) -> Any:
        """Over once all ranks have come."""
        one, written = torch.zeros(1, dtype=torch.uint8, device="cpu"), self._written(opts)
        written.hold(one)
        arguments = (one.data_ptr(), one.data_ptr(), 1, BYTES, _tensors.MAX)
        return self._run("barrier", [("ncclAllReduce", arguments)], [], written, opts)

    # Sends and receives

    def send(self, tensors: List[torch.Tensor], peer: int, tag: int = 0) -> Any:
        """Sends to a rank of the group. Messages between two ranks arrive in the order in which they were sent, whatever
        their tags."""
        tensor = self._checked_one(tensors, "send")
        self._other(peer, "send")
        lane = self._pair(self._rank, peer)
        written = Written(lane, lambda: self._timeout_s)
        calls = _sends([(1, written.reads(tensor))])
        return self._on(lane, lambda: in_words(f"send to rank {peer}", tensors, None), calls, written, tensors)

    def recv(self, tensors: List[torch.Tensor], peer: int, tag: int = 0) -> Any:
        """Receives from a rank of the group."""
        tensor = self._checked_one(tensors, "recv")
        self._other(peer, "recv")
        lane = self._pair(peer, self._rank)
        written = Written(lane, lambda: self._timeout_s)
        calls = _recvs([(0, written.into(tensor))])
        return self._on(lane, lambda: in_words(f"recv from rank {peer}", tensors, None), calls, written, tensors, source=peer)

    def recv_anysource(self, tensors: List[torch.Tensor], tag: int = 0) -> Any:
        """Refused, as by NCCL."""
        raise NotImplementedError("rsccl: recv() needs a source: the library, as NCCL, receives from a rank that is named")

    # What the above is made of

    def _run(
        self,
        what: str,
        calls: Calls,
        tensors: List[torch.Tensor],
        written: Written,
        opts: Any,
        result: Any = None,
    ) -> Any:
        self._n_calls += 1
        shown = tensors if result is None else result
        written.hold(*tensors)
        number = self._n_calls

        def words() -> str:
            return f"{in_words(what, tensors, opts)}, call {number}"

        return self._on(self._lane(None), words, calls, written, shown, opts=opts)

    def _on(
        self,
        lane: Lane,
        what: Callable[[], str],
        calls: Calls,
        written: Written,
        result: Any,
        *,
        opts: Any = None,
        source: int = -1,
    ) -> Any:
        try:
            ticket = lane.submit(_as_one_call(calls), written.held)
        except Error as error:
            raise Failure(f"rsccl: {what()} of {lane.name}: {error}") from error
        # Not this group itself, which would live as long as its works.
        rank, size, told = self._rank, self._size, self._told
        is_of_all = lane is self._lanes.get(None)

        def words() -> str:
            return f"{what()} of {lane.name} (rank {rank} of {size})"

        def explained(error: str) -> str:
            return told.explained(error, what()) if is_of_all else error

        finish = written.finish()
        if finish is None:
            work = Work(words, [ticket], result, self._limit_s(opts), source=source, explained=explained)
        else:
            work = Work(words, [ticket], result, self._limit_s(opts), finish, source, written.puts_into(), explained)
            # Those that are over need not be kept for somebody who may never wait for them.
            lane.put_back()
            lane.unput.append(work)
        return work.for_caller()

    def _written(self, opts: Any) -> Written:
        return Written(self._lane(None), lambda: self._limit_s(opts))

    def _limit_s(self, opts: Any) -> float:
        given = getattr(opts, "timeout", None)
        if given is None or given == _UNSET:
            return self._timeout_s
        seconds: float = given.total_seconds()
        return seconds if seconds > 0 else self._timeout_s

    def _lane(self, pair: Optional[Tuple[int, int]]) -> Lane:
        lane = self._lanes.get(pair)
        if lane is None:
            lane = self._lanes[pair] = self._new_lane(pair)
        return lane

    def _pair(self, source: int, target: int) -> Lane:
        return self._lane((source, target))

    def _new_lane(self, pair: Optional[Tuple[int, int]]) -> Lane:
        description = self._description
        words = "" if pair is None else f"{self._of_job(pair[0])}>{self._of_job(pair[1])}"
        is_world = not self._global_ranks or description == "default_pg"
        name = name_of(description, self._number, self._global_ranks, is_world=is_world, pair=words)
        size, rank = (self._size, self._rank) if pair is None else (2, pair.index(self._rank))
        key = f"rsccl/{self._members}/{self._generation}/{'all' if pair is None else f'{pair[0]}>{pair[1]}'}"
        return Lane(name, size, rank, Meeting(self._store, key))

    def _of_job(self, rank: int) -> int:
        return self._global_ranks[rank] if self._global_ranks else rank

    def _fold(
        self,
        what: str,
        contributions: List[torch.Tensor],
        fold: Any,
        put: Callable[[int, torch.Tensor], None],
        result: List[torch.Tensor],
        written: Written,
        opts: Any,
    ) -> Any:
        """Gathers all ranks' contributions, folds them in the order of the ranks, and `put`s what becomes of each of them."""
        calls: Calls = []
        gathered: List[torch.Tensor] = []
        for own in contributions:
            source = written.reads(own)
            whole = torch.empty((self._size, *own.shape), dtype=own.dtype, device="cpu")
            calls.append(("ncclAllGather", (source.address, whole.data_ptr(), source.n_bytes, BYTES)))
            written.hold(whole)
            gathered.append(whole)

        def finish() -> None:
            for index, whole in enumerate(gathered):
                put(index, _folded(whole, fold))

        written.at_end(result, finish)
        return self._run(what, calls, contributions, written, opts, result)

    def _allreduce_sparse(self, tensor: torch.Tensor, op: Any, opts: Any) -> Any:
        """Waits, for what is sent depends on how many values each rank has."""
        if op != dist.ReduceOp.SUM:
            raise RuntimeError("rsccl: sparse tensors are summed: unsupported reduction operation")
        if tensor.layout != torch.sparse_coo:
            raise RuntimeError(f"rsccl: all_reduce: unsupported layout {tensor.layout}: take a dense tensor, or a sparse COO one")
        sum_into(tensor, self._size, lambda into, own: self.allgather([into], [own], opts).wait())
        return Work(lambda: "all_reduce of sparse tensors", self._lane(None).finished(), [tensor], None).for_caller()

    def _split(self, tensor: torch.Tensor, sizes: List[int], memory: _tensors.Memory) -> List[Tuple[int, _tensors.Memory]]:
        rows = tensor.size(0) if tensor.dim() else 1
        if not sizes:
            if rows % self._size:
                raise ValueError(
                    f"rsccl: all_to_all_single: Tensor's dim 0 does not divide equally across group size: {rows} rows for {self._size} ranks"
                )
            sizes = [rows // self._size] * self._size
        if len(sizes) != self._size or sum(sizes) != rows:
            raise ValueError(
                f"rsccl: all_to_all_single: Split sizes doesn't match total dim 0 size: {list(sizes)} for {rows} rows and {self._size} ranks"
            )
        row_bytes = memory.n_bytes // max(rows, 1)
        parts, at = [], memory.address
        for rank, n_rows in enumerate(sizes):
            parts.append((rank, _tensors.Memory(memory.tensor, at, 0, n_rows * row_bytes)))
            at += n_rows * row_bytes
        return parts

    def _checked_one(self, tensors: Sequence[torch.Tensor], what: str) -> torch.Tensor:
        if len(tensors) != 1:
            raise ValueError(f"rsccl: {what}: requires a single-element tensor list, not {len(tensors)} tensors")
        return tensors[0]

    def _check_some(self, tensors: Sequence[torch.Tensor], what: str) -> None:
        if not tensors:
            raise ValueError(f"rsccl: {what}: requires non-empty tensor list")
        same(tensors, what)

    def _alike(self, own: torch.Tensor, others: Sequence[torch.Tensor], what: str) -> None:
        same([own, *others], what)
        for rank, other in enumerate(others):
            if other.numel() != own.numel():
                raise ValueError(
                    f"rsccl: {what}: invalid tensor size at index {rank} (expected {tuple(own.shape)}, got {tuple(other.shape)})"
                )

    def _checked(self, rank: int, what: str) -> int:
        if not 0 <= rank < self._size:
            raise ValueError(f"rsccl: {what}: invalid root rank: {rank} of {self._size}")
        return rank

    def _other(self, peer: int, what: str) -> None:
        self._checked(peer, what)
        if peer == self._rank:
            raise ValueError(f"rsccl: {what}: rank {peer} is this process itself: copy the tensor instead")


def _sends(parts: Any) -> Calls:
    return [("ncclSend", (memory.address, memory.n_bytes, BYTES, rank)) for rank, memory in parts]


def _recvs(parts: Any) -> Calls:
    return [("ncclRecv", (memory.address, memory.n_bytes, BYTES, rank)) for rank, memory in parts]


def _as_one(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """Tensors that lie one behind the other, as one."""
    whole: torch.Tensor = parts[0].detach().as_strided((sum(part.numel() for part in parts),), (1,))
    return whole


def _as_one_call(calls: Calls) -> Callable[[Any, Any], None]:
    if len(calls) == 1:
        ((name, arguments),) = calls
        return lambda comm, stream: collective_call(name, *arguments, comm, stream)

    def grouped(comm: Any, stream: Any) -> None:
        collective_call("ncclGroupStart")
        try:
            for name, arguments in calls:
                collective_call(name, *arguments, comm, stream)
        finally:
            code = function("ncclGroupEnd")()
        if code != 0:
            raise collective_error("ncclGroupEnd", code)

    return grouped


def _folded(gathered: torch.Tensor, fold: Any) -> torch.Tensor:
    total: torch.Tensor = gathered[0].clone()
    for contribution in gathered[1:]:
        total = fold(total, contribution)
    return total


def _close(lanes: Dict[Any, Lane]) -> None:
    for lane in list(lanes.values()):
        lane.close()
    lanes.clear()

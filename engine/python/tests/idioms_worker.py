"""What training scripts do with an optimizer, each as a few steps that one process can take as well, with all workers' data.

An idiom is a generator: it makes a model and an optimizer and says `yield model`, then again after each step. `Run` is what it
runs on: a worker of a job, or one process in place of all of them, or one that is a worker of asynchronous sums alone.
"""

import contextlib
import copy
import hashlib
import json
import os
import pickle
from typing import Any, Callable, Dict, Iterator, List, Optional

import ringscope_engine.torch as bps
import torch
from ringscope_engine import Error
from torch.utils.checkpoint import checkpoint

STEPS, RATE = 4, 0.125
# A weight of 64 KiB, from which on codecs encode.
WIDTH = 128
Idiom = Iterator[torch.nn.Module]
Loss = Callable[[int, int], torch.Tensor]


class Run:
    """A training of `n_workers`; of one of them, `rank`, where that is not None; with the library, or without."""

    def __init__(self, name: str, n_workers: int, rank: Optional[int], is_distributed: bool) -> None:
        self.name, self.n_workers, self.rank, self.is_distributed = name, n_workers, rank, is_distributed
        self.is_asynchronous = os.environ.get("RSUM_ASYNC") == "1"
        self.passes = int(os.environ.get("PASSES", "1"))
        self.optimizers: List[Any] = []
        # In one process: what each worker's passes have added up to, by parameter.
        self._own: List[Dict[torch.Tensor, torch.Tensor]] = [{} for _ in range(n_workers)]

    def wrap(self, optimizer: torch.optim.Optimizer, *models: torch.nn.Module, prefix: str = "") -> Any:
        """The optimizer of a script that runs on several workers."""
        self.models = models
        if self.is_distributed:
            named = [(f"{self.name}.{prefix}{name}", one) for model in models for name, one in model.named_parameters()]
            codec = os.environ.get("CODEC", "none")
            compression = bps.Compression.topk(0.5) if codec == "top-k" else codec
            wrapped = bps.DistributedOptimizer(optimizer, named, compression, self.passes)
            self.optimizers.append(wrapped)
            return wrapped
        optimizer.synchronize = lambda: None
        optimizer.skip_synchronize = optimizer.no_sync = contextlib.nullcontext
        return optimizer

    def zero(self, optimizer: Any, *settings: bool) -> None:
        """As a script does before it computes gradients."""
        optimizer.zero_grad(*settings)
        self._own = [{} for _ in range(self.n_workers)]

    def zero_to_none(self, optimizer: Any) -> None:
        """The same, so that there are no gradients."""
        self.zero(optimizer, True)

    def backward(self, loss_of: Loss) -> None:
        """`loss_of(rank, number of the pass).backward()`, so often as gradients are accumulated."""
        for number in range(self.passes):
            if self.rank is not None:
                loss_of(self.rank, number).backward()
                continue
            parameters = [parameter for model in self.models for parameter in model.parameters()]
            for rank, own in enumerate(self._own):
                for parameter in parameters:
                    parameter.grad = own.get(parameter)
                loss_of(rank, number).backward()
                own.update((one, one.grad) for one in parameters if one.grad is not None)
        if self.rank is None:
            self._average(parameters)

    def _average(self, parameters: List[torch.Tensor]) -> None:
        """As the services do: in the order of the workers, and who has none contributes zeros."""
        for parameter in parameters:
            tables = [own[parameter] for own in self._own if parameter in own and own[parameter].is_sparse]
            if tables:
                parameter.grad = self._average_of_rows(parameter, tables)
                continue
            total = torch.zeros_like(parameter) if parameter.requires_grad else None
            for number, own in enumerate(self._own):
                part = own.get(parameter, torch.zeros_like(parameter))
                if total is not None:
                    total = part.clone() if number == 0 else total + part
            parameter.grad = None if total is None else total / self.n_workers

    def _average_of_rows(self, parameter: torch.Tensor, tables: List[torch.Tensor]) -> torch.Tensor:
        """The same of the rows that anybody has touched."""
        total, nothing = None, torch.zeros_like(parameter)
        for own in self._own:
            part = own[parameter].to_dense() if parameter in own else nothing
            total = part if total is None else total + part
        rows = torch.cat([table.coalesce().indices() for table in tables], dim=1).unique(dim=1)
        return torch.sparse_coo_tensor(rows, (total / self.n_workers)[rows[0]], parameter.shape)

    def average_loss(self, losses: Callable[[int], torch.Tensor]) -> torch.Tensor:
        """What a closure returns: a worker's loss, or the average."""
        if self.rank is not None:
            return losses(self.rank)
        every = [float(losses(rank)) for rank in range(self.n_workers)]
        return torch.tensor(sum(every) / self.n_workers)


def layers() -> torch.nn.Sequential:
    torch.manual_seed(7)
    tanh = torch.nn.Tanh()
    return torch.nn.Sequential(
        torch.nn.Linear(6, WIDTH), tanh, torch.nn.Linear(WIDTH, WIDTH), tanh, torch.nn.Linear(WIDTH, 3)
    )


def batch(step: int, rank: int, number: int) -> torch.Tensor:
    return torch.randn(8, 6, generator=torch.Generator().manual_seed(100 * step + 10 * rank + number))


def loss_in(model: Callable[[torch.Tensor], torch.Tensor], step: int) -> Loss:
    return lambda rank, number: model(batch(step, rank, number)).square().mean()


def sgd(model: torch.nn.Module, **settings: float) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=RATE, **settings)


class Scaler:
    """What torch's own is, where that is for GPUs alone."""

    def __init__(self) -> None:
        self._scale, self._is_unscaled, self._is_infinite = 1024.0, False, False

    def scale(self, loss: torch.Tensor) -> torch.Tensor:
        return loss * self._scale

    def unscale_(self, optimizer: torch.optim.Optimizer) -> None:
        every = [one for group in optimizer.param_groups for one in group["params"] if one.grad is not None]
        gradients = [one.grad._values() if one.grad.is_sparse else one.grad for one in every]
        self._is_infinite = any(not bool(torch.isfinite(gradient).all()) for gradient in gradients)
        torch._foreach_mul_(gradients, 1 / self._scale)
        self._is_unscaled = True

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        if not self._is_unscaled:
            self.unscale_(optimizer)
        if not self._is_infinite:
            optimizer.step()

    def update(self) -> None:
        self._scale *= 0.5 if self._is_infinite else 1.0
        self._is_unscaled = self._is_infinite = False


def scaler() -> Any:
    amp = getattr(torch.amp, "GradScaler", None)
    return amp("cpu", init_scale=1024.0, growth_interval=1000) if amp else Scaler()


def scaled(
    run: Run,
    before_step: Callable[[Any, Any, torch.nn.Module], None],
    infinite: bool = False,
    model: Optional[torch.nn.Module] = None,
    loss: Optional[Callable[[int], Loss]] = None,
) -> Idiom:
    model = model or layers()
    optimizer, scale = run.wrap(sgd(model), model), scaler()
    yield model
    for step in range(STEPS):
        loss_of = loss(step) if loss else loss_in(model, step)
        is_infinite = infinite and step == 1

        def scaled_loss(rank: int, number: int) -> torch.Tensor:
            factor = float("inf") if is_infinite and rank == run.n_workers - 1 else 1.0
            return scale.scale(loss_of(rank, number) * factor)

        run.zero(optimizer, loss is not None)
        run.backward(scaled_loss)
        before_step(scale, optimizer, model)
        scale.step(optimizer)
        scale.update()
        yield model


def scaler_plain(run: Run) -> Idiom:
    return scaled(run, lambda *_: None)


def scaler_unscale(run: Run) -> Idiom:
    def before(scale: Any, optimizer: Any, model: torch.nn.Module) -> None:
        scale.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.05)

    return scaled(run, before)


def scaler_synchronized(run: Run) -> Idiom:
    def before(scale: Any, optimizer: Any, model: torch.nn.Module) -> None:
        optimizer.synchronize()
        scale.unscale_(optimizer)

    return scaled(run, before)


def scaler_infinite(run: Run) -> Idiom:
    return scaled(run, lambda *_: None, infinite=True)


def looped(
    run: Run,
    model: torch.nn.Module,
    plain: torch.optim.Optimizer,
    *,
    loss: Callable[[int], Loss] = lambda step: None,
    before_backward: Callable[[int, Any], None] = lambda *_: None,
    before_step: Callable[[int, Any], None] = lambda *_: None,
    after_step: Callable[[int, Any], None] = lambda *_: None,
    zero: Callable[[Any], None] = None,
    wrapped: Callable[[Any], None] = lambda _: None,
) -> Idiom:
    """The loop of a usual script, with what is unusual in it."""
    optimizer = run.wrap(plain, model)
    wrapped(optimizer)
    yield model
    for step in range(STEPS):
        (zero or run.zero)(optimizer)
        before_backward(step, optimizer)
        run.backward(loss(step) or loss_in(model, step))
        before_step(step, optimizer)
        optimizer.step()
        after_step(step, optimizer)
        yield model


def plain(run: Run) -> Idiom:
    model = layers()
    return looped(run, model, sgd(model, momentum=0.5))


def clip_plain(run: Run) -> Idiom:
    model = layers()
    clip = lambda *_: torch.nn.utils.clip_grad_norm_(model.parameters(), 0.05)
    return looped(run, model, sgd(model), before_step=clip)


def clip_synchronized(run: Run) -> Idiom:
    model = layers()

    def clip(_: int, optimizer: Any) -> None:
        optimizer.synchronize()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.05)

    return looped(run, model, sgd(model), before_step=clip)


def skip_synchronize(run: Run) -> Idiom:
    model = layers()
    optimizer = run.wrap(sgd(model), model)
    yield model
    for step in range(STEPS):
        run.zero(optimizer)
        run.backward(loss_in(model, step))
        optimizer.synchronize()
        with optimizer.skip_synchronize():
            optimizer.step()
        yield model


def looked_at_by_one(run: Run) -> Idiom:
    model = layers()

    def look(_: int, optimizer: Any) -> None:
        if run.rank == 0:
            assert float(model[0].weight.grad.norm()) > 0

    return looped(run, model, sgd(model), before_step=look)


def scaled_in_place(run: Run) -> Idiom:
    model = layers()

    def halve(*_: Any) -> None:
        for parameter in model.parameters():
            parameter.grad.mul_(0.5)

    return looped(run, model, sgd(model), before_step=halve)


def replaced(run: Run) -> Idiom:
    model = layers()

    def halve(*_: Any) -> None:
        for parameter in model.parameters():
            parameter.grad = parameter.grad * 0.5

    return looped(run, model, sgd(model), before_step=halve)


def two_backwards(run: Run) -> Idiom:
    model = layers()
    again = lambda step, _: run.backward(loss_in(model, step + 50))
    return looped(run, model, sgd(model), before_step=again)


def no_sync(run: Run) -> Idiom:
    model = layers()

    def held(step: int, optimizer: Any) -> None:
        with optimizer.no_sync():
            run.backward(loss_in(model, step + 50))

    return looped(run, model, sgd(model), before_backward=held)


def unfrozen_later(run: Run) -> Idiom:
    model = layers()
    model[0].requires_grad_(False)

    def unfreeze(step: int, _: Any) -> None:
        if step == 1:
            model[0].requires_grad_(True)

    return looped(run, model, sgd(model), after_step=unfreeze)


def added_group(run: Run) -> Idiom:
    model = layers()

    def add(step: int, optimizer: Any) -> None:
        if step == 1:
            optimizer.add_param_group({"params": [*model[0].parameters()], "lr": RATE / 2})

    return looped(run, model, sgd(torch.nn.Sequential(*model[1:])), after_step=add)


def two_optimizers(run: Run) -> Idiom:
    """Of the same names and shapes, whose losses are computed together."""
    models = [layers(), layers()]
    both = torch.nn.ModuleList(models)
    optimizers = [run.wrap(sgd(model), model) for model in models]
    run.models = models
    yield both
    for step in range(STEPS):
        for optimizer in optimizers:
            run.zero(optimizer)
        run.backward(lambda rank, number: loss_in(lambda x: models[0](x) + models[1](-x), step)(rank, number))
        for optimizer in reversed(optimizers) if step % 2 else optimizers:
            optimizer.step()
        yield both


class Shared(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.first, self.inner, self.last = torch.nn.Linear(6, WIDTH), torch.nn.Linear(WIDTH, WIDTH), torch.nn.Linear(WIDTH, 6)
        self.last.weight = torch.nn.Parameter(self.first.weight.detach().t().contiguous())
        self.again = torch.nn.Linear(WIDTH, WIDTH)
        self.again.weight = self.inner.weight

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.last(self.again(self.inner(self.first(inputs)).tanh()))


def shared_parameter(run: Run) -> Idiom:
    model = Shared()
    return looped(run, model, sgd(model))


def unused_parameter(run: Run) -> Idiom:
    # Named in the middle, so that what comes before it in the order waits.
    before, unused = layers(), torch.nn.Linear(5, 5)
    model = torch.nn.Sequential(*before[:2], unused, *before[2:])
    loss = lambda step: loss_in(lambda inputs: without(model, unused)(inputs), step)
    return looped(run, model, sgd(model), loss=loss)


def without(model: torch.nn.Sequential, unused: torch.nn.Module) -> torch.nn.Sequential:
    return torch.nn.Sequential(*(layer for layer in model if layer is not unused))


def unused_on_some(run: Run) -> Idiom:
    model = layers()
    inner = model[2]
    # Another worker each step.
    uses = lambda step, rank: model if (step + rank) % 2 else without(model, inner)
    loss = lambda step: lambda rank, number: loss_in(uses(step, rank), step)(rank, number)
    clip = lambda *_: torch.nn.utils.clip_grad_norm_(model.parameters(), 0.05)
    return looped(run, model, sgd(model), loss=loss, before_step=clip)


class Table(torch.nn.Module):
    """A table of which a pass uses few rows, others on each worker, and layers behind it."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(11)
        self.table, self.last = torch.nn.Embedding(400, 40, sparse=True), torch.nn.Linear(40, 3)

    def loss(self, step: int) -> Loss:
        def loss_of(rank: int, number: int) -> torch.Tensor:
            # In step 2 the last worker uses none.
            n_rows = 0 if (step, rank) == (2, 1) else 5 + 3 * step + rank
            generator = torch.Generator().manual_seed(100 * step + 10 * rank + number)
            rows = torch.randint(400, (n_rows,), generator=generator)
            # Some of them twice, and one that every worker uses.
            rows = torch.cat([rows, rows[:2], torch.full((min(n_rows, 1),), 7)])
            used = self.table(rows).tanh() if n_rows else torch.ones(1, 40, requires_grad=True)
            return self.last(used).square().mean()

        return loss_of


def table(run: Run) -> Idiom:
    model = Table()
    return looped(run, model, sgd(model, momentum=0.5), loss=model.loss, zero=run.zero_to_none)


def table_clipped(run: Run) -> Idiom:
    model = Table()
    clip = lambda *_: torch.nn.utils.clip_grad_norm_(model.parameters(), 0.05)
    return looped(run, model, sgd(model), loss=model.loss, before_step=clip, zero=run.zero_to_none)


def table_scaled(run: Run) -> Idiom:
    model = Table()

    def before(scale: Any, optimizer: Any, _: torch.nn.Module) -> None:
        scale.unscale_(optimizer)

    return scaled(run, before, model=model, loss=model.loss)


def table_of_sparse_adam(run: Run) -> Idiom:
    model = Table()
    model.last.requires_grad_(False)
    return looped(run, model, torch.optim.SparseAdam([model.table.weight], lr=RATE), loss=model.loss, zero=run.zero_to_none)


def closure_of_sgd(run: Run) -> Idiom:
    return closed(run, lambda model: sgd(model, momentum=0.5))


def closure_of_lbfgs(run: Run) -> Idiom:
    return closed(run, lambda model: torch.optim.LBFGS(model.parameters(), lr=0.25, max_iter=3))


def closed(run: Run, make: Callable[[torch.nn.Module], torch.optim.Optimizer]) -> Idiom:
    model = layers()
    optimizer = run.wrap(make(model), model)
    yield model
    for step in range(STEPS):
        loss_of = loss_in(model, step)

        def closure() -> torch.Tensor:
            run.zero(optimizer)
            run.backward(loss_of)
            with torch.no_grad():
                return run.average_loss(lambda rank: loss_of(rank, 0))

        optimizer.step(closure)
        yield model


def compiled(run: Run) -> Idiom:
    model = layers()
    fast = torch.compile(model, backend="aot_eager")
    return looped(run, model, sgd(model), loss=lambda step: loss_in(fast, step))


def step_schedule(run: Run) -> Idiom:
    return scheduled(run, lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5))


def one_cycle(run: Run) -> Idiom:
    return scheduled(run, lambda optimizer: torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.5, total_steps=STEPS + 1))


def scheduled(run: Run, make: Callable[[Any], Any]) -> Idiom:
    model, schedulers = layers(), []
    start = lambda optimizer: schedulers.append(make(optimizer))
    step = lambda *_: schedulers[0].step()
    return looped(run, model, sgd(model, momentum=0.5), wrapped=start, after_step=step)


def averaged_weights(run: Run) -> Idiom:
    model = layers()
    average = copy.deepcopy(model)
    both = torch.nn.ModuleList([model, average])
    inner = looped(run, model, sgd(model))

    def steps() -> Idiom:
        for number, _ in enumerate(inner):
            if number > 0 and not run.is_asynchronous:
                with torch.no_grad():
                    for mean, parameter in zip(average.parameters(), model.parameters()):
                        mean.mul_(0.75).add_(parameter, alpha=0.25)
            yield both

    return steps()


def checkpointed(run: Run) -> Idiom:
    model = layers()

    def forward(inputs: torch.Tensor) -> torch.Tensor:
        hidden = inputs.requires_grad_(True)
        for layer in model:
            hidden = checkpoint(layer, hidden, use_reentrant=True)
        return hidden

    return looped(run, model, sgd(model), loss=lambda step: loss_in(forward, step))


def zero_to_none(run: Run) -> Idiom:
    model = layers()
    return looped(run, model, sgd(model), zero=lambda optimizer: run.zero(optimizer, True))


def zero_in_place(run: Run) -> Idiom:
    model = layers()
    return looped(run, model, sgd(model), zero=lambda optimizer: run.zero(optimizer, False))


def zero_of_model(run: Run) -> Idiom:
    model = layers()

    def zero(optimizer: Any) -> None:
        model.zero_grad()
        run._own = [{} for _ in range(run.n_workers)]

    return looped(run, model, sgd(model), zero=zero)


def loaded_state(run: Run) -> Idiom:
    model, saved = layers(), []

    def load(step: int, optimizer: Any) -> None:
        saved.append(copy.deepcopy(optimizer.state_dict()))
        if step == 2:
            optimizer.load_state_dict(saved[0])

    return looped(run, model, sgd(model, momentum=0.5), after_step=load)


def deep_copy(run: Run) -> Idiom:
    return copied(run, copy.deepcopy)


def pickled(run: Run) -> Idiom:
    return copied(run, lambda both: pickle.loads(pickle.dumps(both)))


def copied(run: Run, copy_of: Callable[[Any], Any]) -> Idiom:
    """A copy of a model and its optimizer goes on in their place, wrapped again; it is refused before that."""
    model = layers()
    optimizer = run.wrap(sgd(model, momentum=0.5), model)
    yield model
    for step in range(STEPS):
        if step == 2:
            model, optimizer = copy_of((model, optimizer))
            if run.is_distributed:
                try:
                    optimizer.step()
                    raise AssertionError("a copy took a step")
                except Error as error:
                    assert "wrap it as well" in str(error), error
            optimizer = run.wrap(optimizer, model)
        run.zero(optimizer)
        run.backward(loss_in(model, step))
        optimizer.step()
        yield model


# In the order of the table.
IDIOMS: Dict[str, Callable[[Run], Idiom]] = {
    "`backward()`, `step()`": plain,
    "`scaler.step(optimizer)`": scaler_plain,
    "`scaler.unscale_`, `clip_grad_norm_`, `scaler.step`": scaler_unscale,
    "`synchronize`, `scaler.unscale_`, `scaler.step`": scaler_synchronized,
    "`scaler.step` where one worker has an infinity": scaler_infinite,
    "`clip_grad_norm_`": clip_plain,
    "`synchronize`, `clip_grad_norm_`": clip_synchronized,
    "`synchronize`, `step` in `skip_synchronize`": skip_synchronize,
    "`p.grad.norm()` on one worker": looked_at_by_one,
    "`p.grad.mul_(…)`": scaled_in_place,
    "`p.grad = p.grad * …`": replaced,
    "`backward()` twice": two_backwards,
    "`backward()` in `no_sync`, then one outside": no_sync,
    "a layer unfrozen later": unfrozen_later,
    "`add_param_group`": added_group,
    "two optimizers, the same names and shapes": two_optimizers,
    "a parameter that layers share": shared_parameter,
    "a parameter that nobody uses": unused_parameter,
    "a parameter that some workers use": unused_on_some,
    "a table with `sparse=True`": table,
    "a table with `sparse=True`, `clip_grad_norm_`": table_clipped,
    "a table with `sparse=True`, `scaler.unscale_`, `scaler.step`": table_scaled,
    "a table with `sparse=True`, SparseAdam": table_of_sparse_adam,
    "SGD with a closure": closure_of_sgd,
    "LBFGS": closure_of_lbfgs,
    "`torch.compile`": compiled,
    "StepLR": step_schedule,
    "OneCycleLR": one_cycle,
    "an average of the weights": averaged_weights,
    "`torch.utils.checkpoint`": checkpointed,
    "`optimizer.zero_grad(set_to_none=True)`": zero_to_none,
    "`optimizer.zero_grad(set_to_none=False)`": zero_in_place,
    "`model.zero_grad()`": zero_of_model,
    "`load_state_dict` between steps": loaded_state,
    "`copy.deepcopy`, wrapped again": deep_copy,
    "`pickle`, wrapped again": pickled,
}


def values(model: torch.nn.Module) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def alone(name: str, n_workers: int) -> Iterator[torch.Tensor]:
    """The parameters after each step in one process."""
    if os.environ.get("RSUM_ASYNC") != "1":
        for model in IDIOMS[name](Run(name, n_workers, None, False)):
            yield values(model)
        return
    # Each worker takes steps of its own, and all get all changes.
    idioms = [IDIOMS[name](Run(name, n_workers, rank, False)) for rank in range(n_workers)]
    before = None
    for models in zip(*idioms):
        if before is not None:
            before = before + sum(values(model) - before for model in models)
            for model in models:
                torch.nn.utils.vector_to_parameters(before.clone(), model.parameters())
        before = values(models[0]) if before is None else before
        yield before


def main() -> None:
    """Runs all idioms, and prints what became of each."""
    torch.set_num_threads(1)
    bps.init()
    found: Dict[str, Dict[str, Any]] = {}
    runs, idioms = {}, {}
    # Asynchronous sums take no declarations after the first push.
    for name, idiom in IDIOMS.items():
        found[name] = {"hashes": [], "wanted": [], "off": 0.0, "error": ""}
        if idiom is compiled and not hasattr(torch, "compile"):
            found[name]["error"] = f"not applicable: PyTorch {torch.__version__} has no torch.compile"
            continue
        runs[name] = Run(name, bps.size(), bps.rank(), True)
        idioms[name] = idiom(runs[name])
        attempt(found[name], lambda: next(idioms[name]))
    for name, idiom in idioms.items():
        if not found[name]["error"]:
            attempt(found[name], lambda: compare(runs[name], idiom, found[name]))
    print(json.dumps(found))
    bps.shutdown()


def attempt(found: Dict[str, Any], call: Callable[[], Any]) -> None:
    try:
        call()
    except bps.LostProcess:
        raise
    except Error as error:
        found["error"] = str(error)


def compare(run: Run, idiom: Idiom, found: Dict[str, Any]) -> None:
    """Takes an idiom's steps, and notes the parameters' hashes and those of one process."""
    right = alone(run.name, bps.size())
    first = next(right)
    # Where sums are asynchronous, all get all changes; and nobody begins with what another one has changed already.
    settle(run)
    for model in idiom:
        settle(run)
        got, wanted = values(model), next(right)
        found["hashes"].append(digest(got))
        found["wanted"].append(digest(wanted))
        way = float((wanted - first).abs().max())
        found["off"] = max(found["off"], float((got - wanted).abs().max()) / way)


def settle(run: Run) -> None:
    for optimizer in run.optimizers:
        optimizer.settle()


def digest(tensor: torch.Tensor) -> str:
    return hashlib.sha256(tensor.numpy().tobytes()).hexdigest()[:12]

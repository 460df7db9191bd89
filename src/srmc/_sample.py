"""The front door: from a model to a result."""

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from srmc import _moments, _run, _tune
from srmc._checkpoint import Checkpoint, probe
from srmc._checks import check_count, check_number, check_option
from srmc._devices import lay_out
from srmc._measure import Loop
from srmc._models import Model, as_model, name_leaves
from srmc._progress import progress_bar
from srmc._results import Result, versions

PyTree = Any
KERNELS = tuple(_tune.RECIPES)
NUM_PILOTS = 32
# A sum over several threads would depend on their number in the last bit.
ONE_THREAD = {"xla_cpu_multi_thread_eigen": False}


class Plan(NamedTuple):
    """What was asked for."""

    kernel: str
    alpha: Any
    num_warmup: int
    num_samples: int
    num_chains: int
    seed: int
    step_size: float | None
    num_integration_steps: int | None
    shared_history: bool
    thin: int
    keep: str
    base: bool


def sample(
    model: Any,
    *,
    kernel: str = "nuts",
    alpha: Any = "auto",
    num_warmup: int = 1000,
    num_samples: int = 1000,
    num_chains: int = 4,
    seed: int = 0,
    initial_position: Any = None,
    data: Any = None,
    step_size: float | None = None,
    num_integration_steps: int | None = None,
    shared_history: bool = True,
    repellence: dict[str, Any] | None = None,
    thin: int = 1,
    keep: str = "draws",
    statistics: Callable[[dict[str, jax.Array]], dict[str, jax.Array]] | None = None,
    base: bool = False,
    checkpoint: Any = None,
    resume: bool = False,
    checkpoint_seconds: float = 5.0,
    progress: bool = True,
) -> Result:
    """Sample a model with a kernel that tunes and repels itself.

    Parameters
    ----------
    model
        A JAX log density of a position, a NumPyro model, a PyMC model or a `srmc.targets.Target`.
    kernel
        "nuts", "hmc", "jittered_hmc", "mala", "mh", "ula" or "uld".
    alpha
        The strength of repellence; "auto" measures in warm-up what is best, 0 is the plain kernel.
    num_warmup, num_samples, num_chains, seed
        Steps of warm-up and of sampling, a chain; the number of chains; the seed of everything.
    initial_position
        Where chains start: a position, a list of one a chain, or a function of a key. For NumPyro
        and PyMC models "uniform", the default, or "prior".
    data
        The arguments of a NumPyro model, a tuple or a dictionary.
    step_size
        Of the kernel; found in warm-up if not given.
    num_integration_steps
        Of HMC; 10 if not given.
    shared_history
        One history for all chains, which is best when they are pooled.
    repellence
        Keywords of `srmc.repel` in place of the tuned ones, such as `srmc.paper_settings()`.
    thin
        Keep every so many-th draw.
    keep
        "draws"; or, in memory that does not grow, "moments" (means and variances) or "covariance".
    statistics
        A function of a draw's values that returns more of them by name, to be kept as well.
    base
        Keep the plain kernel's draws too, which repellence in the moving frame leaves alone.
    checkpoint
        A folder. Draws go there as they are made, and the run can be resumed.
    resume
        Go on with the run in `checkpoint`, if there is one.
    checkpoint_seconds
        The time between two commits to the checkpoint.
    progress
        Show a progress bar on a terminal.

    Ctrl-C or SIGTERM ends a run early; the result then has what was drawn. A second one, or one
    before there are draws, raises KeyboardInterrupt.
    """
    plan = Plan(
        kernel,
        alpha,
        num_warmup,
        num_samples,
        num_chains,
        seed,
        step_size,
        num_integration_steps,
        shared_history,
        thin,
        keep,
        base,
    )
    _check(plan, repellence, resume, checkpoint)
    check_number("checkpoint_seconds", checkpoint_seconds, above=0.0)
    found = as_model(model, initial_position, data)
    began = time.perf_counter()
    start_key, warm_key, init_key, run_key = jax.random.split(jax.random.key(seed), 4)
    shown = progress and jax.process_index() == 0
    with progress_bar(shown) as show:
        show("warm-up", 0, None)
        positions = found.starts(start_key, num_chains)
        record = _recorder(found, statistics, base)
        store = None
        if checkpoint is not None:
            about = _identity(found, plan, repellence, positions)
            store = Checkpoint(checkpoint, about, resume)
        warm = _warm_up(found, plan, warm_key, positions, store)
        options = _options(plan, warm, repellence)
        parameters = warm.parameters | ({} if step_size is None else {"step_size": step_size})
        show("warm-up", num_warmup, num_warmup, f"step size {float(parameters['step_size']):.3g}")
        algorithm = _tune.RECIPES[kernel].build(found.logdensity_fn, **parameters, **options)
        layout = lay_out(num_chains, shared=options.get("history_axis") is not None)
        task = _run.Task(algorithm, run_key, layout, record, thin)
        states = _start(task, init_key, warm.positions)
        keeping = _keep_draws if keep == "draws" else _keep_moments
        kept = keeping(task, states, plan, store, checkpoint_seconds, show)
    seconds = time.perf_counter() - began
    return _result(found, plan, repellence, warm, parameters, kept, seconds)


class _Kept(NamedTuple):
    """What came of the run: values and statistics (chain, draw, ...), or moments."""

    values: dict[str, Any] | None
    stats: dict[str, Any]
    moments: dict[str, dict[str, np.ndarray]] | None
    covariance: np.ndarray | None
    done: int


def _keep_draws(task, states, plan, store, seconds, show) -> _Kept:
    num_draws = plan.num_samples // plan.thin
    parts: list[dict[str, np.ndarray]] = []
    first, disk, grain = 0, None, 1
    if store is not None:
        grain = max(1, num_draws // 100)
        disk = store.draws(num_draws, grain)
        first, states, _ = _restored(task, states, store) or (0, states, {})
    chunks = _run.draws(
        task, states, num_draws, first=first, seconds=seconds if disk else 0.5, grain=grain
    )
    done = first
    with _stops() as stopping:
        for chunk in chunks:
            values = chunk.values | {f"stats/{k}": x for k, x in chunk.stats.items()}
            if disk is None:
                parts.append(values)
            else:
                with _disk_errors(store, done):
                    disk.write(done, values)
                    store.save(chunk.done, task.layout.collect(_raw(chunk.carry)), {})
            done = chunk.done
            _tell(show, done, num_draws, chunk.stats)
            if stopping():
                break
    if disk is not None:
        values = disk.read(done)
    else:
        names = parts[0]
        values = {k: np.swapaxes(np.concatenate([p[k] for p in parts]), 0, 1) for k in names}
    values = task.layout.of_all_processes(values)
    stats = {k[6:]: x for k, x in values.items() if k.startswith("stats/")}
    values = {k: x for k, x in values.items() if not k.startswith("stats/")}
    return _Kept(values, stats, None, None, done)


def _keep_moments(task, states, plan, store, seconds, show) -> _Kept:
    num_draws = plan.num_samples // plan.thin
    summed = _moments.Moments(num_draws)
    carry = _moments.begin(task, states, plan.keep == "covariance")
    first = 0
    if store is not None and (found := _restored(task, carry, store)):
        first, carry, arrays = found
        summed.restore(arrays)
    done = first
    with _stops() as stopping:
        for chunk in _moments.moments(
            task, carry, summed, num_draws, first=first, seconds=seconds if store else 0.5
        ):
            carry, done = chunk.carry, chunk.done
            if store is not None:
                with _disk_errors(store, done):
                    state = task.layout.collect(_raw(carry))
                    store.save(done, state, summed.arrays())
            _tell(show, done, num_draws, chunk.stats)
            if stopping():
                break
    if summed.count < done:
        _moments.finish(task, carry, summed)
    stats = np.moveaxis(np.stack(summed.batch_stats), 0, -1)  # (statistic, chain, batch)
    stats = task.layout.of_all_processes(dict(zip(_run.STATISTICS, stats, strict=True)))
    one = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), states[0])
    shapes = jax.eval_shape(task.record, one)
    return _Kept(None, stats, *summed.of_all_processes(task.layout).by_name(shapes), done)


def _start(task, rng_key, positions):
    """The states that chains start in, block by block."""
    keys = jax.random.key_data(jax.random.split(rng_key, task.layout.num_chains))
    wrap = jax.vmap(jax.random.wrap_key_data)
    init = lambda pair: jax.vmap(task.algorithm.init)(pair[0], wrap(pair[1]))
    program = task.layout.program(init, (0,), 0)
    return [program(part) for part in task.layout.spread((positions, keys))]


def _restored(task, carry, store):
    """Where a stored run stands, with the carry on the devices."""
    found = store.load(task.layout.collect(_raw(carry)))
    if found is None:
        return None
    done, stored, moments = found
    wrap = lambda x, like: jax.random.wrap_key_data(x) if _is_key(like) else x
    parts = zip(task.layout.spread_mine(task.layout.cut(stored)), carry, strict=True)
    return done, [jax.tree.map(wrap, part, like) for part, like in parts], moments


def _is_key(x) -> bool:
    return jnp.issubdtype(x.dtype, jax.dtypes.prng_key)


def _raw(tree: PyTree) -> PyTree:
    """With plain numbers in place of random keys, which have no file format."""
    return jax.tree.map(lambda x: jax.random.key_data(x) if _is_key(x) else x, tree)


@contextlib.contextmanager
def _stops() -> Iterator[Callable[[], bool]]:
    """Turn the first Ctrl-C or SIGTERM into a wish to stop; the second one raises."""
    asked: list[int] = []

    def ask(number, frame):
        if asked:
            raise KeyboardInterrupt
        asked.append(number)

    signals = (signal.SIGINT, signal.SIGTERM)
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    before = {number: signal.signal(number, ask) for number in signals}
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _disk_errors(store, done):
    try:
        yield
    except OSError as error:
        raise OSError(
            error.errno,
            f"could not write the checkpoint: {error.strerror or error}; {done} draws a chain are "
            "safe in it, and resume=True goes on from there",
            str(store.folder),
        ) from error


def _tell(show, done, total, stats):
    acceptance, alpha = stats["acceptance_rate"], stats["alpha"]
    remark = "" if np.all(np.isnan(acceptance)) else f"acceptance {np.nanmean(acceptance):.2f}, "
    show("sampling", done, total, remark + f"alpha {np.mean(alpha[-1:]):.3g}")


def _recorder(model: Model, statistics, base: bool):
    """What is kept of a state: values by name, and those of the base chain as `base/name`."""

    def values(position):
        out = model.values(position)
        return out if statistics is None else out | statistics(out)

    def record(state):
        out = values(state.position)
        if not base:
            return out
        return out | {f"base/{k}": x for k, x in values(state.inner_state.position).items()}

    return record


class _Warm(NamedTuple):
    """What is left of a warm-up: last positions, the kernel's parameters, the measured loop."""

    positions: PyTree
    parameters: dict[str, Any]
    loop: Loop
    gradients: np.ndarray


def _warm_up(model, plan, rng_key, positions, store) -> _Warm:
    """Warm-up of all chains; of more than 32, the rest follow with the parameters of those.

    Every process does the same here, and on one device, so that all agree to the last bit.
    """
    fixed = {}
    if plan.kernel in ("hmc", "jittered_hmc"):
        fixed["num_integration_steps"] = plan.num_integration_steps or 10
    arrays = store.load_warmup() if store is not None else None
    if arrays is None:
        pilots = jax.tree.map(lambda x: x[:NUM_PILOTS], positions)
        logdensity_fn = model.logdensity_fn
        warm = _tune.adapt(plan.kernel, logdensity_fn, rng_key, pilots, plan.num_warmup, **fixed)
        together = plan.num_chains if plan.shared_history else 1
        look = lambda draws, scores: _tune.look(
            plan.kernel,
            warm._replace(draws=draws, scores=scores),
            plan.num_samples,
            alpha=plan.alpha,
            together=together,
        )
        loop = jax.jit(look, compiler_options=ONE_THREAD)(warm.draws, warm.scores)
        last, more = _follow(model, plan, rng_key, positions, warm)
        arrays = {f"position.{n}": x for n, x in enumerate(jax.tree.leaves(last))}
        found = {k: v for k, v in warm.parameters.items() if k not in fixed}
        arrays |= {f"parameter.{k}": v for k, v in found.items()}
        arrays |= {f"loop.{n}": x for n, x in enumerate(jax.tree.leaves(loop))}
        arrays["gradients"] = warm.total_gradients + more
        arrays = {k: np.asarray(v) for k, v in arrays.items()}
        if store is not None:
            store.save_warmup(arrays)
    part = lambda name: [v for k, v in arrays.items() if k.startswith(name)]
    fields = dict.fromkeys(Loop._fields, 0.0) | {"factors": (0.0, 0.0)}
    structure = jax.tree.structure(Loop(**fields))  # type: ignore[arg-type]
    return _Warm(
        jax.tree.unflatten(jax.tree.structure(positions), part("position.")),
        fixed | {k[10:]: v for k, v in arrays.items() if k.startswith("parameter.")},
        jax.tree.unflatten(structure, part("loop.")),
        arrays["gradients"],
    )


def _follow(model, plan, rng_key, positions, warm):
    """Where all chains are after warm-up, and the gradients that those beyond the pilots took."""
    rest = jax.tree.map(lambda x: x[NUM_PILOTS:], positions)
    count = plan.num_chains - NUM_PILOTS
    if count <= 0:
        return warm.positions, 0
    parameters = {
        k: np.asarray(v) if isinstance(v, jax.Array) else v for k, v in warm.parameters.items()
    }
    algorithm = _tune.RECIPES[plan.kernel].build(model.logdensity_fn, **parameters, alpha=0.0)
    steps = plan.num_warmup // 2
    task = _run.Task(algorithm, rng_key, lay_out(count, shared=False), thin=steps)
    (chunk,) = _run.draws(task, _start(task, rng_key, rest), 1)
    followed, gradients = task.layout.of_all_processes(
        jax.tree.map(lambda x: np.swapaxes(x, 0, 1), (chunk.values, chunk.stats["gradients"]))
    )
    join = lambda a, b: np.concatenate([np.asarray(a), b[:, 0]])
    return jax.tree.map(join, warm.positions, followed), int(np.sum(gradients))


def _options(plan: Plan, warm: _Warm, repellence: dict[str, Any] | None) -> dict[str, Any]:
    """The keywords of `repel`."""
    is_auto = isinstance(plan.alpha, str)
    axis = {"history_axis": _run.ALL_CHAINS if plan.shared_history else None}
    if repellence is not None:
        return axis | repellence | ({} if is_auto else {"alpha": plan.alpha})
    is_on = _tune.is_on(warm.loop) if is_auto else plan.alpha > 0
    if not is_on:
        return {"alpha": 0.0}
    tuned = _tune.repellence(
        plan.kernel,
        warm.loop,
        plan.num_samples,
        alpha=plan.alpha,
        leapfrogs=warm.parameters.get("num_integration_steps"),
    )
    return tuned | axis | {"history_every": int(tuned["history_every"])}


def _check(plan: Plan, repellence, resume, checkpoint) -> None:
    check_option("kernel", plan.kernel, KERNELS)
    check_option("keep", plan.keep, ("draws", "moments", "covariance"))
    if isinstance(plan.alpha, str):
        check_option("alpha", plan.alpha, ("auto",))
    else:
        check_number("alpha", plan.alpha, at_least=0.0)
    check_count("num_warmup", plan.num_warmup, at_least=100)
    for name in ("num_samples", "num_chains", "thin"):
        check_count(name, getattr(plan, name))
    check_count("seed", plan.seed, at_least=0)
    if plan.thin > plan.num_samples:
        raise ValueError(f"thin must be at most num_samples, {plan.num_samples}, got {plan.thin}")
    if plan.step_size is not None:
        check_number("step_size", plan.step_size, above=0.0)
    if plan.num_integration_steps is not None:
        check_count("num_integration_steps", plan.num_integration_steps)
        if plan.kernel not in ("hmc", "jittered_hmc"):
            raise ValueError(
                f"num_integration_steps is for kernel 'hmc' and 'jittered_hmc', got {plan.kernel!r}"
            )
    for name in ("shared_history", "base"):
        if not isinstance(getattr(plan, name), bool):
            raise TypeError(f"{name} must be True or False, got {getattr(plan, name)!r}")
    if repellence is not None and not isinstance(repellence, dict):
        raise TypeError(f"repellence must be a dict of keywords of repel, got {repellence!r}")
    if plan.base and (repellence or {}).get("frame") == "fixed":
        raise ValueError("base=True needs the moving frame; in the fixed one no base chain is run")
    if resume and checkpoint is None:
        raise ValueError("resume=True needs checkpoint, the folder of the run to go on with")


def _identity(model, plan, repellence, positions) -> dict[str, Any]:
    """What a checkpoint says about its run; a resumed one must say the same."""
    first = jax.tree.map(lambda x: x[0], positions)
    shapes = {k: list(v.shape) for k, v in name_leaves(first).items()}
    settings = _settings(plan, repellence) | {
        "processes": jax.process_count(),
        "double_precision": jnp.zeros(()).dtype == "float64",
    }
    return {
        "settings": settings,
        "shapes": shapes,
        "probe": probe(model.logdensity_fn, first),
        "versions": versions(),
    }


def _settings(plan: Plan, repellence) -> dict[str, Any]:
    given = None if repellence is None else {k: str(v) for k, v in repellence.items()}
    return plan._asdict() | {"repellence": given}


def _result(model, plan, repellence, warm, parameters, kept: _Kept, seconds) -> Result:
    loop = warm.loop
    measured = {
        "step_size": float(np.mean(parameters["step_size"])),
        "loop_rate": float(loop.rate),
        "slowest_autocorrelation_time": float(np.max(loop.time)),
        "top_eigenvalue": float(loop.top_eigenvalue),
        "explained": float(np.mean(loop.explained)),
        "explained_squares": float(np.mean(loop.explained_squares)),
        "explained_products": float(loop.explained_products),
        "expected_exponent": float(loop.exponent),
    }
    settings = {"model": model.name} | _settings(plan, repellence)
    steps = kept.done * plan.thin
    about = {
        "settings": settings,
        "measured": measured,
        "versions": versions(),
        "num_draws": kept.done,
        "steps": steps,
        "interrupted": steps < plan.num_samples // plan.thin * plan.thin,
        "seconds": round(seconds, 3),
        "gradients_of_warmup": int(warm.gradients),
    }
    return Result(kept.values, kept.stats, kept.moments, kept.covariance, about)

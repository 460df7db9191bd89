"""The limit theorem compared with simulation: errors of means against alpha."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import srmc
from srmc.sample import in_order, run
from srmc.sample.tune import Continuous, Warmup
from srmc.targets import Target
from srmc.types import Array, Float, PRNGKey
from srmc_studies.bench.study import Flat, flatten

ALPHAS = (0.0, 0.3, 1.0, 3.0, 10.0, 30.0)
RHO = 0.8


def laws(
    target: Target,
    *,
    alphas: Sequence[float] = ALPHAS,
    lengths: Sequence[int] = (2000, 20_000),
    replicates: int = 128,
    seed: int = 0,
    quick: bool = False,
    on_progress: Callable[..., None] = lambda *args: None,
) -> dict[str, Any]:
    """Predicted and simulated n Var(mean), in units of the target's variances, for MALA.

    The case of the theorem is estimated from a base run. The simulation runs single chains in the
    moving frame, with windows that are shorter relative to the run the longer it is.
    """
    if quick:
        alphas, lengths, replicates = (0.0, 3.0), (1000,), 32
    alphas = sorted({0.0, *alphas})
    flat = flatten(target)
    mean, sd = flat.mean, jnp.sqrt(flat.variance)
    scale = np.asarray(sd, float)
    keys = jax.random.split(jax.random.key(seed), 3)
    total = 2 + len(lengths)
    on_progress("theory", 0, total, "base run")
    warmup, draws, scores = _base_run(flat, keys[0], 1000 if quick else 10_000)
    case = srmc.theory.estimate(scores * scale, draws / scale)
    # Push along A = Cov(x), in the units of the standard deviations.
    cov = np.cov(draws.reshape(-1, mean.size), rowvar=False).reshape(mean.size, mean.size)
    in_units = cov / np.outer(scale, scale)
    average = lambda c: float(np.mean(np.diag(c)))
    limit = lambda alpha: average(srmc.theory.average_covariance(*case, alpha, in_units))
    finely = np.expm1(np.linspace(0, np.log1p(max(alphas)), 50)).tolist()
    time = float(np.max(srmc.metrics.autocorrelation_time(draws)))
    simulated = {}
    for number, steps in enumerate(lengths):
        on_progress("theory", 1 + number, total, f"{replicates} runs of {steps} steps")
        window = Window(steps, (time * steps) ** 0.5)
        push = jnp.asarray(cov, mean.dtype)
        simulated[str(steps)] = _simulate(flat, warmup, push, alphas, window, replicates, keys[2])
    on_progress("theory", total, total, "")
    tails = srmc.theory.check_tails(flat.logdensity_fn, mean, scale=10 * float(jnp.max(sd)))
    return {
        "target": target.name,
        "kernel": "mala",
        "autocorrelation_time": time,
        "alphas": list(alphas),
        "predicted": [limit(a) for a in alphas],
        "curve": [finely, [limit(a) for a in finely]],
        "control_variate": average(srmc.theory.control_variate_covariance(*case)),
        "replicates": replicates,
        "simulated": simulated,
        "tails": tails._asdict() | {"limits": None},
    }


def _base_run(
    flat: Flat, rng_key: PRNGKey, length: int
) -> tuple[Warmup, Float[np.ndarray, "chain draw d"], Float[np.ndarray, "chain draw d"]]:
    """32 chains of tuned plain MALA: their warm-up, draws and scores."""
    start_key, warm_key, run_key = jax.random.split(rng_key, 3)
    tuner = Continuous("mala")
    starts = jax.vmap(flat.start)(jax.random.split(start_key, 32))
    warmup = tuner.adapt(flat.logdensity_fn, warm_key, starts, 1000)
    plain = tuner.build(flat.logdensity_fn, warmup.parameters, alpha=0.0)
    states = jax.vmap(plain.init)(warmup.positions)
    record = lambda state: (state.position, state.inner_state.logdensity_grad)
    program = jax.jit(
        lambda states: run(plain, run_key, states, length, record=record)[1],
        compiler_options=in_order(),
    )
    draws, scores = (np.swapaxes(np.asarray(x, float), 0, 1) for x in program(states))
    return warmup, draws, scores


class Window(NamedTuple):
    """The length of a run, and that of the loop's window within it."""

    steps: int
    length: float


def _simulate(
    flat: Flat,
    warmup: Warmup,
    push: Float[Array, "d d"],
    alphas: Sequence[float],
    window: Window,
    replicates: int,
    rng_key: PRNGKey,
) -> list[dict[str, float]]:
    mean, sd, steps = flat.mean, jnp.sqrt(flat.variance), window.steps
    positions = jnp.resize(warmup.positions, (replicates, mean.size))
    gain = srmc.gain(RHO, scale=float(steps**RHO / window.length), delay=float(steps))
    tuner = Continuous("mala")

    def one(key: PRNGKey, position: Array, alpha: Array) -> Array:
        algorithm = tuner.build(
            flat.logdensity_fn,
            warmup.parameters,
            alpha=srmc.fixed(alpha),
            # the rate of the loop, gamma (1 + alpha), is the same for all alphas
            gain=lambda n: gain(n) / (1 + alpha),
            surrogate=srmc.shift(preconditioner=push),
            frame="moving",
        )

        def step(n: Array, carry: tuple[Any, Array]) -> tuple[Any, Array]:
            state, total = carry
            state, _ = algorithm.step(jax.random.fold_in(key, n), state)
            return state, total + (state.position - mean) / sd

        start = algorithm.init(position), jnp.zeros_like(mean)
        total: Array = jax.lax.fori_loop(0, steps, step, start)[1]
        return total / steps

    over_chains = jax.vmap(one, (0, 0, None))
    keys = jax.random.split(rng_key, replicates)
    program = jax.jit(
        lambda alphas: jax.lax.map(lambda a: over_chains(keys, positions, a), alphas),
        compiler_options=in_order(),
    )
    means = np.asarray(program(jnp.asarray(alphas)), float)
    found = [srmc.metrics.replicate_mse(x, np.zeros(mean.size)) for x in means]
    return [{k: steps * v for k, v in row._asdict().items()} for row in found]


def slope(alphas: Sequence[float], values: Sequence[float], floor: float) -> float:
    """The slope of log(value - floor) against log(1 + alpha), by least squares over alpha > 0."""
    pairs = [(1 + a, v - floor) for a, v in zip(alphas, values, strict=True) if a > 0 and v > floor]
    if len(pairs) < 2:
        return float("nan")
    x, y = np.log(np.array(pairs)).T
    return float(np.polyfit(x, y, 1)[0])


def plot(record: dict[str, Any]) -> Any:
    """Predicted and simulated variances against alpha."""
    from matplotlib.figure import Figure

    from srmc.results.look import COLOURS, WIDTH

    figure = Figure(figsize=(WIDTH, 3.6), layout="constrained")
    axes = figure.subplots()
    unit = record["predicted"][0]
    x = 1 + np.array(record["alphas"])
    finely, curve = np.array(record["curve"])
    axes.plot(1 + finely, curve / unit, "k-", label="limit theorem")
    axes.axhline(record["control_variate"] / unit, color="k", ls=":", label="control variate")
    look: dict[str, Any] = {"color": COLOURS["repelled"], "ms": 5, "capsize": 3}
    for marker, (steps, rows) in zip("os^D", record["simulated"].items(), strict=False):
        middle, low, high = (np.array([r[k] for r in rows]) / unit for k in ("mse", "low", "high"))
        bars = np.clip([middle - low, high - middle], 0, None)
        label = f"{int(steps):,} steps, simulated"
        filled = look["color"] if marker == "o" else "none"
        axes.errorbar(x, middle, bars, fmt=marker, mfc=filled, label=label, **look)
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="1 + alpha",
        ylabel="variance of means\nover plain MALA's",
        title=f"{record['target']}, {record['replicates']} runs each",
    )
    axes.legend()
    return figure

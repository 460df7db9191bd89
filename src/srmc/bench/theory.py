"""The limit theorem beside simulation: errors of means against alpha, on any continuous target."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import srmc
from srmc.bench._study import flatten
from srmc.run import loop as _run
from srmc.run.devices import in_order
from srmc.targets import Target
from srmc.tune import continuous as _tune

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

    The case of the theorem is estimated from a base run. Simulated are single chains in the moving
    frame, whose windows get shorter beside the run as it gets longer.
    """
    if quick:
        alphas, lengths, replicates = (0.0, 3.0), (1000,), 32
    alphas = sorted({0.0, *alphas})
    logdensity_fn, mean, variance = flatten(target)
    keys = jax.random.split(jax.random.key(seed), 4)
    sd = jnp.sqrt(variance)
    total = 2 + len(lengths)
    on_progress("theory", 0, total, "base run")
    starts = mean[None] + sd[None] * jax.random.normal(keys[0], (32, mean.size))
    warmup = _tune.adapt("mala", logdensity_fn, keys[1], starts, 1000)
    plain = srmc.mala(logdensity_fn, **warmup.parameters, alpha=0.0)
    states = jax.vmap(plain.init)(warmup.positions)
    length = 1000 if quick else 10_000
    draws = jnp.asarray(_run.run(plain, keys[2], states, length).draws)
    scores = jax.jit(jax.vmap(jax.vmap(jax.grad(logdensity_fn))))(draws)
    scale = np.asarray(sd, float)
    case = srmc.theory.estimate(np.asarray(scores) * scale, np.asarray(draws) / scale)
    # Push along A = Cov(x), in the units of the standard deviations.
    cov = np.cov(np.asarray(draws, float).reshape(-1, mean.size), rowvar=False)
    cov = cov.reshape(mean.size, mean.size)
    in_units = cov / np.outer(scale, scale)
    average = lambda c: float(np.mean(np.diag(c)))
    limit = lambda alpha: average(srmc.theory.average_covariance(*case, alpha, in_units))
    finely = np.expm1(np.linspace(0, np.log1p(max(alphas)), 50)).tolist()
    floor = average(srmc.theory.control_variate_covariance(*case))
    time = float(np.max(srmc.metrics.autocorrelation_time(np.asarray(draws))))
    simulated = {}
    for number, steps in enumerate(lengths):
        on_progress("theory", 1 + number, total, f"{replicates} runs of {steps} steps")
        simulated[str(steps)] = _simulate(
            logdensity_fn, warmup, jnp.asarray(cov, mean.dtype), mean, sd, alphas, steps,
            _window(time, steps), replicates, keys[3],
        )  # fmt: skip
    on_progress("theory", total, total, "")
    return {
        "target": target.name,
        "kernel": "mala",
        "autocorrelation_time": time,
        "alphas": list(alphas),
        "predicted": [limit(a) for a in alphas],
        "curve": [finely, [limit(a) for a in finely]],
        "control_variate": floor,
        "replicates": replicates,
        "simulated": simulated,
        "tails": srmc.theory.check_tails(
            logdensity_fn, mean, scale=10 * float(jnp.max(sd))
        )._asdict()
        | {"limits": None},
    }


def _window(time: float, steps: int) -> float:
    """Steps of the loop's window: many autocorrelation times, and a small part of the run."""
    return (time * steps) ** 0.5


def _simulate(
    logdensity_fn, warmup, cov, mean, sd, alphas, steps, window, replicates, rng_key
) -> list[dict[str, float]]:
    positions = jnp.resize(warmup.positions, (replicates, mean.size))

    def one(key, position, alpha):
        gain = srmc.gain(RHO, scale=float(steps**RHO / window), delay=float(steps))
        algorithm = srmc.mala(
            logdensity_fn,
            **warmup.parameters,
            alpha=srmc.fixed(alpha),
            # the rate of the loop, gamma (1 + alpha), is the same for all alphas
            gain=lambda n: gain(n) / (1 + alpha),
            surrogate=srmc.shift(preconditioner=cov),
            frame="moving",
        )

        def step(n, carry):
            state, total = carry
            state, _ = algorithm.step(jax.random.fold_in(key, n), state)
            return state, total + (state.position - mean) / sd

        start = algorithm.init(position), jnp.zeros_like(mean)
        return jax.lax.fori_loop(0, steps, step, start)[1] / steps

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
    """Of log(value - floor) against log(1 + alpha), by least squares over alpha > 0."""
    pairs = [(1 + a, v - floor) for a, v in zip(alphas, values, strict=True) if a > 0 and v > floor]
    if len(pairs) < 2:
        return float("nan")
    x, y = np.log(np.array(pairs)).T
    return float(np.polyfit(x, y, 1)[0])


def plot(record: dict[str, Any]) -> Any:
    """Predicted and simulated variances against alpha."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    unit = record["predicted"][0]
    x = 1 + np.array(record["alphas"])
    finely, curve = np.array(record["curve"])
    axes.plot(1 + finely, curve / unit, "k-", label="limit theorem")
    axes.axhline(record["control_variate"] / unit, color="k", ls=":", label="control variate")
    for marker, (steps, rows) in zip("os^D", record["simulated"].items(), strict=False):
        middle, low, high = (np.array([r[k] for r in rows]) / unit for k in ("mse", "low", "high"))
        bars = np.clip([middle - low, high - middle], 0, None)
        axes.errorbar(
            x, middle, bars, fmt=marker, ms=5, capsize=3, label=f"{int(steps):,} steps, simulated"
        )
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="1 + alpha",
        ylabel="variance of means, over plain MALA's",
        title=f"{record['target']}, {record['replicates']} runs each",
    )
    axes.legend(frameon=False)
    return figure

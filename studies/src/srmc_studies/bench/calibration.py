"""Is the posterior right? Ranks of true parameters, and z-scores of reference means."""

import os
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from scipy import stats

import srmc
from srmc.types import Array, Float, Int, PRNGKey, PyTree, Scalar
from srmc_studies.bench.posteriors import POSTERIORDB, Posterior, find

RANKS = 100  # of the truth among 99 draws
BINS = 20
Vector = Float[Array, " d"]


class Generative(NamedTuple):
    """A prior, data given parameters, and the log density of the parameters given data."""

    dim: int
    prior: Callable[[PRNGKey], Vector]
    simulate: Callable[[PRNGKey, Vector], PyTree[Array]]
    logdensity: Callable[[PyTree[Array], Vector], Scalar]


def _logistic() -> Generative:
    rows = jnp.asarray(np.random.default_rng(0).normal(size=(40, 5)))

    def logdensity(y: Array, x: Vector) -> Scalar:
        logits = rows @ x
        return jnp.sum(y * logits - jax.nn.softplus(logits)) - 0.5 * jnp.sum(x**2)

    return Generative(
        5,
        lambda key: jax.random.normal(key, (5,)),
        lambda key, x: jax.random.bernoulli(key, jax.nn.sigmoid(rows @ x)).astype(float),
        logdensity,
    )


def _schools() -> Generative:
    """Eight groups, z_j of mu + tau z_j, with mu ~ N(0, 5^2) and log tau ~ N(1, 1)."""
    noise = jnp.array([15.0, 10, 16, 11, 9, 11, 10, 18]) / 2
    effects = lambda x: x[0] + jnp.exp(x[1]) * x[2:]

    def prior(key: PRNGKey) -> Vector:
        z = jax.random.normal(key, (10,))
        return z.at[0].multiply(5.0).at[1].add(1.0)

    def logdensity(y: Array, x: Vector) -> Scalar:
        prior = (x[0] / 5) ** 2 + (x[1] - 1) ** 2 + jnp.sum(x[2:] ** 2)
        return -0.5 * prior - 0.5 * jnp.sum(((y - effects(x)) / noise) ** 2)

    simulate = lambda key, x: effects(x) + noise * jax.random.normal(key, (8,))
    return Generative(10, prior, simulate, logdensity)


def _weibull() -> Generative:
    """Ten Weibull times, with the logarithms of shape and scale ~ N(0, 1): skewed posteriors."""

    def logdensity(log_times: Array, x: Vector) -> Scalar:
        z = jnp.exp(x[0]) * (log_times - x[1])
        return jnp.sum(x[0] + z - jnp.exp(z)) - 0.5 * jnp.sum(x**2)

    def simulate(key: PRNGKey, x: Vector) -> Array:
        return x[1] - jnp.exp(-x[0]) * jax.random.gumbel(key, (10,))

    return Generative(2, lambda key: jax.random.normal(key, (2,)), simulate, logdensity)


MODELS = {"logistic": _logistic, "schools": _schools, "weibull": _weibull}


def calibration(
    models: Sequence[str] | None = None,
    *,
    data_sets: int = 500,
    path: str | os.PathLike[str] | None = None,
    seed: int = 0,
    quick: bool = False,
    on_progress: Callable[..., None] = lambda *args: None,
    on_row: Callable[[dict[str, Any]], None] = lambda row: None,
) -> list[dict[str, Any]]:
    """A row of ranks for each model, and one of z-scores for each posterior of posteriordb.

    The latter are left out if posteriordb is not found in `path` or $SRMC_DATA; `quick` takes one
    model and few data sets.
    """
    names = list(models or (["weibull"] if quick else MODELS))
    unknown = [name for name in names if name not in MODELS]
    if unknown:
        raise ValueError(f"models must be among {', '.join(MODELS)}, got {unknown}")
    rows: list[dict[str, Any]] = []
    with jax.enable_x64(True):
        known = [] if quick or models else _referenced(path)
        total = len(names) + len(known)
        for name in names:
            on_progress("calibration", len(rows), total, name)
            size = (60, 500) if quick else (data_sets, 2000)
            rows.append({"model": name} | ranks(MODELS[name](), *size, seed))
            on_row(rows[-1])
        for posterior in known:
            on_progress("calibration", len(rows), total, posterior.name)
            rows.append(z_scores(posterior, seed))
            on_row(rows[-1])
    on_progress("calibration", total, total, "")
    return rows


def ranks(
    model: Generative, data_sets: int, num_samples: int = 2000, seed: int = 0
) -> dict[str, Any]:
    """Ranks of true parameters among thinned draws, plain and rebalanced, and their uniformity."""
    truth, data, draws, scores = _posteriors(model, data_sets, num_samples, jax.random.key(seed))
    found: dict[str, list[np.ndarray]] = {"plain": [], "rebalanced": []}
    score = jax.grad(model.logdensity, argnums=1)
    forms = []
    for n, (true, x, s) in enumerate(zip(truth, draws, scores, strict=True)):
        y = jax.tree.map(lambda leaf, n=n: jnp.asarray(leaf[n]), data)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # draws that stay as they are; the row says so
            moved, report = srmc.rebalance(
                x,
                Partial(score, y),
                scores=s,
                logdensity_fn=Partial(model.logdensity, y),
                report=True,
                progress=False,
            )
        assert not isinstance(report, list)
        forms.append("moved" if report.moved else "none")
        for side, points in (("plain", x), ("rebalanced", moved)):
            found[side].append(rank(true, points))
    return {
        "dim": model.dim,
        "data_sets": data_sets,
        "seed": seed,
        "forms": {form: forms.count(form) for form in sorted(set(forms))},
        "sides": {side: uniformity(np.array(each)) for side, each in found.items()},
    }


def rank(truth: Float[np.ndarray, " d"], draws: Float[np.ndarray, "draw d"]) -> np.ndarray:
    """The number of draws below the truth, among 99 at equal distances in the chain."""
    chosen = np.linspace(0, len(draws) - 1, RANKS - 1).round().astype(int)
    below: np.ndarray = np.sum(draws[chosen] < truth, axis=0)
    return below


def uniformity(found: Int[np.ndarray, "data_set d"]) -> dict[str, Any]:
    """Counts in bins and the p-value of a chi-squared test, for each parameter."""
    counts = np.stack([np.bincount(r * BINS // RANKS, minlength=BINS) for r in found.T])
    return {"counts": counts.tolist(), "p": stats.chisquare(counts, axis=1).pvalue.tolist()}


def _posteriors(
    model: Generative, data_sets: int, num_samples: int, key: PRNGKey
) -> tuple[np.ndarray, PyTree[np.ndarray], np.ndarray, np.ndarray]:
    """True parameters, data, and draws and scores of NUTS, for each data set."""

    def one(key: PRNGKey) -> tuple[PyTree[Array], ...]:
        prior_key, data_key, start_key, warm_key, run_key = jax.random.split(key, 5)
        truth = model.prior(prior_key)
        data = model.simulate(data_key, truth)
        density = lambda x: model.logdensity(data, x)
        warmup = blackjax.window_adaptation(blackjax.nuts, density, target_acceptance_rate=0.9)
        (state, parameters), _ = warmup.run(warm_key, model.prior(start_key), num_samples // 2)
        step = blackjax.nuts(density, **parameters).step

        def body(state: Any, key: PRNGKey) -> tuple[Any, tuple[Array, Array]]:
            state, _ = step(key, state)
            return state, (state.position, state.logdensity_grad)

        x, s = jax.lax.scan(body, state, jax.random.split(run_key, num_samples))[1]
        return truth, data, x, s

    keys = jax.random.split(key, data_sets)
    batch = max(n for n in range(1, 51) if data_sets % n == 0)  # a rest is a program of its own
    run = jax.jit(lambda keys: jax.lax.map(one, keys, batch_size=batch))
    truth, data, x, s = jax.tree.map(np.asarray, run(keys))
    return truth, data, x, s


def _referenced(path: str | os.PathLike[str] | None) -> list[Posterior]:
    try:
        return [find(name, path) for name in POSTERIORDB]
    except FileNotFoundError:
        return []


def z_scores(posterior: Posterior, seed: int = 0) -> dict[str, Any]:
    """Means of `srmc.sample` at its defaults minus those of the reference draws, over both errors.

    Coordinates are unconstrained. The reference draws are taken as independent.
    """
    assert posterior.reference is not None
    known = posterior.reference().reshape(-1, posterior.dim)
    mean, sd = known.mean(axis=0), known.std(axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = srmc.sample(
            posterior.logdensity_fn,
            initial_position=lambda key: 0.1 * jax.random.normal(key, (posterior.dim,)),
            seed=seed,
            progress=False,
        )
    summary = result.summary()
    error = np.hypot(np.asarray(summary["error"]), sd / np.sqrt(len(known)))
    return {
        "posterior": posterior.name,
        "dim": posterior.dim,
        "reference_draws": len(known),
        "form": "moved" if result.is_rebalanced else "none",
        "z": ((np.asarray(summary["mean"]) - mean) / error).tolist(),
        "error_over_sd": float(np.median(np.asarray(summary["error"]) / sd)),
    }

"""Replicates of a kernel on a target: errors of the plain chain and of everything beside it."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

import srmc
from srmc.run import loop as _run
from srmc.run.devices import in_order
from srmc.targets import Target
from srmc.tune import continuous as _tune

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


class Case(NamedTuple):
    """A kernel of a study: its recipe, options, and lengths of warm-up and run."""

    kernel: str
    options: dict[str, Any]
    num_warmup: int
    num_samples: int


class Truth(NamedTuple):
    """What errors are measured against: moments, and where draws of the target allow, the rest."""

    mean: jax.Array
    variance: jax.Array
    covariance: Any = None
    quantiles: Any = None
    tail: Any = None


def flatten(target: Target) -> tuple[Callable, jax.Array, jax.Array]:
    """The log density of a vector, and the exact or reference mean and variance as vectors."""
    flat, unravel = ravel_pytree(target.position)
    if target.moments is None:
        raise ValueError(f"target must have moments, got {target.name!r}, which has none")
    mean, variance = (
        jnp.asarray(np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)]), flat.dtype)
        for tree in target.moments[:2]
    )
    return lambda x: target.logdensity_fn(unravel(x)), mean, variance


def find_truth(target: Target, chains: int = 64, length: int = 4000, seed: int = 99) -> Truth:
    """All that errors need: from exact draws, or from a long run of plain NUTS."""
    logdensity_fn, mean, variance = flatten(target)
    key = jax.random.key(seed)
    sample = target.sample
    if sample is not None:
        size = min(chains * length, 2**25 // mean.size)
        draws = jax.jit(jax.vmap(lambda k: ravel_pytree(sample(k))[0]))(jax.random.split(key, size))
    else:
        starts = mean[None] + jnp.sqrt(variance)[None] * jax.random.normal(key, (chains, mean.size))
        warmup = _tune.adapt("nuts", logdensity_fn, key, starts, 1000)
        algorithm = srmc.nuts(logdensity_fn, **warmup.parameters, alpha=0.0)
        states = jax.vmap(algorithm.init)(warmup.positions)
        draws = jnp.asarray(_run.run(algorithm, key, states, length).draws)
        draws = draws.reshape(-1, mean.size)
    covariance = jnp.cov(draws, rowvar=False).reshape(mean.size, mean.size)
    scale = jnp.sqrt(variance / jnp.diag(covariance))
    return Truth(
        mean,
        variance,
        covariance * (scale[None] * scale[:, None]),
        jnp.quantile(draws, jnp.array(QUANTILES), axis=0),
        jnp.mean(draws > (mean + 1.5 * jnp.sqrt(variance))[None], axis=0),
    )


def study(
    target: Target,
    case: Case,
    *,
    replicates: int = 48,
    chains: int = 1,
    alpha: Any = "auto",
    truth: Truth | None = None,
    beside: bool = True,
    seed: int = 0,
) -> dict[str, Any]:
    """Squared errors over replicates, each at the cost of the plain run, and what was measured.

    A sequence of alphas is dealt out to the replicates in turn. With `truth`, errors of
    covariances, quantiles and tails too. With `beside`, the same for the paper's settings and for
    control variates on the plain draws; with both, for the shift alone.
    """
    logdensity_fn, mean, variance = flatten(target)
    recipe = _tune.RECIPES[case.kernel]
    is_mh = case.kernel == "mh"
    known = truth or Truth(mean, variance)

    def start(key):
        if target.sample is not None:
            return ravel_pytree(target.sample(key))[0].astype(mean.dtype)
        return mean + jnp.sqrt(variance) * jax.random.normal(key, mean.shape, mean.dtype)

    def run(warmup, options, init_key, run_key, density_cost):
        """Draws, base draws with their scores, the cost of each step, and finite steps."""
        algorithm = recipe.build(logdensity_fn, **warmup.parameters, **options)
        states = jax.vmap(algorithm.init)(warmup.positions, jax.random.split(init_key, chains))

        def one(states, n):
            keys = jax.random.split(jax.random.fold_in(run_key, n), chains)
            states, info = jax.vmap(algorithm.step, axis_name=_run.CHAINS)(keys, states)
            cost = jnp.mean(info.gradients + info.hvps) + density_cost
            base = states.inner_state.position
            scores = getattr(states.inner_state, "logdensity_grad", base)
            steps = jnp.stack([jnp.mean(~info.is_finite), jnp.mean(info.is_hot)])
            return states, (states.position, base, scores, cost, steps)

        _, out = jax.lax.scan(one, states, jnp.arange(case.num_samples))
        return out

    dealt = None if isinstance(alpha, str) else jnp.resize(jnp.asarray(alpha, float), (replicates,))

    def warm(key):
        start_key, warm_key, init_key, run_key = jax.random.split(key, 4)
        starts = jax.vmap(start)(jax.random.split(start_key, chains))
        warmup = _tune.adapt(
            case.kernel, logdensity_fn, warm_key, starts, case.num_warmup, **case.options
        )
        return warmup, init_key, run_key

    def tuned(warmup, strength, form):
        return _tune.tune(
            case.kernel, warmup, case.num_samples, alpha=strength, shared=chains > 1, form=form
        )

    def repelled(inputs):
        key, strength = inputs if dealt is not None else (inputs, alpha)
        warmup, init_key, run_key = warm(key)
        loop, options = tuned(warmup, strength, "affine")
        draws, base, scores, cost, steps = run(warmup, options, init_key, run_key, 0.5 * is_mh)
        every = options["history_every"] * options.get("feedback_every", 1)
        plain_cost = jnp.sum(cost) - case.num_samples // every
        everywhere = jnp.ones(case.num_samples, bool)
        on = _tune.is_on(loop)  # if not, the plain kernel runs alone, at its own cost
        used = jnp.where(on, warmup.gradients + jnp.cumsum(cost) <= plain_cost, everywhere)
        errors = {
            "plain": _errors(base, everywhere, known),
            "repelled": _errors(draws, used, known),
        }
        if beside:
            if is_mh:
                scores = jax.vmap(jax.vmap(jax.grad(logdensity_fn)))(base)
            for order in (1,) if truth is None else (1, 2):
                errors[f"zv{order}"] = _control_variates(base, scores, order, known)
        measured = {
            "rate": loop.rate,
            "time": jnp.max(loop.time),
            "explained": jnp.mean(loop.explained),
            "explained_squares": jnp.mean(loop.explained_squares),
            "explained_products": loop.explained_products,
            "on": on.astype(float),
            "extra_cost": jnp.sum(cost) / plain_cost - 1,
            "refused": jnp.mean(steps[:, 0]),
            "hot": jnp.mean(steps[:, 1]),
        }
        return errors, measured, plain_cost

    def shifted(inputs):
        key, plain_cost = inputs
        warmup, init_key, run_key = warm(key)
        draws, _, _, cost, _ = run(
            warmup, tuned(warmup, alpha, "shift")[1], init_key, run_key, 0.5 * is_mh
        )
        return _errors(draws, warmup.gradients + jnp.cumsum(cost) <= plain_cost, known)

    def paper(inputs):
        key, plain_cost = inputs
        warmup, init_key, run_key = warm(key)
        draws, _, _, cost, _ = run(warmup, srmc.paper_settings(), init_key, run_key, 0.0)
        return _errors(draws, jnp.cumsum(cost) <= plain_cost, known)

    size = 16 * chains * case.num_samples * mean.size  # bytes of a few arrays of draws
    affordable_batch = np.clip(2e9 // (4 * size), 1, replicates)
    batch = max(
        n for n in range(1, replicates + 1) if replicates % n == 0 and n <= affordable_batch
    )

    def over_replicates(column, inputs):
        program = lambda x: jax.lax.map(column, x, batch_size=batch)
        return jax.jit(program, compiler_options=in_order())(inputs)

    keys = jax.random.split(jax.random.key(seed), replicates)
    errors, measured, cost = over_replicates(repelled, keys if dealt is None else (keys, dealt))
    if beside:
        errors["paper"] = over_replicates(paper, (keys, cost))
        if truth is not None:
            errors["shift"] = over_replicates(shifted, (keys, cost))
    errors = jax.tree.map(lambda x: np.asarray(x, float), errors)
    row = {
        "kernel": case.kernel,
        "chains": chains,
        "alpha": alpha,
        "seed": seed,
        "dtype": str(mean.dtype),
        "replicates": replicates,
        "gradients_a_chain": float(np.mean(cost)),
        "non_finite_results": int(
            sum(np.sum(~np.isfinite(e)) for e in errors["repelled"].values())
        ),
        "measured": {name: float(np.mean(x)) for name, x in measured.items()},
        "errors": {},
    }
    for side, by_name in errors.items():
        row["errors"][side] = {
            name: {
                "squared_error": float(np.mean(e)),
                "ratio": float(np.mean(e) / np.mean(errors["plain"][name])),
                "error": ratio_error(errors["plain"][name], e),
                "median_ratio": float(np.median(e) / np.median(errors["plain"][name])),
            }
            for name, e in by_name.items()
        }
    return row


def _errors(draws, use, truth: Truth) -> dict[str, jax.Array]:
    """Mean squared errors in units of the target's, over draws (step, chain, d) in use."""
    sd = jnp.sqrt(truth.variance)
    weight = (use / jnp.maximum(jnp.sum(use), 1))[:, None, None] / draws.shape[1]
    y = (draws - truth.mean[None, None]) / sd[None, None]
    off = jnp.sum(weight * y**2, axis=(0, 1)) - 1
    out = {
        "mean": jnp.mean(jnp.sum(weight * y, axis=(0, 1)) ** 2),
        "second": jnp.mean(off**2),
        "radius": jnp.mean(off) ** 2,
    }
    if truth.covariance is not None:
        second = jnp.einsum("nci,ncj->ij", weight * y, y)
        out["covariance"] = jnp.mean((second - truth.covariance / (sd[None] * sd[:, None])) ** 2)
        used = jnp.where(use[:, None, None], draws, jnp.nan).reshape(-1, draws.shape[-1])
        found = jnp.nanquantile(used, jnp.array(QUANTILES), axis=0)
        out["quantile"] = jnp.mean(((found - truth.quantiles) / sd[None]) ** 2)
        tail = jnp.sum(weight * (y > 1.5), axis=(0, 1))
        out["tail"] = jnp.mean((tail - truth.tail) ** 2)
    return out


def _control_variates(draws, scores, order: int, truth: Truth) -> dict[str, jax.Array]:
    """Zero-variance control variates by least squares, pooled over chains."""
    dim = draws.shape[-1]
    x, s = (a.reshape(-1, dim) for a in (draws, scores))
    sd = jnp.sqrt(truth.variance)
    y, s = (x - truth.mean[None]) / sd[None], s * sd[None]
    pairs = jnp.triu_indices(dim)
    if order == 2:
        if 2 * (dim + len(pairs[0])) > len(y):
            return {}
        centred = y - jnp.mean(y, axis=0)[None]
        quadratic = centred[:, pairs[0]] * s[:, pairs[1]] + centred[:, pairs[1]] * s[:, pairs[0]]
        s = jnp.concatenate([s, quadratic / 2 + (pairs[0] == pairs[1])[None]], axis=1)
    f = jnp.concatenate([y, y**2], axis=1)
    if truth.covariance is not None:
        f = jnp.concatenate([f, y[:, pairs[0]] * y[:, pairs[1]]], axis=1)
    mean_s, mean_f = jnp.mean(s, axis=0), jnp.mean(f, axis=0)
    centred_s, centred_f = s - mean_s[None], f - mean_f[None]
    gram = centred_s.T @ centred_s
    gram = gram + 1e-6 * jnp.diag(jnp.diag(gram))
    beta = jnp.linalg.solve(gram, centred_s.T @ centred_f)
    estimate = mean_f - mean_s @ beta
    off = estimate[dim : 2 * dim] - 1
    out = {
        "mean": jnp.mean(estimate[:dim] ** 2),
        "second": jnp.mean(off**2),
        "radius": jnp.mean(off) ** 2,
    }
    if truth.covariance is not None:
        square = (estimate[2 * dim :] - (truth.covariance / (sd[None] * sd[:, None]))[pairs]) ** 2
        out["covariance"] = jnp.sum(square * jnp.where(pairs[0] == pairs[1], 1, 2)) / dim**2
    return out


def ratio_error(plain: np.ndarray, other: np.ndarray) -> float:
    """The standard error of mean(other) / mean(plain), by the jackknife over replicates."""
    n = len(plain)
    with np.errstate(over="ignore", invalid="ignore"):  # a run that blew up
        left_out = (other.sum() - other) / (plain.sum() - plain)
        return float(np.sqrt((n - 1) / n * np.sum((left_out - left_out.mean()) ** 2)))

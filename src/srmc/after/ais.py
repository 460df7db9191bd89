"""Annealed importance sampling: from a base distribution to the target, with weights."""

import itertools
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from blackjax.base import SamplingAlgorithm

from srmc._checks import check_count
from srmc._progress import progress_bar
from srmc.core.target import LogDensity

PyTree = Any


class AISResult(NamedTuple):
    """What annealing leaves.

    log_normalizer, error
        Of the target, given that of the base is `log_base_normalizer`; and its standard error.
    samples, log_weights
        The last states of the particles, and their weights.
    effective_sample_size
        (sum w)^2 / sum w^2.
    acceptance_rate
        Mean over particles, for each temperature; NaN if the kernel reports none.
    is_exact
        False if the transitions were repelled, so that the weights are not exact.
    """

    log_normalizer: float
    error: float
    samples: PyTree
    log_weights: np.ndarray
    effective_sample_size: float
    acceptance_rate: np.ndarray
    is_exact: bool


def ais(
    rng_key: jax.Array,
    logdensity_fn: LogDensity,
    build: Callable[[LogDensity], SamplingAlgorithm],
    sample_base: Callable[[jax.Array], PyTree],
    base_logdensity_fn: LogDensity,
    *,
    log_base_normalizer: float = 0.0,
    schedule: Any = 1000,
    num_particles: int = 100,
    num_steps: int = 1,
    chunk_size: int | None = None,
    progress: bool = True,
) -> AISResult:
    """Estimate the log normaliser of a target by annealing (Neal, 2001).

    Particles start in the base distribution and follow log pi_b = (1 - b) log base + b log target
    from b = 0 to 1; each step of b adds (b' - b) (log target - log base) to a particle's log
    weight, and then the kernel moves it under the new temperature.

    Parameters
    ----------
    logdensity_fn
        The log density of the target, up to the constant that is sought.
    build
        From a log density to a sampler that leaves it invariant, such as
        `lambda f: srmc.gwg(f, srmc.Binary(), alpha=0.0)`. A repelled one may explore better, but
        its transitions leave no one distribution invariant: the weights are no longer exact.
    sample_base, base_logdensity_fn, log_base_normalizer
        A function of a key that draws from the base; its log density, and the log of its
        normaliser, 0 if that is 1.
    schedule
        The inverse temperatures from 0 to 1, or how many steps of equal size.
    num_particles, num_steps
        Independent particles, and steps of the kernel at each temperature.
    chunk_size
        Particles that run at once; all if not given.
    """
    check_count("num_particles", num_particles)
    check_count("num_steps", num_steps)
    betas = jnp.asarray(_schedule(schedule), float)
    count = len(betas) - 1
    chunk = num_particles if chunk_size is None else chunk_size
    check_count("chunk_size", chunk)

    def between(beta):
        def logdensity(x):
            return (1 - beta) * base_logdensity_fn(x) + beta * logdensity_fn(x)

        return logdensity

    def gap(x):
        return logdensity_fn(x) - base_logdensity_fn(x)

    def anneal(carry, first, last):
        """Temperatures `first` to `last` of one particle."""

        def one(n, carry):
            x, log_weight, memory, key, rates, repels = carry
            log_weight = log_weight + (betas[n + 1] - betas[n]) * gap(x)
            algorithm = build(between(betas[n + 1]))
            init_key, run_key = jax.random.split(jax.random.fold_in(key, n))
            # A repelled kernel keeps its history, and the strength with it.
            state = algorithm.init(x, init_key)._replace(**memory)

            def move(carry, key):
                state, repels = carry
                repels |= jnp.asarray(getattr(state, "alpha", 0.0)) != 0
                state, info = algorithm.step(key, state)
                inner = getattr(info, "inner_info", info)
                return (state, repels), getattr(inner, "acceptance_rate", jnp.nan)

            keys = jax.random.split(run_key, num_steps)
            (state, repels), accepted = jax.lax.scan(move, (state, repels), keys)
            rates = rates.at[n].set(jnp.mean(accepted).astype(rates.dtype))
            return state.position, log_weight, _memory(state), key, rates, repels

        return jax.lax.fori_loop(first, last, one, carry)

    run = jax.jit(jax.vmap(anneal, in_axes=(0, None, None)))
    ends = np.linspace(0, count, min(count, 20) + 1).astype(int)
    all_keys = jax.random.split(rng_key, num_particles)
    out = []
    with progress_bar(progress) as show:
        for first in range(0, num_particles, chunk):
            keys = all_keys[first : first + chunk]
            size = len(keys)
            if size < chunk <= num_particles:  # one program serves the last, short chunk too
                keys = jnp.concatenate([keys, all_keys[: chunk - size]])
            x = jax.vmap(lambda key: sample_base(jax.random.fold_in(key, count)))(keys)
            states = jax.vmap(build(between(betas[-1])).init)(x, keys)
            zeros, rates = jnp.zeros(len(keys), betas.dtype), jnp.zeros((len(keys), count))
            carry = states.position, zeros, _memory(states), keys, rates, zeros != 0
            for start, end in itertools.pairwise(ends):
                carry = run(carry, start, end)
                done = first * count + int(end) * size
                show("annealing", done, num_particles * count)
            x, log_weight, _, _, rates, repels = carry
            kept = jax.tree.map(np.asarray, (x, log_weight, rates, repels))
            out.append(jax.tree.map(lambda a, n=size: a[:n], kept))
    samples, log_weights, rates, repels = jax.tree.map(lambda *x: np.concatenate(x), *out)
    if np.any(repels):
        warnings.warn(
            "ais: repelled transitions leave no one distribution invariant, so that the weights "
            "are not exact; build a kernel with alpha=0 for an unbiased normaliser",
            stacklevel=2,
        )
    log_weights = log_weights.astype(float)
    if not np.any(np.isfinite(log_weights)):
        raise ValueError("logdensity_fn must be finite on the base's draws, but no particle has it")
    value, error = log_mean(log_weights)
    weights = np.exp(log_weights - np.max(log_weights))
    return AISResult(
        value + log_base_normalizer,
        error,
        samples,
        log_weights,
        float(np.sum(weights) ** 2 / np.sum(weights**2)),
        rates.mean(axis=0),
        not np.any(repels),
    )


def log_mean(log_weights: np.ndarray) -> tuple[float, float]:
    """The log of the mean weight, and its standard error by the delta method."""
    top = np.max(log_weights)
    weights = np.exp(log_weights - top)
    spread = np.std(weights, ddof=1) if len(weights) > 1 else np.nan
    mean = np.mean(weights)
    return float(top + np.log(mean)), float(spread / mean / np.sqrt(len(weights)))


def _schedule(schedule: Any) -> np.ndarray:
    if isinstance(schedule, int | np.integer):
        check_count("schedule", schedule)
        return np.linspace(0, 1, schedule + 1)
    betas = np.asarray(schedule, float)
    good = betas.ndim == 1 and len(betas) > 1 and betas[0] == 0 and betas[-1] == 1
    if not good or np.any(np.diff(betas) <= 0):
        raise ValueError(
            f"schedule must rise from 0 to 1, or be a number of steps, got {schedule!r}"
        )
    return betas


def _memory(state: Any) -> dict[str, Any]:
    """What a repelled chain takes along from one temperature to the next."""
    names = ("theta", "alpha", "step", "strength_state")
    return {name: getattr(state, name) for name in names} if hasattr(state, "theta") else {}

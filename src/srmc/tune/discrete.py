"""Warm-up on discrete spaces: the step size of DLP, and the loop as plain draws show it."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from blackjax.adaptation.step_size import dual_averaging_adaptation
from blackjax.base import SamplingAlgorithm

from srmc import samplers as _samplers
from srmc._checks import check_count, check_option
from srmc.core.history import Gain
from srmc.core.strength import watched
from srmc.core.target import LogDensity, all_finite
from srmc.discrete.sites import Changes, Sites
from srmc.discrete.space import Space
from srmc.tune.measure import RHO, TOLERANCE, autocorrelation_times, top_eigenvalues

ALPHA = 30.0
STEADY = 0.05  # of rate times autocorrelation time; from 0.1 on kernels may lock in
KEPT = 2**24  # numbers of a warm-up that are kept to be measured
ACCEPTANCE = 0.574  # of DLP, as of Langevin proposals elsewhere


class SiteRecipe(NamedTuple):
    """The kernel's builder."""

    build: Callable[..., SamplingAlgorithm]


RECIPES = {
    "flip_mh": SiteRecipe(_samplers.flip_mh),
    "gibbs": SiteRecipe(_samplers.gibbs),
    "locally_balanced": SiteRecipe(_samplers.locally_balanced),
    "gwg": SiteRecipe(_samplers.gwg),
    "dlp": SiteRecipe(_samplers.dlp),
}


class SiteWarmup(NamedTuple):
    """What a warm-up leaves: as `_tune.Warmup`, with features in place of scores."""

    positions: jax.Array
    parameters: dict[str, Any]
    draws: jax.Array
    scores: jax.Array
    spacing: int
    total_gradients: jax.Array


class SiteLoop(NamedTuple):
    """The measured loop.

    factors
        The preconditioner: one over the mean square of each feature.
    rate
        g = gamma (1 + alpha), the loop's rate a step.
    time
        The autocorrelation times of the features, in steps.
    top_eigenvalue
        Of the second moment of the preconditioned features.
    exponent
        The expected root mean square of the exponent scale.
    """

    factors: jax.Array
    rate: jax.Array
    time: jax.Array
    top_eigenvalue: jax.Array
    exponent: jax.Array


NO_LOOP = SiteLoop(*[0.0] * 5)  # type: ignore[arg-type]


def adapt(
    kernel: str,
    logdensity_fn: LogDensity,
    rng_key: jax.Array,
    positions: jax.Array,
    num_steps: int,
    *,
    space: Space,
    differences: Changes | None = None,
    **options: Any,
) -> SiteWarmup:
    """Half of the steps tune and settle; of the other half, draws are kept with their features."""
    check_option("kernel", kernel, RECIPES)
    check_count("num_steps", num_steps, at_least=100)
    fixed = {"space": space, "differences": differences} | options
    num_chains, half = len(positions), num_steps // 2
    keys = jax.random.split(rng_key, num_chains)
    tunes = kernel == "dlp" and "step_size" not in options
    build = lambda **found: RECIPES[kernel].build(logdensity_fn, alpha=0.0, **fixed, **found)
    begin, update, final = dual_averaging_adaptation(ACCEPTANCE)

    def stepped(algorithm, n, states):
        fold = jax.vmap(lambda key: jax.random.fold_in(key, n))
        return jax.vmap(algorithm.step)(fold(keys), states)

    def settle(positions):
        def one(carry, n):
            states, averaging, spent = carry
            found = {"step_size": jnp.exp(averaging.log_step_size)} if tunes else {}
            states, info = stepped(build(**found), n, states)
            rate = jnp.mean(info.inner_info.acceptance_rate)
            return (states, update(averaging, rate), spent + jnp.sum(info.gradients)), None

        states = jax.vmap(build(**first_step).init)(positions, keys)
        start = states, begin(0.5), jnp.zeros((), int)
        (states, averaging, spent), _ = jax.lax.scan(one, start, jnp.arange(half))
        return states.position, final(averaging), spent

    spacing = max(1, half // max(64, KEPT // positions.size))
    spacing = max(spacing, half // 512)

    def late(positions, found):
        algorithm = build(**found)

        def one(carry, n):
            states, spent = carry
            states, info = stepped(algorithm, n, states)
            return (states, spent + jnp.sum(info.gradients)), None

        def several(carry, first):
            carry, _ = jax.lax.scan(one, carry, first + jnp.arange(spacing))
            return carry, carry[0].position

        start = jax.vmap(algorithm.init)(positions, keys), jnp.zeros((), int)
        firsts = half + spacing * jnp.arange(half // spacing)
        (states, spent), path = jax.lax.scan(several, start, firsts)
        return states.position, jnp.swapaxes(path, 0, 1), spent

    sites = Sites(logdensity_fn, space, None, None, differences)
    first_step = {"step_size": 0.5} if tunes else {}
    build(**first_step).init(positions[0])  # refuses what the kernel cannot work with
    sites.check_feature(positions[0])
    positions, step_size, spent = jax.jit(settle)(positions)
    found = {"step_size": step_size} if tunes else {}
    last, draws, more = jax.jit(late)(positions, found)
    look = lambda x: sites.look(x).feature
    features = jax.jit(lambda x: jax.lax.map(look, x, batch_size=64))(
        draws.reshape(-1, *draws.shape[2:])
    )
    cost = sites.bent(last[0], jnp.zeros(())).evaluations(last[0])[0]
    total = spent + more + cost * len(features)
    flat = features.reshape(*draws.shape[:2], -1)
    return SiteWarmup(last, fixed | found, draws, flat, spacing, total)


def look(
    kernel: str, warmup: SiteWarmup, num_samples: int, *, alpha: Any = "auto", together: int = 1
) -> SiteLoop:
    """The loop, measured on plain draws."""
    features = warmup.scores
    square = jnp.mean(features**2, axis=(0, 1))
    square = jnp.maximum(square, jnp.maximum(1e-2 * jnp.mean(square), 1e-12))
    times = jnp.maximum(warmup.spacing * autocorrelation_times(features), 1.0)
    squared = jnp.maximum(warmup.spacing * autocorrelation_times(features**2), 1.0)
    scaled = features / jnp.sqrt(square)[None, None]
    top = top_eigenvalues(scaled.reshape(1, -1, features.shape[-1]))[0]
    # As on continuous spaces, with five times the tolerance, since the features are bounded; and,
    # since a chain takes time to follow its surrogate, slow.
    rate = jnp.sqrt(40 * TOLERANCE * together * jnp.mean(squared) / num_samples)
    rate = rate / jnp.sqrt(jnp.mean(times**2))
    time = jnp.mean(times)
    rate = jnp.minimum(rate, jnp.minimum(STEADY * together, 0.25 / top) / time)
    spread = features.shape[-1] * rate * time / 2 / together
    loop = SiteLoop(1 / square, rate, times, top, jnp.sqrt(spread) + 2 * spread)
    known = all_finite(loop) & jnp.any(features != 0)
    off = SiteLoop(0 * square, jnp.asarray(1 / num_samples), 0 * times + 1, 0 * top, 0 * spread)
    return jax.tree.map(lambda a, b: jnp.where(known, a, b), loop, off)


def is_on(loop: SiteLoop) -> jax.Array:
    """Whether any feature acts."""
    return jnp.any(loop.factors > 0)


def measured(loop: SiteLoop) -> dict[str, Any]:
    """What a result says about the loop."""
    return {
        "loop_rate": loop.rate,
        "slowest_autocorrelation_time": jnp.max(loop.time),
        "top_eigenvalue": loop.top_eigenvalue,
        "expected_exponent": loop.exponent,
    }


def repellence(
    kernel: str,
    loop: SiteLoop,
    num_samples: int,
    *,
    alpha: Any = "auto",
    leapfrogs: int | None = None,
) -> dict[str, Any]:
    """The keywords of `repel` that suit a loop."""
    alpha = ALPHA if isinstance(alpha, str) else alpha
    gamma = loop.rate / (1 + alpha)
    return {
        "alpha": watched(
            alpha, limit=jnp.maximum(3 * loop.exponent, 0.3), rate=4 * gamma * (1 + alpha)
        ),
        "gain": Gain(RHO, gamma * num_samples**RHO, num_samples),
        "preconditioner": loop.factors,
        "history_average": True,
        "history_every": 1,
    }

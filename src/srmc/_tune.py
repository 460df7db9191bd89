"""Warm-up: the step size and metric of a base kernel, and a repellence that suits it."""

from collections.abc import Callable
from typing import Any, NamedTuple

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
from blackjax.adaptation.base import get_filter_adapt_info_fn
from blackjax.adaptation.step_size import dual_averaging_adaptation
from blackjax.base import SamplingAlgorithm
from jax.flatten_util import ravel_pytree

from srmc import _samplers
from srmc._checks import check_option
from srmc._history import gain
from srmc._strength import gain_limited
from srmc._surrogate import shift, tilt
from srmc._target import LogDensity
from srmc.metrics import autocorrelation_time

PyTree = Any


class Recipe(NamedTuple):
    """A kernel's builder, the builder that sets its step size, and the acceptance to aim at."""

    build: Callable[..., SamplingAlgorithm]
    pilot: Callable[..., SamplingAlgorithm]
    acceptance: float


# An unadjusted kernel accepts everything; it borrows the step at which its adjusted sibling
# rarely rejects, so that its bias is small.
RECIPES = {
    "mh": Recipe(_samplers.mh, _samplers.mh, 0.234),
    "ula": Recipe(_samplers.ula, _samplers.mala, 0.95),
    "uld": Recipe(_samplers.uld, lambda f, h, **kw: _samplers.hmc(f, h, 1, **kw), 0.95),
    "mala": Recipe(_samplers.mala, _samplers.mala, 0.574),
    "hmc": Recipe(_samplers.hmc, blackjax.hmc, 0.8),
    "nuts": Recipe(_samplers.nuts, blackjax.nuts, 0.8),
}


def adapt(
    kernel: str,
    logdensity_fn: LogDensity,
    rng_key: jax.Array,
    positions: PyTree,
    num_steps: int,
    **settings: Any,
) -> tuple[PyTree, dict[str, Any]]:
    """Find the step size, and for HMC and NUTS the diagonal metric, over all chains at once.

    Returns the chains' last positions, and the arguments of the kernel's builder.
    """
    check_option("kernel", kernel, RECIPES)
    keys = jax.random.split(rng_key, len(jax.tree.leaves(positions)[0]))
    recipe = RECIPES[kernel]
    if kernel in ("hmc", "nuts"):
        warmup = blackjax.window_adaptation(
            recipe.pilot,
            logdensity_fn,
            target_acceptance_rate=recipe.acceptance,
            adaptation_info_fn=get_filter_adapt_info_fn(),
            **settings,
        )
        run = jax.jit(jax.vmap(lambda key, x: warmup.run(key, x, num_steps)[0]))
        state, parameters = run(keys, positions)
        return state.position, settings | {
            "step_size": float(jnp.median(parameters["step_size"])),
            "inverse_mass_matrix": jnp.mean(parameters["inverse_mass_matrix"], axis=0),
        }

    begin, update, final = dual_averaging_adaptation(recipe.acceptance)

    @jax.jit
    def search(keys, positions):
        def one(carry, n):
            states, averaging = carry
            algorithm = recipe.pilot(logdensity_fn, jnp.exp(averaging.log_step_size), alpha=0.0)
            step_keys = jax.vmap(lambda key: jax.random.fold_in(key, n))(keys)
            states, info = jax.vmap(algorithm.step)(step_keys, states)
            rate = jnp.mean(jnp.nan_to_num(info.inner_info.acceptance_rate))
            return (states, update(averaging, rate)), None

        states = jax.vmap(recipe.pilot(logdensity_fn, 1.0, alpha=0.0).init)(positions)
        (states, averaging), _ = jax.lax.scan(one, (states, begin(1.0)), jnp.arange(num_steps))
        return states.position, final(averaging)

    positions, step_size = search(keys, positions)
    return positions, settings | {"step_size": float(step_size)}


def repellence(draws: PyTree, alpha: float, surrogate: str = "shift") -> dict[str, Any]:
    """Settings of `repel` that keep the loop damped, from draws (chain, draw, ...) of a plain run.

    The push is in units of the draws' variances, time in units of their autocorrelation time, and
    alpha is limited while the gain is large.
    """
    check_option("surrogate", surrogate, ("shift", "tilt"))
    variance = jax.tree.map(lambda x: np.asarray(x, float).var(axis=(0, 1)), draws)
    tau = max(float(np.max(t)) for t in jax.tree.leaves(autocorrelation_time(draws)))
    preconditioner = ravel_pytree(variance)[0]
    rho = 0.8
    return {
        "alpha": gain_limited(alpha) if alpha > 0 else 0.0,
        "gain": gain(rho, scale=tau ** (rho - 1), delay=tau),
        "surrogate": (shift if surrogate == "shift" else tilt)(preconditioner=preconditioner),
        "history_average": True,
    }

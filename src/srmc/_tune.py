"""Warm-up: the step size and metric of a base kernel, and late draws to measure the loop on."""

from collections.abc import Callable
from typing import Any, NamedTuple

import blackjax
import jax
import jax.numpy as jnp
from blackjax.adaptation.base import get_filter_adapt_info_fn
from blackjax.adaptation.step_size import dual_averaging_adaptation
from blackjax.base import SamplingAlgorithm
from jax.flatten_util import ravel_pytree

from srmc import _samplers
from srmc._checks import check_count, check_option
from srmc._measure import WORTHWHILE, Loop, measure, settings
from srmc._run import CHAINS
from srmc._target import LogDensity

PyTree = Any


class Recipe(NamedTuple):
    """How a kernel is warmed up and repelled.

    build, pilot, acceptance
        The kernel's builder, the builder that sets its step size, and the acceptance to aim at.
    step_gradients
        What a step of it costs, about, in gradients.
    """

    build: Callable[..., SamplingAlgorithm]
    pilot: Callable[..., SamplingAlgorithm]
    acceptance: float
    step_gradients: float


# An unadjusted kernel accepts everything; it borrows the step at which its adjusted sibling
# rarely rejects, so that its bias is small. A density counts as half a gradient.
RECIPES = {
    "mh": Recipe(_samplers.mh, _samplers.mh, 0.234, 0.5),
    "ula": Recipe(_samplers.ula, _samplers.mala, 0.95, 1),
    "uld": Recipe(_samplers.uld, lambda f, h, **kw: _samplers.hmc(f, h, 1, **kw), 0.95, 1),
    "mala": Recipe(_samplers.mala, _samplers.mala, 0.574, 1),
    "hmc": Recipe(_samplers.hmc, blackjax.hmc, 0.8, 10),
    "nuts": Recipe(_samplers.nuts, blackjax.nuts, 0.8, 10),
}


class Warmup(NamedTuple):
    """What a warm-up leaves.

    positions, parameters
        The chains' last positions, and the arguments of the kernel's builder.
    draws, scores
        Of the plain kernel in the second half of warm-up, (chain, draw, coordinate).
    spacing
        The number of steps from one of these draws to the next.
    gradients
        Gradients a chain that were spent on the scores alone, where the kernel has none.
    """

    positions: PyTree
    parameters: dict[str, Any]
    draws: jax.Array
    scores: jax.Array
    spacing: int
    gradients: int


def adapt(
    kernel: str,
    logdensity_fn: LogDensity,
    rng_key: jax.Array,
    positions: PyTree,
    num_steps: int,
    **options: Any,
) -> Warmup:
    """Find the step size, and for HMC and NUTS the diagonal metric, over all chains at once."""
    check_option("kernel", kernel, RECIPES)
    check_count("num_steps", num_steps, at_least=100)
    by_window = kernel in ("hmc", "nuts")
    find = _by_window if by_window else _by_acceptance
    last, parameters, positions, gradients = find(
        RECIPES[kernel], logdensity_fn, rng_key, positions, num_steps, options
    )
    flatten = jax.vmap(jax.vmap(lambda x: ravel_pytree(x)[0]))
    if gradients is not None:
        return Warmup(last, parameters, flatten(positions), flatten(gradients), 1, 0)
    spacing = max(1, len(jax.tree.leaves(positions)[0][0]) // 128)
    positions = jax.tree.map(lambda x: x[:, ::-1][:, ::spacing][:, ::-1], positions)
    gradients = jax.vmap(jax.vmap(jax.grad(logdensity_fn)))(positions)
    draws = flatten(positions)
    return Warmup(last, parameters, draws, flatten(gradients), spacing, draws.shape[1])


def is_worthwhile(loop: Loop) -> jax.Array:
    """Whether `alpha="auto"` repels at all: the prediction must beat the plain kernel clearly."""
    return loop.ratio < WORTHWHILE


def tune(
    kernel: str, warmup: Warmup, num_samples: int, *, alpha: Any = "auto", shared: bool = True
) -> tuple[Loop, dict[str, Any]]:
    """Measure the loop on a warm-up; return it, and the keywords of `repel` that suit it."""
    step_gradients = RECIPES[kernel].step_gradients
    if "num_integration_steps" in warmup.parameters:
        step_gradients = warmup.parameters["num_integration_steps"]
    loop = lambda overhead: measure(
        warmup.draws,
        warmup.scores,
        num_samples,
        spacing=warmup.spacing,
        overhead=overhead,
        shared=shared,
    )
    if kernel == "mh":
        # The history of a kernel without gradients is thinned to a fraction of the time in which
        # its fastest direction moves, and so that it costs at most 8% more.
        fastest = jnp.min(loop(0.0).time)
        history_every = jnp.clip(jnp.round(fastest / 4), 25, 200).astype(int)
        measured = loop(1 / (step_gradients * history_every))
        options = settings(measured, num_samples, alpha=alpha, history_every=history_every)
    else:
        feedback_every = max(1, round(20 / step_gradients))
        measured = loop(1 / (step_gradients * feedback_every))
        options = settings(measured, num_samples, alpha=alpha)
        options["feedback_every"] = feedback_every
    options["history_axis"] = CHAINS if shared else None
    return measured, options


def _by_window(recipe, logdensity_fn, rng_key, positions, num_steps, options):
    """BlackJAX's window adaptation, each chain by itself; the median step and the mean metric."""
    adaptation = blackjax.window_adaptation(
        recipe.pilot,
        logdensity_fn,
        target_acceptance_rate=recipe.acceptance,
        adaptation_info_fn=get_filter_adapt_info_fn({"position", "logdensity_grad"}),
        **options,
    )

    @jax.jit
    @jax.vmap
    def run(key, position):
        (state, parameters), info = adaptation.run(key, position, num_steps)
        late = jax.tree.map(lambda x: x[num_steps // 2 :], info.state)
        return state.position, parameters, late.position, late.logdensity_grad

    keys = jax.random.split(rng_key, len(jax.tree.leaves(positions)[0]))
    last, found, draws, scores = run(keys, positions)
    parameters = options | {
        "step_size": jnp.median(found["step_size"]),
        "inverse_mass_matrix": jnp.mean(found["inverse_mass_matrix"], axis=0),
    }
    return last, parameters, draws, scores


def _by_acceptance(recipe, logdensity_fn, rng_key, positions, num_steps, options):
    """Dual averaging of one step size over all chains, then as many steps of the kernel itself."""
    begin, update, final = dual_averaging_adaptation(recipe.acceptance)
    num_chains = len(jax.tree.leaves(positions)[0])

    def step(algorithm, n, states):
        keys = jax.random.split(jax.random.fold_in(rng_key, n), num_chains)
        return jax.vmap(algorithm.step)(keys, states)

    @jax.jit
    def run(positions):
        def search(carry, n):
            states, averaging = carry
            pilot = recipe.pilot(logdensity_fn, jnp.exp(averaging.log_step_size), alpha=0.0)
            states, info = step(pilot, n, states)
            rate = jnp.mean(jnp.nan_to_num(info.inner_info.acceptance_rate))
            return (states, update(averaging, rate)), None

        half = num_steps // 2
        states = jax.vmap(recipe.pilot(logdensity_fn, 1.0, alpha=0.0).init)(positions)
        carry = (states, begin(1.0))
        (states, averaging), _ = jax.lax.scan(search, carry, jnp.arange(half))
        algorithm = recipe.build(logdensity_fn, final(averaging), alpha=0.0, **options)

        def record(states, n):
            states, _ = step(algorithm, n, states)
            return states, (states.position, getattr(states.inner_state, "logdensity_grad", None))

        init_keys = jax.random.split(rng_key, num_chains)
        states = jax.vmap(algorithm.init)(states.position, init_keys)
        states, late = jax.lax.scan(record, states, half + jnp.arange(num_steps - half))
        late = jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), late)
        return states.position, final(averaging), *late

    last, step_size, draws, scores = run(positions)
    return last, options | {"step_size": step_size}, draws, scores

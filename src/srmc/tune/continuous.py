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

from srmc import samplers as _samplers
from srmc._checks import check_count, check_option
from srmc.core.repel import repel
from srmc.core.target import LogDensity
from srmc.run.loop import CHAINS
from srmc.tune.measure import Loop, measure, select, settings
from srmc.tune.measure import is_on as is_on

PyTree = Any
KEPT = 2**25  # numbers of a warm-up that are kept to be measured


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


def _one_leapfrog(logdensity_fn, step_size, scale, **options):
    return _samplers.hmc(logdensity_fn, step_size, 1, scale**2, **options)


def _jittered_hmc(logdensity_fn, step_size, num_integration_steps, inverse_mass_matrix, **options):
    return repel(
        blackjax.dynamic_hmc,
        logdensity_fn,
        step_size=step_size,
        inverse_mass_matrix=inverse_mass_matrix,
        integration_steps_fn=lambda key: jax.random.randint(key, (), 1, 2 * num_integration_steps),
        **options,
    )


# An unadjusted kernel accepts everything; it borrows the step at which its adjusted sibling
# rarely rejects, so that its bias is small. A density counts as half a gradient.
RECIPES = {
    "mh": Recipe(_samplers.mh, _samplers.mh, 0.234, 0.5),
    "ula": Recipe(_samplers.ula, _samplers.mala, 0.95, 1),
    "uld": Recipe(_samplers.uld, _one_leapfrog, 0.95, 1),
    "mala": Recipe(_samplers.mala, _samplers.mala, 0.574, 1),
    "hmc": Recipe(_samplers.hmc, blackjax.hmc, 0.8, 10),
    "jittered_hmc": Recipe(_jittered_hmc, blackjax.hmc, 0.8, 10),
    "nuts": Recipe(_samplers.nuts, blackjax.nuts, 0.8, 10),
}


NO_LOOP = Loop(**dict.fromkeys(Loop._fields, 0.0) | {"factors": (0.0, 0.0)})  # type: ignore[arg-type]


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
    total_gradients
        All gradients that were taken, of all chains.
    """

    positions: PyTree
    parameters: dict[str, Any]
    draws: jax.Array
    scores: jax.Array
    spacing: int
    gradients: int
    total_gradients: jax.Array


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
    find = _by_window if kernel in ("hmc", "jittered_hmc", "nuts") else _by_acceptance
    spacing = _spacing(positions, num_steps)
    last, parameters, positions, gradients, total = find(
        RECIPES[kernel], logdensity_fn, rng_key, positions, num_steps, spacing, options
    )
    flatten = jax.vmap(jax.vmap(lambda x: ravel_pytree(x)[0]))
    if gradients is not None:
        draws, scores = flatten(positions), flatten(gradients)
        return Warmup(last, parameters, draws, scores, spacing, 0, total)
    more = max(1, len(jax.tree.leaves(positions)[0][0]) // 128)
    positions = jax.tree.map(lambda x: x[:, ::-1][:, ::more][:, ::-1], positions)
    gradients = jax.vmap(jax.vmap(jax.grad(logdensity_fn)))(positions)
    draws = flatten(positions)
    spent = draws.shape[1] + 32
    total = total + spent * len(draws)
    return Warmup(last, parameters, draws, flatten(gradients), spacing * more, spent, total)


def _spacing(positions: PyTree, num_steps: int) -> int:
    """Of the late draws each so many-th is kept: all, if there is room, else 64 at least."""
    size = sum(leaf.size for leaf in jax.tree.leaves(positions))
    late = num_steps - 2 * (num_steps // 4)
    return max(1, late // max(64, KEPT // (2 * size)))


def seen(state: Any, loop: Loop) -> jax.Array:
    """The features of a state that act, those of shifts first; only these if there are many."""
    linear, shifts = (
        feature * (factor > 0) for feature, factor in zip(state.feature, loop.factors, strict=True)
    )
    if linear.ndim == 2:
        linear = linear[jnp.triu_indices(len(linear))]
    return jnp.concatenate([shifts, linear]) if len(shifts) + len(linear) <= 128 else shifts


def measured(loop: Loop) -> dict[str, Any]:
    """What a result says about the loop."""
    return {
        "loop_rate": loop.rate,
        "slowest_autocorrelation_time": jnp.max(loop.time),
        "top_eigenvalue": loop.top_eigenvalue,
        "explained": jnp.mean(loop.explained),
        "explained_squares": jnp.mean(loop.explained_squares),
        "explained_products": loop.explained_products,
        "expected_exponent": loop.exponent,
        "offset": loop.offset,
    }


def tune(
    kernel: str,
    warmup: Warmup,
    num_samples: int,
    *,
    alpha: Any = "auto",
    shared: bool = True,
    form: str = "affine",
) -> tuple[Loop, dict[str, Any]]:
    """Measure the loop on a warm-up; return it, and the keywords of `repel` that suit it."""
    together = len(warmup.draws) if shared else 1
    loop = look(kernel, warmup, num_samples, alpha=alpha, together=together)
    steps = warmup.parameters.get("num_integration_steps")
    options = repellence(kernel, loop, num_samples, alpha=alpha, form=form, leapfrogs=steps)
    return loop, options | {"history_axis": CHAINS if shared else None}


def look(
    kernel: str, warmup: Warmup, num_samples: int, *, alpha: Any = "auto", together: int = 1
) -> Loop:
    """The measured loop; if no strength was asked for, without what would be of no use.

    `together` is the number of chains that will share a history.
    """
    loop = measure(
        warmup.draws, warmup.scores, num_samples, spacing=warmup.spacing, together=together
    )
    return select(loop, _history_every(kernel, loop)) if isinstance(alpha, str) else loop


def repellence(
    kernel: str,
    loop: Loop,
    num_samples: int,
    *,
    alpha: Any = "auto",
    form: str = "affine",
    leapfrogs: int | None = None,
) -> dict[str, Any]:
    """The keywords of `repel` that suit a loop: 5% to 20% more gradients."""
    step_gradients = leapfrogs or RECIPES[kernel].step_gradients
    every = _history_every(kernel, loop)
    options = settings(loop, num_samples, alpha=alpha, history_every=every, form=form)
    if kernel != "mh":
        options["feedback_every"] = 1 if step_gradients >= 5 else round(20 / step_gradients)
    return options


def _history_every(kernel: str, loop: Loop) -> Any:
    """A kernel without gradients has its history thinned.

    To a fraction of the time in which its fastest direction moves.
    """
    if kernel != "mh":
        return 1
    return jnp.clip(jnp.round(jnp.min(loop.time) / 4), 20, 200).astype(int)


def _by_window(recipe, logdensity_fn, rng_key, positions, num_steps, spacing, options):
    """BlackJAX's window adaptation, each chain by itself; the median step and the mean metric.

    The draws of its second half are kept if there is room for all; else they come from steps
    with the parameters that the first half found.
    """
    fits = spacing == 1
    length = num_steps if fits else num_steps // 2
    seen = {"position", "logdensity_grad"} if fits else set()
    adaptation = blackjax.window_adaptation(
        recipe.pilot,
        logdensity_fn,
        target_acceptance_rate=recipe.acceptance,
        adaptation_info_fn=get_filter_adapt_info_fn(seen, {"num_integration_steps"}),
        **options,
    )

    @jax.jit
    @jax.vmap
    def run(key, position):
        (state, parameters), info = adaptation.run(key, position, length)
        late = jax.tree.map(lambda x: x[num_steps // 2 :], info.state)
        spent = jnp.sum(info.info.num_integration_steps)
        return state.position, parameters, spent, late.position, late.logdensity_grad

    keys = jax.random.split(rng_key, len(jax.tree.leaves(positions)[0]))
    last, found, spent, *late = run(keys, positions)
    parameters = options | {
        "step_size": jnp.median(found["step_size"]),
        "inverse_mass_matrix": jnp.mean(found["inverse_mass_matrix"], axis=0),
    }
    if fits:
        return last, parameters, *late, jnp.sum(spent)
    algorithm = recipe.build(logdensity_fn, **parameters, alpha=0.0)
    late_steps = jax.jit(lambda last: _late(algorithm, keys, last, length, num_steps, spacing))
    last, late, more = late_steps(last)
    return last, parameters, *late, jnp.sum(spent) + more


def _by_acceptance(recipe, logdensity_fn, rng_key, positions, num_steps, spacing, options):
    """Dual averaging of the step size, twice, then steps of the kernel itself, which are kept.

    In the first quarter of the steps each chain has a step size of its own, so that one that
    starts where none but tiny steps are accepted gets away. Then each coordinate gets its scale,
    and in the second quarter all chains seek one step size together.
    """
    begin, update, final = dual_averaging_adaptation(recipe.acceptance)
    num_chains = len(jax.tree.leaves(positions)[0])
    keys = jax.random.split(rng_key, num_chains)
    quarter = num_steps // 4
    thin = max(1, quarter // 64)
    scores_of = jax.vmap(jax.vmap(jax.grad(logdensity_fn)))
    flatten = jax.vmap(jax.vmap(lambda x: ravel_pytree(x)[0]))

    def search(positions, scale, first, together):
        pilot = lambda step_size: recipe.pilot(logdensity_fn, step_size, scale=scale, alpha=0.0)

        def one(carry, n):
            states, averaging = carry
            step = lambda log_step_size, key, state: pilot(jnp.exp(log_step_size)).step(key, state)
            states, info = jax.vmap(step)(averaging.log_step_size, _fold(keys, n), states)
            rates = jnp.nan_to_num(info.inner_info.acceptance_rate)
            rates = jnp.broadcast_to(jnp.mean(rates), rates.shape) if together else rates
            return (states, jax.vmap(update)(averaging, rates)), None

        def several(carry, start):
            carry, _ = jax.lax.scan(one, carry, start + jnp.arange(thin))
            return carry, carry[0].position

        carry = (jax.vmap(pilot(1.0).init)(positions), jax.vmap(begin)(jnp.ones(num_chains)))
        carry, path = jax.lax.scan(several, carry, first + thin * jnp.arange(quarter // thin))
        return carry[0].position, jax.vmap(final)(carry[1])[0], path

    @jax.jit
    def run(positions):
        dim = sum(leaf[0].size for leaf in jax.tree.leaves(positions))
        positions, _, path = search(positions, jnp.ones(dim), 0, together=False)
        seen = jax.tree.map(lambda x: x[len(x) // 2 :], path)
        scale = _scale(flatten(seen), flatten(scores_of(seen)))
        positions, step_size, _ = search(positions, scale, quarter, together=True)
        algorithm = recipe.build(logdensity_fn, step_size, scale=scale, alpha=0.0, **options)
        last, late, spent = _late(algorithm, keys, positions, 2 * quarter, num_steps, spacing)
        return last, step_size, scale, *late, spent

    last, step_size, scale, draws, scores, spent = run(positions)
    searched = num_chains * 2 * (quarter // thin * thin)
    total = spent + jnp.where(spent > 0, searched, 0)  # a random walk takes none
    return last, options | {"step_size": step_size, "scale": scale}, draws, scores, total


def _fold(keys, n):
    return jax.vmap(lambda key: jax.random.fold_in(key, n))(keys)


def _late(algorithm, keys, positions, first, last, spacing):
    """Steps of the tuned plain kernel: the last positions, those kept with scores, the cost."""

    def one(carry, n):
        states, spent = carry
        states, info = jax.vmap(algorithm.step)(_fold(keys, n), states)
        return (states, spent + jnp.sum(info.gradients)), None

    def several(carry, start):
        carry, _ = jax.lax.scan(one, carry, start + jnp.arange(spacing))
        states, _ = carry
        return carry, (states.position, getattr(states.inner_state, "logdensity_grad", None))

    states = jax.vmap(algorithm.init)(positions, keys)
    starts = first + spacing * jnp.arange((last - first) // spacing)
    (states, spent), late = jax.lax.scan(several, (states, jnp.zeros((), int)), starts)
    return states.position, jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), late), spent


def _scale(draws, scores):
    """The root of sd(x) / sd(s), which is exact on a Gaussian whatever part of it was seen."""
    ratio = jnp.std(draws, axis=(0, 1)) / jnp.std(scores, axis=(0, 1))
    return jnp.sqrt(jnp.where(jnp.isfinite(ratio) & (ratio > 0), ratio, 1.0))

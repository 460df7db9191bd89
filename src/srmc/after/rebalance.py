"""The moving frame over draws that another program made: one pass, given the score."""

import functools
import warnings
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from srmc._types import Array, Draws, Int
from srmc.after import rebalancing as stream
from srmc.after.rebalancing import How, ScoreFn, Values
from srmc.tune.measure import Loop, is_on


def rebalance(
    draws: Values,
    score_fn: ScoreFn,
    *,
    alpha: float | str = "auto",
    warmup: Values = None,
    shared_history: bool = True,
    form: str = "affine",
    logdensity_fn: Callable[[Array], Array] | None = None,
) -> np.ndarray:
    """Repel draws that exist already: means, covariances, quantiles and tails come closer.

    Parameters
    ----------
    draws
        Draws of any sampler, in order, (chain, draw, d) or (draw, d), of unbounded parameters.
    score_fn
        The gradient of the log density at one draw, a JAX function. It is evaluated once per draw,
        and to measure the loop at a quarter of them or 512, whichever is more, up to 512 per
        chain.
    alpha
        The strength; 0 leaves the draws as they are.
    warmup
        Late warm-up draws of the same chains to measure on; the draws themselves if not given.
    shared_history
        Whether all chains share one history, which is best when they are pooled.
    form
        "affine", or "shift" for the shift alone.
    logdensity_fn
        The log density at one draw. With it no draw is moved to where that is not finite, which
        is needed if parameters are bounded: scores alone do not tell what is out of bounds.

    Returns
    -------
    The repelled draws, in the shape and precision of `draws`. A draw whose move would be absurd, or
    whose score is not finite, stays as it was; a warning says so if they are more than one in a
    hundred. With alpha="auto" all of them stay where the mean score of the draws is not 0.
    """
    given = np.asarray(draws)
    chains = stream.three_axes("draws", given)
    how = stream.check(
        score_fn, logdensity_fn, chains, chains.shape[1], alpha, shared_history, form
    )
    seen = chains if warmup is None else stream.three_axes("warmup", warmup)
    if seen.shape[2] != chains.shape[2]:
        raise ValueError(f"warmup must have d = {chains.shape[2]}, as draws, got {seen.shape[2]}")
    loop = stream.measured_on(seen, how)
    if how.alpha == 0 or not is_on(loop):
        return given.copy()
    moved, refused = _pass(loop, chains, how, stream.block_of(loop))
    if refused > 0.01 * chains[..., 0].size:
        warnings.warn(
            f"{refused} of {chains[..., 0].size} draws stayed as they were, since their moves left "
            "the target or had no score; rebalance draws of unbounded parameters",
            stacklevel=2,
        )
    # JAX may have rounded the draws; their moves are added to what was given
    move = np.asarray(moved) - np.asarray(chains)
    moved_draws: np.ndarray = given + move.reshape(given.shape).astype(given.dtype)
    return moved_draws


@functools.partial(jax.jit, static_argnums=(2, 3))
def _pass(loop: Loop, draws: Draws, how: How, block: int) -> tuple[Draws, Int[Array, ""]]:
    """The draws, moved, and how many were not."""
    chains, length, dim = draws.shape
    count = length // block
    whole = draws[:, : count * block].reshape(chains, count, block, dim)
    move = stream.moving(loop, how, block)
    state, out = jax.lax.scan(move, stream.begin(loop, chains, how), jnp.swapaxes(whole, 0, 1))
    out = jnp.swapaxes(out, 0, 1).reshape(chains, count * block, dim)
    if count * block < length:
        rest = draws[:, count * block :]
        state, last = stream.moving(loop, how, rest.shape[1])(state, rest)
        out = jnp.concatenate([out, last], axis=1)
    return out, jnp.sum(state.refused)

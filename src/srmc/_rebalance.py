"""The moving frame over draws that another program made: one pass, given the score."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from blackjax.base import SamplingAlgorithm

from srmc import _history
from srmc._checks import check_count, check_number, check_option
from srmc._measure import ALPHA, measure, settings
from srmc._strength import Seen

MEASURED = 512  # draws a chain, at most, that are scored to measure the loop


class RebalanceState(NamedTuple):
    """The history, alpha, what its schedule carries, draws seen a chain, and draws kept as is."""

    theta: Any
    alpha: jax.Array
    strength_state: Any
    step: jax.Array
    refused: jax.Array


def rebalancing(
    score_fn: Callable[[jax.Array], jax.Array],
    warmup: Any,
    num_samples: int,
    *,
    alpha: Any = "auto",
    shared_history: bool = True,
    form: str = "affine",
) -> SamplingAlgorithm:
    """`rebalance` for draws that come in pieces, in memory that does not grow with their number.

    Returns `init()` and `step(state, draws) -> (state, draws)`, with draws (chain, draw, d) a
    piece; the history stands still within a piece, so a few draws at a time are best:
    `step.block` says how many. `num_samples` is the number of draws a chain to come, about.
    """
    check_count("num_samples", num_samples)
    check_option("form", form, ("affine", "shift"))
    if isinstance(alpha, str):
        check_option("alpha", alpha, ("auto",))
    else:
        check_number("alpha", alpha, at_least=0.0)
    warmup = _three_axes("warmup", warmup)
    if warmup.shape[1] < 64:
        raise ValueError(f"warmup must hold at least 64 draws a chain, got {warmup.shape[1]}")
    num_chains, length, dim = warmup.shape
    spacing = -(-length // MEASURED)
    scores_of = jax.vmap(jax.vmap(score_fn))
    measured = warmup[:, ::-1][:, ::spacing][:, ::-1]
    loop = jax.jit(
        lambda x: measure(x, scores_of(x), num_samples, spacing=spacing, shared=shared_history)
    )(measured)
    options = settings(loop, num_samples, alpha=alpha, form=form)
    strength, surrogate, gain = (options[k] for k in ("alpha", "surrogate", "gain"))
    field = surrogate.field
    block = int(2 ** np.clip(np.floor(np.log2(0.15 / float(loop.rate))), 0, 6))
    limit = 0.5 / (1 + (ALPHA if isinstance(alpha, str) else alpha))

    def init():
        theta = field.init(jnp.zeros(dim, warmup.dtype))
        first, strength_state = strength.init()
        state = RebalanceState(theta, first, strength_state, jnp.zeros((), int), jnp.zeros((), int))
        if shared_history:
            return state
        return jax.tree.map(lambda leaf: jnp.stack([leaf] * num_chains), state)

    def look(state, base):
        """A piece of draws (draw, d) under one history; `base` may hold several chains."""
        weights = jax.tree.map(
            lambda leaf: state.alpha.astype(leaf.dtype) * leaf, surrogate.precondition(state.theta)
        )
        moved = jax.vmap(lambda x: field.flow(x, weights))(base)
        scores = jax.vmap(score_fn)(moved)
        # For a log-concave target this bounds what the move costs in log density.
        cost = jnp.sum(scores * (base - moved), axis=1)
        valid = jnp.all(jnp.isfinite(scores), axis=1) & (cost < 10 + dim)
        scores = jnp.where(valid[:, None], scores, 0.0)
        features = jax.vmap(field.feature)(moved, scores)
        count = jnp.maximum(jnp.sum(valid), 1)
        share = valid / count
        feature = jax.tree.map(lambda f: jnp.tensordot(share.astype(f.dtype), f, axes=1), features)
        return jnp.where(valid[:, None], moved, base), valid, features, feature

    def advance(state, base, num_draws):
        draws, valid, features, feature = look(state, base)
        gamma = jnp.minimum(num_draws * gain(state.step + num_draws), limit)
        theta = _history.update(state.theta, feature, gamma, jnp.any(valid))
        u = surrogate.precondition(theta)
        products = jax.tree.map(
            lambda f, w: jnp.sum((f * w).reshape(len(f), -1), axis=1), features, u
        )
        exponent = state.alpha * jnp.sqrt(jnp.mean(sum(jax.tree.leaves(products)) ** 2))
        step = state.step + num_draws
        seen = Seen(step, gamma, exponent, jnp.all(valid))
        next_alpha, strength_state = strength.update(state.strength_state, seen)
        refused = state.refused + jnp.sum(~valid)
        return RebalanceState(theta, next_alpha, strength_state, step, refused), draws

    @jax.jit
    def step(state, draws):
        chains, length, _ = draws.shape
        if shared_history:
            rows = jnp.swapaxes(draws, 0, 1).reshape(-1, dim)
            state, rows = advance(state, rows, length)
            return state, jnp.swapaxes(rows.reshape(length, chains, dim), 0, 1)
        return jax.vmap(lambda s, x: advance(s, x, length))(state, draws)

    def checked(state, draws):
        if jnp.ndim(draws) != 3 or draws.shape[0] != num_chains or draws.shape[2] != dim:
            raise ValueError(
                f"draws must be ({num_chains}, draw, {dim}) as warmup is, got shape "
                f"{jnp.shape(draws)}"
            )
        return step(state, draws)

    checked.block = block  # type: ignore[attr-defined]
    return SamplingAlgorithm(init, checked)


def rebalance(
    draws: Any,
    score_fn: Callable[[jax.Array], jax.Array],
    *,
    alpha: Any = "auto",
    warmup: Any = None,
    shared_history: bool = True,
    form: str = "affine",
) -> np.ndarray:
    """Repel draws that exist already: means, covariances, quantiles and tails come closer.

    Parameters
    ----------
    draws
        Draws of any sampler, in order, (chain, draw, d) or (draw, d).
    score_fn
        The gradient of the log density at one draw, a JAX function; it is taken once a draw, and
        for at most 512 draws a chain to measure the loop.
    alpha
        The strength; 0 leaves the draws as they are.
    warmup
        Late warm-up draws of the same chains to measure on; the draws themselves if not given.
    shared_history
        One history for all chains, which is best when they are pooled.
    form
        "affine", or "shift" for the shift alone.

    Returns
    -------
    The repelled draws, in the shape of `draws`. A draw whose move would be absurd, or whose score
    is not finite, stays what it was.
    """
    given = np.asarray(draws)
    chains = _three_axes("draws", given)
    if not isinstance(shared_history, bool):
        raise TypeError(f"shared_history must be True or False, got {shared_history!r}")
    _check_score(score_fn, chains[0, 0])
    init, step = rebalancing(
        score_fn,
        chains if warmup is None else warmup,
        chains.shape[1],
        alpha=alpha,
        shared_history=shared_history,
        form=form,
    )
    size = step.block  # type: ignore[attr-defined]
    count = chains.shape[1] // size

    @jax.jit
    def run(state, chains):
        whole = chains[:, : count * size].reshape(chains.shape[0], count, size, -1)
        state, out = jax.lax.scan(step, state, jnp.swapaxes(whole, 0, 1))
        out = jnp.swapaxes(out, 0, 1).reshape(chains.shape[0], count * size, -1)
        if count * size < chains.shape[1]:
            _, rest = step(state, chains[:, count * size :])
            out = jnp.concatenate([out, rest], axis=1)
        return out

    return np.asarray(run(init(), chains)).reshape(given.shape)


def _three_axes(name: str, draws: Any) -> jax.Array:
    array = jnp.asarray(draws)
    if array.ndim not in (2, 3) or not jnp.issubdtype(array.dtype, jnp.floating):
        raise ValueError(
            f"{name} must be floating-point numbers of shape (chain, draw, d) or (draw, d), got "
            f"shape {array.shape} and dtype {array.dtype}"
        )
    if not bool(jnp.all(jnp.isfinite(array))):
        raise ValueError(
            f"{name} must be finite, got {int(jnp.sum(~jnp.isfinite(array)))} NaN or inf"
        )
    return array[None] if array.ndim == 2 else array


def _check_score(score_fn: Any, draw: jax.Array) -> None:
    if not callable(score_fn):
        raise TypeError(f"score_fn must be a function of a draw, got {score_fn!r}")
    out = jax.eval_shape(score_fn, draw)
    if getattr(out, "shape", None) != draw.shape:
        raise ValueError(
            f"score_fn must return an array of shape {draw.shape}, as the draw has, got "
            f"{getattr(out, 'shape', out)}"
        )

"""The moving frame over draws that another program made: one pass, given the score."""

import functools
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from blackjax.base import SamplingAlgorithm

from srmc._checks import check_count, check_number, check_option, is_concrete
from srmc.core import history as _history
from srmc.core.memory import relative_size
from srmc.core.strength import Seen
from srmc.tune.measure import ALPHA, Loop, is_on, measure, select, settings, warn_of_offset

MEASURED = 512  # draws that are scored to measure the loop: of all, and of a chain at most


class RebalanceState(NamedTuple):
    """The history, alpha, what its schedule carries, draws seen a chain, and draws kept as is."""

    theta: Any
    alpha: jax.Array
    strength_state: Any
    step: jax.Array
    refused: jax.Array


class _How(NamedTuple):
    """What is fixed for a pass, and hashable, so that passes with the same score compile once."""

    score_fn: Callable[[jax.Array], jax.Array]
    logdensity_fn: Callable[[jax.Array], jax.Array] | None
    num_samples: int
    alpha: Any
    shared: bool
    form: str

    def settings(self, loop: Loop) -> dict[str, Any]:
        return settings(loop, self.num_samples, alpha=self.alpha, form=self.form)


def rebalancing(
    score_fn: Callable[[jax.Array], jax.Array],
    warmup: Any,
    num_samples: int,
    *,
    alpha: Any = "auto",
    shared_history: bool = True,
    form: str = "affine",
    logdensity_fn: Callable[[jax.Array], jax.Array] | None = None,
) -> SamplingAlgorithm:
    """`rebalance` for draws that come in pieces, in memory that does not grow with their number.

    Returns `init()` and `step(state, draws) -> (state, draws)`, with draws (chain, draw, d) a
    piece. The history stands still within a piece, so a few draws at a time are best:
    `step.block` says how many. `num_samples` is the number of draws a chain to come, about.
    """
    warmup = _three_axes("warmup", warmup)
    how = _check(score_fn, logdensity_fn, warmup, num_samples, alpha, shared_history, form)
    loop = _look_at(warmup, how)
    shape = warmup.shape

    def step(state, draws):
        if jnp.ndim(draws) != 3 or (draws.shape[0], draws.shape[2]) != (shape[0], shape[2]):
            raise ValueError(
                f"draws must be ({shape[0]}, draw, {shape[2]}) as warmup is, got shape "
                f"{jnp.shape(draws)}"
            )
        return _step(loop, state, _three_axes("draws", draws), how)

    step.block = _block(loop)  # type: ignore[attr-defined]
    return SamplingAlgorithm(lambda: _init(loop, shape, how), step)


def rebalance(
    draws: Any,
    score_fn: Callable[[jax.Array], jax.Array],
    *,
    alpha: Any = "auto",
    warmup: Any = None,
    shared_history: bool = True,
    form: str = "affine",
    logdensity_fn: Callable[[jax.Array], jax.Array] | None = None,
) -> np.ndarray:
    """Repel draws that exist already: means, covariances, quantiles and tails come closer.

    Parameters
    ----------
    draws
        Draws of any sampler, in order, (chain, draw, d) or (draw, d), of unbounded parameters.
    score_fn
        The gradient of the log density at one draw, a JAX function; it is taken once a draw, and
        to measure the loop for a quarter of them or 512, whichever is more, up to 512 a chain.
    alpha
        The strength; 0 leaves the draws as they are.
    warmup
        Late warm-up draws of the same chains to measure on; the draws themselves if not given.
    shared_history
        One history for all chains, which is best when they are pooled.
    form
        "affine", or "shift" for the shift alone.
    logdensity_fn
        The log density at one draw. With it no draw is moved to where that is not finite; needed
        if parameters are bounded, since scores alone do not tell what is out of bounds.

    Returns
    -------
    The repelled draws, in the shape and precision of `draws`. A draw whose move would be absurd, or
    whose score is not finite, stays what it was; a warning says so if they are more than one in a
    hundred. With alpha="auto" all of them stay where the mean score of the draws is not 0.
    """
    given = np.asarray(draws)
    chains = _three_axes("draws", given)
    how = _check(score_fn, logdensity_fn, chains, chains.shape[1], alpha, shared_history, form)
    seen = chains if warmup is None else _three_axes("warmup", warmup)
    if seen.shape[2] != chains.shape[2]:
        raise ValueError(f"warmup must have d = {chains.shape[2]}, as draws, got {seen.shape[2]}")
    loop = _look_at(seen, how)
    if how.alpha == 0 or not is_on(loop):
        return given.copy()
    moved, refused = _pass(loop, chains, how, _block(loop))
    if refused > 0.01 * chains[..., 0].size:
        warnings.warn(
            f"{refused} of {chains[..., 0].size} draws stayed as they were, since their moves left "
            "the target or had no score; rebalance draws of unbounded parameters",
            stacklevel=2,
        )
    # JAX may have rounded the draws; their moves are added to what was given
    move = np.asarray(moved) - np.asarray(chains)
    return given + move.reshape(given.shape).astype(given.dtype)


def _check(score_fn, logdensity_fn, draws, num_samples, alpha, shared_history, form) -> _How:
    check_count("num_samples", num_samples)
    check_option("form", form, ("affine", "shift"))
    if isinstance(alpha, str):
        check_option("alpha", alpha, ("auto",))
    else:
        check_number("alpha", alpha, at_least=0.0)
        alpha = float(alpha)
    if not isinstance(shared_history, bool):
        raise TypeError(f"shared_history must be True or False, got {shared_history!r}")
    _check_function("score_fn", score_fn, draws[0, 0], draws.shape[2:])
    if logdensity_fn is not None:
        _check_function("logdensity_fn", logdensity_fn, draws[0, 0], ())
    return _How(score_fn, logdensity_fn, num_samples, alpha, shared_history, form)


def _look_at(warmup: jax.Array, how: _How) -> Loop:
    length = warmup.shape[1]
    if length < 64:
        raise ValueError(f"warmup, or the draws, must be at least 64 a chain, got {length}")
    scored = min(MEASURED, max(64, MEASURED // len(warmup), length // 4))
    spacing = -(-length // scored)
    loop = _measured(warmup[:, ::-1][:, ::spacing][:, ::-1], how, spacing)
    if how.alpha != 0:
        warn_of_offset(loop, isinstance(how.alpha, str))
        if loop.offset <= 1 and not is_on(loop):
            warnings.warn(
                "the draws stay as they were: their scores explain nothing of their errors, or are "
                "not all finite",
                stacklevel=3,
            )
    return loop


@functools.partial(jax.jit, static_argnums=(1, 2))
def _measured(draws, how, spacing):
    scores = jax.vmap(jax.vmap(how.score_fn))(draws)
    together = len(draws) if how.shared else 1
    loop = measure(draws, scores, how.num_samples, spacing=spacing, together=together)
    return select(loop) if isinstance(how.alpha, str) else loop


def _block(loop: Loop) -> int:
    """Draws between updates: a power of 2, and a fraction of the loop's window."""
    return int(2 ** np.clip(np.floor(np.log2(0.25 / float(loop.rate))), 0, 6))


def _init(loop, shape, how):
    options = how.settings(loop)
    theta = options["surrogate"].field.init(loop.center)
    alpha, strength_state = options["alpha"].init()
    state = RebalanceState(theta, alpha, strength_state, jnp.zeros((), int), jnp.zeros((), int))
    return state if how.shared else jax.tree.map(lambda x: jnp.stack([x] * shape[0]), state)


@functools.partial(jax.jit, static_argnums=3)
def _step(loop, state, draws, how):
    return _move(how.settings(loop), state, draws, how)


@functools.partial(jax.jit, static_argnums=(2, 3))
def _pass(loop, draws, how, block):
    """The draws, moved, and how many were not."""
    chains, length, dim = draws.shape
    count = length // block
    options = how.settings(loop)  # outside of the scan, which would invert the root at each step
    step = lambda state, piece: _move(options, state, piece, how)
    whole = draws[:, : count * block].reshape(chains, count, block, dim)
    state, out = jax.lax.scan(step, _init(loop, draws.shape, how), jnp.swapaxes(whole, 0, 1))
    out = jnp.swapaxes(out, 0, 1).reshape(chains, count * block, dim)
    if count * block < length:
        state, last = step(state, draws[:, count * block :])
        out = jnp.concatenate([out, last], axis=1)
    return out, jnp.sum(state.refused)


def _move(options, state, draws, how):
    chains, length, dim = draws.shape
    if how.shared:
        rows = jnp.swapaxes(draws, 0, 1).reshape(-1, dim)
        state, rows = _advance(options, state, rows, length, how)
        return state, jnp.swapaxes(rows.reshape(length, chains, dim), 0, 1)
    return jax.vmap(lambda s, x: _advance(options, s, x, length, how))(state, draws)


def _advance(options, state, base, num_draws, how):
    """Move a piece of draws, (draw, d) of one chain or several, and let the history see it."""
    strength, surrogate = options["alpha"], options["surrogate"]
    field = surrogate.field
    u = surrogate.precondition(state.theta)
    weights = jax.tree.map(lambda leaf: state.alpha.astype(leaf.dtype) * leaf, u)
    moved = jax.vmap(lambda x: field.flow(x, weights))(base)
    scores = jax.vmap(how.score_fn)(moved)
    # For a log-concave target this bounds what the move costs in log density.
    cost = jnp.sum(scores * (base - moved), axis=1)
    valid = jnp.all(jnp.isfinite(scores), axis=1) & (cost < 10 + base.shape[1])
    if how.logdensity_fn is not None:
        valid &= jnp.isfinite(jax.vmap(how.logdensity_fn)(moved))
    scores = jnp.where(valid[:, None], scores, 0.0)
    shares = valid / jnp.maximum(jnp.sum(valid), 1)
    feature, _ = field.total(moved, scores, shares)

    alpha = ALPHA if isinstance(how.alpha, str) else how.alpha
    gamma = jnp.minimum(num_draws * options["gain"](state.step + num_draws), 0.5 / (1 + alpha))
    theta = _history.update(state.theta, feature, gamma, jnp.any(valid))
    first = field.feature(moved[0], scores[0])  # the guard takes one draw of the piece
    exponent = state.alpha * jnp.abs(optax.tree.vdot(first, surrogate.precondition(theta)))
    step = state.step + num_draws
    next_alpha, strength_state = strength.update(
        state.strength_state,
        Seen(
            step,
            gamma / num_draws,
            exponent,
            jnp.all(valid),
            relative_size(surrogate.precondition, first),
        ),
    )
    refused = state.refused + jnp.sum(~valid)
    draws = jnp.where(valid[:, None], moved, base)
    return RebalanceState(theta, next_alpha, strength_state, step, refused), draws


def _three_axes(name: str, draws: Any) -> jax.Array:
    array = jnp.asarray(draws)
    if array.ndim not in (2, 3) or not jnp.issubdtype(array.dtype, jnp.floating):
        raise ValueError(
            f"{name} must be floating-point numbers of shape (chain, draw, d) or (draw, d), got "
            f"shape {array.shape} and dtype {array.dtype}"
        )
    if is_concrete(array) and not bool(jnp.all(jnp.isfinite(array))):
        raise ValueError(
            f"{name} must be finite, got {int(jnp.sum(~jnp.isfinite(array)))} NaN or inf"
        )
    return array[None] if array.ndim == 2 else array


def _check_function(name: str, function: Any, draw: jax.Array, shape: tuple[int, ...]) -> None:
    if not callable(function):
        raise TypeError(f"{name} must be a function of a draw, got {function!r}")
    try:
        hash(function)
    except TypeError:
        raise TypeError(
            f"{name} must be hashable, so that it compiles once; wrap it in a function, got "
            f"{function!r}"
        ) from None
    out = jax.eval_shape(function, draw)
    if getattr(out, "shape", None) != shape:
        raise ValueError(
            f"{name} must return an array of shape {shape} at a draw of shape {draw.shape}, got "
            f"{getattr(out, 'shape', out)}"
        )

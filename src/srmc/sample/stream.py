"""The moving frame applied to a stream of draws of any program, given the score."""

import functools
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from blackjax.base import SamplingAlgorithm

from srmc._checks import (
    as_numbers,
    check_count,
    check_flag,
    check_fork,
    check_number,
    check_option,
    is_concrete,
    outputs_of,
)
from srmc.repel.loop import Found, make_loop
from srmc.repel.state import RepelState
from srmc.sample.tune.measure import Loop, measure, select, settings, warn_of_offset
from srmc.sample.tune.tuner import is_on
from srmc.types import Array, Draws, Float, Int

ScoreFn = Callable[[Float[Array, " d"]], Float[Array, " d"]]
Values = Any  # what NumPy or JAX turns into an array
MEASURED = 512  # draws used to measure the loop: over all chains, and at most per chain


class RebalanceState(NamedTuple):
    """The history with its strength, and the number of draws that are unchanged."""

    memory: RepelState
    refused: Int[Array, ""]


class How(NamedTuple):
    """The settings of a pass, hashable, so that passes with the same score compile once."""

    score_fn: ScoreFn
    logdensity_fn: Callable[[Array], Array] | None
    num_samples: int
    alpha: float | str
    shared: bool
    form: str

    def settings(self, loop: Loop, length: int = 1) -> dict[str, Any]:
        """The keywords of `repel` for pieces of this many draws."""
        return settings(
            loop, self.num_samples, alpha=self.alpha, form=self.form, history_every=length
        )


def rebalance_stream(
    score_fn: ScoreFn,
    warmup: Values,
    num_samples: int,
    *,
    alpha: float | str = "auto",
    shared_history: bool = True,
    form: str = "affine",
    logdensity_fn: Callable[[Array], Array] | None = None,
) -> SamplingAlgorithm:
    """Rebalance draws that arrive in pieces, in memory that does not grow with their number.

    Returns `init()` and `step(state, draws) -> (state, draws)`, with pieces (chain, draw, d). The
    history is updated once per piece, so that short pieces are best; `step.block` is a good number
    of draws per chain. `warmup` are late warm-up draws of the same chains, on which the loop is
    measured, and `num_samples` is the approximate number of draws per chain to come. `alpha`
    is the strength ("auto", or a number), `shared_history` says whether all chains share one
    history, `form` is "affine" or "shift", and with `logdensity_fn` no draw is moved to where that
    is not finite.
    """
    check_fork()
    seen = three_axes("warmup", warmup)
    check_count("num_samples", num_samples)
    check_option("form", form, ("affine", "shift"))
    if isinstance(alpha, str):
        check_option("alpha", alpha, ("auto",))
    else:
        check_number("alpha", alpha, at_least=0.0)
        alpha = float(alpha)
    check_flag("shared_history", shared_history)
    _check_function("score_fn", score_fn, seen[0, 0], seen.shape[2:])
    if logdensity_fn is not None:
        _check_function("logdensity_fn", logdensity_fn, seen[0, 0], ())
    how = How(score_fn, logdensity_fn, num_samples, alpha, shared_history, form)
    loop = _measured_on(seen, how)
    chains, _, dim = seen.shape

    def init() -> RebalanceState:
        memory, surrogate = _memory(how.settings(loop))
        theta = surrogate.field.init(loop.center)
        state = RebalanceState(memory.start((), (), theta), jnp.zeros((), int))
        return state if how.shared else jax.tree.map(lambda x: jnp.stack([x] * chains), state)

    def step(state: RebalanceState, draws: Values) -> tuple[RebalanceState, Draws]:
        shape = np.shape(draws)
        if len(shape) != 3 or (shape[0], shape[2]) != (chains, dim):
            raise ValueError(
                f"draws must be ({chains}, draw, {dim}) as warmup is, got shape {shape}"
            )
        return _step(loop, state, three_axes("draws", draws), how)

    # A power of 2, and a fraction of the loop's window.
    block = int(2 ** np.clip(np.floor(np.log2(0.25 / float(loop.rate))), 0, 6))
    step.block = block  # type: ignore[attr-defined]
    return SamplingAlgorithm(init, step)


def _measured_on(warmup: Draws, how: How) -> Loop:
    """Measure the loop on these draws; warn if repellence would be of no use, or do harm."""
    length = warmup.shape[1]
    if length < 64:
        raise ValueError(f"warmup must have at least 64 draws per chain, got {length}")
    scored = min(MEASURED, max(64, MEASURED // len(warmup), length // 4))
    spacing = -(-length // scored)
    loop: Loop = _measured(warmup[:, ::-1][:, ::spacing][:, ::-1], how, spacing)
    if how.alpha != 0:
        warn_of_offset(loop, isinstance(how.alpha, str))
        if loop.offset <= 1 and not is_on(loop):
            warnings.warn(
                "the draws are unchanged: their scores explain nothing of their errors, or are "
                "not all finite",
                stacklevel=3,
            )
    return loop


@functools.partial(jax.jit, static_argnums=(1, 2))
def _measured(draws: Draws, how: How, spacing: int) -> Loop:
    scores = jax.vmap(jax.vmap(how.score_fn))(draws)
    together = len(draws) if how.shared else 1
    loop = measure(draws, scores, how.num_samples, spacing=spacing, together=together)
    return select(loop) if isinstance(how.alpha, str) else loop


@functools.partial(jax.jit, static_argnums=3)
def _step(
    loop: Loop, state: RebalanceState, draws: Draws, how: How
) -> tuple[RebalanceState, Draws]:
    """Move a piece of draws (chain, draw, d), and update the history with it."""
    chains, length, dim = draws.shape
    options = how.settings(loop, length)
    advance = lambda state, base: _advanced(options, how, state, base)
    if not how.shared:
        return jax.vmap(advance)(state, draws)
    state, rows = advance(state, jnp.swapaxes(draws, 0, 1).reshape(-1, dim))
    return state, jnp.swapaxes(rows.reshape(length, chains, dim), 0, 1)


def _advanced(
    options: dict[str, Any], how: How, state: RebalanceState, base: Float[Array, "draw d"]
) -> tuple[RebalanceState, Float[Array, "draw d"]]:
    """One step of the moving frame, with a piece of draws in place of one draw."""
    (memory, surrogate), now = _memory(options), state.memory
    field, u = surrogate.field, memory.precondition(now.theta)
    weights = jax.tree.map(lambda leaf: now.alpha.astype(leaf.dtype) * leaf, u)
    moved = jax.vmap(lambda x: field.flow(x, weights))(base)
    scores = jax.vmap(how.score_fn)(moved)
    # For a log-concave target this is an upper bound on the cost of the move in log density.
    cost = jnp.sum(scores * (base - moved), axis=1)
    valid = jnp.all(jnp.isfinite(scores), axis=1) & (cost < 10 + base.shape[1])
    if how.logdensity_fn is not None:
        valid &= jnp.isfinite(jax.vmap(how.logdensity_fn)(moved))
    scores = jnp.where(valid[:, None], scores, 0.0)
    average, _ = field.total(moved, scores, valid / jnp.maximum(jnp.sum(valid), 1))
    found = Found(
        position=(),
        inner_state=(),
        inner_info=(),
        feature=field.feature(moved[0], scores[0]),  # the guard watches one draw per piece
        entering=average,
        spent=(len(base), 0),
        is_finite=jnp.all(valid),
        is_inside=jnp.all(valid),
        is_valid=jnp.any(valid),
    )
    new, _ = memory.step(lambda *_: found, None, now)
    refused = state.refused + jnp.sum(~valid)
    return RebalanceState(new, refused), jnp.where(valid[:, None], moved, base)


def _memory(options: dict[str, Any]) -> tuple[Any, Any]:
    """History and strength, with one update per piece, and the surrogate."""
    surrogate = options["surrogate"]
    make = functools.partial(make_loop, alpha=options["alpha"], gain=options["gain"])
    return make(surrogate.precondition), surrogate


def three_axes(name: str, draws: Values) -> Draws:
    """Draws as (chain, draw, d), or an error that names them."""
    if is_concrete(draws):
        as_numbers(name, draws)  # refuses everything else
    array = jnp.asarray(draws)
    if array.ndim not in (2, 3) or not jnp.issubdtype(array.dtype, jnp.floating) or not array.size:
        raise ValueError(
            f"{name} must be floating-point numbers of shape (chain, draw, d) or (draw, d), got "
            f"shape {array.shape} and dtype {array.dtype}"
        )
    if is_concrete(array) and not bool(jnp.all(jnp.isfinite(array))):
        raise ValueError(
            f"{name} must be finite, got {int(jnp.sum(~jnp.isfinite(array)))} NaN or inf"
        )
    return array[None] if array.ndim == 2 else array


def _check_function(
    name: str, function: Callable[[Array], Array], draw: Array, shape: tuple[int, ...]
) -> None:
    try:
        hash(function)
    except TypeError:
        raise TypeError(
            f"{name} must be hashable, so that it compiles once; wrap it in a function, got "
            f"{function!r}"
        ) from None
    out = outputs_of(name, function, draw, of="a draw")
    if getattr(out, "shape", None) != shape:
        raise ValueError(
            f"{name} must return an array of shape {shape} at a draw of shape {draw.shape}, got "
            f"{getattr(out, 'shape', out)}"
        )

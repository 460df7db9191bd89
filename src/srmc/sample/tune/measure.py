"""Measure, on plain draws, what the loop of history and kernel needs.

In the moving frame, in whitened coordinates, the push is a moving average of the base chain's
features, with weight a = alpha / (1 + alpha) and the rate g = gamma (1 + alpha).
docs/explanation/tuning.md derives what is used here.
"""

import warnings
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from srmc.repel.target import all_finite
from srmc.sample.tune import rule, series
from srmc.sample.tune.whiten import slow_modes, whiten
from srmc.types import Array, ArrayLike, Bool, Draws, Float


class Loop(NamedTuple):
    """The measured loop.

    center, root
        Whitened coordinates, x = center + R y, close to the original ones; R is a matrix, or a
        vector.
    factors
        The preconditioner of the linear maps and of the shifts: one over the mean square of their
        features, and 0 for those that do not act.
    rate
        The rate g of the loop per step.
    time, square_time
        Autocorrelation times, in steps, of the whitened scores and of their squares.
    top_eigenvalue
        The top eigenvalue of the second moment of the preconditioned features.
    explained, explained_squares, explained_products
        The shares of the long-run variances of y, y^2 and y_i y_j that their features explain.
    exponent
        The expected root mean square of the exponent scale.
    offset
        The largest mean of a feature, divided by the largest that chance allows. If it exceeds
        1, the means are not 0, as where the density has a jump or a wall, and the loop would push
        draws off the target.
    """

    center: Float[Array, " d"]
    root: Float[Array, "d d"] | Float[Array, " d"]
    factors: tuple[Float[Array, "d d"] | Float[Array, " d"], Float[Array, " d"]]
    rate: Float[Array, ""]
    time: Float[Array, " d"]
    square_time: Float[Array, " d"]
    top_eigenvalue: Float[Array, ""]
    explained: Float[Array, " d"]
    explained_squares: Float[Array, " d"]
    explained_products: Float[Array, ""]
    exponent: Float[Array, ""]
    offset: Float[Array, ""]


def measure(
    draws: Draws,
    scores: Draws,
    num_samples: int,
    *,
    spacing: ArrayLike = 1,
    together: int = 1,
) -> Loop:
    """Measure the loop on plain draws and their scores.

    `spacing` is the number of steps between two draws, and `together` the number of chains that
    will share a history.
    """
    dim = draws.shape[-1]
    center, root, y = whiten(draws, scores)
    s = scores * root[None, None] if root.ndim == 1 else scores @ root
    if root.ndim == 2:
        turn = slow_modes(s)
        root, s, y = root @ turn, s @ turn, y @ turn
    time = jnp.maximum(spacing * series.autocorrelation_times(s), 1.0)
    square_time = jnp.maximum(spacing * series.autocorrelation_times(s**2), 1.0)

    # A window's average is subtracted from draws in that window, which lowers second moments by
    # the fraction g time / 2, compared with their standard error of sqrt(2 square_time / n).
    rate = jnp.sqrt(
        8 * rule.TOLERANCE * together * jnp.mean(square_time) / num_samples / jnp.mean(time**2)
    )
    scaled = 1 + y * s
    # Under the target E[s^2] >= 1 here; a smaller value means that a slow chain has not mixed yet.
    shift_square = jnp.maximum(jnp.mean(s**2, axis=(0, 1)), 1.0)
    scale_square = jnp.maximum(jnp.mean(scaled**2, axis=(0, 1)), 0.5)
    normalised = jnp.stack(
        [f / jnp.sqrt(n)[None, None] for f, n in ((s, shift_square), (scaled, scale_square))]
    )
    top = jnp.max(series.top_eigenvalues(normalised.reshape(2, -1, dim)))
    rate = jnp.minimum(rate, rule.FASTEST / top)

    linear, count, products = 1 / scale_square, jnp.asarray(2.0 * dim), jnp.zeros(())
    if dim <= rule.FULL_UP_TO:
        square = series.mean_square_products(y, s)
        products = series.explained_products(y, s, square)
        # The noise of d^2 entries must stay small in every direction.
        weight = jnp.minimum(1.0, rule.CROWDED * together / (dim * jnp.mean(time) * rate))
        linear = jnp.where(jnp.eye(dim, dtype=bool), linear[None], weight / (2 * square))
        count = count + weight * dim * (dim - 1) / 2
    # (A theta)·phi has this variance, and a mean of up to twice that, since theta contains phi.
    spread = count * rate * jnp.mean(time) / 2 / together
    loop = Loop(
        center=center,
        root=root,
        factors=(linear, 1 / shift_square),
        rate=rate,
        time=time,
        square_time=square_time,
        top_eigenvalue=top,
        explained=series.explained(y, -s / shift_square[None, None]),
        explained_squares=series.explained(y**2, -2 * scaled / scale_square[None, None]),
        explained_products=products,
        exponent=jnp.sqrt(spread) + 2 * spread,
        offset=series.offset(s, scaled),
    )
    return _known(loop, num_samples)


def _known(loop: Loop, num_samples: int) -> Loop:
    """The loop, or one that does not push if a chain overflowed or never moved."""
    known = all_finite(loop)
    one: Any = jnp.eye(len(loop.root)) if loop.root.ndim == 2 else 1.0
    or_zero: Loop = jax.tree.map(lambda x: jnp.where(known, x, jnp.zeros_like(x)), loop)
    return or_zero._replace(
        root=jnp.where(known, loop.root, one),
        rate=jnp.where(known, loop.rate, 1 / num_samples),
        time=jnp.where(known, loop.time, 1.0),
    )


def select(loop: Loop, history_every: ArrayLike = 1) -> Loop:
    """Switch off features that would be of no use, or do harm.

    All are switched off if their means are not 0 or if they explain too little of the error of the
    means. Those that couple coordinates are switched off if they explain too little of the error
    of the covariances. A thinned history adds noise to features that decorrelate between updates:
    such features are switched off, and all of them if they explain no more than that noise. The
    rest then moves at half the rate, since scalings do not compensate for shifts.
    """
    thinned = jnp.asarray(history_every) > 1
    lost, lost_square = (_thinning(time, history_every) for time in (loop.time, loop.square_time))
    on = (loop.offset <= 1) & (jnp.mean(loop.explained) > rule.WORTH * jnp.mean(lost))
    linear, shifts = loop.factors
    keep = lost_square < rule.THINNED
    if linear.ndim == 2:
        coupled = (loop.explained_products > rule.COUPLED) | jnp.eye(len(shifts), dtype=bool)
        keep = keep[:, None] & keep[None] & coupled
    kept = jnp.where(on & keep, linear, 0.0), jnp.where(on & (lost < rule.THINNED), shifts, 0.0)
    return loop._replace(factors=kept, rate=jnp.where(thinned, loop.rate / 2, loop.rate))


def is_on(loop: Loop) -> Bool[Array, ""]:
    """Whether any feature acts."""
    return jnp.any(jnp.array([jnp.any(factor > 0) for factor in loop.factors]))


def warn_of_offset(loop: object, is_auto: bool) -> None:
    """Warn if the means of the features are not 0, and say what follows."""
    if getattr(loop, "offset", 0.0) > 1:
        then = "repellence stays off" if is_auto else "repelled draws are off the target"
        warnings.warn(
            "the mean score of the draws is not 0: the log density has a jump, a wall or a wrong "
            f"gradient, or the chains have not settled; {then}. Use unbounded parameters, a longer "
            "warm-up, or alpha=0",
            stacklevel=4,
        )


def _thinning(time: Float[Array, " d"], every: ArrayLike) -> Float[Array, " d"]:
    """The relative excess variance of the mean of every m-th draw, for an autoregression."""
    lag = (time - 1) / (time + 1)
    return jnp.asarray(every * (1 + lag**every) / (1 - lag**every) / time - 1)

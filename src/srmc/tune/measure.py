"""What plain draws tell about the loop of history and kernel, and the repellence that follows.

In the moving frame, in whitened coordinates, the push is a moving average of the base chain's
features, with weight a = alpha / (1 + alpha) and the rate g = gamma (1 + alpha). docs/tuning.md
derives what is used here.
"""

import warnings
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import scipy.stats

from srmc.core.field import Field, affine, total_feature, translations
from srmc.core.history import Gain
from srmc.core.strength import watched
from srmc.core.surrogate import along
from srmc.core.target import all_finite
from srmc.tune.whiten import slow_modes, whiten

FULL_UP_TO = 64  # dimensions; beyond, scalings take the place of all linear maps
ALPHA = 10.0
RHO = 0.8
TOLERANCE = 0.1
COUPLED = 0.3  # the share of covariances' errors to be explained, or coordinates act alone
WORTH = 3.0  # the errors that features explain, over those that thinning them adds
NUM_BATCHES = 16
MISTAKES = 1e-5  # how often chance alone may pass for features that are not 0 on average


class Loop(NamedTuple):
    """The measured loop.

    center, root
        Whitened coordinates, x = center + R y, near the original ones; R is a matrix, or a
        vector.
    factors
        The preconditioner: of the linear maps, and of the shifts, one over the mean square of
        their features.
    rate
        g, the loop's rate a step.
    time, square_time
        Autocorrelation times, in steps, of the whitened scores and of their squares.
    top_eigenvalue
        Of the second moment of the preconditioned features.
    explained, explained_squares, explained_products
        The share of the squared error of each mean, of each variance and, with full matrices, of
        all covariances, that the features explain.
    exponent
        The expected root mean square of the exponent scale.
    offset
        The largest mean of a feature, over the largest that chance allows. Above 1 they are not 0,
        as where the density has a jump or a wall, and the loop would push draws off the target.
    """

    center: jax.Array
    root: jax.Array
    factors: tuple[jax.Array, jax.Array]
    rate: jax.Array
    time: jax.Array
    square_time: jax.Array
    top_eigenvalue: jax.Array
    explained: jax.Array
    explained_squares: jax.Array
    explained_products: jax.Array
    exponent: jax.Array
    offset: jax.Array


def measure(
    draws: jax.Array,
    scores: jax.Array,
    num_samples: int,
    *,
    spacing: jax.typing.ArrayLike = 1,
    together: int = 1,
) -> Loop:
    """Measure the loop on plain draws and their scores, both (chain, draw, coordinate).

    `spacing` is the number of steps from one draw to the next; `together`, the number of chains
    that will share a history.
    """
    dim = draws.shape[-1]
    center, root, y = whiten(draws, scores)
    s = scores * root[None, None] if root.ndim == 1 else scores @ root
    if root.ndim == 2:
        turn = slow_modes(s)
        root, s, y = root @ turn, s @ turn, y @ turn
    time = jnp.maximum(spacing * autocorrelation_times(s), 1.0)
    square_time = jnp.maximum(spacing * autocorrelation_times(s**2), 1.0)

    # A window's average is taken off draws that are in the window, which changes second moments
    # by g time / 2, relatively, against a standard error of sqrt(2 square_time / n) of theirs.
    rate = jnp.sqrt(
        8 * TOLERANCE * together * jnp.mean(square_time) / num_samples / jnp.mean(time**2)
    )
    scaled = 1 + y * s
    # On the target itself E[s^2] >= 1 here; less of it is what a slow chain has not seen yet.
    shift_square = jnp.maximum(jnp.mean(s**2, axis=(0, 1)), 1.0)
    scale_square = jnp.maximum(jnp.mean(scaled**2, axis=(0, 1)), 0.5)
    normalised = jnp.stack(
        [f / jnp.sqrt(n)[None, None] for f, n in ((s, shift_square), (scaled, scale_square))]
    )
    top = jnp.max(top_eigenvalues(normalised.reshape(2, -1, dim)))
    rate = jnp.minimum(rate, 0.5 / top)

    count: Any = 2 * dim
    linear = 1 / scale_square
    explained_products = jnp.zeros(())
    if dim <= FULL_UP_TO:
        square = _mean_square_products(y, s)
        explained_products = _explained_products(y, s, square)
        # The noise of d^2 entries must stay small in every direction.
        weight = jnp.minimum(1.0, 0.3 * together / (dim * jnp.mean(time) * rate))
        diagonal = jnp.eye(dim, dtype=bool)
        linear = jnp.where(diagonal, linear[None], weight / (2 * square))
        count = count + weight * dim * (dim - 1) / 2
    # (A theta)·phi has this variance, and a mean of up to twice as much: theta has seen the draw.
    spread = count * rate * jnp.mean(time) / 2 / together
    exponent = jnp.sqrt(spread) + 2 * spread
    loop = Loop(
        center,
        root,
        (linear, 1 / shift_square),
        rate,
        time,
        square_time,
        top,
        _explained(y, -s / shift_square[None, None]),
        _explained(y**2, -2 * scaled / scale_square[None, None]),
        explained_products,
        exponent,
        _offset(s, scaled),
    )
    # A chain that overflowed or never moved tells nothing; then there is no push.
    known = all_finite(loop)
    return jax.tree.map(lambda x: jnp.where(known, x, jnp.zeros_like(x)), loop)._replace(
        root=jnp.where(known, root, jnp.eye(dim) if root.ndim == 2 else 1.0),
        rate=jnp.where(known, loop.rate, 1 / num_samples),
        time=jnp.where(known, loop.time, 1.0),
    )


def select(loop: Loop, history_every: jax.typing.ArrayLike = 1) -> Loop:
    """Switch off what would be of no use, or do harm.

    That is everything, if the features are not 0 on average or explain too little of the means; and
    what couples coordinates, if it explains too little of the covariances. If the history sees one
    draw of many, what decorrelates in between adds noise: such features are left out, and all of
    them if they explain no more than that. What is left moves at half the rate, since scalings do
    not make up for shifts.
    """
    thinned = jnp.asarray(history_every) > 1
    lost, lost_square = (_thinning(time, history_every) for time in (loop.time, loop.square_time))
    on = (loop.offset <= 1) & (jnp.mean(loop.explained) > WORTH * jnp.mean(lost))
    linear, shifts = loop.factors
    keep = lost_square < 0.3
    if linear.ndim == 2:
        coupled = (loop.explained_products > COUPLED) | jnp.eye(len(shifts), dtype=bool)
        keep = keep[:, None] & keep[None] & coupled
    factors = jnp.where(on & keep, linear, 0.0), jnp.where(on & (lost < 0.3), shifts, 0.0)
    return loop._replace(factors=factors, rate=jnp.where(thinned, loop.rate / 2, loop.rate))


def is_on(loop: Loop) -> jax.Array:
    """Whether any feature acts."""
    return jnp.any(jnp.array([jnp.any(factor > 0) for factor in loop.factors]))


def warn_of_offset(loop: Any, is_auto: bool) -> None:
    """Say that the features are not 0 on average, and what follows."""
    if getattr(loop, "offset", 0.0) > 1:
        then = "repellence stays off" if is_auto else "repelled draws are off the target"
        warnings.warn(
            "the mean score of the draws is not 0: the log density has a jump, a wall or a wrong "
            f"gradient, or the chains have not settled; {then}. Use unbounded parameters, a longer "
            "warm-up, or alpha=0",
            stacklevel=4,
        )


def _thinning(time, every):
    """By how much the mean of every m-th draw varies around the mean of all, relatively.

    For an autoregression with this autocorrelation time.
    """
    lag = (time - 1) / (time + 1)
    return every * (1 + lag**every) / (1 - lag**every) / time - 1


def settings(
    loop: Loop,
    num_samples: int,
    *,
    alpha: Any = "auto",
    history_every: Any = 1,
    form: str = "affine",
) -> dict[str, Any]:
    """The keywords of `repel` for a measured loop, and any alpha; `form` may be "shift"."""
    alpha = ALPHA if isinstance(alpha, str) else alpha
    updates = num_samples / history_every
    gamma = jnp.minimum(loop.rate * history_every, 0.5) / (1 + alpha)
    linear, shifts = loop.factors
    field: Field = affine(loop.center, loop.root, full=linear.ndim == 2)
    factors: Any = loop.factors
    if form == "shift":
        field, factors = translations(loop.root, limit=1.0), shifts
    field = _bounded(field, factors)
    return {
        "alpha": watched(
            alpha, limit=jnp.maximum(3 * loop.exponent, 0.3), rate=4 * gamma * (1 + alpha)
        ),
        "gain": Gain(RHO, gamma * updates**RHO, updates),
        "surrogate": along(field, factors),
        "history_every": history_every,
    }


def _bounded(field: Field, factors: Any, most: float = 100.0) -> Field:
    """The field with features within so many of their root mean squares.

    A chain that leaves what warm-up has seen must not fill the history in a few steps.
    """

    def feature(x, s):
        clip = lambda f, a: jnp.clip(f, -most * _size(a, f), most * _size(a, f))
        return jax.tree.map(clip, field.feature(x, s), factors)

    bounded = field._replace(feature=feature, total=None)
    quickly = field.total
    if quickly is None:
        return bounded

    def total(xs, ss, shares):
        quick, largest = quickly(xs, ss, shares)
        is_small = lambda size, factor: size <= most * jnp.min(_size(factor, size))
        small = jax.tree.map(is_small, largest, factors)
        within = jnp.all(jnp.stack(jax.tree.leaves(small)))
        slow = lambda: total_feature(bounded, xs, ss, shares)
        return jax.lax.cond(within, lambda: quick, slow), largest

    return bounded._replace(total=total)


def _size(factor, like):
    return jnp.where(factor > 0, jnp.where(factor > 0, factor, 1.0) ** -0.5, 1.0).astype(like.dtype)


def _mean_square_products(y, s):
    """The mean square of (s_i y_j + s_j y_i)/2, without an array of draws by d by d."""
    y, s = (x.reshape(-1, x.shape[-1]) for x in (y, s))
    squares = (s**2).T @ y**2
    mixed = (s * y).T @ (s * y)
    return jnp.maximum((squares + squares.T + 2 * mixed) / (4 * len(y)), 0.25)


def _explained_products(y, s, square):
    """The share of the long-run variance of y_i y_j, i not j, that its feature explains."""
    y, s = _batches(y), _batches(s)
    product = jnp.einsum("cbni,cbnj->cbij", y, y) / y.shape[2]
    feature = jnp.einsum("cbni,cbnj->cbij", s, y) / y.shape[2]
    feature = (feature + jnp.swapaxes(feature, 2, 3)) / 2
    off = 1 - jnp.eye(y.shape[-1])
    before, after = (
        jnp.sum(off * jnp.var(x, axis=(0, 1)))
        for x in (product, product + feature / square[None, None])
    )
    return jnp.where(before > 0, jnp.clip(1 - after / before, 0, 1), 0.0)


def _explained(series, part):
    """The share of each series' long-run variance that a part of it makes up."""
    before, after = (_long_run_variance(x) for x in (series, series - part))
    return jnp.clip(1 - after / jnp.maximum(before, 1e-30), 0, 1)


def _offset(s, scaled):
    """The largest t statistic of the features' means, over its quantile for chance.

    From batch means. They tell nothing, and the result is 0, if the chain hardly decorrelates
    within a batch, except of features that are constant, or of a coordinate without any score.
    """
    features = jnp.concatenate([s, scaled], axis=2)
    count = features.shape[-1]
    means = _batches(features).mean(axis=2).reshape(-1, count)
    variance = jnp.var(means, axis=0, ddof=1)
    spread = jnp.var(features, axis=(0, 1))
    is_flat = jnp.tile(jnp.mean(s**2, axis=(0, 1)) < 1e-3, 2)
    is_flat |= spread < 1e-6 * jnp.mean(features**2, axis=(0, 1))
    mixes = jnp.all(is_flat | (variance < 0.3 * spread))
    t = jnp.abs(means.mean(axis=0)) / jnp.sqrt(jnp.maximum(variance, 1e-30) / len(means))
    chance = scipy.stats.t.isf(MISTAKES / (2 * count), len(means) - 1)
    return jnp.max(jnp.where(mixes | is_flat, t, 0.0)) / chance


def _batches(series):
    length = series.shape[1] // NUM_BATCHES
    used = series[:, -length * NUM_BATCHES :]
    return used.reshape(series.shape[0], NUM_BATCHES, length, -1)


def _long_run_variance(series: jax.Array) -> jax.Array:
    """Batch-means estimate of n Var(mean), over (chain, draw, coordinate)."""
    batches = _batches(series)
    return batches.shape[2] * jnp.var(batches.mean(axis=2), axis=(0, 1), ddof=1)


def autocorrelation_times(series: jax.Array) -> jax.Array:
    """Integrated autocorrelation times, in draws."""
    variance = jnp.var(series, axis=(0, 1))
    return _long_run_variance(series) / jnp.where(variance > 0, variance, jnp.inf)


def top_eigenvalues(rows: jax.Array, iterations: int = 30) -> jax.Array:
    """Of the second moments of several sets of rows, by power iteration, without forming them."""

    def one(_, carry):
        vectors, _ = carry
        image = jnp.einsum("knd,kd->kn", rows, vectors)
        image = jnp.einsum("kn,knd->kd", image, rows) / rows.shape[1]
        size = jnp.linalg.norm(image, axis=1)
        return image / jnp.maximum(size, 1e-30)[:, None], size

    sets, _, dim = rows.shape
    start = jnp.full((sets, dim), dim**-0.5), jnp.ones(sets)
    return jax.lax.fori_loop(0, iterations, one, start)[1]

"""From plain draws to what repels: measure the loop of history and kernel, and set it.

In the moving frame, in whitened coordinates, the push is a moving average of the base chain's
features, with weight a = alpha / (1 + alpha) and the rate g = gamma (1 + alpha).
docs/explanation/tuning.md derives what is used here.
"""

import warnings
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import scipy.special

from srmc.repel.field import Clipped, Field, affine, translations
from srmc.repel.history import Gain
from srmc.repel.strength import Strength, watched
from srmc.repel.surrogate import along
from srmc.repel.target import all_finite
from srmc.sample.tune import rule
from srmc.sample.tune.tuner import Alpha
from srmc.types import Array, ArrayLike, Draws, Feature, Float


def batches(series: Draws) -> Float[Array, "chain batch draw d"]:
    """The series in batches of equal length, without the remainder at its beginning."""
    length = series.shape[1] // rule.NUM_BATCHES
    used = series[:, -length * rule.NUM_BATCHES :]
    return used.reshape(series.shape[0], rule.NUM_BATCHES, length, -1)


def long_run_variance(series: Draws) -> Float[Array, " d"]:
    """The batch-means estimate of n Var(mean)."""
    cut = batches(series)
    return cut.shape[2] * jnp.var(cut.mean(axis=2), axis=(0, 1), ddof=1)


def autocorrelation_times(series: Draws) -> Float[Array, " d"]:
    """Integrated autocorrelation times, in draws."""
    variance = jnp.var(series, axis=(0, 1))
    return long_run_variance(series) / jnp.where(variance > 0, variance, jnp.inf)


def explained(series: Draws, part: Draws) -> Float[Array, " d"]:
    """The share of each series' long-run variance that a part of it explains."""
    before, after = (long_run_variance(x) for x in (series, series - part))
    return jnp.clip(1 - after / jnp.maximum(before, 1e-30), 0, 1)


def explained_products(y: Draws, s: Draws, square: Float[Array, "d d"]) -> Float[Array, ""]:
    """The share of the long-run variance of y_i y_j, i not j, that its feature explains."""
    y, s = batches(y), batches(s)
    product = jnp.einsum("cbni,cbnj->cbij", y, y) / y.shape[2]
    feature = jnp.einsum("cbni,cbnj->cbij", s, y) / y.shape[2]
    feature = (feature + jnp.swapaxes(feature, 2, 3)) / 2
    off = 1 - jnp.eye(y.shape[-1])
    before, after = (
        jnp.sum(off * jnp.var(x, axis=(0, 1)))
        for x in (product, product + feature / square[None, None])
    )
    return jnp.where(before > 0, jnp.clip(1 - after / before, 0, 1), 0.0)


def mean_square_products(y: Draws, s: Draws) -> Float[Array, "d d"]:
    """The mean square of (s_i y_j + s_j y_i)/2, without an array of draws by d by d."""
    y, s = (x.reshape(-1, x.shape[-1]) for x in (y, s))
    squares = (s**2).T @ y**2
    mixed = (s * y).T @ (s * y)
    return jnp.maximum((squares + squares.T + 2 * mixed) / (4 * len(y)), 0.25)


def offset(s: Draws, scaled: Draws) -> Float[Array, ""]:
    """The largest t statistic of the features' means, divided by the largest that chance allows.

    The statistic is computed from batch means. If the chain hardly decorrelates within a batch,
    these are uninformative and the result is 0, except for features that are constant and for
    coordinates whose score is 0.
    """
    features = jnp.concatenate([s, scaled], axis=2)
    count = features.shape[-1]
    means = batches(features).mean(axis=2).reshape(-1, count)
    variance = jnp.var(means, axis=0, ddof=1)
    spread = jnp.var(features, axis=(0, 1))
    is_flat = jnp.tile(jnp.mean(s**2, axis=(0, 1)) < 1e-3, 2)
    is_flat |= spread < 1e-6 * jnp.mean(features**2, axis=(0, 1))
    mixes = jnp.all(is_flat | (variance < 0.3 * spread))
    t = jnp.abs(means.mean(axis=0)) / jnp.sqrt(jnp.maximum(variance, 1e-30) / len(means))
    chance = -scipy.special.stdtrit(len(means) - 1, rule.MISTAKES / (2 * count))
    return jnp.max(jnp.where(mixes | is_flat, t, 0.0)) / chance


def top_eigenvalues(rows: Float[Array, "set draw d"], iterations: int = 30) -> Float[Array, " set"]:
    """The top eigenvalue of the second moment of each set of rows, by power iteration."""

    def one(_: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        vectors, _ = carry
        image = jnp.einsum("knd,kd->kn", rows, vectors)
        image = jnp.einsum("kn,knd->kd", image, rows) / rows.shape[1]
        size = jnp.linalg.norm(image, axis=1)
        return image / jnp.maximum(size, 1e-30)[:, None], size

    sets, _, dim = rows.shape
    start = jnp.full((sets, dim), dim**-0.5), jnp.ones(sets)
    return jax.lax.fori_loop(0, iterations, one, start)[1]


def top_time(series: Draws, iterations: int = 30) -> Float[Array, ""]:
    """The autocorrelation time, in draws, of the direction in which a series varies most."""
    centred = series - jnp.mean(series, axis=(0, 1), keepdims=True)
    rows = centred.reshape(-1, series.shape[-1])

    def one(_: Array, vector: Array) -> Array:
        image = rows.T @ (rows @ vector)
        return image / jnp.maximum(jnp.linalg.norm(image), 1e-30)

    # A start that is orthogonal to no direction with a simple sign pattern.
    start = 1 + 0.1 * jnp.cos(jnp.arange(rows.shape[1], dtype=rows.dtype))
    top = jax.lax.fori_loop(0, iterations, one, start)
    return autocorrelation_times((centred @ top)[..., None])[0]


def whiten(
    draws: Draws, scores: Draws
) -> tuple[Float[Array, " d"], Float[Array, "d d"] | Float[Array, " d"], Draws]:
    """Coordinates x = center + R y in which both draws and scores are near white, and y.

    R R^T = A is the geometric mean of Cov(x) and Cov(s)^-1: with L L^T = Cov(x) it is
    L (L^T Cov(s) L)^(-1/2) L^T. On a Gaussian the scores are linear in the draws, so that A is
    the covariance, and the centre, mean(x) + A mean(s), the mean, however few the draws are.
    Of all roots of A this one keeps y closest to the original coordinates.
    """
    dim = draws.shape[-1]
    mean_draw, mean_score = (jnp.mean(x, axis=(0, 1)) for x in (draws, scores))
    centred_draws = (draws - mean_draw[None, None]).reshape(-1, dim)
    centred_scores = (scores - mean_score[None, None]).reshape(-1, dim)
    variance = jnp.maximum(jnp.mean(centred_draws**2, axis=0), 1e-30)
    if dim > rule.DENSE_UP_TO:
        a = jnp.sqrt(variance / jnp.maximum(jnp.mean(centred_scores**2, axis=0), 1e-30))
        center, root = mean_draw + a * mean_score, jnp.sqrt(a)
        return center, root, (draws - center[None, None]) / root[None, None]
    size = len(centred_draws)
    ridge = rule.RIDGE * dim / (dim + size)
    lower = jnp.linalg.cholesky(centred_draws.T @ centred_draws / size + ridge * jnp.diag(variance))
    turned = centred_scores @ lower
    values, vectors = jnp.linalg.eigh(turned.T @ turned / size + ridge * jnp.eye(dim))
    lower = lower @ (vectors * jnp.maximum(values, 1e-6)[None] ** -0.25)
    a = lower @ lower.T
    scale = jnp.sqrt(jnp.diag(a))
    values, vectors = jnp.linalg.eigh(a / (scale[None] * scale[:, None]))
    values = jnp.sqrt(jnp.maximum(values, 1e-7))
    root = scale[:, None] * ((vectors * values[None]) @ vectors.T)
    inverse = ((vectors / values[None]) @ vectors.T) / scale[None]
    center = mean_draw + a @ mean_score
    return center, root, (draws - center[None, None]) @ inverse.T


def slow_modes(s: Draws) -> Float[Array, "d d"]:
    """The rotation of whitened coordinates to the chain's modes; the identity if no mode is slow.

    The amount by which shifts lower second moments, g time / 2, differs between slow and fast
    modes, and scalings correct it only along the modes. The modes are the eigenvectors of half the
    mean square change per step, and the eigenvalues are their losses of correlation per step. The
    modes are found on the first half of the draws and judged on the second, so that the choice is
    not driven by chance.
    """
    half = s.shape[1] // 2
    first, second = (
        jnp.diff(x, axis=1).reshape(-1, s.shape[-1]) for x in (s[:, :half], s[:, half:])
    )
    _, modes = jnp.linalg.eigh(first.T @ first / len(first))
    loss = jnp.mean((second @ modes) ** 2, axis=0)
    is_slow = jnp.min(loss) < rule.SLOW * jnp.median(loss)
    return jnp.where(is_slow, modes, jnp.eye(len(modes), dtype=s.dtype))


class Loop(NamedTuple):
    """The measured loop."""

    # Whitened coordinates, x = center + R y, close to the original ones; R is a matrix, or a
    # vector.
    center: Float[Array, " d"]
    root: Float[Array, "d d"] | Float[Array, " d"]
    # The preconditioner of the linear maps and of the shifts: one over the mean square of their
    # features, and 0 for those that do not act.
    factors: tuple[Float[Array, "d d"] | Float[Array, " d"], Float[Array, " d"]]
    rate: Float[Array, ""]  # rate g of the loop per step
    # Autocorrelation times, in steps, of the whitened scores and of their squares.
    time: Float[Array, " d"]
    square_time: Float[Array, " d"]
    # The top eigenvalue of the second moment of the preconditioned features.
    top_eigenvalue: Float[Array, ""]
    # The shares of the long-run variances of y, y^2 and y_i y_j that their features explain.
    explained: Float[Array, " d"]
    explained_squares: Float[Array, " d"]
    explained_products: Float[Array, ""]
    exponent: Float[Array, ""]  # expected root mean square of the exponent scale
    # The largest mean of a feature, divided by the largest that chance allows. If it exceeds 1, the
    # means are not 0, as where the density has a jump or a wall, and the loop would push draws off
    # the target.
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
    time = jnp.maximum(spacing * autocorrelation_times(s), 1.0)
    square_time = jnp.maximum(spacing * autocorrelation_times(s**2), 1.0)

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
    top = jnp.max(top_eigenvalues(normalised.reshape(2, -1, dim)))
    rate = jnp.minimum(rate, rule.FASTEST / top)

    linear, count, products = 1 / scale_square, jnp.asarray(2.0 * dim), jnp.zeros(())
    if dim <= rule.FULL_UP_TO:
        square = mean_square_products(y, s)
        products = explained_products(y, s, square)
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
        explained=explained(y, -s / shift_square[None, None]),
        explained_squares=explained(y**2, -2 * scaled / scale_square[None, None]),
        explained_products=products,
        exponent=jnp.sqrt(spread) + 2 * spread,
        offset=offset(s, scaled),
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


def settings(
    loop: Loop,
    num_samples: int,
    *,
    alpha: Alpha = "auto",
    history_every: int | Array = 1,
    form: str = "affine",
) -> dict[str, Any]:
    """The keywords of `repel` for a measured loop; `form="shift"` leaves out the linear maps."""
    linear, shifts = loop.factors
    field: Field = affine(loop.center, loop.root, full=linear.ndim == 2)
    factors: Feature = loop.factors
    if form == "shift":
        field, factors = translations(loop.root, limit=1.0), shifts
    most = nominal(alpha, rule.ALPHA)
    gamma = jnp.minimum(loop.rate * history_every, rule.LARGEST_GAIN) / (1 + most)
    updates = num_samples / history_every
    return {
        "alpha": guarded_by(loop.exponent, gamma, alpha, most),
        "gain": Gain(rule.RHO, gamma * updates**rule.RHO, updates),
        "surrogate": along(Clipped(field, jax.tree.map(_size, factors), rule.CLIPPED), factors),
        "history_every": history_every,
    }


def nominal(alpha: Alpha, auto: float) -> float | Array:
    """The largest value that a strength takes."""
    if isinstance(alpha, str):
        return auto
    if isinstance(alpha, Strength):
        return auto if alpha.most is None else alpha.most
    return alpha


def guarded_by(
    exponent: Float[Array, ""], gamma: Float[Array, ""], alpha: Alpha, most: float | Array
) -> Strength:
    """A strength guarded by the expected exponent scale; a schedule is used as it is."""
    if isinstance(alpha, Strength):
        return alpha
    return watched(
        most,
        limit=jnp.maximum(rule.HOT * exponent, rule.HOT_AT_LEAST),
        rate=rule.RUNAWAY * gamma * (1 + most),
    )


def _size(factor: Array) -> Array:
    """The root mean square of a feature with this factor; 1 where it does not act."""
    return jnp.where(factor > 0, jnp.where(factor > 0, factor, 1.0) ** -0.5, 1.0)

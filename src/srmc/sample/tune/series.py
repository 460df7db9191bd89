"""Statistics of series of draws and features: long-run variances, shares explained, eigenvalues."""

import jax
import jax.numpy as jnp
import scipy.special

from srmc.sample.tune import rule
from srmc.types import Array, Draws, Float


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
    largest: Array = jnp.max(jnp.where(mixes | is_flat, t, 0.0)) / chance
    return largest


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
    eigenvalues: Array = jax.lax.fori_loop(0, iterations, one, start)[1]
    return eigenvalues


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
    time: Array = autocorrelation_times((centred @ top)[..., None])[0]
    return time

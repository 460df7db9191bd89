"""What plain draws tell about the loop of history and kernel, and the repellence that follows.

In the moving frame, and in coordinates y that whiten the score, the push is a moving average of
the base chain, v = -a EMA(z) with a = alpha / (1 + alpha) and the rate g = gamma (1 + alpha).
docs/tuning.md derives what is used here.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from srmc._history import Gain
from srmc._strength import watched
from srmc._surrogate import shift
from srmc._target import all_finite

DENSE_UP_TO = 256  # dimensions; beyond, the preconditioner is diagonal, and nothing is d x d
ALPHA = 10.0
RHO = 0.8
WORTHWHILE = 0.8  # the predicted error of the means, at equal cost, above which it stays off


class Loop(NamedTuple):
    """The measured loop.

    preconditioner
        A, the geometric mean of Cov(x) and of the inverse of Cov(s): a matrix, or a diagonal.
    rate
        g, the loop's rate a step.
    theta
        Where the history starts: what it would be, had it seen the plain draws.
    time, square_time
        Autocorrelation times, in steps, of the whitened scores and of their squares.
    top_eigenvalue
        The largest eigenvalue of A Cov(s).
    explained
        The share of the squared error of the means that the scores explain.
    ratio
        The predicted squared error of the means, repelled over plain, at equal cost.
    exponent
        The expected root mean square of the exponent scale.
    """

    preconditioner: jax.Array
    rate: jax.Array
    theta: jax.Array
    time: jax.Array
    square_time: jax.Array
    top_eigenvalue: jax.Array
    explained: jax.Array
    ratio: jax.Array
    exponent: jax.Array


def measure(
    draws: jax.Array,
    scores: jax.Array,
    num_samples: int,
    *,
    spacing: int = 1,
    history_every: jax.typing.ArrayLike = 1,
    overhead: jax.typing.ArrayLike = 0.0,
    shared: bool = True,
) -> Loop:
    """Measure the loop on plain draws and their scores, both (chain, draw, coordinate).

    `spacing` is the number of steps from one draw to the next, `history_every` that from one
    update of the history to the next, and `overhead` what repelling adds to the cost of a step,
    relatively.
    """
    num_chains, length, dim = draws.shape
    preconditioner, pushed, whitened = _precondition(draws, scores)

    time = jnp.maximum(spacing * _times(whitened), 1.0)
    square_time = jnp.maximum(spacing * _times(whitened**2), 1.0)
    together = num_chains if shared else 1
    # The push changes second moments by g time / 2, relatively, against a standard error of
    # sqrt(2 square_time / n) of theirs; where draws are slow it also smoothes them.
    tolerance = 0.12 - 0.08 / jnp.mean(time)
    rate = jnp.sqrt(
        8 * tolerance * together * jnp.mean(square_time) / num_samples / jnp.mean(time**2)
    )
    top = _top_eigenvalue(whitened.reshape(-1, dim))
    rate = jnp.minimum(rate, 0.5 * (1 + ALPHA) / (1 + ALPHA * top))

    scale = jnp.var(draws, axis=(0, 1))[None, None]
    scale = jnp.sqrt(jnp.where(scale > 0, scale, 1))
    unexplained = jnp.sum(_long_run_variance((draws + pushed) / scale))
    unexplained = unexplained / jnp.maximum(jnp.sum(_long_run_variance(draws / scale)), 1e-30)
    explained = jnp.clip(1 - unexplained, 0, 1)
    left = (1 + ALPHA) ** -2 + 1 / (rate * num_samples) + _thinning(time, history_every)
    ratio = (1 - explained * (1 - left)) * (1 + overhead)

    age = spacing * jnp.arange(length - 1, -1, -1)
    weight = jnp.exp(-rate * age)
    weight = weight / jnp.sum(weight)
    recent = jnp.einsum("n,cnd->cd", weight, scores)
    theta = jnp.mean(recent, axis=0, keepdims=True) if shared else recent
    theta = jnp.broadcast_to(theta, recent.shape) / (1 + ALPHA)
    exponent = jnp.sqrt(dim * rate * jnp.mean(time) / 2 / together)
    loop = Loop(preconditioner, rate, theta, time, square_time, top, explained, ratio, exponent)
    # A chain that overflowed or never moved tells nothing; then there is no push.
    known = all_finite(loop)
    return jax.tree.map(lambda x: jnp.where(known, x, 0.0), loop)._replace(
        ratio=jnp.where(known, loop.ratio, 1.0),
        rate=jnp.where(known, loop.rate, 1 / num_samples),
        time=jnp.where(known, loop.time, 1.0),
    )


def _precondition(draws, scores):
    """A, the geometric mean of Cov(x) and Cov(s)^-1; the scores times A, and times a root of A.

    With L L^T = Cov(x) it is L (L^T Cov(s) L)^(-1/2) L^T. On a Gaussian the scores are linear in
    the draws, so that A is the covariance exactly, however few and correlated the draws are.
    """
    dim = draws.shape[-1]
    centred_draws = (draws - jnp.mean(draws, axis=(0, 1), keepdims=True)).reshape(-1, dim)
    centred_scores = (scores - jnp.mean(scores, axis=(0, 1), keepdims=True)).reshape(-1, dim)
    variance = jnp.maximum(jnp.mean(centred_draws**2, axis=0), 1e-30)
    if dim > DENSE_UP_TO:
        a = jnp.sqrt(variance / jnp.maximum(jnp.mean(centred_scores**2, axis=0), 1e-30))
        return a, scores * a[None, None], scores * jnp.sqrt(a)[None, None]
    size = len(centred_draws)
    ridge = 1e-2 * dim / (dim + size)
    covariance = centred_draws.T @ centred_draws / size + ridge * jnp.diag(variance)
    root = jnp.linalg.cholesky(covariance)
    turned = centred_scores @ root
    values, vectors = jnp.linalg.eigh(turned.T @ turned / size + ridge * jnp.eye(dim))
    root = root @ (vectors * jnp.maximum(values, 1e-6)[None] ** -0.25)
    whitened = scores @ root
    return root @ root.T, whitened @ root.T, whitened


def settings(
    loop: Loop, num_samples: int, *, alpha: Any = "auto", history_every: Any = 1
) -> dict[str, Any]:
    """The keywords of `repel` for a measured loop, and any alpha."""
    auto = isinstance(alpha, str)
    alpha = ALPHA if auto else alpha
    strength = jnp.where(loop.ratio < WORTHWHILE, alpha, 0.0) if auto else alpha
    updates = num_samples / history_every
    gamma = jnp.minimum(loop.rate * history_every, 0.5) / (1 + alpha)
    return {
        "alpha": watched(strength, limit=jnp.maximum(3 * loop.exponent, 0.3)),
        "gain": Gain(RHO, gamma * updates**RHO, updates),
        "surrogate": shift(preconditioner=loop.preconditioner),
        "frame": "moving",
        "history_every": history_every,
    }


def _thinning(time: jax.Array, every: jax.typing.ArrayLike) -> jax.Array:
    """By how much the mean of every m-th draw varies around the mean of all, relatively.

    For an autoregression with this autocorrelation time, averaged over the coordinates.
    """
    lag = (time - 1) / (time + 1)
    thinned = every * (1 + lag**every) / (1 - lag**every)
    return jnp.sum(thinned - time) / jnp.sum(time)


def _long_run_variance(series: jax.Array, num_batches: int = 16) -> jax.Array:
    """Batch-means estimate of n Var(mean), over (chain, draw, coordinate)."""
    length = series.shape[1] // num_batches
    used = series[:, -length * num_batches :]
    means = used.reshape(series.shape[0], num_batches, length, -1).mean(axis=2)
    return length * jnp.var(means, axis=(0, 1), ddof=1)


def _times(series: jax.Array) -> jax.Array:
    """Integrated autocorrelation times, in draws."""
    variance = jnp.var(series, axis=(0, 1))
    return _long_run_variance(series) / jnp.where(variance > 0, variance, jnp.inf)


def _top_eigenvalue(rows: jax.Array, iterations: int = 30) -> jax.Array:
    """Of the rows' second moment, by power iteration, without forming it."""

    def one(_, carry):
        vector, _ = carry
        image = jnp.einsum("n,nd->d", rows @ vector, rows) / len(rows)
        size = jnp.linalg.norm(image)
        return image / jnp.maximum(size, 1e-30), size

    start = jnp.full(rows.shape[1], rows.shape[1] ** -0.5)
    return jax.lax.fori_loop(0, iterations, one, (start, jnp.ones(())))[1]

"""Newton steps against the means of Stein features.

Under a small move of weight w along a field, the mean of its feature falls by w E[feature^2]. So
w <- w + K mean(feature), with K the inverse of E[feature feature^T], is a Newton step. K comes from
the draws, or, where these are too few for so many features, from a Gaussian.
"""

from collections.abc import Callable

import numpy as np

from srmc.rebalance.coordinates import Coordinates, Rows
from srmc.rebalance.transport import Weights, feature_rows, hermite
from srmc.types import Float

DAMPED = 0.3  # added to correlations of features, which are estimates
DRAWS_PER_FEATURE = 8  # at least, to estimate them
LEAST = 0.04  # variance that a step of linear maps can make 1
RIDGE = 1e-3  # added to powers of the correlations
NEGLIGIBLE = 0.01  # sum of a coordinate's correlations with others, to some power, that is left out
NUMBERS = 2**23  # draws times features, at most, in an estimate

Newton = Callable[[np.ndarray], np.ndarray]  # from means of features to weights, as in `flat`


def newton(at: Coordinates, like: Weights, z: Rows, s: Rows) -> tuple[np.ndarray, Newton]:
    """The sizes of the features of draws z with scores s, in units of z, and the Newton step."""
    finite = np.flatnonzero(np.all(np.isfinite(s), axis=1))
    num_features = like.flat().size
    some = finite[:: 1 + len(finite) * num_features // NUMBERS]
    if len(some) >= DRAWS_PER_FEATURE * num_features:
        return _of_draws(feature_rows(at, like, z[some], s[some]))
    some = finite[:: 1 + len(finite) * z.shape[1] * (1 + len(like.marginal)) // NUMBERS]
    return np.sqrt(_gaussian_squares(like).flat()), _of_gaussian(at, like, z[some], s[some])


def _of_draws(features: Rows) -> tuple[np.ndarray, Newton]:
    size = np.sqrt(np.mean(features**2, axis=0))
    size = np.where(size > 0, size, 1.0)
    scaled = features / size
    correlation = scaled.T @ scaled / len(scaled)
    inverse = np.linalg.inv(correlation + DAMPED * np.eye(len(correlation)))
    return size, lambda means: inverse @ (means / size) / size


def _gaussian_squares(like: Weights) -> Weights:
    """The mean squares of the features on a Gaussian, as `Weights.flat` lays them out."""
    linear = 2 * np.ones_like(like.linear)
    if linear.ndim == 2:  # entries off the diagonal are laid out times √2
        linear = np.where(np.eye(len(linear), dtype=bool), linear, np.sqrt(2.0))
    ones = map(np.ones_like, (like.marginal, like.product))
    return Weights(np.ones_like(like.shift), linear, *ones)


def _of_gaussian(at: Coordinates, like: Weights, z: Rows, s: Rows) -> Newton:
    """The step on a Gaussian, shorter where the mean square of a feature is larger.

    There the features of one order k are correlated as R_ij^(k+1), and those of different orders
    are not.
    """
    y, s_y = at.whiten(z), at.push(s)
    shift = 1 / np.maximum(np.mean(s_y**2, axis=0), 1.0)
    linear = like.linear
    if linear.ndim == 2:
        squares, mixed = (s_y**2).T @ y**2, (s_y * y).T @ (s_y * y)
        square = (squares + squares.T + 2 * mixed) / (2 * len(y))
        own = np.mean((1 + s_y * y) ** 2, axis=0)
        diagonal = np.eye(len(own), dtype=bool)
        linear = 1 / np.maximum(np.where(diagonal, own[None], square), 2.0)
    elif linear.size:
        linear = 1 / np.maximum(np.mean((1 + s_y * y) ** 2, axis=0), 2.0)
    marginal, inverses = like.marginal, []
    if marginal.size:
        values, slopes = hermite(z, len(marginal) + 1)
        square = np.mean((slopes + values * at.regress(s)[None]) ** 2, axis=1)
        marginal = np.maximum(square, 1.0) ** -0.5
        if at.correlation is not None:
            powers = [at.correlation ** (k + 3) for k in range(len(marginal))]
            inverses = [_inverse(power) for power in powers]

    def newton(means: np.ndarray) -> np.ndarray:
        group = like.like(means)
        scaled = marginal * group.marginal
        if inverses:
            pairs = zip(inverses, scaled, strict=True)
            scaled = np.stack([row if m is None else m @ row for m, row in pairs])
        whole = linear * (_whitening(group.linear) if group.linear.ndim == 2 else group.linear)
        step = Weights(shift * group.shift, whole, marginal * scaled, group.product)
        return step.flat()

    return newton


def _inverse(power: Float[np.ndarray, "d d"]) -> Float[np.ndarray, "d d"] | None:
    """The inverse of a power of the correlations; None where it is all but the identity."""
    if np.max(np.sum(np.abs(power), axis=1)) < 1 + NEGLIGIBLE:
        return None
    found: np.ndarray = np.linalg.inv(power + RIDGE * np.eye(len(power)))
    return found


def _whitening(means: Float[np.ndarray, "d d"]) -> Float[np.ndarray, "d d"]:
    """Twice the linear map after which the means of linear features are 0 on a Gaussian.

    They are F = I - C there, with C the covariance of the draws, and the map is C^(-1/2) - I, which
    is F / 2 to first order.
    """
    values, vectors = np.linalg.eigh(means)
    stretch = 2 * (np.maximum(1 - values, LEAST) ** -0.5 - 1)
    found: np.ndarray = (vectors * stretch) @ vectors.T
    return found

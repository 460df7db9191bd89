"""Weights from stored scores: the fixed point of repellence without moving a draw."""

import warnings
from typing import Any

import numpy as np

from srmc._checks import check_number
from srmc.coordinates.whiten import DENSE, Rows
from srmc.rebalance.as_chains import as_chains
from srmc.rebalance.features import linear, marginal, scored
from srmc.types import Float

ORDER = 5  # of the marginal features
DRAWS_PER_FEATURE = 8  # below which features are left out
STEPS = 50  # of Newton's method at most


def reweight(
    draws: Any, scores: Any, features: Any = None, *, keep: float = 0.5
) -> Float[np.ndarray, "*chain draw"]:
    """Weights under which the mean of every Stein feature is 0; no further gradient is needed.

    The weights are proportional to exp(-lambda·phi), with lambda such that sum w phi = 0. They are
    the closest to equal ones, in relative entropy, that do this. For every functional they do to
    first order what `srmc.rebalance` does, where draws cannot be moved: only scores were stored,
    or the space is discrete. `srmc.metrics` has weighted means, covariances and quantiles.

    Parameters
    ----------
    draws
        Draws of unbounded parameters, (chain, draw, d) or (draw, d).
    scores
        The gradient of the log density at each draw, in the same shape.
    features
        Functions with mean 0 under the target at each draw, (chain, draw, k), in place of those of
        the scores; `draws` and `scores` are then not looked at, and may be None. On a discrete
        space, the Gibbs residuals, for example.
    keep
        The effective size of the weights, (sum w)^2 / sum w^2, is at least this share of the
        draws; lambda is shrunk as far as that takes, and a warning says so if it is far.

    Returns
    -------
    Weights that sum to 1, (chain, draw) or (draw,).
    """
    check_number("keep", keep, above=0.0, at_most=1.0)
    if features is None:
        x, s = _rows("draws", draws), _rows("scores", scores)
        if np.shape(draws) != np.shape(scores):
            raise ValueError(
                f"scores must have the shape of draws, {np.shape(draws)}, got {np.shape(scores)}"
            )
        shape, phi = np.shape(draws)[:-1], stein_features(x, s)
    else:
        phi, shape = _rows("features", features), np.shape(features)[:-1]
    phi = phi / np.maximum(np.sqrt(np.mean(phi**2, axis=0)), 1e-300)
    ridge, start = 0.0, float(np.linalg.norm(phi.mean(axis=0)))
    while True:
        weights = _tilted(phi, ridge)
        if 1 / np.sum(weights**2) >= keep * len(phi):
            break
        ridge = max(2 * ridge, 1e-3)
    left = float(np.linalg.norm(weights @ phi)) / max(start, 1e-300)
    if left > 0.1:
        warnings.warn(
            f"{left:.0%} of the mean features is left, since the effective size of the weights "
            "would fall below `keep` otherwise: the draws are few, or the features do not have "
            "mean 0 under the target",
            stacklevel=2,
        )
    return weights.reshape(shape)


def stein_features(x: Rows, s: Rows) -> Rows:
    """The Stein features of draws with these scores: as many as the number of draws allows.

    Scores come first, then scalings and products, then marginal features, which without products
    would make covariances worse.
    """
    at = scored(x, s)
    count, dim = x.shape
    room = count / DRAWS_PER_FEATURE
    groups, pairs = [at.s], dim * (dim + 1) // 2
    if dim > DENSE or room < dim + pairs:
        if room >= 2 * dim:
            groups.append(1 + at.y * at.s)
        return np.concatenate(groups, axis=1)
    groups.append(linear(at))
    order = min(ORDER, 1 + int((room - dim - pairs) // dim))
    groups += list(marginal(at.z, at.own, order))[2:]
    return np.concatenate(groups, axis=1)


def _tilted(phi: Rows, ridge: float) -> Float[np.ndarray, " n"]:
    """The minimum over lambda of log sum exp(-lambda·phi) + ridge |lambda|^2 / 2, by Newton."""
    dual = np.zeros(phi.shape[1])
    eye = np.eye(len(dual))

    def value(dual: np.ndarray) -> tuple[float, np.ndarray]:
        exponents = -phi @ dual
        top = np.max(exponents)
        weights = np.exp(exponents - top)
        total = np.sum(weights)
        return float(top + np.log(total) + ridge * dual @ dual / 2), weights / total

    now, weights = value(dual)
    for _ in range(STEPS):
        mean = weights @ phi
        gradient = -mean + ridge * dual
        if np.max(np.abs(gradient)) < 1e-10:
            break
        centred = phi - mean
        hessian = (weights[:, None] * centred).T @ centred + (ridge + 1e-10) * eye
        step = -np.linalg.solve(hessian, gradient)
        size = 1.0
        while size > 1e-6:
            trial, trial_weights = value(dual + size * step)
            if trial <= now + 1e-4 * size * float(gradient @ step):
                break
            size /= 2
        else:
            break
        dual, now, weights = dual + size * step, trial, trial_weights
    return weights


def _rows(name: str, values: Any) -> Rows:
    chains = as_chains(name, values)
    return chains.reshape(-1, chains.shape[2])

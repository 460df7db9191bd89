"""Zero-variance control variates: scores of finished draws reduce the noise of their averages."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from srmc._checks import as_numbers, check_option, outputs_of
from srmc.metrics.errors import batch_means_error
from srmc.rebalance.given import as_tree
from srmc.types import Array, Position, PyTree

FOLDS = 5
# Relative to the Gram matrix; with 1e100 the control variates have no effect.
RIDGES = [1e100, *10.0 ** np.arange(4, -9, -1), 0.0]


class Controlled(NamedTuple):
    """Averages with and without control variates; mean ± 1.96 × error is a 95% interval."""

    mean: PyTree[np.ndarray]
    error: PyTree[np.ndarray]
    plain_mean: PyTree[np.ndarray]
    plain_error: PyTree[np.ndarray]


def zv(
    draws: PyTree[Any],
    scores: PyTree[Any] | Callable[[Any], Position],
    order: int = 1,
    values: PyTree[Any] | Callable[[Any], PyTree[Array]] | None = None,
) -> Controlled:
    """Averages over draws, minus the part of their noise that the scores explain.

    Scores have mean 0, and so has x s^T + I. Both correlate with many functions of x, and a
    regression on them removes that part of the noise. On a Gaussian, this removes the whole error
    of means (order 1) and of all second moments (order 2).

    Parameters
    ----------
    draws
        Draws, in order: an array (chain, draw, d) or (draw, d), such as `result.draws["x"]`; a
        data frame with a column per coordinate; or a tree of arrays (chain, draw, ...), such as
        `result.draws` or the posterior of an ArviZ trace.
    scores
        The gradient of the log density at each draw, structured like the draws, or the JAX
        function that returns it for one draw. With order 1, any functions with mean 0 may be used,
        such as `result.stats["features"]` of HMC and NUTS (other kernels evaluate the scores of
        few draws only).
    order
        1 for d control variates, or 2 for d (d + 3) / 2.
    values
        What to average, as an array or a tree of them (chain, draw, ...), or (draw, ...) if draws
        are (draw, d), or as a JAX function of one draw; the draws themselves if not given.

    Notes
    -----
    Coefficients are fitted on four fifths of the draws and applied to the rest, in turn, with a
    ridge chosen by cross-validation, so that the errors are valid. With more than 200 draws per
    control variate, least squares on all draws is used.
    """
    check_option("order", order, (1, 2))
    draws = as_tree(draws)
    alone = not isinstance(draws, dict | list | tuple) and np.ndim(draws) == 2
    draws = _with_chains("draws", draws)
    x = _flat("draws", draws)
    if x.shape[1] < 2 * FOLDS:
        raise ValueError(f"draws must be at least {2 * FOLDS} per chain, got {x.shape[1]}")
    if callable(scores):
        scores = _over_draws("scores", scores, draws)
    scores = _with_chains("scores", as_tree(scores))
    s = _flat("scores", scores)
    alike = jax.tree.map(np.shape, scores) == jax.tree.map(np.shape, draws)
    is_features = isinstance(scores, np.ndarray) and order == 1 and s.shape[2] >= x.shape[2]
    if not alike and not (is_features and s.shape[:2] == x.shape[:2]):
        raise ValueError(
            f"scores must have the names and shapes of draws, {_shapes(draws)}, got "
            f"{_shapes(scores)}"
        )
    if values is None:
        values = draws
    elif callable(values):
        values = _over_draws("values", values, draws)
    elif alone:
        values = jax.tree.map(lambda v: as_numbers("values", v)[None], as_tree(values))
    values = _with_chains("values", as_tree(values), alone=False)
    f = _flat("values", values)
    if f.shape[:2] != x.shape[:2]:
        raise ValueError(f"values must be {x.shape[:2]} in front, as draws are, got {f.shape[:2]}")

    features = _features(x, s, order)
    if order == 2:
        _check_second_order(features[..., s.shape[2] :])
    rest = f - _explained(features, f)
    template = jax.tree.map(lambda v: np.zeros(v.shape[2:]), values)
    shape = ravel_pytree_numpy(template)
    return Controlled(
        shape(rest.mean(axis=(0, 1))),
        shape(batch_means_error(rest)),
        shape(f.mean(axis=(0, 1))),
        shape(batch_means_error(f)),
    )


def ravel_pytree_numpy(template: PyTree[np.ndarray]) -> Callable[[np.ndarray], PyTree[np.ndarray]]:
    """A function that gives a vector the structure of the template, in double precision."""
    leaves, structure = jax.tree.flatten(template)
    ends = np.cumsum([leaf.size for leaf in leaves])[:-1]

    def shape(flat: np.ndarray) -> PyTree[np.ndarray]:
        parts = zip(np.split(flat, ends), leaves, strict=True)
        return jax.tree.unflatten(structure, [part.reshape(leaf.shape) for part, leaf in parts])

    return shape


def _over_draws(name: str, function: Callable[[Any], Any], draws: PyTree[np.ndarray]) -> Any:
    """A user's function at all draws."""
    outputs_of(name, function, jax.tree.map(lambda x: jnp.asarray(x[0, 0]), draws), of="a draw")
    return jax.jit(jax.vmap(jax.vmap(function)))(draws)


def _shapes(tree: PyTree[np.ndarray]) -> PyTree[tuple[int, ...]]:
    return jax.tree.map(np.shape, tree)


def _with_chains(name: str, tree: PyTree[Any], alone: bool = True) -> PyTree[np.ndarray]:
    tree = jax.tree.map(lambda x: as_numbers(name, x), tree)
    if alone and isinstance(tree, np.ndarray) and tree.ndim == 2:
        tree = tree[None]
    for leaf in jax.tree.leaves(tree):
        if leaf.ndim < 2:
            raise ValueError(
                f"{name} must be numbers of shape (chain, draw, ...), got shape {leaf.shape}"
            )
    return tree


def _flat(name: str, tree: PyTree[np.ndarray]) -> np.ndarray:
    """(chain, draw, coordinate), in double precision."""
    leaves = jax.tree.leaves(tree)
    if not leaves or len({leaf.shape[:2] for leaf in leaves}) > 1:
        raise ValueError(f"{name} must be arrays with the same chains and draws")
    flat = [np.asarray(leaf, float).reshape(*leaf.shape[:2], -1) for leaf in leaves]
    out = np.concatenate(flat, axis=2)
    if not np.all(np.isfinite(out)):
        raise ValueError(f"{name} must be finite, got {np.sum(~np.isfinite(out))} NaN or inf")
    return out


def _features(x: np.ndarray, s: np.ndarray, order: int) -> np.ndarray:
    """Functions with mean 0: s, and for order 2 (y_i s_j + y_j s_i) / 2 + (i = j)."""
    if order == 1:
        return s
    scale = x.std(axis=(0, 1))
    scale = np.where(scale > 0, scale, 1.0)
    y, s = (x - x.mean(axis=(0, 1))) / scale, s * scale
    i, j = np.triu_indices(x.shape[2])
    products = (y[..., i] * s[..., j] + y[..., j] * s[..., i]) / 2 + (i == j)
    return np.concatenate([s, products], axis=2)


def _explained(features: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The part of each value that the features explain, (chain, draw, k)."""
    chains, length, size = features.shape
    phi, f = features.reshape(-1, size), values.reshape(chains * length, -1)
    phi = phi / np.maximum(np.sqrt(np.mean(phi**2, axis=0)), 1e-300)
    if len(phi) > 200 * size:
        centred = phi - phi.mean(axis=0), f - f.mean(axis=0)
        beta = np.linalg.lstsq(*centred, rcond=1e-10)[0]
        fitted: np.ndarray = (phi @ beta).reshape(values.shape)
        return fitted
    fold = np.tile(np.arange(length) * FOLDS // length, chains)
    fits = [(fold == k, _Ridge(phi[fold != k], f[fold != k])) for k in range(FOLDS)]
    losses = np.zeros((len(RIDGES), f.shape[1]))
    for held, fit in fits:
        image = (phi[held] - fit.mean_phi) @ fit.right.T
        for n, ridge in enumerate(RIDGES):
            guess = fit.mean_f + image @ (fit.shrunk(ridge)[:, None] * fit.projected)
            losses[n] += np.sum((f[held] - guess) ** 2, axis=0)
    # The strongest of the ridges that do about as well as the best one.
    best = np.argmax(losses <= 1.1 * losses.min(axis=0), axis=0)
    out = np.empty_like(f)
    for held, fit in fits:
        shrunk = np.stack([fit.shrunk(ridge) for ridge in RIDGES], axis=1)[:, best]
        out[held] = phi[held] @ (fit.right.T @ (shrunk * fit.projected))
    return out.reshape(values.shape)


class _Ridge:
    """Regressions with any ridge, from one singular value decomposition."""

    def __init__(self, phi: np.ndarray, f: np.ndarray):
        self.mean_phi, self.mean_f, self.size = phi.mean(axis=0), f.mean(axis=0), len(phi)
        left, self.sizes, self.right = np.linalg.svd(phi - self.mean_phi, full_matrices=False)
        self.projected = left.T @ (f - self.mean_f)

    def shrunk(self, ridge: float) -> np.ndarray:
        """The factor on the coefficient of each singular direction."""
        floor = 1e-12 * max(self.sizes[0], 1e-100)
        shrunk: np.ndarray = self.sizes / (self.sizes**2 + ridge * self.size + floor**2)
        return shrunk


def _check_second_order(products: np.ndarray) -> None:
    """Raise if the mean of x s^T + I is far from 0, since s are then not the scores of x."""
    mean = np.abs(products.mean(axis=(0, 1)))
    off = (mean > 0.3) & (mean > 6 * batch_means_error(products))
    if np.any(off):
        raise ValueError(
            "scores must be the gradients of the log density in the coordinates of draws for "
            f"order 2; x s^T + I has a mean of {np.max(mean[off]):.2g}, far from 0"
        )

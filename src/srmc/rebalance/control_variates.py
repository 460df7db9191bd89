"""Zero-variance control variates: scores of finished draws reduce the noise of their averages."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from srmc._checks import as_numbers, check_option, outputs_of
from srmc.metrics.errors import batch_means_error
from srmc.metrics.tails import plain_error
from srmc.rebalance import rule
from srmc.rebalance.choose import Bank
from srmc.rebalance.fit import Fit
from srmc.rebalance.given import as_tree
from srmc.types import Array, Position, PyTree

FEWEST = 10  # draws per chain
RIDGES = (0.0, *rule.RIDGES)  # with none, all Gaussians are exact


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
    The regression is that of `srmc.rebalance`: its ridge, or no regression, is chosen for each
    value by what the regressions on four fifths of the draws leave on the rest, in turn. The errors
    are those of these remainders.
    """
    check_option("order", order, (1, 2))
    draws = as_tree(draws)
    alone = not isinstance(draws, dict | list | tuple) and np.ndim(draws) == 2
    draws = _with_chains("draws", draws)
    x = _flat("draws", draws)
    if x.shape[1] < FEWEST:
        raise ValueError(f"draws must be at least {FEWEST} per chain, got {x.shape[1]}")
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
    bank = Bank({"scores": features.reshape(-1, features.shape[2])}, RIDGES)
    mean, error = Fit(bank, np.ones(f.shape[0] * f.shape[1], bool)).estimate(f)
    template = jax.tree.map(lambda v: np.zeros(v.shape[2:]), values)
    shape = ravel_pytree_numpy(template)
    return Controlled(
        shape(mean),
        shape(error),
        shape(f.mean(axis=(0, 1))),
        shape(plain_error(f)),
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


def _check_second_order(products: np.ndarray) -> None:
    """Raise if the mean of x s^T + I is far from 0, since s are then not the scores of x."""
    mean = np.abs(products.mean(axis=(0, 1)))
    off = (mean > 0.3) & (mean > 6 * batch_means_error(products))
    if np.any(off):
        raise ValueError(
            "scores must be the gradients of the log density in the coordinates of draws for "
            f"order 2; x s^T + I has a mean of {np.max(mean[off]):.2g}, far from 0"
        )

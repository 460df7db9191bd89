"""Zero-variance control variates: what the scores of finished draws tell about their averages."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from srmc._checks import check_option
from srmc._errors import batch_means_error

PyTree = Any
FOLDS = 5
RIDGES = [*10.0 ** np.arange(4, -9, -1), 0.0]  # in units of the Gram matrix; infinity comes first


class Controlled(NamedTuple):
    """Averages with control variates, and without; 1.96 errors to each side are 95%."""

    mean: PyTree
    error: PyTree
    plain_mean: PyTree
    plain_error: PyTree


def zv(
    draws: PyTree,
    scores: PyTree | Callable[[PyTree], PyTree],
    order: int = 1,
    values: PyTree | Callable[[PyTree], PyTree] | None = None,
) -> Controlled:
    """Averages over draws, less what the scores explain of their noise.

    Scores have mean 0, and so has x s^T + I; both go with many functions of x, and a regression on
    them takes that part of the noise away. On a Gaussian nothing is left of the error of means
    (order 1) or of all second moments (order 2).

    Parameters
    ----------
    draws
        Draws, in order: an array (chain, draw, d) or (draw, d), or a tree of arrays
        (chain, draw, ...), such as `result.draws`.
    scores
        The gradient of the log density at each draw, as the draws are, or as the JAX function
        that gives it for one draw. With order 1 any linear image of it will do, such as
        `result.stats["score"]`.
    order
        1, for d control variates, or 2, for d (d + 3) / 2.
    values
        What to average, as an array or a tree of them (chain, draw, ...), or as a JAX function of
        one draw; the draws themselves if not given.

    Coefficients are fitted on four fifths of the draws and used on the rest, in turn, so that
    errors hold, with a ridge that does best there, from none at all to one that leaves the values
    alone. With more than 200 draws for each control variate, least squares on all of them do.
    """
    check_option("order", order, (1, 2))
    draws = _with_chains("draws", draws)
    x = _flat("draws", draws)
    if callable(scores):
        scores = jax.jit(jax.vmap(jax.vmap(scores)))(draws)
    s = _flat("scores", _with_chains("scores", scores))
    if s.shape != x.shape and (order == 2 or s.shape[:2] != x.shape[:2]):
        raise ValueError(f"scores must have the shape of draws, {x.shape}, got {s.shape}")
    if values is None:
        values = draws
    elif callable(values):
        values = jax.jit(jax.vmap(jax.vmap(values)))(draws)
    values = jax.tree.map(lambda v: np.asarray(v, float), values)
    f = _flat("values", values)
    if f.shape[:2] != x.shape[:2]:
        raise ValueError(f"values must be {x.shape[:2]} in front, as draws are, got {f.shape[:2]}")

    rest = f - _explained(_features(x, s, order), f)
    template = jax.tree.map(lambda v: np.zeros(v.shape[2:]), values)
    shape = ravel_pytree_numpy(template)
    return Controlled(
        shape(rest.mean(axis=(0, 1))),
        shape(batch_means_error(rest)),
        shape(f.mean(axis=(0, 1))),
        shape(batch_means_error(f)),
    )


def ravel_pytree_numpy(template: PyTree) -> Callable[[np.ndarray], PyTree]:
    """A function that gives a vector the structure of the template, in double precision."""
    leaves, structure = jax.tree.flatten(template)
    ends = np.cumsum([leaf.size for leaf in leaves])[:-1]

    def shape(flat):
        parts = zip(np.split(flat, ends), leaves, strict=True)
        return jax.tree.unflatten(structure, [part.reshape(leaf.shape) for part, leaf in parts])

    return shape


def _with_chains(name: str, tree: PyTree) -> PyTree:
    tree = jax.tree.map(np.asarray, tree)
    if isinstance(tree, np.ndarray) and tree.ndim == 2:
        tree = tree[None]
    for leaf in jax.tree.leaves(tree):
        if leaf.ndim < 2 or not np.issubdtype(leaf.dtype, np.number):
            raise ValueError(
                f"{name} must be numbers of shape (chain, draw, ...), got shape {leaf.shape} and "
                f"dtype {leaf.dtype}"
            )
    return tree


def _flat(name: str, tree: PyTree) -> np.ndarray:
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
        return (phi @ beta).reshape(values.shape)
    fold = np.tile(np.arange(length) * FOLDS // length, chains)
    fits = [(fold == k, _ridge_paths(phi[fold != k], f[fold != k])) for k in range(FOLDS)]
    losses = np.zeros((len(RIDGES) + 1, f.shape[1]))
    for held, path in fits:
        losses += [np.sum((f[held] - a - phi[held] @ b) ** 2, axis=0) for a, b in path]
    # Paths go from strong ridges to weak ones; of those that do about as well, the strongest.
    best = np.argmax(losses <= 1.1 * losses.min(axis=0), axis=0)
    out = np.empty_like(f)
    for held, path in fits:
        beta = np.stack([b for _, b in path])[best, :, np.arange(len(best))].T
        out[held] = phi[held] @ beta
    return out.reshape(values.shape)


def _ridge_paths(phi, f):
    """Intercepts and coefficients for each ridge, from one eigendecomposition."""
    mean_phi, mean_f = phi.mean(axis=0), f.mean(axis=0)
    phi, f = phi - mean_phi, f - mean_f
    u, sizes, vt = np.linalg.svd(phi, full_matrices=False)
    projected = u.T @ f
    floor = 1e-12 * max(sizes[0], 1e-300)
    path = [(mean_f, np.zeros((phi.shape[1], f.shape[1])))]
    for ridge in RIDGES:
        shrunk = sizes / (sizes**2 + ridge * len(phi) + floor**2)
        beta = vt.T @ (shrunk[:, None] * projected)
        path.append((mean_f - mean_phi @ beta, beta))
    return path

"""Moments of a stream by control variates: the plain kernel runs, and its scores are summed too.

For each coordinate x with score s, the Stein features s and 1 + (x - c) s have mean 0 under the
target. The means of x and (x - c)^2 over batches of the run are regressed on those of the features,
which gives the coefficients of least long-run variance, and the errors from what is left. Memory
is that of three more numbers per coordinate and batch.
"""

import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from srmc._programs import Code, remembered
from srmc.metrics.errors import batch_means_error
from srmc.models.problem import name_leaves
from srmc.rebalance.check import least_likely
from srmc.repel.state import RepelState
from srmc.results.kept import Named
from srmc.sample.loop import Parameters, Recorded
from srmc.types import Float, Position

FEWEST = 16  # batches; with fewer, plain averages are returned
CHANCE = 1e-3  # probability that a sound run keeps its plain moments, which costs it no more


def centre_of(named: Partial, positions: Position) -> dict[str, Any]:
    """The average values of positions (chain, ...), near which squares are summed."""
    means = lambda values: {k: jnp.mean(x.astype(float), axis=0) for k, x in values.items()}
    return {
        "values": means(jax.vmap(named)(positions)),
        "positions": means(name_leaves(positions)),
    }


@remembered
def recorder(code: Code) -> Callable[[Parameters, RepelState], Recorded]:
    """What is summed of a state: its values, and their squares with the features."""

    def record(given: Parameters, state: RepelState) -> Recorded:
        inner = state.inner_state
        values, own = code(given.values)(inner.position), name_leaves(inner.position)
        scores = name_leaves(inner.logdensity_grad)
        centre, origin = given.loop["values"], given.loop["positions"]
        summed = {}
        for name, x in values.items():
            parts = [(x - centre[name]) ** 2]
            if name in own and own[name].shape == x.shape:  # a parameter, or its transform
                s = scores[name]
                parts += [s, 1 + (own[name] - origin[name]) * s]
            summed[name] = jnp.stack(parts)
        return Recorded(values, features=summed)

    return record


def corrected(
    values: Named, summed: Named, centre: dict[str, Any], counts: list[int]
) -> Named | None:
    """The moments of values by regression on the features that were summed with them.

    None, with a warning, if the features cannot have mean 0 under the target.
    """
    full = np.array(counts) == counts[0]
    features = [one["batch_means"][full, 1:].reshape(full.sum(), -1) for one in summed.values()]
    t, limit = least_likely(np.concatenate(features, axis=1)[None], 2.0, CHANCE)
    if t > limit:
        warnings.warn(
            "the moments are those of the plain draws, without control variates: the mean of a "
            f"Stein feature is {t:.1f} standard errors from 0, and chance allows {limit:.1f}. The "
            "log density has a jump, a wall or a wrong gradient, or the chains have not settled",
            stacklevel=2,
        )
        return None
    return {
        name: _corrected(own, summed[name], np.asarray(centre["values"][name]), full)
        for name, own in values.items()
    }


def _corrected(
    own: dict[str, Any], summed: dict[str, Any], centre: np.ndarray, full: np.ndarray
) -> dict[str, Any]:
    f = np.stack([own["batch_means"], summed["batch_means"][:, 0]], axis=1)
    phi = summed["batch_means"][:, 1:]
    if full.sum() < FEWEST or not phi.shape[1]:
        return own
    beta = _coefficients(f[full], phi[full])
    explained = lambda phi: np.einsum("fp...,np...->nf...", beta, phi)
    left = (f - explained(phi))[full]
    of_chains = np.stack([own["mean"], summed["mean"][:, 0]], axis=1)
    mean, square = np.swapaxes(of_chains - explained(summed["mean"][:, 1:]), 0, 1)
    variance = square - (mean - centre) ** 2
    lost = batch_means_error(f[full][None, :, 0]) < own["error"] * (1 - 1e-9)  # chains are stuck
    freedom = np.sqrt((len(left) - 1) / (len(left) - 1 - phi.shape[1]))
    error = freedom * batch_means_error(left[None, :, 0])
    rounding = np.finfo(centre.dtype).eps * np.sqrt(np.abs(variance).mean(axis=0))
    error = np.hypot(error, rounding)
    fine = np.all(variance > 0, axis=0) & ~lost & np.isfinite(error)
    found = {"mean": mean, "variance": variance, "error": error}
    found["batch_means"] = (f - explained(phi))[:, 0]
    return {name: np.where(fine, value, own[name]) for name, value in found.items()}


def _coefficients(
    f: Float[np.ndarray, "batch f ..."], phi: Float[np.ndarray, "batch p ..."]
) -> Float[np.ndarray, "f p ..."]:
    """Least squares with an intercept, coordinate by coordinate."""
    f, phi = (np.moveaxis(v - v.mean(axis=0), (0, 1), (-1, -2)) for v in (f, phi))
    gram, cross = phi @ np.swapaxes(phi, -1, -2), f @ np.swapaxes(phi, -1, -2)
    scale = np.sqrt(np.maximum(np.einsum("...pp->...p", gram), 1e-300))
    inverse = np.linalg.pinv(gram / scale[..., :, None] / scale[..., None, :], 1e-8, True)
    beta = cross / scale[..., None, :] @ inverse / scale[..., None, :]
    return np.moveaxis(beta, (-2, -1), (0, 1))

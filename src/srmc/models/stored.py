"""Gradients that a sampler stored beside its draws, and draws that weights choose."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from srmc._checks import as_numbers
from srmc.rebalance.traces import Dataset, values_of
from srmc.types import Float

Flat = Float[np.ndarray, "chain draw d"]


def stored_scores(groups: dict[str, Dataset], z_grad: Any = None) -> tuple[Flat, Flat]:
    """Unconstrained draws and the gradients of their log density.

    nutpie stores both. NumPyro stores gradients of the potential, minus the log density, by site.
    """
    if z_grad is not None:
        return _of_numpyro(values_of(groups["posterior"]), z_grad)
    stats = groups.get("sample_stats")
    found = {} if stats is None else values_of(stats)
    if "gradient" in found and "unconstrained_draw" in found:
        draws, scores = found["unconstrained_draw"], found["gradient"]
        return np.asarray(draws, float), np.asarray(scores, float)
    if "gradient" in found:
        raise ValueError(
            "trace has gradients, but not the unconstrained draws that they belong to: run "
            "nutpie.sample(..., store_gradient=True, store_unconstrained=True), or give model"
        )
    raise ValueError(
        "model must be given, since trace has no stored gradients: srmc.improve(trace, model). "
        "nutpie stores them with store_gradient=True and store_unconstrained=True; of NumPyro, "
        "give z_grad"
    )


def _of_numpyro(posterior: dict[str, np.ndarray], z_grad: Any) -> tuple[Flat, Flat]:
    if not isinstance(z_grad, Mapping):
        raise TypeError(
            'z_grad must be mcmc.get_extra_fields(group_by_chain=True)["z_grad"], a dictionary of '
            f"arrays by site, got {type(z_grad).__name__}"
        )
    draws, scores = [], []
    for name, gradient in z_grad.items():
        x, g = posterior.get(name), as_numbers(f"z_grad of {name}", gradient)
        if x is None:
            raise ValueError(f"z_grad has {name!r}, which trace has not")
        if x.shape != g.shape:
            raise ValueError(
                f"z_grad of {name} must have the shape of its draws, {x.shape}, got {g.shape}; a "
                "site with a constraint has other draws than gradients: give model instead"
            )
        draws.append(x.reshape(*x.shape[:2], -1).astype(float))
        scores.append(-g.reshape(*x.shape[:2], -1))
    if not draws:
        raise ValueError("z_grad must have the gradient of one site at least, got {}")
    return np.concatenate(draws, axis=2), np.concatenate(scores, axis=2)


def resampled(weights: Float[np.ndarray, "chain draw"], draws: Flat) -> np.ndarray:
    """Systematic resampling: which draws are taken, with repetition, in their order.

    Draws are lined up along their first principal axis, so that one that is left out is replaced
    by one that is near.
    """
    x = draws.reshape(-1, draws.shape[2])
    z = (x - x.mean(axis=0)) / np.maximum(x.std(axis=0), 1e-300)
    line = np.argsort(z @ np.linalg.svd(z, full_matrices=False)[2][0])
    sums = np.cumsum(weights.ravel()[line])
    places = (np.arange(len(x)) + 0.5) / len(x) * sums[-1]
    order: np.ndarray = np.sort(line[np.searchsorted(sums, places)]).reshape(weights.shape)
    return order

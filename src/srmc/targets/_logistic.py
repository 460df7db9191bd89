"""Bayesian logistic regression."""

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from srmc._checks import as_numbers, check_count, check_number, check_seed
from srmc._extras import extra
from srmc.targets._base import Target
from srmc.targets._importance import importance_moments
from srmc.types import Array, Float, Scalar


def logistic(num_data: int = 100, dim: int = 10, seed: int = 0) -> Target:
    """The posterior of the paper's logistic regression on synthetic data (eq:logistic_posterior).

    The rows of the design are N(0, V) with V_ij = 0.5^|i - j|. The true coefficients are drawn from
    the prior, which is standard normal.
    """
    check_count("num_data", num_data)
    check_count("dim", dim)
    check_seed("seed", seed)
    rng = np.random.RandomState(seed)  # NumPy guarantees its stream, so the data never change
    i = np.arange(dim)
    cholesky = np.linalg.cholesky(0.5 ** np.abs(i[:, None] - i))
    design = rng.standard_normal((num_data, dim)) @ cholesky.T
    probability = 1 / (1 + np.exp(-design @ rng.standard_normal(dim)))
    labels = (rng.uniform(size=num_data) < probability).astype(float)
    return logistic_posterior(
        "logistic",
        f"logistic regression on {num_data} synthetic data, {dim} coefficients",
        design,
        labels,
    )


def breast_cancer() -> Target:
    """Logistic regression on the Wisconsin breast cancer data, which come with scikit-learn.

    There are 30 standardised covariates and an intercept.
    """
    with extra("breast_cancer", "targets"):
        from sklearn.datasets import load_breast_cancer
    data = load_breast_cancer()
    design = (data.data - data.data.mean(axis=0)) / data.data.std(axis=0)
    design = np.column_stack([np.ones(len(design)), design])
    about = "logistic regression on the Wisconsin breast cancer data, 31 coefficients, real data"
    return logistic_posterior("breast_cancer", about, design, data.target.astype(float))


def logistic_posterior(name: str, about: str, design: ArrayLike, labels: ArrayLike) -> Target:
    """The posterior of logistic regression coefficients with prior N(0, I).

    `design` has shape (row, d), and `labels` holds one 0 or 1 per row.
    """
    check_number("design", design, scalar=False)
    rows, y = np.asarray(design, float), as_numbers("labels", labels)
    if rows.ndim != 2 or y.shape != rows.shape[:1]:
        raise ValueError(
            f"design must be a matrix with one row per label, got shapes {rows.shape} and {y.shape}"
        )
    if not np.all((y == 0) | (y == 1)):
        raise ValueError(f"labels must be 0 or 1, got {np.unique(y)[:5]}")
    dim = rows.shape[1]

    def logdensity(x: Float[Array, " d"]) -> Scalar:
        logit = rows.astype(x.dtype) @ x
        return jnp.sum(y.astype(x.dtype) * logit - jax.nn.softplus(logit)) - 0.5 * x @ x

    return Target(
        name, about, logdensity, jnp.zeros(dim), lambda: importance_moments(logdensity, dim)
    )

"""Bayesian logistic regression."""

import jax
import jax.numpy as jnp
import numpy as np

from srmc._checks import check_count
from srmc.targets._base import Target
from srmc.targets._importance import importance_moments


def logistic(num_data: int = 100, dim: int = 10, seed: int = 0) -> Target:
    """The posterior of the paper's logistic regression on synthetic data (eq:logistic_posterior).

    Rows of the design are N(0, V) with V_ij = 0.5^|i - j|; coefficients, true and a priori, are
    standard normal.
    """
    check_count("num_data", num_data)
    check_count("dim", dim)
    rng = np.random.RandomState(seed)  # its stream is frozen, so the data never change
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
    """Logistic regression on the Wisconsin breast cancer data, 30 standardised covariates and 1.

    The data come with scikit-learn.
    """
    try:
        from sklearn.datasets import load_breast_cancer
    except ImportError:
        raise ImportError("breast_cancer needs scikit-learn: pip install 'srmc[bench]'") from None
    data = load_breast_cancer()
    design = (data.data - data.data.mean(axis=0)) / data.data.std(axis=0)
    design = np.column_stack([np.ones(len(design)), design])
    about = "logistic regression on the Wisconsin breast cancer data, 31 coefficients, real data"
    return logistic_posterior("breast_cancer", about, design, data.target.astype(float))


def logistic_posterior(name: str, about: str, design: np.ndarray, labels: np.ndarray) -> Target:
    """The posterior of logistic coefficients, a priori N(0, I), given a design and 0/1 labels."""
    design, labels = np.asarray(design, float), np.asarray(labels, float)
    if design.ndim != 2 or labels.shape != design.shape[:1]:
        raise ValueError(
            "design must be a matrix with a row a label, "
            f"got shapes {design.shape} and {labels.shape}"
        )
    if not np.all((labels == 0) | (labels == 1)):
        raise ValueError(f"labels must be 0 or 1, got {np.unique(labels)[:5]}")
    dim = design.shape[1]

    def logdensity(x):
        logit = design.astype(x.dtype) @ x
        return jnp.sum(labels.astype(x.dtype) * logit - jax.nn.softplus(logit)) - 0.5 * x @ x

    return Target(
        name, about, logdensity, jnp.zeros(dim), lambda: importance_moments(logdensity, dim)
    )

"""Discrete targets from machine learning: Boltzmann machine, factorial HMM, neural network."""

import math
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from numpy.polynomial import Polynomial
from numpy.typing import ArrayLike

from srmc._checks import check_count, check_number, check_seed
from srmc.kernels.discrete.changes import SiteDifferences
from srmc.kernels.discrete.space import Binary, Space
from srmc.targets._base import Target, enumerated, spread
from srmc.types import Array, Float, Int, Scalar

Visible = Float[Array, " visible"]
Hidden = Float[Array, " hidden"]
Weights = Float[np.ndarray, "hidden visible"]
MOST_TERMS = 20  # largest number of terms in the series for one-site changes of an RBM


def rbm(
    weights: ArrayLike | None = None,
    visible_bias: ArrayLike = 0.0,
    hidden_bias: ArrayLike = 0.0,
    *,
    num_visible: int = 784,
    num_hidden: int = 500,
    scale: float = 0.05,
    seed: int = 0,
) -> Target:
    """A restricted Boltzmann machine with its hidden units summed out.

    log pi(v) = b·v + sum_h log(1 + exp(c_h + w_h·v)), where b and c are the biases and `weights` w
    has shape (hidden, visible). By default the weights are normal with standard deviation `scale`.
    """
    if weights is None:
        check_count("num_visible", num_visible)
        check_count("num_hidden", num_hidden)
        check_number("scale", scale, at_least=0.0)
        check_seed("seed", seed)
        weights = scale * np.random.default_rng(seed).normal(size=(num_hidden, num_visible))
    check_number("weights", weights, scalar=False)
    w = np.asarray(weights, float)
    if w.ndim != 2:
        raise ValueError(f"weights must have shape (hidden, visible), got {w.shape}")
    hidden, visible = w.shape
    b = spread("visible_bias", visible_bias, (visible,))
    c = spread("hidden_bias", hidden_bias, (hidden,))

    def inputs(x: Visible) -> Hidden:
        return jnp.asarray(c.astype(x.dtype)) + jnp.asarray(w.astype(x.dtype)) @ x

    def logdensity(x: Visible) -> Scalar:
        return jnp.vdot(b.astype(x.dtype), x) + jnp.sum(jax.nn.softplus(inputs(x)))

    return enumerated(
        Target(
            "rbm",
            f"Boltzmann machine, {visible} visible and {hidden} hidden units",
            logdensity,
            jnp.zeros(visible),
            space=Binary(),
            differences=_rbm_differences(w, b, inputs),
        )
    )


def _rbm_differences(
    w: Weights, b: Float[np.ndarray, " visible"], inputs: Callable[[Visible], Hidden]
) -> SiteDifferences:
    """One-site changes; single ones are computed from the stored inputs of hidden units."""
    rises = _rises(w)

    def everywhere(x: Visible) -> Visible:
        active = jax.nn.sigmoid(inputs(x))
        return (1 - 2 * x) * b.astype(x.dtype) + rises(active, 1 - 2 * x)

    def turn(x: Visible, site: Int[Array, ""]) -> Hidden:
        return (1 - 2 * x[site]) * jnp.asarray(w.T.astype(x.dtype))[site]

    def at(a: Hidden, x: Visible, site: Int[Array, ""]) -> Float[Array, " value"]:
        rise = jnp.sum(jax.nn.softplus(a + turn(x, site)) - jax.nn.softplus(a))
        flip = rise + (1 - 2 * x[site]) * jnp.asarray(b.astype(x.dtype))[site]
        return jnp.where(jnp.arange(2) == x[site], 0, flip)

    def move(a: Hidden, x: Visible, site: Int[Array, ""], value: Int[Array, ""]) -> Hidden:
        return jnp.where(value == x[site], a, a + turn(x, site))

    # One product for each term of the series: 4 terms take as long as 4 gradients.
    terms = _num_terms(w, float(np.finfo(np.float32).eps)) or MOST_TERMS
    cost = max(1, min(terms, w.shape[1]))
    return SiteDifferences(everywhere, inputs, at, move, cost)


def _rises(w: Weights) -> Callable[[Hidden, Visible], Visible]:
    """The map (sigmoid(a), s) -> sum_h softplus(a_h + s_i w_hi) - softplus(a_h), for signs s.

    By Taylor's series, whose radius is pi: one product of matrices for its odd terms and one for
    the even ones. If the weights are too large for that, by logarithms of products.
    """

    def rises(active: Hidden, signs: Visible) -> Visible:
        terms = _num_terms(w, float(jnp.finfo(active.dtype).eps))
        return _by_series(w, terms, active, signs) if terms else _by_products(w, active, signs)

    return rises


def _num_terms(w: Weights, precision: float) -> int:
    """The terms of the series that leave out less than rounding the log density; 0 if too many.

    The coefficients of softplus are at most 2 / (k pi^k), and each hidden unit adds about log 2.
    """
    ratios = np.abs(w) / np.pi
    if not ratios.size or ratios.max() >= 0.9:
        return 0
    rounded = precision * len(w) * np.log(2)
    left_out = lambda k: 2 / (k + 1) * np.sum(ratios ** (k + 1), axis=0).max() / (1 - ratios.max())
    return next((k for k in range(2, MOST_TERMS + 1) if left_out(k) < rounded), 0)


def _by_series(w: Weights, num_terms: int, active: Hidden, signs: Visible) -> Visible:
    # Each derivative of softplus is a polynomial of p = sigmoid, and dp/da = p (1 - p).
    derivative, slope = Polynomial([0.0, 1.0]), Polynomial([0.0, 1.0, -1.0])
    values, weights = [], []
    for k in range(1, num_terms + 1):
        values.append(jnp.polyval(jnp.asarray(derivative.coef[::-1], active.dtype), active))
        weights.append(w.T**k / math.factorial(k))
        derivative = derivative.deriv() * slope
    odd, even = (
        np.concatenate(weights[n::2], axis=1).astype(active.dtype) @ jnp.concatenate(values[n::2])
        for n in (0, 1)
    )
    return signs * odd + even


def _by_products(w: Weights, active: Hidden, signs: Visible) -> Visible:
    # softplus(a + d) - softplus(a) = log(1 + sigmoid(a) (exp(d) - 1)). Logarithms are slow, so
    # that each is taken of a product over a group of hidden units, small enough not to overflow.
    hidden, visible = w.shape
    group = int(np.clip(40 / max(np.abs(w).max(initial=0.0), 1e-3), 1, 16))
    padded = np.pad(w, ((0, -hidden % group), (0, 0)))
    up, down = (np.expm1(s * padded).reshape(-1, group, visible) for s in (1, -1))
    up, down = (table.astype(active.dtype) for table in (up, down))
    active = jnp.pad(active, (0, -hidden % group)).reshape(-1, group, 1)
    product = jnp.ones((len(active), visible), active.dtype)
    for k in range(group):
        change = jnp.where(signs[None] < 0, down[:, k], up[:, k])
        product = product * (1 + active[:, k] * change)
    return jnp.sum(jnp.log(product), axis=0)


def factorial_hmm(
    length: int = 100, num_factors: int = 4, stay: float = 0.9, noise: float = 0.5, seed: int = 0
) -> Target:
    """Posterior of binary hidden chains whose weighted sum is observed with Gaussian noise.

    Each chain keeps its value with probability `stay`. A state has shape (time, factor); the data
    are simulated from the model.
    """
    check_count("length", length, at_least=2)
    check_count("num_factors", num_factors)
    check_number("stay", stay, above=0.0, at_most=1 - 1e-6)
    check_number("noise", noise, above=0.0)
    check_seed("seed", seed)
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=num_factors)
    switches = (
        rng.random((length, num_factors)) > np.where(np.arange(length) > 0, stay, 0.5)[:, None]
    )
    hidden = np.cumsum(switches, axis=0) % 2
    seen = hidden @ weights + noise * rng.normal(size=length)
    log_odds: float = np.log(stay / (1 - stay))

    def logdensity(x: Float[Array, "time factor"]) -> Scalar:
        agree = x[1:] * x[:-1] + (1 - x[1:]) * (1 - x[:-1])
        error = jnp.asarray(seen.astype(x.dtype)) - x @ weights.astype(x.dtype)
        return log_odds * jnp.sum(agree) - 0.5 * jnp.sum(error**2) / noise**2

    return enumerated(
        Target(
            "factorial_hmm",
            f"factorial HMM, {num_factors} chains of length {length}",
            logdensity,
            jnp.zeros((length, num_factors)),
            space=Binary(),
        )
    )


def ebm(
    energy: Callable[[Float[Array, "..."]], Array],
    shape: int | Sequence[int],
    space: Space | None = None,
) -> Target:
    """An energy-based model, log pi(x) = -energy(x).

    `energy` is any function or Equinox module that returns one number. `shape` is the shape of the
    sites; a state of a `Categorical` space has one more axis. The default space is `Binary()`.
    """
    space = Binary() if space is None else space
    if not isinstance(space, Space):
        raise TypeError(f"space must be srmc.Binary() or another space, got {space!r}")
    if not callable(energy):
        raise TypeError(f"energy must be a function of a state, got {energy!r}")
    sites = tuple(shape) if isinstance(shape, Sequence) else (shape,)
    for size in sites:
        check_count("shape", size)
    start = space.as_state(jnp.zeros(sites, int))
    return enumerated(
        Target(
            "ebm",
            f"energy-based model on {space}, sites {sites}",
            lambda x: -jnp.squeeze(energy(x)),
            start,
            space=space,
        )
    )

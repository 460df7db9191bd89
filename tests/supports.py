"""Targets whose support is not convex, or whose density jumps: adversarial cases for rebalancing.

Each has exact independent draws, so that what moving them does to squared errors and coverage is
measured without a sampler. `python tests/supports.py 32 200` counts how often the checks find each
of them, with 32 seeds, and false alarms on smooth targets, with 200 each. With `0 0 32` it measures
what `srmc.rebalance` does to the errors of each.
"""

import sys
import warnings
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from srmc.rebalance.batched import Batched
from srmc.rebalance.check import check_assumption
from srmc.rebalance.segments import integrate_segments
from srmc.rebalance.support import probe

FAR = 2.0  # half the distance between islands


class Support(NamedTuple):
    """A standard normal in `dim` dimensions times a weight.

    weight
        From points (..., d), of NumPy or JAX, to weights between 0 and 1; 0 is outside.
    by_issue
        Whether the case is one of those by which the fault was found.
    level
        The log density outside.
    """

    dim: int
    weight: Callable
    by_issue: bool = False
    level: float = -np.inf

    def logdensity_fn(self, x):
        """The log density, up to a constant, in JAX."""
        weight = self.weight(x, jnp)
        inside = -0.5 * jnp.sum(x**2) + jnp.log(jnp.maximum(weight, 1e-30))
        return jnp.where(weight > 0, inside, self.level)

    def score_fn(self, x):
        """Its gradient inside the support: the weight is constant almost everywhere."""
        return -x

    def draws(self, rng, chains, count):
        """Exact independent draws (chain, draw, d), by rejection."""
        need, found = chains * count, np.empty((0, self.dim))
        while len(found) < need:
            x = rng.normal(size=(2 * need, self.dim))
            keep = rng.random(len(x)) < self.weight(x, np)
            found = np.concatenate([found, x[keep]])
        return found[:need].reshape(chains, count, self.dim)

    def moments(self, rng, count=2_000_000):
        """Means and variances, from many exact draws."""
        x = self.draws(rng, 1, count)[0]
        return x.mean(axis=0), x.var(axis=0)


def _radius(x, center=0.0):
    return ((x - center) ** 2).sum(axis=-1) ** 0.5


def _outside(radius, center=0.0):
    return lambda x, xp: xp.where(_radius(x, center) > radius, 1.0, 0.0)


def _where(inside):
    return lambda x, xp: xp.where(inside(x, xp), 1.0, 0.0)


CASES = {
    "corner": Support(2, _where(lambda x, xp: ~((x[..., 0] > 0.5) & (x[..., 1] > 0.5))), True),
    "disc at (1, 1)": Support(2, _outside(0.7, 1.0), True),
    "disc at 0": Support(2, _outside(0.5), True),
    "ball in 5": Support(5, _outside(1.5), True),
    "ball in 10": Support(10, _outside(2.5), True),
    "slit": Support(2, _where(lambda x, xp: abs(x[..., 0] + x[..., 1]) > 0.3), True),
    "annulus": Support(2, _where(lambda x, xp: (_radius(x) > 0.6) & (_radius(x) < 1.8))),
    "two islands": Support(
        2, _where(lambda x, xp: (_radius(x, 1.0) < 0.8) | (_radius(x, -1.0) < 0.8))
    ),
    "sum of squares below d": Support(5, _where(lambda x, xp: (x**2).sum(axis=-1) < 5)),
    "product above": Support(
        3, _where(lambda x, xp: x[..., 0] * x[..., 1] * x[..., 2] > -0.1)
    ),
    "jump of .3 around a disc": Support(
        2, lambda x, xp: xp.where(_radius(x) < 0.7, np.exp(-0.3), 1.0)
    ),
    "jump of .3 along a parabola": Support(
        2, lambda x, xp: xp.where(x[..., 1] > x[..., 0] ** 2 - 1, 1.0, np.exp(-0.3))
    ),
    "jump of 2 at a line": Support(2, lambda x, xp: xp.where(x[..., 0] > 0.4, 1.0, np.exp(-2.0))),
    "a third in a corner": Support(
        2,
        lambda x, xp: xp.where((x[..., 0] > 0.5) & (x[..., 1] > 0.5), np.exp(-1.0), 1.0),
        True,
    ),
    "a third in a disc": Support(
        2, lambda x, xp: xp.where(_radius(x, 1.0) < 0.7, np.exp(-1.0), 1.0), True
    ),
    "checkerboard": Support(
        2, _where(lambda x, xp: xp.sin(3 * x[..., 0]) * xp.sin(3 * x[..., 1]) > 0)
    ),
    "star": Support(
        2,
        _where(lambda x, xp: _radius(x) < 1 + 0.6 * xp.cos(5 * xp.arctan2(x[..., 1], x[..., 0]))),
    ),
    "cone removed in 3": Support(
        3, _where(lambda x, xp: x[..., 2] < 0.2 + 2 * _radius(x[..., :2]))
    ),
    "thin shell in 10": Support(10, _where(lambda x, xp: abs(_radius(x) - 3.1) < 0.6)),
    "holes everywhere": Support(
        2, _where(lambda x, xp: _radius(x - xp.round(x)) > 0.25)
    ),
    "order": Support(4, _where(lambda x, xp: (x[..., 1:] > x[..., :-1]).all(axis=-1))),
}  # fmt: skip


def found(case, seeds, count=1000):
    """How often a check finds the case."""
    support, one = CASES[case], np.zeros((1, 1, CASES[case].dim), np.float32)
    density = Batched("density", support.logdensity_fn, one, ())
    score = Batched("score", support.score_fn, one, (support.dim,))
    hits = 0
    for seed in seeds:
        x = support.draws(np.random.default_rng(seed), 4, count // 4)
        x = x.astype(np.float32).astype(float)
        hits += any(check.failed for check in check_assumption(x, -x, score, density))
    return hits


def fares(case, rebalance, seeds, chains=4, count=250):
    """Squared errors of means and variances, after over before; largest of each, and refusals.

    `rebalance` is `srmc.rebalance`, or has its arguments.
    """
    support = CASES[case]
    mean, variance = support.moments(np.random.default_rng(10**6))
    before, after, refused = [], [], 0
    for seed in seeds:
        x = support.draws(np.random.default_rng(seed), chains, count).astype(np.float32)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            moved = rebalance(
                x, support.score_fn, logdensity_fn=support.logdensity_fn, progress=False
            )
        refused += np.array_equal(moved, x)
        for kept, y in ((before, x), (after, moved)):
            flat = np.asarray(y, float).reshape(-1, support.dim)
            kept.append([(flat.mean(axis=0) - mean) ** 2, (flat.var(axis=0) - variance) ** 2])
    ratios = np.mean(after, axis=0) / np.mean(before, axis=0)
    return {"means": ratios[0].max(), "variances": ratios[1].max(), "refused": refused}


class Smooth(NamedTuple):
    """A density without edges: its logarithm in JAX, and exact draws (n, d) of it."""

    logdensity_fn: Callable
    draws: Callable


def _thinned(rng, count, prior, weight):
    """Draws of a prior times a weight up to 1, by rejection."""
    found = prior(rng, 0)
    while len(found) < count:
        x = prior(rng, 4 * count)
        found = np.concatenate([found, x[rng.random(len(x)) < weight(x)]])
    return found[:count]


def _funnel(rng, n):
    v = 3 * rng.normal(size=(n, 1))
    return np.concatenate([v, np.exp(v / 2) * rng.normal(size=(n, 4))], axis=1)


def _banana(rng, n):
    a = 2 * rng.normal(size=n)
    return np.stack([a, 0.5 * (a**2 - 4) + rng.normal(size=n)], axis=1)


def _eight_schools(rng, n):
    """Prior draws (mu, log tau, theta), weighted by the likelihood of theta."""
    y, sigma = np.array([28, 8, -3, 7, -1, 1, 18, 12.0]), np.array([15, 10, 16, 11, 9, 11, 10, 18])

    def hyper(rng, n):
        return np.stack([5 * rng.normal(size=n), np.log(np.abs(5 * rng.standard_cauchy(n)))], 1)

    def marginal(h):
        spread = np.sqrt(1 + np.exp(2 * h[:, 1:]) / sigma**2)
        off = (y - h[:, :1]) / (sigma * spread)
        return np.prod(np.exp(-0.5 * off**2) / spread, axis=1)

    h = _thinned(rng, n, hyper, marginal)
    tau = np.exp(h[:, 1:])
    sd = 1 / np.sqrt(1 / tau**2 + 1 / sigma**2)
    mean = sd**2 * (h[:, :1] / tau**2 + y / sigma**2)
    return np.concatenate([h, mean + sd * rng.normal(size=(n, 8))], axis=1)


def _centred(x):
    y = jnp.array([28, 8, -3, 7, -1, 1, 18, 12.0])
    sigma = jnp.array([15, 10, 16, 11, 9, 11, 10, 18.0])
    mu, log_tau, theta = x[0], x[1], x[2:]
    prior = -(mu**2) / 50 - jnp.log1p(jnp.exp(2 * log_tau) / 25) + log_tau
    groups = -0.5 * jnp.sum((theta - mu) ** 2) * jnp.exp(-2 * log_tau) - 8 * log_tau
    return prior + groups - 0.5 * jnp.sum(((y - theta) / sigma) ** 2)


def _sum(f):
    return lambda x: jnp.sum(f(x))


NORMAL = np.linalg.cholesky(0.01 * np.eye(10) + 0.99)
SMOOTH = {
    "Gaussian, correlation .99": Smooth(
        lambda x: -0.5 * jnp.sum(jnp.linalg.solve(NORMAL, x) ** 2),
        lambda rng, n: rng.normal(size=(n, 10)) @ NORMAL.T,
    ),
    "far from 0": Smooth(
        lambda x: -0.5 * jnp.sum((x - 1e5) ** 2), lambda rng, n: 1e5 + rng.normal(size=(n, 3))
    ),
    "funnel": Smooth(
        lambda x: -(x[0] ** 2) / 18 - 2 * x[0] - 0.5 * jnp.sum(x[1:] ** 2) * jnp.exp(-x[0]), _funnel
    ),
    "banana": Smooth(
        lambda x: -(x[0] ** 2) / 8 - 0.5 * (x[1] - 0.5 * (x[0] ** 2 - 4)) ** 2, _banana
    ),
    "log gamma": Smooth(
        lambda x: jnp.sum(jnp.array([0.3, 1.5]) * x - jnp.exp(x)),
        lambda rng, n: np.log(np.maximum(rng.gamma([0.3, 1.5], size=(n, 2)), 1e-30)),
    ),
    "eight schools, centred": Smooth(_centred, _eight_schools),
    "Student t": Smooth(
        _sum(lambda x: -2 * jnp.log1p(x**2 / 3)), lambda rng, n: rng.standard_t(3, size=(n, 10))
    ),
    "Cauchy": Smooth(
        _sum(lambda x: -jnp.log1p(x**2)), lambda rng, n: rng.standard_cauchy(size=(n, 3))
    ),
    "two modes": Smooth(
        _sum(lambda x: jnp.logaddexp(-0.5 * (x - 4) ** 2, -0.5 * (x + 4) ** 2)),
        lambda rng, n: rng.normal(size=(n, 2)) + rng.choice([-4, 4], (n, 2)),
    ),
    # Densities whose logarithm is -inf far out, by rounding or in fact, where they have vanished.
    "logistic, naive": Smooth(
        lambda x: -jnp.sum(x**2) / 72 + jnp.sum(jnp.log(1 - 1 / (1 + jnp.exp(-x)))),
        lambda rng, n: _thinned(
            rng,
            n,
            lambda rng, n: 6 * rng.normal(size=(n, 2)),
            lambda x: np.prod(1 / (1 + np.exp(x)), axis=1),
        ),
    ),
    "beta": Smooth(
        _sum(lambda x: 3 * jnp.log(x) + 4 * jnp.log(1 - x)),
        lambda rng, n: rng.beta(4, 5, size=(n, 3)),
    ),
}


def alarms(case, seeds, dtype=np.float32, count=1000):
    """How often a smooth target is taken for one with an edge, and for one with a jump."""
    smooth, density, edges, jumps = SMOOTH[case], None, 0, 0
    for seed in seeds:
        rng = np.random.default_rng(seed)
        x = smooth.draws(rng, count).astype(dtype).astype(float)
        if density is None:
            density = Batched("density", smooth.logdensity_fn, x[None], ())
            score = Batched("score", jax.grad(smooth.logdensity_fn), x[None], x.shape[1:])
        edges += probe(x, density, rng).failed
        jumps += integrate_segments(x, score(x), score, density, rng).failed
    return edges, jumps


def main(seeds=8, smooth=0, rebalanced=0):
    import srmc

    for case in CASES if seeds else ():
        _say(f"{case:28} found with {found(case, range(seeds))} of {seeds} seeds")
    for case in SMOOTH if smooth else ():
        edges, jumps = alarms(case, range(smooth))
        _say(f"{case:28} {edges} edges and {jumps} jumps in {smooth} runs")
    for case in CASES if rebalanced else ():
        fared = fares(case, srmc.rebalance, range(rebalanced))
        _say(
            f"{case:28} means {fared['means']:7.2f}  variances {fared['variances']:7.2f}  "
            f"stayed {fared['refused']} of {rebalanced}"
        )


def _say(text):
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

"""Targets whose support is not convex, or whose density jumps: adversarial cases for rebalancing.

Each has exact independent draws, so that what moving them does to squared errors and coverage is
measured without a sampler. `python tests/supports.py` measures all of them.
"""

import sys
import warnings
from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

FAR = 2.0  # half the distance between islands


class Support(NamedTuple):
    """A standard normal in `dim` dimensions times a weight.

    weight
        From points (..., d), of NumPy or JAX, to weights between 0 and 1; 0 is outside.
    by_issue
        Whether the case is one of those by which the fault was found.
    """

    dim: int
    weight: Callable
    by_issue: bool = False

    def logdensity_fn(self, x):
        """The log density, up to a constant, in JAX."""
        weight = self.weight(x, jnp)
        log_weight = jnp.where(weight > 0, jnp.log(jnp.maximum(weight, 1e-30)), -jnp.inf)
        return -0.5 * jnp.sum(x**2) + log_weight

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
    "jump along a parabola": Support(
        2, lambda x, xp: xp.where(x[..., 1] > x[..., 0] ** 2 - 1, 1.0, np.exp(-0.3))
    ),
    "jump of 2 at a line": Support(2, lambda x, xp: xp.where(x[..., 0] > 0.4, 1.0, np.exp(-2.0))),
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
        for found, y in ((before, x), (after, moved)):
            flat = np.asarray(y, float).reshape(-1, support.dim)
            found.append([(flat.mean(axis=0) - mean) ** 2, (flat.var(axis=0) - variance) ** 2])
    ratios = np.mean(after, axis=0) / np.mean(before, axis=0)
    return {"means": ratios[0].max(), "variances": ratios[1].max(), "refused": refused}


def main(seeds=8):
    import srmc

    for case in CASES:
        found = fares(case, srmc.rebalance, range(seeds))
        sys.stdout.write(
            f"{case:26} means {found['means']:7.2f}  variances {found['variances']:7.2f}  "
            f"stayed {found['refused']} of {seeds}\n"
        )
        sys.stdout.flush()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

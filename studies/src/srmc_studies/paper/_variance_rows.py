"""The ledger rows of the limit theorem and its corollaries."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from srmc import theory
from srmc_studies.paper._ledger import Estimate, Row

ALPHAS = (0.0, 1.0, 4.0, 16.0)


class Norm(NamedTuple):
    """The Frobenius norm of a covariance block."""

    predicted: float
    simulated: float


class ChainCovariance(NamedTuple):
    """The covariance of history and estimate on the finite chain, for one alpha.

    distance
        The relative distance of the simulated covariance to the predicted one.
    noise
        The standard error of the simulation, in the same unit.
    norms
        The norms of the blocks, by the names of `srmc.theory.Blocks`.
    """

    alpha: float
    distance: float
    noise: float
    norms: dict[str, Norm]

    def estimate(self, name: str) -> Estimate:
        """The simulated norm of a block."""
        norm = self.norms[name].simulated
        return Estimate(norm, self.noise * norm)


class MeanVariance(NamedTuple):
    """n times the summed variance of the sample mean on the Gaussian, for one alpha."""

    alpha: float
    predicted: float
    simulated: Estimate

    def is_near(self) -> bool:
        """Whether simulation and prediction agree to four standard errors, or 10%."""
        distance = abs(self.simulated.value - self.predicted)
        return distance <= max(4 * self.simulated.error, 0.1 * self.predicted)


def rows(
    chain: Sequence[ChainCovariance], found: dict[tuple[str, float], list[MeanVariance]]
) -> list[Row]:
    """The rows of the finite chain and of the Gaussian, whose runs have a kernel and a rho."""
    return [
        _order_row(chain),
        _blocks_row(chain),
        _independent_row(found["independent", 1.0]),
        _gaussian_row(found["mala", 1.0]),
        _budget_row(found["mala", 1.0]),
        _averages_row(found["independent", 0.8]),
    ]


def _slope(values: Sequence[Estimate]) -> Estimate:
    """The slope of log value against log alpha, over the two largest alphas."""
    first, last = values[-2:]
    ratio = np.log(ALPHAS[-1] / ALPHAS[-2])
    error = np.hypot(first.error / first.value, last.error / last.value) / ratio
    return Estimate(float(np.log(last.value / first.value) / ratio), float(error))


def _falls(values: Sequence[float]) -> bool:
    """Whether each value is below the one before."""
    return bool(np.all(np.diff(values) < 0))


def _order_row(chain: Sequence[ChainCovariance]) -> Row:
    norms = [c.estimate("theta") for c in chain]
    slope = _slope(norms)
    return Row(
        "prop:alpha_order",
        "The covariance of the history decreases with alpha, as 1/alpha",
        "O(1/alpha)",
        {f"norm, alpha = {c.alpha:g}": norm for c, norm in zip(chain, norms, strict=True)}
        | {"slope from alpha = 4 to 16": slope},
        {
            "the norm decreases from each alpha to the next": _falls([e.value for e in norms]),
            "the slope from alpha = 4 to 16 is between -1.1 and -0.75": -1.1 < slope.value < -0.75,
            "all covariances are within 10%, or three standard errors, of the Lyapunov equation": (
                all(c.distance < max(0.1, 3 * c.noise) for c in chain)
            ),
        },
        f"The predicted norms are {_list(c.norms['theta'].predicted for c in chain)}. The slope is "
        "that of 1/(1/2 + alpha lambda), which is -1 only when alpha lambda is large.",
    )


def _blocks_row(chain: Sequence[ChainCovariance]) -> Row:
    cross, mean = (_slope([c.estimate(name) for c in chain]) for name in ("cross", "mean"))
    return Row(
        "subsec:alpha-block",
        "The cross-covariance decreases as 1/alpha; the covariance of the estimate stays bounded",
        "O(1/alpha), O(1)",
        {"slope of the cross block": cross, "slope of the estimate's block": mean},
        {
            "the slope of the cross block from alpha = 4 to 16 is below -0.6": cross.value < -0.6,
            "the slope of the estimate's block from alpha = 4 to 16 is above -0.5": mean.value
            > -0.5,
        },
        "The part of f that the features do not explain keeps its variance, however large alpha "
        "is.",
    )


def _independent_row(found: Sequence[MeanVariance]) -> Row:
    return Row(
        "prop:independent-sampling",
        "With independent draws the covariance of the estimate decreases with alpha to a residual",
        "closed form, O(1/alpha)",
        {f"n Var, alpha = {v.alpha:g}": v.simulated for v in found},
        {
            "all are within four standard errors, or 10%, of the closed form": all(
                v.is_near() for v in found
            ),
            "the variance decreases from each alpha to the next": _falls(
                [v.simulated.value for v in found]
            ),
        },
        f"The predictions are {_list(v.predicted for v in found)}; on a Gaussian with f = x the "
        "residual is 0.",
    )


def _gaussian_row(found: Sequence[MeanVariance]) -> Row:
    slope = _slope([v.simulated for v in found])
    return Row(
        "prop:gaussian-mean",
        "On a Gaussian the covariance of the sample mean decreases as 1/alpha",
        "V Sigma V, O(1/alpha)",
        {f"n Var, alpha = {v.alpha:g}": v.simulated for v in found}
        | {"slope from alpha = 4 to 16": slope},
        {
            "all are within four standard errors, or 10%, of V Sigma V": all(
                v.is_near() for v in found
            ),
            "the slope from alpha = 4 to 16 is between -1.15 and -0.75": -1.15
            < slope.value
            < -0.75,
        },
        "The noise is that of MALA's autoregression; the predictions are "
        f"{_list(v.predicted for v in found)}.",
    )


def _budget_row(found: Sequence[MeanVariance]) -> Row:
    plain, repelled = found[0], found[-1]
    costs = 1.0, 3.0
    ratio = costs[1] * repelled.simulated.value / (costs[0] * plain.simulated.value)
    first, second = (v.simulated.error / v.simulated.value for v in (plain, repelled))
    error = ratio * float(np.hypot(first, second))
    exact = (
        theory.budget_covariance([[repelled.predicted]], costs[1])
        / theory.budget_covariance([[plain.predicted]], costs[0])
    ).item()
    return Row(
        "thm:cost_based_clt_srmc",
        "At three gradients per step instead of one, large alpha still pays on the Gaussian",
        "3 d Sigma_X = O(d / alpha)",
        {"variance per budget, alpha = 16 over alpha = 0": Estimate(ratio, error)},
        {
            "the ratio is below 1, by two standard errors": ratio + 2 * error < 1,
            "the ratio is within four standard errors, or 10%, of the theorem": (
                abs(ratio - exact) < max(4 * error, 0.1 * exact)
            ),
        },
        f"The prediction is {exact:.3g}. The paper prints one covariance for both samplers; the "
        "base sampler has that of alpha = 0.",
    )


def _averages_row(found: Sequence[MeanVariance]) -> Row:
    ratios = [v.simulated.value / found[0].simulated.value for v in found]
    predicted = [v.predicted / found[0].predicted for v in found]
    return Row(
        "eq:sample_mean_scaling",
        "The covariance of the plain average is O(1/alpha); here with rho = 0.8",
        "O(1/alpha)",
        {f"n Var, alpha = {v.alpha:g}": v.simulated for v in found},
        {
            "from alpha = 4 to 16 the variance decreases by a factor of 4 or more": (
                ratios[3] < ratios[2] / 4
            ),
            "the variance decreases from each alpha to the next": _falls(ratios),
        },
        "With rho < 1 the variance of plain averages decreases as 1/alpha^2: relative to alpha = 0 "
        f"it is {_list(ratios)}, and in the limit {_list(predicted)}; in short runs the last "
        "window of the history adds to it.",
    )


def _list(values: Iterable[float]) -> str:
    return ", ".join(f"{x:.3g}" for x in values)

"""Sensitivity to the exponent rho of the gain (fig:app_rho_sensitivity)."""

from typing import TypeAlias

import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

import srmc
from srmc.types import Int
from srmc_studies.paper import _numbers
from srmc_studies.paper._chains import Number, Trial
from srmc_studies.paper._ledger import Estimate, Outcome, Row
from srmc_studies.paper._problems import BURN_IN, Errors, RepelOptions, diverged, measure, problem
from srmc_studies.paper._progress import Progress, counter, silent
from srmc_studies.paper._style import ALPHA_COLOURS, band, new_figure

RHOS = (0.6, 0.8, 1.0)
ALPHAS = (0.1, 1.0)  # the paper does not state its alpha
PAIRS = [(a, r) for a in ALPHAS for r in RHOS]

_Pair: TypeAlias = tuple[float, float]  # alpha and rho


def rho(size: str = "full", seed: int = 0, on_progress: Progress = silent) -> Outcome:
    """Measure errors on the correlated Gaussian for several rho, with MALA and HMC."""
    full = size == "full"
    trial = Trial(500_000, 48, 100, seed) if full else Trial(2_000, 8, 20, seed, True)
    alphas, rhos = (jnp.array(x) for x in zip(*PAIRS, strict=True))
    found = {}
    for n, kernel in enumerate(("mala", "hmc")):
        done, total = n * trial.blocks, 2 * trial.blocks
        tell = counter(on_progress, "rho", total, done=done, remark=kernel)
        each = problem(("gaussian", kernel), size)
        found[kernel] = measure(each, _options, (alphas, rhos), trial, tell)
    lost = {kernel: lost_shares(kernel, size, errors) for kernel, errors in found.items()}
    numbers: dict[str, object] = {
        kernel: [
            {
                "alpha": a,
                "rho": r,
                "mse": _numbers.mean(last),
                "diverged": lost[kernel][a, r],
            }
            for (a, r), last in zip(PAIRS, errors.last, strict=True)
        ]
        for kernel, errors in found.items()
    }
    settings: dict[str, object] = {
        "target": "Gaussian, d = 10, correlations 0.9^|i-j|",
        "step size": "0.01 for MALA; 0.2 with 10 leapfrog steps for HMC",
        "rho": RHOS,
        "alpha": ALPHAS,
        "steps": f"{trial.steps:,} per chain, where an HMC transition counts as 10",
        "burn-in": BURN_IN,
        "replicates": trial.replicates,
    }
    limit = problem(("gaussian", "mala"), size).truth.variance
    rows = [
        horizon_row(kernel, a, errors, lost[kernel], limit)
        for kernel, errors in found.items()
        for a in ALPHAS
    ]
    return Outcome(settings, numbers, {"errors": picture(found, lost)}, rows)


def _options(setting: tuple[Number, Number]) -> RepelOptions:
    alpha, rho = setting
    return srmc.paper_settings(alpha, rho)


def lost_shares(kernel: str, size: str, errors: Errors) -> dict[_Pair, Estimate]:
    """The share of runs that diverged, for each alpha and rho."""
    each = problem(("gaussian", kernel), size)
    return {
        pair: _numbers.share(diverged(last, each))
        for pair, last in zip(PAIRS, errors.last, strict=True)
    }


def horizons(points: int) -> Int[np.ndarray, " horizon"]:
    """The blocks after which errors are compared, at about equal ratios.

    >>> horizons(70)
    array([ 0,  1,  3,  7, 15, 33, 69])
    """
    return np.unique(np.geomspace(1, points, 7).astype(int)) - 1


def horizon_row(
    kernel: str, alpha: float, errors: Errors, lost: dict[_Pair, Estimate], limit: float
) -> Row:
    """One alpha, since the paper does not state its own."""
    each = dict(zip(PAIRS, errors.errors, strict=True))
    at = horizons(len(errors.steps))
    capped = {r: np.minimum(np.nan_to_num(each[alpha, r], nan=np.inf), limit) for r in RHOS}
    lower = {
        r: [bool(capped[r][:, n].mean() < capped[1.0][:, n].mean()) for n in at] for r in RHOS[:-1]
    }
    clearly = {
        r: [_numbers.below(each[alpha, r][:, n], each[alpha, 1.0][:, n], limit) for n in at]
        for r in RHOS[:-1]
    }
    return Row(
        "fig:app_rho_sensitivity",
        f"{kernel.upper()} on the Gaussian: rho = 0.6 and 0.8 are best, and rho = 1 is weakest at "
        "every tested horizon",
        "0.6 and 0.8 below 1, up to 500k steps",
        {
            f"MSE, {errors.steps[n]:,} steps after burn-in, rho = {r:g}": _numbers.mean(
                each[alpha, r][:, n]
            )
            for n in at
            for r in RHOS
        },
        {
            f"rho = 0.6 and 0.8 are below rho = 1 at all {len(at)} horizons": all(
                map(all, lower.values())
            )
        }
        | {
            f"rho = {r:g} is below rho = 1 at all horizons, by two standard errors": all(held)
            for r, held in clearly.items()
        }
        | {
            f"rho = {r:g} is below rho = 1 at the last horizon, by two standard errors": held[-1]
            for r, held in clearly.items()
        },
        f"By two standard errors, {_held(clearly)}. {_why(alpha, lost)}",
        f"alpha = {alpha:g}",
    )


def _held(clearly: dict[float, list[bool]]) -> str:
    parts = [f"rho = {r:g} at {sum(held)} of {len(held)}" for r, held in clearly.items()]
    return " and ".join(parts) + " horizons are below rho = 1"


def _why(alpha: float, lost: dict[_Pair, Estimate]) -> str:
    worst = max(RHOS, key=lambda r: lost[alpha, r].value)
    if lost[alpha, worst].value == 0:
        return (
            "No run diverges. A gain that decreases slowly follows the chain; a gain that "
            "decreases as 1/n keeps the error of its beginning."
        )
    return (
        f"With rho = {worst:g}, {lost[alpha, worst].value:.0%} of the runs diverge: a large gain "
        "and an antithetic kernel form a feedback loop without damping."
    )


def picture(found: dict[str, Errors], diverged: dict[str, dict[_Pair, Estimate]]) -> Figure:
    """Errors against steps, without the settings of which some run diverged."""
    figure = new_figure(10.5, 4.2)
    axes = figure.subplots(1, 2)
    for axis, (kernel, errors) in zip(axes, found.items(), strict=True):
        lost = []
        for k, (a, r) in enumerate(PAIRS):
            label = f"α = {a:g}, ρ = {r:g}"
            share = diverged[kernel][a, r].value
            if share > 0:
                lost.append(f"{label}: {share:.0%}")
                continue
            style = "-" if a == ALPHAS[-1] else "--"
            colour = ALPHA_COLOURS[1 + RHOS.index(r)]
            band(axis, errors.steps, errors.errors[k], colour, ls=style, label=label)
        axis.set(xscale="log", yscale="log", title=f"Gaussian, {kernel.upper()}")
        axis.set(xlabel="steps since burn-in", ylabel="squared error, 95% interval")
        if lost:
            axis.set_ylim(top=30 * axis.get_ylim()[1])
            text = "not shown, with the share of runs that diverge:\n" + "\n".join(lost)
            axis.text(0.97, 0.96, text, transform=axis.transAxes, fontsize=9, ha="right", va="top")
    entries = axes[0].get_legend_handles_labels()
    figure.legend(*entries, fontsize=9, ncols=3, loc="outside lower center")
    return figure

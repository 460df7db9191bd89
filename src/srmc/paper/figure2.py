"""Figure 2: errors of the mean on a Gaussian and a logistic posterior, with MALA and HMC."""

import numpy as np

from srmc.paper import _families, _figure2_rows, _numbers
from srmc.paper._chains import Trial
from srmc.paper._families import Curve, Curves, key_name
from srmc.paper._figure2_plots import picture
from srmc.paper._ledger import Outcome
from srmc.paper._problems import BURN_IN, STEP_SIZES, Block, diverged, problem
from srmc.paper._progress import OnBlock, Progress, counter, later, silent

SELF_TUNED_QUICKLY: tuple[Block, ...] = (("logistic", "mala"),)


def figure2(size: str = "full", seed: int = 0, on_progress: Progress = silent) -> Outcome:
    """Compare printed, adaptive and self-tuned samplers with plain and well-tuned ones."""
    trial = Trial(50_000, 100, 50, seed) if size == "full" else Trial(2_000, 8, 20, seed, True)
    found: dict[Block, Curves] = {}
    total = len(STEP_SIZES) * 4 * trial.blocks
    for n, block in enumerate(STEP_SIZES):
        remark = ", ".join(block)
        tell = counter(on_progress, "figure2", total, done=4 * n * trial.blocks, remark=remark)
        found[block] = _curves(block, size, trial, tell)
        tell(4 * trial.blocks)
    numbers: dict[str, object] = {
        ", ".join(block): _summary(block, size, curves) for block, curves in found.items()
    }
    figures = {"gradients": picture(found, "gradients")}
    if size == "full":
        figures["time"] = picture(found, "seconds")
    rows = _figure2_rows.rows(found, size)
    return Outcome(_settings(size, trial), numbers, figures, rows)


def _curves(block: Block, size: str, trial: Trial, tell: OnBlock) -> Curves:
    """Run all families on one problem."""
    each = problem(block, size)
    curves: Curves = {}
    curves["plain"], curves["plain, control variates"] = _families.plain(each, trial, tell)
    curves |= _families.repelled(each, trial, later(tell, trial.blocks))
    if size == "full" or block in SELF_TUNED_QUICKLY:
        curves |= _families.self_tuned(each, trial, clock=size == "full")
    return _families.timed(each, curves, trial.replicates) if size == "full" else curves


def _summary(block: Block, size: str, curves: Curves) -> dict[str, object]:
    """The numbers of all curves of one problem."""
    each = problem(block, size)
    spent = curves["plain"].gradients[-1]
    return {
        key_name(key): {
            "mse": _numbers.mean(curve.last),
            "mse_at_equal_gradients": _numbers.mean(curve.at_gradients(spent)),
            "diverged": _numbers.share(diverged(curve.last, each)),
            "acceptance": _numbers.mean(curve.acceptance),
            "gradients_per_step": float(curve.gradients[-1] / curve.steps[-1]),
            "microseconds_per_step": None
            if curve.seconds is None
            else 1e6 * float(curve.seconds[-1] / curve.steps[-1]),
            "curve": _thinned(curve),
        }
        for key, curve in curves.items()
    }


def _thinned(curve: Curve) -> dict[str, object]:
    """The curve at no more than 12 points, for the JSON file."""
    at = np.unique(np.linspace(0, len(curve.steps) - 1, 12).astype(int))
    each = [_numbers.mean(curve.errors[:, n]) for n in at]
    return {"gradients": curve.gradients[at], "mse": each}


def _settings(size: str, trial: Trial) -> dict[str, object]:
    logistic = problem(("logistic", "mala"), size).truth
    return {
        "targets": "Gaussian with correlations 0.9^|i-j|; logistic posterior, N = 100; d = 10",
        "step size": {", ".join(block): step for block, step in STEP_SIZES.items()},
        "leapfrog steps": 10,
        "alpha": _families.ALPHAS,
        "adaptive rules": {"nominal alpha": _families.ADAPTIVE},
        "gain": "(n + 1)^-0.6",
        "steps": f"{trial.steps:,} per chain, where an HMC transition counts as 10; the paper does "
        "not state the number",
        "burn-in": BURN_IN,
        "replicates": trial.replicates,
        "gradients": "a Hessian-vector product counts as two gradients",
        "processor time": f"per chain, with {trial.replicates} chains in one program on one core; "
        "warm-up, compilation, the guard's quantiles and the fit of control variates are left out",
        "self-tuned": "srmc.sample with alpha=auto and a history per chain; its warm-up takes the "
        "place of burn-in; step size, metric and loop are tuned on 32 chains together",
        "truth": "exact for the Gaussian; for the logistic posterior importance sampling with "
        f"control variates, with a squared error of {float((logistic.error**2).sum()):.1g}",
    }

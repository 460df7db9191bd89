"""Figure 2: errors of the mean on a Gaussian and a logistic posterior, with MALA and HMC."""

import numpy as np

from srmc_studies.paper import _families, _figure2_rows, _numbers
from srmc_studies.paper._chains import Trial
from srmc_studies.paper._comparison import views
from srmc_studies.paper._derivatives import derivatives
from srmc_studies.paper._families import Curve, Curves, key_name
from srmc_studies.paper._figure2_plots import pictures
from srmc_studies.paper._ledger import Outcome
from srmc_studies.paper._problems import BURN_IN, STEP_SIZES, Block, diverged, problem
from srmc_studies.paper._progress import OnBlock, Progress, counter, later, silent

REPLICATES = 32
SELF_TUNED_QUICKLY: tuple[Block, ...] = (("logistic", "mala"),)


def figure2(size: str = "full", seed: int = 0, on_progress: Progress = silent) -> Outcome:
    """Compare printed and self-tuned samplers with plain and well-tuned ones."""
    trial = (
        Trial(50_000, REPLICATES, 50, seed) if size == "full" else Trial(1_000, 6, 20, seed, True)
    )
    found: dict[Block, Curves] = {}
    each = (2 + len(derivatives(size))) * trial.blocks
    for n, block in enumerate(STEP_SIZES):
        remark, total = ", ".join(block), len(STEP_SIZES) * each
        tell = counter(on_progress, "figure2", total, done=n * each, remark=remark)
        found[block] = _curves(block, size, trial, tell)
        tell(each)
    numbers: dict[str, object] = {
        ", ".join(block): _summary(block, size, curves) for block, curves in found.items()
    }
    figures = {k: x for view in views(found) for k, x in pictures(found, view).items()}
    rows = _figure2_rows.rows(found, size)
    return Outcome(_settings(size, trial), numbers, figures, rows)


def _curves(block: Block, size: str, trial: Trial, tell: OnBlock) -> Curves:
    """Run all families on one problem."""
    each = problem(block, size)
    curves: Curves = {}
    curves["plain"], curves["plain, control variates"] = _families.plain(each, trial, tell)
    for n, derivative in enumerate(derivatives(size)):
        done = (1 + n) * trial.blocks
        curves |= _families.repelled(each, derivative, trial, later(tell, done))
    if size == "full" or block in SELF_TUNED_QUICKLY:
        curves |= _families.self_tuned(each, trial, clock=size == "full")
    return _families.timed(each, curves, trial.replicates) if size == "full" else curves


def _summary(block: Block, size: str, curves: Curves) -> dict[str, object]:
    """The numbers of all curves of one problem."""
    each = problem(block, size)
    plain = curves["plain"]
    return {
        key_name(key): {
            f"mse_at_equal_{view.replace(' ', '_')}": _numbers.mean(
                curve.at(view, plain.cost(view)[-1])
            )
            for view in views({block: curves})
        }
        | {
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
    """The curve at no more than 6 points, for the JSON file."""
    at = np.unique(np.geomspace(1, len(curve.steps), 6).astype(int)) - 1
    each = [_numbers.mean(curve.errors[:, n]) for n in at]
    return {"gradients": curve.gradients[at], "mse": each}


def _settings(size: str, trial: Trial) -> dict[str, object]:
    logistic = problem(("logistic", "mala"), size).truth
    return {
        "targets": "Gaussian with correlations 0.9^|i-j|; logistic posterior, N = 100; d = 10",
        "step size": {", ".join(block): step for block, step in STEP_SIZES.items()},
        "leapfrog steps": 10,
        "alpha": _families.ALPHAS,
        "derivative rules": derivatives(size),
        "gain": "(n + 1)^-0.6",
        "steps": f"{trial.steps:,} per chain, where an HMC transition counts as 10; the paper does "
        "not state the number",
        "burn-in": BURN_IN,
        "replicates": trial.replicates,
        "gradients": "a Hessian-vector product counts as two gradients; the scores at the two ends "
        "of a MALA step are kept",
        "processor time": f"per chain, with {trial.replicates} chains in one program on one core; "
        "warm-up, compilation and the fit of control variates are left out",
        "self-tuned": "the tuned loop of srmc.sample (repellence={}), which repels draws "
        "as they are made, with a history per chain; its warm-up takes the "
        "place of burn-in; step size, metric and loop are tuned on 32 chains together",
        "truth": "exact for the Gaussian; for the logistic posterior importance sampling with "
        f"control variates, with a squared error of {float((logistic.error**2).sum()):.1g}",
    }

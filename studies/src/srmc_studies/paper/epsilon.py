"""Sensitivity to the finite-difference scale epsilon (fig:app_epsilon_sensitivity)."""

from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

import srmc
from srmc.types import Float
from srmc_studies.paper import _numbers
from srmc_studies.paper._chains import Number, Trial
from srmc_studies.paper._ledger import Estimate, Outcome, Row
from srmc_studies.paper._problems import BURN_IN, Problem, RepelOptions, measure, problem
from srmc_studies.paper._progress import OnBlock, Progress, counter, later, silent
from srmc_studies.paper._style import new_figure

EPSILONS = (1e-5, 1e-3, 0.1, 1.0)
NAMES = ("1e-5", "1e-3", "0.1", "1", "alpha")
BITS = ("single", "double")
JOBS = (("mala", "single"), ("mala", "double"), ("hmc", "single"))

_Errors: TypeAlias = Float[np.ndarray, "epsilon replicate"]
_Job: TypeAlias = tuple[str, str]  # a sampler, and a precision


def epsilon(size: str = "full", seed: int = 0, on_progress: Progress = silent) -> Outcome:
    """Measure errors on the logistic posterior with alpha = 1, for each epsilon and precision."""
    full = size == "full"
    trial = Trial(100_000, 100, 50, seed) if full else Trial(500, 4, 10, seed, True)
    replicates = {"single": trial.replicates, "double": 20 if full else 4}
    total = 2 * len(JOBS) * trial.blocks
    last: dict[_Job, _Errors] = {}
    for n, (kernel, bits) in enumerate(JOBS):
        done, remark = 2 * n * trial.blocks, f"{kernel}, {bits} precision"
        tell = counter(on_progress, "epsilon", total, done=done, remark=remark)
        with jax.enable_x64(bits == "double"):
            each = problem(("logistic", kernel), size)
            mine = trial._replace(replicates=replicates[bits])
            last[kernel, bits] = _errors(each, mine, tell)
    numbers: dict[str, object] = {
        f"{kernel}, {bits}": {
            name: _numbers.mean(errors) for name, errors in zip(NAMES, each, strict=True)
        }
        for (kernel, bits), each in last.items()
    }
    settings: dict[str, object] = {
        "precision": "single and double",
        "target": "logistic posterior, N = 100, d = 10",
        "step size": "0.005 for MALA; 0.03 with 10 leapfrog steps for HMC",
        "epsilon": "one-sided differences with 1e-5, 1e-3, 0.1 and 1; alpha means the shifted "
        "score",
        "alpha": 1.0,
        "gain": "(n + 1)^-0.6",
        "steps": f"{trial.steps:,} per chain, where an HMC transition counts as 10",
        "burn-in": BURN_IN,
        "replicates": replicates,
    }
    limit = problem(("logistic", "mala"), size).truth.variance
    rows = [_mala_row(last, trial.steps, limit), _hmc_row(last, trial.steps, limit)]
    return Outcome(settings, numbers, {"errors": _picture(last)}, rows)


def _errors(problem: Problem, trial: Trial, on_block: OnBlock) -> _Errors:
    """Errors at the end of the run for each epsilon; the shifted score comes last."""

    def difference(eps: Number) -> RepelOptions:
        return srmc.paper_settings(1.0) | {"surrogate": srmc.tilt("finite-difference", eps=eps)}

    def shifted(_: Number) -> RepelOptions:
        return srmc.paper_settings(1.0) | {"surrogate": srmc.tilt("shifted")}

    first = measure(problem, difference, jnp.array(EPSILONS), trial, on_block)
    second = measure(problem, shifted, jnp.zeros(1), trial, later(on_block, trial.blocks))
    return np.concatenate([first.last, second.last])


def _ours(last: dict[_Job, _Errors], kernel: str, steps: int) -> dict[str, Estimate]:
    return {
        f"MSE after {steps:,} steps, epsilon = {name}, {bits} precision": _numbers.mean(errors)
        for bits in BITS
        if (kernel, bits) in last
        for name, errors in zip(NAMES, last[kernel, bits], strict=True)
    }


def _lost(errors: _Errors, limit: float) -> str:
    """The share of runs with a larger error than a single exact draw, for each epsilon."""
    shares = (f"{np.mean(~(e <= limit)):.0%} at {n}" for n, e in zip(NAMES, errors, strict=True))
    return "Share of diverged runs in single precision: " + ", ".join(shares) + "."


def _mala_row(last: dict[_Job, _Errors], steps: int, limit: float) -> Row:
    errors = last["mala", "single"]
    single, double = (last["mala", bits].mean(axis=1) for bits in BITS)
    worst, in_double = single[0] / single[2], double[0] / double[2]
    return Row(
        "fig:app_epsilon_sensitivity",
        "MALA, alpha = 1: very small epsilon is harmful, 0.1, 1 and alpha do equally well",
        "2.46e-6 at 0.1, 1.15e-3 at 1e-5, 100k steps",
        _ours(last, "mala", steps),
        {
            "single precision: 1e-5 is above 0.1, by two standard errors": _numbers.below(
                errors[2], errors[0], limit
            ),
            "single precision: 1e-5 is above alpha, by two standard errors": _numbers.below(
                errors[4], errors[0], limit
            ),
            "single precision: the MSE at 1e-5 is at least 10 times that at 0.1": bool(worst >= 10),
            "single precision: 0.1, 1 and alpha are within a factor of 2": bool(
                np.max(single[2:]) < 2 * np.min(single[2:])
            ),
            "single precision: the MSE at 0.1 is within a factor of 3 of the paper's": bool(
                1 / 3 < single[2] / 2.46e-6 < 3
            ),
        },
        f"From 0.1 to 1e-5 the MSE grows by a factor of {worst:.3g} in single precision and of "
        f"{in_double:.3g} in double precision: "
        + (
            "the rounding of the difference is not the cause. "
            if in_double > worst / 3
            else "the rounding of the difference is the cause. "
        )
        + _lost(errors, limit),
    )


def _hmc_row(last: dict[_Job, _Errors], steps: int, limit: float) -> Row:
    single = last["hmc", "single"].mean(axis=1)
    return Row(
        "fig:app_epsilon_sensitivity",
        "HMC, alpha = 1: much less sensitive, all five epsilons stay around 1e-5",
        "about 1e-5, 100k steps",
        _ours(last, "hmc", steps),
        {
            "single precision: all five are within a factor of 3": bool(
                np.max(single) < 3 * np.min(single)
            ),
            "single precision: all five are between 1e-6 and 1e-4": bool(
                np.min(single) > 1e-6 and np.max(single) < 1e-4
            ),
        },
        f"The largest MSE is {np.max(single) / np.min(single):.3g} times the smallest. "
        + _lost(last["hmc", "single"], limit),
    )


def _picture(last: dict[_Job, _Errors]) -> Figure:
    figure = new_figure(9, 3.8)
    axes = figure.subplots(1, 2, sharey=True)
    for axis, kernel in zip(axes, ("mala", "hmc"), strict=True):
        for bits, marker in zip(BITS, "os", strict=True):
            if (kernel, bits) not in last:
                continue
            each = [_numbers.mean(errors) for errors in last[kernel, bits]]
            at = np.arange(len(NAMES)) + (0.08 if bits == "double" else -0.08)
            value = np.array([e.value for e in each])
            half = 1.96 * np.array([e.error for e in each])
            low = np.minimum(half, 0.9 * value)
            axis.errorbar(
                at, value, (low, half), fmt=marker, ms=5, capsize=3, label=f"{bits} precision"
            )
        axis.set_xticks(range(len(NAMES)), [*NAMES[:-1], "α (shifted)"])
        axis.set(yscale="log", xlabel="ε", title=f"logistic, {kernel.upper()}, α = 1")
    printed = {"label": "the paper, MALA", "marker": "x", "color": "k", "ls": "none"}
    axes[0].plot([0, 2], [1.15e-3, 2.46e-6], **printed)
    axes[0].set_ylabel("squared error, 95% interval")
    axes[0].legend(fontsize=9)
    return figure

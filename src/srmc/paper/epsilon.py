"""Sensitivity to the finite-difference scale epsilon (fig:app_epsilon_sensitivity)."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import srmc
from srmc.paper import _numbers
from srmc.paper._ledger import Outcome, Progress, Row
from srmc.paper._problems import BURN_IN, measure, problem
from srmc.paper._style import new_figure

EPSILONS = (1e-5, 1e-3, 0.1, 1.0)
NAMES = ("1e-5", "1e-3", "0.1", "1", "alpha")
BITS = ("single", "double")


def epsilon(
    size: str = "full", seed: int = 0, on_progress: Progress = lambda *args: None
) -> Outcome:
    """Errors on the logistic posterior with alpha = 1, for each epsilon, in both precisions."""
    steps, blocks = (100_000, 50) if size == "full" else (1_000, 10)
    replicates = {"single": 100, "double": 20} if size == "full" else {"single": 8, "double": 8}
    jobs = [("mala", "single"), ("mala", "double"), ("hmc", "single")]
    last: dict[tuple[str, str], np.ndarray] = {}
    for done, (kernel, bits) in enumerate(jobs):
        with jax.enable_x64(bits == "double"):
            last[kernel, bits] = _errors(
                problem("logistic", kernel, size),
                lambda n, done=done, remark=f"{kernel}, {bits} precision": on_progress(
                    "epsilon", 2 * done * blocks + n, 2 * len(jobs) * blocks, remark
                ),
                steps=steps,
                replicates=replicates[bits],
                blocks=blocks,
                seed=seed,
                light=size == "quick",
            )
    numbers = {
        f"{kernel}, {bits}": {
            name: _numbers.mean(errors) for name, errors in zip(NAMES, each, strict=True)
        }
        for (kernel, bits), each in last.items()
    }
    settings = {
        "target": "logistic posterior, N = 100, d = 10",
        "step size": "MALA 0.005; HMC 0.03 with 10 leapfrog steps",
        "epsilon": "one-sided differences with 1e-5, 1e-3, 0.1, 1; alpha: the shifted score",
        "alpha": 1.0,
        "gain": "(n + 1)^-0.6",
        "steps": f"{steps:,}, an HMC iteration counted as 10",
        "burn-in": BURN_IN,
        "replicates": replicates,
    }
    limit = problem("logistic", "mala", size).truth.variance
    rows = [_mala_row(last, steps, limit), _hmc_row(last, steps, limit)]
    return Outcome(settings, numbers, {"errors": _picture(last)}, rows)


def _errors(problem, on_block, **options: Any) -> np.ndarray:
    """Errors at the end, (epsilon, replicate), the shifted score last."""
    blocks = options["blocks"]
    difference = lambda eps: (
        srmc.paper_settings(1.0) | {"surrogate": srmc.tilt("finite-difference", eps=eps)}
    )
    shifted = lambda _: srmc.paper_settings(1.0) | {"surrogate": srmc.tilt("shifted")}
    first = measure(problem, difference, jnp.array(EPSILONS), on_block=on_block, **options)
    second = measure(
        problem, shifted, jnp.zeros(1), on_block=lambda n: on_block(blocks + n), **options
    )
    return np.concatenate([first.last, second.last])


def _ours(last, kernel, steps):
    return {
        f"MSE at {steps:,}, epsilon = {name}, {bits} precision": _numbers.mean(errors)
        for bits in BITS
        if (kernel, bits) in last
        for name, errors in zip(NAMES, last[kernel, bits], strict=True)
    }


def _lost(errors, limit):
    """How many runs are worse than a single exact draw, for each epsilon."""
    shares = (f"{np.mean(~(e <= limit)):.0%} at {n}" for n, e in zip(NAMES, errors, strict=True))
    return "Runs that diverged, single precision: " + ", ".join(shares) + "."


def _mala_row(last, steps, limit):
    single, double = (last["mala", bits].mean(axis=1) for bits in BITS)
    worst, in_double = single[0] / single[2], double[0] / double[2]
    return Row(
        "fig:app_epsilon_sensitivity",
        "MALA, alpha = 1: very small epsilon is harmful, 0.1, 1 and alpha do equally well",
        "2.46e-6 at 0.1, 1.15e-3 at 1e-5, 100k steps",
        _ours(last, "mala", steps),
        {
            "single precision: 1e-5 is above 0.1, by two errors": _numbers.below(
                last["mala", "single"][2], last["mala", "single"][0], limit
            ),
            "single precision: 1e-5 is above alpha, by two errors": _numbers.below(
                last["mala", "single"][4], last["mala", "single"][0], limit
            ),
            "single precision: 1e-5 is at least 10 times 0.1": bool(worst >= 10),
            "0.1, 1 and alpha are within a factor of 2": bool(
                single[2:].max() < 2 * single[2:].min()
            ),
            "the error at 0.1 is within a factor of 3 of the paper's": bool(
                1 / 3 < single[2] / 2.46e-6 < 3
            ),
        },
        f"In single precision 1e-5 costs a factor of {worst:.3g}, in double precision "
        f"{in_double:.3g}: "
        + (
            "rounding of the difference is not what harms. "
            if in_double > worst / 3
            else "what harms is the rounding of the difference. "
        )
        + _lost(last["mala", "single"], limit),
    )


def _hmc_row(last, steps, limit):
    single = last["hmc", "single"].mean(axis=1)
    return Row(
        "fig:app_epsilon_sensitivity",
        "HMC, alpha = 1: much less sensitive, all five epsilons stay around 1e-5",
        "about 1e-5, 100k steps",
        _ours(last, "hmc", steps),
        {
            "single precision: all five are within a factor of 3": bool(
                single.max() < 3 * single.min()
            ),
            "single precision: all five are between 1e-6 and 1e-4": bool(
                single.min() > 1e-6 and single.max() < 1e-4
            ),
        },
        f"The largest is {single.max() / single.min():.3g} times the smallest. "
        + _lost(last["hmc", "single"], limit),
    )


def _picture(last):
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
    axes[0].set_ylabel("squared error of the mean, 95%")
    axes[0].legend(fontsize=9)
    return figure

"""Sensitivity to the finite-difference scale epsilon (fig:app_epsilon_sensitivity)."""

from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.artist import Artist
from matplotlib.figure import Figure

import srmc
from srmc.types import Float
from srmc_studies.paper import _numbers
from srmc_studies.paper._chains import Number, Trial
from srmc_studies.paper._ledger import Estimate, Outcome, Row
from srmc_studies.paper._problems import BURN_IN, Problem, RepelOptions, measure, problem
from srmc_studies.paper._progress import OnBlock, Progress, counter, later, silent
from srmc_studies.paper._style import ALPHA_COLOURS, WIDTH, new_figure

EPSILONS = (1e-5, 1e-3, 0.1, 1.0)
NAMES = ("1e-5", "1e-3", "0.1", "1", "alpha")
# Prefactors of the gain: that of figure 2, that of figure 1, and those of the authors' code.
SCALES = {"mala": (1.0, 0.3, 0.1), "hmc": (1.0, 0.1, 0.03)}
REPLICATES = {"mala, single": 16, "mala, double": 16, "hmc, single": 32, "hmc, double": 32}

_Errors: TypeAlias = Float[np.ndarray, "epsilon replicate"]
_Job: TypeAlias = tuple[str, float, str]  # a sampler, a prefactor, and a precision


def reading(scale: float, bits: str) -> str:
    """How a row of the ledger names the prefactor of the gain and the precision.

    >>> reading(0.1, "double")
    'gain 0.1 (n + 1)^-0.6, double precision'
    """
    return f"gain {scale:g} (n + 1)^-0.6, {bits} precision"


def epsilon(size: str = "full", seed: int = 0, on_progress: Progress = silent) -> Outcome:
    """Measure errors on the logistic posterior with alpha = 1, for each epsilon and gain."""
    full = size == "full"
    jobs = [(k, bits) for k in SCALES for bits in ("single", "double")]
    found: dict[_Job, _Errors] = {}
    for n, (kernel, bits) in enumerate(jobs):
        runs = REPLICATES[f"{kernel}, {bits}"]
        trial = Trial(100_000, runs, 50, seed) if full else Trial(500, 4, 10, seed, True)
        done, total = 2 * n * trial.blocks, 2 * len(jobs) * trial.blocks
        tell = counter(on_progress, "epsilon", total, done=done, remark=f"{kernel}, {bits}")
        scales = SCALES[kernel] if bits == "double" else (1.0,)
        with jax.enable_x64(bits == "double"):
            each = _errors(problem(("logistic", kernel), size), scales, trial, tell)
        found |= {(kernel, c, bits): errors for c, errors in each.items()}
    numbers: dict[str, object] = {
        f"{kernel}, {reading(c, bits)}": {
            name: _numbers.mean(errors) for name, errors in zip(NAMES, each, strict=True)
        }
        for (kernel, c, bits), each in found.items()
    }
    settings: dict[str, object] = {
        "precision": "single and double",
        "target": "logistic posterior, N = 100, d = 10",
        "step size": "0.005 for MALA; 0.03 with 10 leapfrog steps for HMC",
        "epsilon": "one-sided differences with 1e-5, 1e-3, 0.1 and 1; alpha means the shifted "
        "score",
        "alpha": 1.0,
        "prefactors of the gain": SCALES,
        "steps": f"{trial.steps:,} per chain, where an HMC transition counts as 10",
        "burn-in": BURN_IN,
        "replicates": REPLICATES if full else trial.replicates,
    }
    limit = problem(("logistic", "mala"), size).truth.variance
    make = {"mala": _mala_row, "hmc": _hmc_row}
    rows = [
        make[kernel](errors, trial.steps, limit, reading(c, bits))
        for (kernel, c, bits), errors in found.items()
    ]
    return Outcome(settings, numbers, {"errors": _picture(found, limit)}, rows)


def _errors(
    problem: Problem, scales: tuple[float, ...], trial: Trial, on_block: OnBlock
) -> dict[float, _Errors]:
    """Errors at the end of the run for each prefactor and epsilon; the shifted score comes last."""

    def options(scale: Number, surrogate: object) -> RepelOptions:
        return srmc.paper_settings(1.0) | {"surrogate": surrogate, "gain": srmc.gain(scale=scale)}

    def difference(setting: tuple[Number, Number]) -> RepelOptions:
        return options(setting[0], srmc.tilt("finite-difference", eps=setting[1]))

    def shifted(scale: Number) -> RepelOptions:
        return options(scale, srmc.tilt("shifted"))

    pairs = [(c, e) for c in scales for e in EPSILONS]
    each = tuple(jnp.array(x) for x in zip(*pairs, strict=True))
    first = measure(problem, difference, each, trial, on_block).last
    tell = later(on_block, trial.blocks)
    second = measure(problem, shifted, jnp.array(scales), trial, tell).last
    by_scale = first.reshape(len(scales), len(EPSILONS), -1)
    return {c: np.concatenate([by_scale[n], second[n : n + 1]]) for n, c in enumerate(scales)}


def _ours(errors: _Errors, steps: int) -> dict[str, Estimate]:
    return {
        f"MSE after {steps:,} steps, epsilon = {name}": _numbers.mean(e)
        for name, e in zip(NAMES, errors, strict=True)
    }


def _lost(errors: _Errors, limit: float) -> str:
    """The share of runs with a larger error than a single exact draw, for each epsilon."""
    shares = [np.mean(~(e <= limit)) for e in errors]
    named = [f"{x:.0%} at {name}" for x, name in zip(shares, NAMES, strict=True) if x > 0]
    return f"Share of diverged runs: {', '.join(named)}." if named else "No run diverged."


def _mala_row(errors: _Errors, steps: int, limit: float, mine: str) -> Row:
    means = errors.mean(axis=1)
    return Row(
        "fig:app_epsilon_sensitivity",
        "MALA, alpha = 1: very small epsilon is harmful, 0.1, 1 and alpha do equally well",
        "2.46e-6 at 0.1, 1.15e-3 at 1e-5, 100k steps",
        _ours(errors, steps),
        {
            "1e-5 is above alpha, by two standard errors": _numbers.below(
                errors[4], errors[0], limit
            ),
            "1e-5 is above 0.1, by two standard errors": _numbers.below(
                errors[2], errors[0], limit
            ),
            "the MSE at 1e-5 is at least 10 times that at 0.1": bool(means[0] >= 10 * means[2]),
            "0.1, 1 and alpha are within a factor of 2": bool(
                np.max(means[2:]) < 2 * np.min(means[2:])
            ),
        },
        f"From 0.1 to 1e-5 the MSE changes by a factor of {means[0] / means[2]:.3g}. "
        f"{_lost(errors, limit)} The paper's data are another draw, so that its numbers are not "
        "compared with ours.",
        mine,
    )


def _hmc_row(errors: _Errors, steps: int, limit: float, mine: str) -> Row:
    means = errors.mean(axis=1)
    return Row(
        "fig:app_epsilon_sensitivity",
        "HMC, alpha = 1: much less sensitive, all five epsilons stay around 1e-5",
        "about 1e-5, 100k steps",
        _ours(errors, steps),
        {
            "all five are within a factor of 3": bool(np.max(means) < 3 * np.min(means)),
            "no run diverged": bool(np.all(errors <= limit)),
        },
        f"The largest MSE is {np.max(means) / np.min(means):.3g} times the smallest. "
        f"{_lost(errors, limit)} The paper's data are another draw, so that its numbers are not "
        "compared with ours.",
        mine,
    )


def _picture(found: dict[_Job, _Errors], limit: float) -> Figure:
    """Errors against epsilon, a panel per sampler and a marker per gain and precision."""
    figure = new_figure(WIDTH, 3.9)
    axes = figure.subplots(1, 2, sharey=True)
    looks = list(dict.fromkeys((scale, bits) for _, scale, bits in found))
    for axis, kernel in zip(axes, SCALES, strict=True):
        mine = {key: errors for key, errors in found.items() if key[0] == kernel}
        for n, ((_, scale, bits), errors) in enumerate(mine.items()):
            value, error = (np.array(x) for x in zip(*map(_numbers.mean, errors), strict=True))
            k = looks.index((scale, bits))
            axis.errorbar(
                np.arange(len(NAMES)) + 0.15 * n - 0.22,
                value,
                (np.minimum(1.96 * error, 0.9 * value), 1.96 * error),
                fmt="osv^D"[k],
                ms=4,
                capsize=2,
                color=ALPHA_COLOURS[k],
                label=f"gain {scale:g}, {bits} precision",
            )
        axis.axhline(limit, color="0.6", lw=0.8, ls=":", label="a single exact draw")
        axis.set_xticks(range(len(NAMES)), [*NAMES[:-1], "α"])
        axis.set(yscale="log", xlabel="ε", title=f"logistic, {kernel.upper()}, α = 1")
    printed = {"label": "the paper, on its data", "marker": "x", "color": "k", "ls": "none"}
    axes[0].plot([0, 2], [1.15e-3, 2.46e-6], **printed)
    axes[0].set_ylabel("squared error, 95% interval")
    entries: dict[str, Artist] = {}
    for axis in axes:
        entries |= dict(zip(*reversed(axis.get_legend_handles_labels()), strict=True))
    handles = list(entries.values())
    figure.legend(handles, list(entries), fontsize=9, ncols=3, loc="outside lower center")
    return figure

"""Prefactors of the gain, in double precision: 0.1 is printed twice, and none in figure 2.

The paper writes gamma_n = (n + 1)^-rho; figure 1 and the digits have a prefactor of 0.1, and the
authors' code has 1, 0.3 and 0.03. The claims are those of figure 2 and rho.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

import srmc
from srmc_studies.paper import _numbers
from srmc_studies.paper._chains import Number, Trial
from srmc_studies.paper._comparison import Comparison
from srmc_studies.paper._derivatives import reading as rule_reading
from srmc_studies.paper._derivatives import settings as rule_settings
from srmc_studies.paper._families import ALPHAS, Curves, curve
from srmc_studies.paper._figure2_rows import panel_rows
from srmc_studies.paper._ledger import Outcome
from srmc_studies.paper._problems import (
    BURN_IN,
    Block,
    Errors,
    RepelOptions,
    diverged,
    measure,
    problem,
    title,
)
from srmc_studies.paper._progress import OnBlock, Progress, counter, silent
from srmc_studies.paper._style import ALPHA_COLOURS, band, new_figure
from srmc_studies.paper.rho import ALPHAS as RHO_ALPHAS
from srmc_studies.paper.rho import PAIRS, RHOS, horizon_row, lost_shares

SCALES = (1.0, 0.3, 0.1, 0.03)
SMALLER = (0.3, 0.1)  # beside figure 2, where it is 1
RULES = ("exact", "shifted")
PRINTED = 0.1
# MALA takes most of the time.
REPLICATES = {"mala": 32, "hmc": 100}


def reading(scale: float, exponent: str = "0.6") -> str:
    """How a row of the ledger names a prefactor.

    >>> reading(0.1)
    'gain 0.1 (n + 1)^-0.6, double precision'
    """
    return f"gain {scale:g} (n + 1)^-{exponent}, double precision"


def _common(trial: Trial) -> dict[str, object]:
    return {
        "precision": "double",
        "prefactors of the gain": SCALES,
        "steps": f"{trial.steps:,} per chain, where an HMC transition counts as 10",
        "burn-in": BURN_IN,
        "replicates": trial.replicates,
    }


def gain_gaussian(size: str = "full", seed: int = 0, on_progress: Progress = silent) -> Outcome:
    """Figure 2 on the Gaussian, where all derivative rules are the same."""
    full = size == "full"
    steps = 50_000 if full else 1_000
    found: dict[Block, Curves] = {}
    for n, (kernel, replicates) in enumerate(REPLICATES.items()):
        trial = Trial(steps, replicates, 50, seed) if full else Trial(steps, 6, 20, seed, True)
        done, total = 2 * n * trial.blocks, 2 * len(REPLICATES) * trial.blocks
        tell = counter(on_progress, "gain", total, done=done, remark=kernel)
        with jax.enable_x64(True):
            found["gaussian", kernel] = _curves(("gaussian", kernel), size, trial, tell)
    rows = []
    for c in SCALES:
        each = {b: Comparison(b, curves, size, f"{c:g}", reading(c)) for b, curves in found.items()}
        rows += panel_rows(each)
    numbers: dict[str, object] = {
        block[1]: _summary(curves, block, size) for block, curves in found.items()
    }
    shown = {"alpha": ALPHAS, "replicates": REPLICATES if full else trial.replicates}
    return Outcome(_common(trial) | shown, numbers, {"errors": _picture(found, size)}, rows)


def gain_logistic(size: str = "full", seed: int = 0, on_progress: Progress = silent) -> Outcome:
    """Figure 2 on the logistic posterior, with the exact product and with the shifted score."""
    full = size == "full"
    rules = RULES if full else RULES[-1:]
    jobs = [(kernel, rule) for rule in rules for kernel in REPLICATES]
    found: dict[str, dict[Block, Curves]] = {rule: {} for rule in rules}
    for n, (kernel, rule) in enumerate(jobs):
        block = ("logistic", kernel)
        trial = Trial(50_000, 16, 50, seed) if full else Trial(1_000, 6, 20, seed, True)
        done, total = 2 * n * trial.blocks, 2 * len(jobs) * trial.blocks
        tell = counter(on_progress, "gain", total, done=done, remark=f"{kernel}, {rule}")
        with jax.enable_x64(True):
            found[rule][block] = _curves(block, size, trial, tell, rule, SMALLER)
    rows = []
    for rule, blocks in found.items():
        for c in SMALLER:
            mine = f"{rule_reading(rule)}; {reading(c)}"
            each = {b: Comparison(b, x, size, f"{c:g}", mine) for b, x in blocks.items()}
            rows += panel_rows(each)
    numbers: dict[str, object] = {
        f"{kernel}, {rule}": _summary(found[rule]["logistic", kernel], ("logistic", kernel), size)
        for kernel, rule in jobs
    }
    shown = {"alpha": ALPHAS, "derivative rules": rules, "prefactors of the gain": SMALLER}
    figures = {rule.split(",")[0]: _picture(x, size, SMALLER) for rule, x in found.items()}
    return Outcome(_common(trial) | shown, numbers, figures, rows)


def _summary(curves: Curves, block: Block, size: str) -> dict[str, object]:
    """The numbers of all curves of one problem."""
    each = problem(block, size)
    return {
        key if isinstance(key, str) else f"gain {key[0]}, alpha = {key[1]:g}": {
            "mse": _numbers.mean(one.last),
            "diverged": _numbers.share(diverged(one.last, each)),
            "acceptance": _numbers.mean(one.acceptance),
        }
        for key, one in curves.items()
    }


def _curves(
    block: Block,
    size: str,
    trial: Trial,
    tell: OnBlock,
    rule: str = "exact",
    prefactors: tuple[float, ...] = SCALES,
) -> Curves:
    each = problem(block, size)

    def options(setting: tuple[Number, Number]) -> RepelOptions:
        alpha, scale = setting
        return rule_settings(alpha, rule) | {"gain": srmc.gain(scale=scale)}

    plain = measure(each, lambda _: srmc.paper_settings(0.0), jnp.zeros(1), trial, tell)
    pairs = [(a, c) for c in prefactors for a in ALPHAS]
    alphas, scales = (jnp.array(x) for x in zip(*pairs, strict=True))
    tilted = measure(each, options, (alphas, scales), trial, lambda n: tell(trial.blocks + n))
    curves: Curves = {"plain": curve(plain, 0)}
    return curves | {(f"{c:g}", a): curve(tilted, k) for k, (a, c) in enumerate(pairs)}


def gain_rho(size: str = "full", seed: int = 0, on_progress: Progress = silent) -> Outcome:
    """The exponent of the gain for each prefactor, under HMC on the Gaussian."""
    full = size == "full"
    trial = Trial(500_000, 100, 100, seed) if full else Trial(2_000, 8, 20, seed, True)
    alphas, rhos = (np.array(x) for x in zip(*PAIRS, strict=True))
    rows, numbers, errors_at = [], {}, {}
    for n, c in enumerate(SCALES):
        done, total = n * trial.blocks, len(SCALES) * trial.blocks
        tell = counter(on_progress, "gain", total, done=done, remark=f"rho, {c:g}")

        def options(setting: tuple[Number, Number], c: float = c) -> RepelOptions:
            alpha, exponent = setting
            return srmc.paper_settings(alpha) | {"gain": srmc.gain(exponent, scale=c)}

        with jax.enable_x64(True):
            each = problem(("gaussian", "hmc"), size)
            both = jnp.asarray(alphas), jnp.asarray(rhos)
            errors_at[c] = errors = measure(each, options, both, trial, tell)
        lost = lost_shares("hmc", size, errors)
        for a in RHO_ALPHAS:
            row = horizon_row("hmc", a, errors, lost, each.truth.variance)
            mine = f"{row.reading}; {reading(c, 'rho')}"
            rows.append(dataclasses.replace(row, reading=mine))
        numbers[f"gain {c:g}"] = [
            {"alpha": a, "rho": r, "mse": _numbers.mean(last), "diverged": lost[a, r]}
            for (a, r), last in zip(PAIRS, errors.last, strict=True)
        ]
    stated: dict[str, object] = {"rho": RHOS, "alpha": RHO_ALPHAS}
    figure = _rho_picture(errors_at[PRINTED])
    return Outcome(_common(trial) | stated, dict(numbers), {"rho": figure}, rows)


def _picture(
    found: dict[Block, Curves], size: str, prefactors: tuple[float, ...] = SCALES
) -> Figure:
    """Errors against alpha, a panel per problem and a line per prefactor."""
    figure = new_figure(9, 3.8)
    for axis, (block, curves) in zip(figure.subplots(1, 2), found.items(), strict=True):
        limit = problem(block, size).truth.variance
        plain = _numbers.mean(curves["plain"].last)
        axis.axhline(plain.value, color="k", lw=1, label="plain")
        for k, c in enumerate(prefactors):
            each = [
                np.minimum(np.nan_to_num(curves[f"{c:g}", a].last, nan=np.inf), limit)
                for a in ALPHAS
            ]
            means = [_numbers.mean(e) for e in each]
            value, error = (np.array(x) for x in zip(*means, strict=True))
            half = np.minimum(1.96 * error, 0.9 * value)
            axis.errorbar(
                np.array(ALPHAS),
                value,
                (half, 1.96 * error),
                marker="o",
                ms=4,
                color=ALPHA_COLOURS[1 + k],
                label=f"gain {c:g} (n + 1)$^{{-0.6}}$",
            )
        axis.set(xscale="log", yscale="log", title=title(block), xlabel="α")
        axis.set_ylabel("squared error, 95% interval")
    figure.legend(
        *axis.get_legend_handles_labels(), ncols=5, fontsize=9, loc="outside lower center"
    )
    return figure


def _rho_picture(errors: Errors) -> Figure:
    figure = new_figure(6, 4)
    axis = figure.subplots()
    for k, (a, r) in enumerate(PAIRS):
        style = "-" if a == RHO_ALPHAS[-1] else "--"
        colour = ALPHA_COLOURS[1 + RHOS.index(r)]
        label = f"α = {a:g}, ρ = {r:g}"
        band(axis, errors.steps, errors.errors[k], colour, ls=style, label=label)
    axis.set(xscale="log", yscale="log", title=f"Gaussian, HMC, {reading(PRINTED, 'ρ')}")
    axis.set(xlabel="steps since burn-in", ylabel="squared error, 95% interval")
    axis.legend(fontsize=9, ncols=2)
    return figure

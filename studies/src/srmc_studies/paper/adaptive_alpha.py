"""Fixed and adaptive alpha under each derivative rule (fig:app_adaptive_alpha_steps)."""

import dataclasses

import jax

from srmc_studies.paper import _adaptive_rows, _numbers
from srmc_studies.paper._adaptive import RuleErrors, measure_rules
from srmc_studies.paper._adaptive_plots import picture
from srmc_studies.paper._adaptive_rows import LONG, NOMINAL, Found
from srmc_studies.paper._chains import Trial
from srmc_studies.paper._derivatives import derivatives
from srmc_studies.paper._ledger import Outcome, Row
from srmc_studies.paper._problems import BURN_IN, STEP_SIZES, Block, Problem, diverged, problem
from srmc_studies.paper._progress import Progress, counter, silent
from srmc_studies.paper.gain import PRINTED, reading

FAR: Block = ("logistic", "hmc")


def adaptive_alpha(size: str = "full", seed: int = 0, on_progress: Progress = silent) -> Outcome:
    """Measure errors of the fixed, capped and guarded alpha on both targets, with MALA and HMC."""
    return _experiment(size, Trial(10_000, 24, 20, seed), derivatives(size), 1.0, on_progress)


def adaptive_gain(size: str = "full", seed: int = 0, on_progress: Progress = silent) -> Outcome:
    """The screening with the prefactor of the gain that the paper prints elsewhere, in double."""
    rules = ["exact"] if size == "full" else derivatives(size)
    with jax.enable_x64(True):
        found = _experiment(size, Trial(10_000, 16, 20, seed), rules, PRINTED, on_progress, False)
    mine = reading(PRINTED)
    rows = [
        dataclasses.replace(row, reading=f"{row.reading}; {mine}" if row.reading else mine)
        for row in found.rows
    ]
    return found._replace(settings=found.settings | {"precision": "double"}, rows=rows)


def _experiment(
    size: str,
    short: Trial,
    rules: list[str],
    scale: float,
    on_progress: Progress,
    far: bool = True,
) -> Outcome:
    """Compare the rules for alpha with a gain of scale (n + 1)^-0.6, in long runs if `far`."""
    full = size == "full"
    short = short if full else Trial(1_000, 4, 20, short.seed, True)
    long = short._replace(steps=100_000, blocks=50) if full else short
    # The quick form leaves out MALA to save time.
    blocks = [block for block in STEP_SIZES if full or block[1] == "hmc"]
    # On the Gaussian the score is linear, and all derivative rules are the same.
    jobs = [(b, d) for b in blocks for d in (rules if b[0] == "logistic" else rules[:1])]
    total = 40 * len(jobs) + 2 * long.blocks * len(rules)
    measured: dict[tuple[Block, str], RuleErrors] = {}
    for n, (block, derivative) in enumerate(jobs):
        remark = ", ".join((*block, derivative))
        tell = counter(on_progress, "adaptive", total, done=40 * n, remark=remark)
        each = problem(block, size)
        fixed = (0.0, *NOMINAL)
        measured[block, derivative] = measure_rules(
            each, fixed, NOMINAL, short, tell, derivative, scale
        )
    lasting = {d: measured[FAR, d] for d in rules if far}
    for n, derivative in enumerate(rules if full and far else []):
        done = 40 * len(jobs) + 2 * long.blocks * n
        tell = counter(on_progress, "adaptive", total, done=done, remark=f"long, {derivative}")
        each = problem(FAR, size)
        lasting[derivative] = measure_rules(each, LONG, LONG, long, tell, derivative, scale)
    found: dict[str, Found] = {
        d: {b: measured.get((b, d), measured[b, rules[0]]) for b in blocks} for d in rules
    }
    out: list[Row] = [_adaptive_rows.gaussian_row(found[rules[0]])]
    limit = problem(FAR, size).truth.variance
    for derivative, mine in found.items():
        out += _adaptive_rows.rows(derivative, mine, lasting.get(derivative), long.steps, limit)
    numbers: dict[str, object] = {
        "short": {
            ", ".join((*b, d)): _summary(f, problem(b, size)) for (b, d), f in measured.items()
        },
        "long": {d: _summary(f, problem(FAR, size)) for d, f in lasting.items()},
    }
    figures = {"errors": picture(found)}
    return Outcome(_settings(short, long, rules, scale), numbers, figures, out)


def _settings(short: Trial, long: Trial, rules: list[str], scale: float) -> dict[str, object]:
    return {
        "targets": "Gaussian and logistic posterior, d = 10",
        "step size": {", ".join(block): step for block, step in STEP_SIZES.items()},
        "alpha": NOMINAL,
        "derivative rules": f"{', '.join(rules)}; on the Gaussian they are the same",
        "gain": f"{scale:g} (n + 1)^-0.6",
        "steps": f"{short.steps:,} per chain and {long.steps:,} for HMC on the logistic posterior, "
        "where an HMC transition counts as 10",
        "cost": "fixed, capped and guarded alpha take the same gradients per step, so that equal "
        "steps are equal gradients; processor time counts the sorting of the guard's windows",
        "burn-in": BURN_IN,
        "replicates": short.replicates,
    }


def _summary(found: RuleErrors, problem: Problem) -> list[dict[str, object]]:
    errors = found.errors
    return [
        {
            "rule": rule,
            "alpha": a,
            "last_alpha": errors.alpha[k],
            "mse": _numbers.mean(errors.last[k]),
            "diverged": _numbers.share(diverged(errors.last[k], problem)),
            "acceptance": _numbers.mean(errors.acceptance[k]),
            "exponent": errors.exponent[k],
            "gradients_per_step": errors.gradients[k],
            "microseconds_per_step": 1e6 * found.seconds[rule],
        }
        for (rule, a), k in found.settings.items()
    ]

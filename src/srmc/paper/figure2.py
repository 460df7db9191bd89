"""Figure 2: errors of the mean on a Gaussian and a logistic posterior, MALA and HMC."""

from typing import Any

from srmc.paper import _families, _figure2_rows, _numbers
from srmc.paper._figure2_plots import picture
from srmc.paper._ledger import Outcome, Progress
from srmc.paper._problems import BURN_IN, STEP_SIZES, diverged, problem

SELF_TUNED_QUICKLY = (("logistic", "mala"),)


def figure2(
    size: str = "full", seed: int = 0, on_progress: Progress = lambda *args: None
) -> Outcome:
    """Three families, as printed, adaptive and self-tuned, beside plain and well-tuned samplers."""
    full = size == "full"
    steps, blocks, replicates = (50_000, 50, 100) if full else (2_000, 20, 8)
    options: dict[str, Any] = {"steps": steps, "replicates": replicates, "seed": seed}
    found: dict[tuple[str, str], dict[Any, Any]] = {}
    total = len(STEP_SIZES) * 4 * blocks
    for done, block in enumerate(STEP_SIZES):
        each = problem(*block, size)
        tell = lambda n, done=done, block=block: on_progress(
            "figure2", 4 * done * blocks + n, total, ", ".join(block)
        )
        more = options | {"blocks": blocks, "light": not full}
        curves: dict[Any, Any] = {}
        curves["plain"], curves["plain, control variates"] = _families.plain(
            each, on_block=tell, **more
        )
        later = lambda n, tell=tell: tell(blocks + n)
        curves |= _families.repelled(each, on_block=later, **more)
        if full or block in SELF_TUNED_QUICKLY:
            curves |= _families.self_tuned(each, timed=full, **options)
        tell(4 * blocks)
        found[block] = curves
    numbers = {
        ", ".join(block): {
            _name(k): {
                "mse": _numbers.mean(c.last),
                "mse_at_equal_gradients": _numbers.mean(
                    c.at_gradients(curves["plain"].gradients[-1])
                ),
                "diverged": _numbers.share(diverged(c.last, problem(*block, size))),
                "acceptance": _numbers.mean(c.acceptance),
                "gradients_a_step": float(c.gradients[-1] / c.steps[-1]),
                "microseconds_a_step": None
                if c.seconds is None
                else 1e6 * float(c.seconds[-1] / c.steps[-1]),
            }
            for k, c in curves.items()
        }
        for block, curves in found.items()
    }
    settings = {
        "targets": "Gaussian with correlations 0.9^|i-j|; logistic posterior, N = 100; d = 10",
        "step size": {", ".join(k): v for k, v in STEP_SIZES.items()},
        "leapfrog steps": 10,
        "alpha": _families.ALPHAS,
        "adaptive rules": {"nominal alpha": _families.ADAPTIVE},
        "gain": "(n + 1)^-0.6",
        "steps": f"{steps:,}, an HMC iteration counted as 10; the paper does not say how many",
        "burn-in": BURN_IN,
        "replicates": replicates,
        "gradients": "a Hessian-vector product counts as two",
        "processor time": "of a step of one chain, among all chains in one program on one core; "
        "it is the tilt's with both adaptive rules in it",
        "self-tuned": "srmc.sample, alpha=auto, own histories; its warm-up in place of burn-in; "
        "step size, metric and loop found on 32 chains together",
        "truth": "exact for the Gaussian; importance sampling with control variates else, "
        f"squared error {float((problem('logistic', 'mala', size).truth.error ** 2).sum()):.1g}",
    }
    figures = {
        "gradients": picture(found, "gradients"),
        "time": picture(found, "seconds"),
    }
    return Outcome(settings, numbers, figures, _figure2_rows.rows(found, size))


def _name(key: Any) -> str:
    return key if isinstance(key, str) else f"{key[0]} {key[1]:g}"

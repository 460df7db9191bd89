"""The mixture of 1,000 images (tab:gmm_results): do chains from one mode find the others?"""

from collections.abc import Mapping, Sequence

import numpy as np

from srmc_studies.paper import _mixture_rows
from srmc_studies.paper._chains import Trial
from srmc_studies.paper._coverage import (
    Case,
    Coverage,
    Mixture,
    Setting,
    coverage,
    exact_draws,
    mixture,
)
from srmc_studies.paper._images import images
from srmc_studies.paper._ledger import Outcome
from srmc_studies.paper._mixture_plots import picture
from srmc_studies.paper._mixture_rows import EXACT, SCALES, pixels
from srmc_studies.paper._progress import Progress, counter, silent

ALPHA, EPSILON = 0.15, 1e-3
ALPHAS = (0.0, 1e-3, 1e-2, 0.1, 0.15, 0.3, 1.0, 5.0, 100.0)
EPSILONS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
BLOCKS = 20


def mixture_cifar(size: str = "full", seed: int = 0, on_progress: Progress = silent) -> Outcome:
    """Count the modes that 50 chains find, over samplers, pixel scales, seeds and ablations."""
    full = size == "full"
    means, source = images(100 if full else 5, seed)
    target = mixture(means)
    chains, steps, short = (50, 5_000, 500) if full else (10, 200, 200)
    starts = (450, 0, 900) if full else (25, 0)
    found: dict[Case, list[Coverage]] = {}
    jobs = _jobs(steps, short)
    for n, (name, (settings, length)) in enumerate(jobs.items()):
        tell = counter(on_progress, "mixture", BLOCKS * len(jobs), done=BLOCKS * n, remark=name)
        # Coordinates in which all means are equal affect nothing but |H theta| / |s|.
        dim = means.shape[1] if full and name == "ablations" else target.centres.shape[1]
        trial = Trial(length, chains, BLOCKS, seed, light=not full)
        results = coverage(target, dim, list(settings.values()), starts, trial, tell)
        found |= zip(settings, results, strict=True)
    found |= _exact(target, starts, chains, short, seed)
    summary: dict[str, object] = {
        "modes": f"{len(means)} images: {source}",
        "chains": f"{chains} per seed, all from one mode, each with its own history",
        "width of the modes": 4.0,
        "pixels": "in [0, 1] times 1, 2 or 4; the paper does not state its scale",
        "step size": 1.0,
        "alpha": {"table": ALPHA, "ablation": ALPHAS},
        "epsilon": {"table": EPSILON, "ablation": EPSILONS},
        "gain": "(n + 1)^-0.6",
        "steps": {"table": steps, "ablations": short},
        "seeds": f"{len(starts)}, from the images {', '.join(map(str, starts))}",
        "exact draws": f"{chains * short:,} from the Gaussian around the start, and their nearest "
        "images",
        "coordinates": "rotated so that the centred images fill the first ones, which does not "
        "affect the chains; the others are left out except in the ablations",
    }
    rows = _mixture_rows.rows(found, len(means), source)
    return Outcome(summary, _numbers(found), {"coverage": picture(found, len(means))}, rows)


def _jobs(steps: int, short: int) -> dict[str, tuple[dict[Case, Setting], int]]:
    """The settings that run in one program, and their number of steps."""
    alphas = {Case("alpha", a): Setting(a) for a in ALPHAS}
    epsilons = {Case("epsilon", e): Setting(ALPHA, eps=e) for e in EPSILONS}
    return {
        "ULA": ({Case(pixels(c), "ULA"): Setting(0.0, c) for c in SCALES}, steps),
        "SR-ULA": ({Case(pixels(c), "SR-ULA"): Setting(ALPHA, c) for c in SCALES}, steps),
        "ablations": (alphas | epsilons, short),
    }


def _exact(
    target: Mixture, starts: Sequence[int], chains: int, draws: int, seed: int
) -> dict[Case, list[Coverage]]:
    """The modes that independent draws from the first component find."""
    return {
        Case(pixels(c), EXACT): [
            exact_draws(target, Setting(0.0, c), start, chains, draws, seed) for start in starts
        ]
        for c in SCALES
    }


def _numbers(found: Mapping[Case, Sequence[Coverage]]) -> dict[str, object]:
    return {
        f"{case.group}, {case.value}": {
            "modes": [int(c.found[-1]) for c in each],
            "steps": len(each[0].found),
            "steps_to_all": [c.steps for c in each],
            "correction": [float(np.median(c.correction)) for c in each],
        }
        for case, each in found.items()
    }

"""The mixture of 1,000 images (tab:gmm_results): do chains from one mode find the others?"""

from typing import NamedTuple

import numpy as np

from srmc.paper import _mixture_rows
from srmc.paper._chains import Trial
from srmc.paper._coverage import Case, Coverage, Setting, coverage
from srmc.paper._images import images
from srmc.paper._ledger import Outcome
from srmc.paper._mixture_plots import picture
from srmc.paper._mixture_rows import NARROW, PRINTED, SAMPLERS, WIDE
from srmc.paper._progress import Progress, counter, silent

ALPHAS = (1e-3, 0.15, 1.0, 5.0, 100.0)
EPSILONS = (1e-6, 1e-5, 1e-3, 1e-2)
BLOCKS = 20
# The strength and the floor of the gain: the paper's two samplers, and a gain kept large.
STRENGTHS = dict(zip(SAMPLERS, ((0.0, 0.0), (0.15, 0.0), (0.15, 0.5)), strict=True))
# The width of the modes, and the factor that multiplies the images.
TARGETS = {PRINTED: (4.0, 1.0), NARROW[0]: (2.0, 1.0), NARROW[1]: (1.0, 1.0), WIDE: (4.0, 2.0)}


class _Job(NamedTuple):
    """Settings that run in one program, with their length and seed."""

    name: str
    settings: dict[Case, Setting]
    steps: int
    seed: int


def mixture_cifar(size: str = "full", seed: int = 0, on_progress: Progress = silent) -> Outcome:
    """Count the modes that 50 chains find, over samplers, widths, starts and ablations."""
    full = size == "full"
    means, source = images(100 if full else 5, seed)
    # Coordinates in which all means are equal affect nothing but |H theta| / |s|.
    dim, chains = (3072, 50) if full else (128, 10)
    starts = (0, 450) if full else (0, 25)
    jobs = _jobs(starts, seed) if full else _quick_jobs(starts, seed)
    found: dict[Case, Coverage] = {}
    for n, job in enumerate(jobs):
        total = BLOCKS * len(jobs)
        tell = counter(on_progress, "mixture", total, done=BLOCKS * n, remark=job.name)
        trial = Trial(job.steps, chains, BLOCKS, job.seed, light=not full)
        results = coverage(means, dim, list(job.settings.values()), trial, tell)
        found |= zip(job.settings, results, strict=True)
    numbers: dict[str, object] = {
        f"{case.group}, {case.value}, start {case.start}": {
            "modes": int(c.found[-1]),
            "of": len(means),
            "steps": len(c.found),
            "steps_to_all": c.steps,
            "correction": float(np.median(c.correction)),
        }
        for case, c in found.items()
    }
    settings: dict[str, object] = {
        "modes": f"{len(means)} images: {source}",
        "chains": f"{chains}, all from one mode, each with its own history",
        "step size": 1.0,
        "alpha": 0.15,
        "epsilon": 1e-3,
        "gain": "(n + 1)^-0.6; in one sampler never below 0.5",
        "steps": {job.name: job.steps for job in jobs},
        "starts": starts,
        "coordinates": f"{dim}, rotated so that the centred images fill the first ones, which "
        "does not affect the chains",
    }
    rows = _mixture_rows.rows(found, len(means), source)
    return Outcome(settings, numbers, {"coverage": picture(found, len(means))}, rows)


def _jobs(starts: tuple[int, int], seed: int) -> list[_Job]:
    """The paper's target from two starts, the ablations, and the other targets."""
    printed = {start: _samplers(PRINTED, start) for start in starts}
    return [
        _Job("main", printed[starts[0]], 3_000, seed),
        _Job("another seed", printed[starts[1]], 3_000, seed + 1),
        _Job("ablations", _ablations(starts[1]), 500, seed),
        _Job(
            "narrow modes",
            _samplers(NARROW[0], starts[1]) | _samplers(NARROW[1], starts[1]),
            1_000,
            seed,
        ),
        _Job("other pixels", _samplers(WIDE, starts[1]), 2_000, seed),
    ]


def _quick_jobs(starts: tuple[int, int], seed: int) -> list[_Job]:
    """The same settings in one program, with one length and one seed."""
    settings: dict[Case, Setting] = {}
    for job in _jobs(starts, seed):
        settings |= job.settings
    return [_Job("all", settings, 200, seed)]


def _samplers(target: str, start: int) -> dict[Case, Setting]:
    """All samplers on one target."""
    sigma, scale = TARGETS[target]
    return {
        Case(target, name, start): Setting(alpha, sigma, scale, floor=floor, start=start)
        for name, (alpha, floor) in STRENGTHS.items()
    }


def _ablations(start: int) -> dict[Case, Setting]:
    """The paper's target with other values of alpha, and of epsilon."""
    alphas = {Case("alpha", a, start): Setting(a, start=start) for a in (0.0, *ALPHAS)}
    epsilons = {Case("epsilon", e, start): Setting(0.15, eps=e, start=start) for e in EPSILONS}
    return alphas | epsilons

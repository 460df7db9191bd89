"""The mixture of 1,000 images (tab:gmm_results): do chains from one mode find the others?"""

from typing import Any

import numpy as np

from srmc.paper import _mixture_rows
from srmc.paper._coverage import Setting, coverage
from srmc.paper._images import images
from srmc.paper._ledger import Outcome, Progress
from srmc.paper._mixture_plots import picture

ALPHAS = (1e-3, 1e-2, 0.1, 0.15, 0.3, 1.0, 5.0, 100.0)
EPSILONS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
STARTS = (0, 450, 900)
# The paper's two samplers, and its gain kept from falling.
SAMPLERS = {"ULA": (0.0, 0.0), "SR-ULA": (0.15, 0.0), "SR-ULA, gain ≥ 0.5": (0.15, 0.5)}
TARGETS = {
    "pixels in [0, 1], σ = 4": (4.0, 1.0),
    "pixels in [0, 1], σ = 2": (2.0, 1.0),
    "pixels in [0, 1], σ = 1": (1.0, 1.0),
    "pixels in [-1, 1], σ = 4": (4.0, 2.0),
}


def mixture_cifar(
    size: str = "full", seed: int = 0, on_progress: Progress = lambda *args: None
) -> Outcome:
    """Modes found by 50 chains, over samplers, widths, starts, and the paper's two ablations."""
    full = size == "full"
    means, source = images(100 if full else 5, seed)
    chains = 50 if full else 10
    options: dict[str, Any] = {"chains": chains, "light": not full, "blocks": 20}
    lengths = {"main": 1_500, "long": 5_000, "ablation": 500}
    if not full:
        lengths = {"main": 400, "long": 400, "ablation": 100}
    starts = STARTS if full else (0, 25)

    first, *others = TARGETS
    main: dict[tuple, Setting] = {
        (first, name, start): Setting(a, *TARGETS[first], floor=f, start=start)
        for name, (a, f) in SAMPLERS.items()
        for start in starts
    }
    long: dict[tuple, Setting] = {
        (target, name, starts[1]): Setting(a, *TARGETS[target], floor=f, start=starts[1])
        for target in others
        for name, (a, f) in SAMPLERS.items()
    }
    ablation: dict[tuple, Setting] = {
        ("alpha", a): Setting(a, start=starts[1]) for a in (0.0, *ALPHAS)
    }
    ablation |= {("epsilon", e): Setting(0.15, eps=e, start=starts[1]) for e in EPSILONS}
    groups: dict[str, dict[tuple, Setting]] = {"main": main, "long": long, "ablation": ablation}
    seeds = {"main": (seed, seed + 1) if full else (seed,), "long": (seed,), "ablation": (seed,)}
    jobs = [(name, s) for name in groups for s in seeds[name]]
    found = {}
    for done, (name, number) in enumerate(jobs):
        tell = lambda n, done=done, name=name: on_progress(
            "mixture", 20 * done + n, 20 * len(jobs), name
        )
        settings = list(groups[name].values())
        result = coverage(
            means, 3072, settings, steps=lengths[name], seed=number, on_block=tell, **options
        )
        for k, key in enumerate(groups[name]):
            found[(*key, number)] = type(result)(*(x[k] for x in result))
    numbers = {
        ", ".join(str(k) for k in key): {
            "modes": int(c.found[-1]),
            "of": len(means),
            "steps": len(c.found),
            "steps_to_all": float(c.steps),
            "correction": float(np.median(c.correction)),
        }
        for key, c in found.items()
    }
    settings_text = {
        "modes": f"{len(means)} images: {source}",
        "chains": f"{chains}, all from one mode, each with its own history",
        "step size": 1.0,
        "alpha": 0.15,
        "epsilon": 1e-3,
        "gain": "(n + 1)^-0.6; also never below 0.5",
        "steps": lengths,
        "starts": starts,
        "coordinates": "rotated so that the centred images fill the first ones, which changes "
        "nothing for the chains",
    }
    rows = _mixture_rows.rows(found, len(means), source, lengths)
    return Outcome(settings_text, numbers, {"coverage": picture(found, len(means))}, rows)

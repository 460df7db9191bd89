"""The mixture of 1,000 images (tab:gmm_results): do chains from one mode find the others?"""

import numpy as np

from srmc.paper import _mixture_rows
from srmc.paper._coverage import Setting, coverage
from srmc.paper._images import images
from srmc.paper._ledger import Outcome, Progress
from srmc.paper._mixture_plots import picture

ALPHAS = (1e-3, 0.15, 1.0, 5.0, 100.0)
EPSILONS = (1e-6, 1e-5, 1e-3, 1e-2)
STARTS = (0, 450)
WIDE = "pixels in [-1, 1], σ = 4"
# The paper's two samplers, and its gain kept from falling.
SAMPLERS = {"ULA": (0.0, 0.0), "SR-ULA": (0.15, 0.0), "SR-ULA, gain ≥ 0.5": (0.15, 0.5)}
TARGETS = {
    "pixels in [0, 1], σ = 4": (4.0, 1.0),
    "pixels in [0, 1], σ = 2": (2.0, 1.0),
    "pixels in [0, 1], σ = 1": (1.0, 1.0),
    WIDE: (4.0, 2.0),
}


def mixture_cifar(
    size: str = "full", seed: int = 0, on_progress: Progress = lambda *args: None
) -> Outcome:
    """Modes found by 50 chains, over samplers, widths, starts, and the paper's two ablations."""
    full = size == "full"
    means, source = images(100 if full else 5, seed)
    # Coordinates in which all means are equal matter to nothing but |H theta| / |s|.
    dim, chains = (3072, 50) if full else (128, 10)
    starts = STARTS if full else (0, 25)
    jobs = _jobs(starts, seed) if full else _quick_jobs(starts, seed)
    found = {}
    for done, (name, settings, steps, number) in enumerate(jobs):
        tell = lambda n, done=done, name=name: on_progress(
            "mixture", 20 * done + n, 20 * len(jobs), name
        )
        result = coverage(
            means,
            dim,
            list(settings.values()),
            chains=chains,
            steps=steps,
            seed=number,
            light=not full,
            on_block=tell,
        )
        for k, key in enumerate(settings):
            found[(*key, number)] = type(result)(*(x[k] for x in result))
    lengths = {name: steps for name, _, steps, _ in jobs}
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
        "coordinates": f"{dim}, rotated so that the centred images fill the first ones, which "
        "changes nothing for the chains",
    }
    rows = _mixture_rows.rows(found, len(means), source)
    return Outcome(settings_text, numbers, {"coverage": picture(found, len(means))}, rows)


def _jobs(starts, seed):
    """Settings with lengths and seeds: the paper's target, its ablations, and other targets."""
    main, others, ablation = _settings(starts)
    last = {key: s for key, s in main.items() if key[2] == starts[-1]}
    wide = {key: s for key, s in others.items() if key[0] == WIDE}
    return [
        ("main", {k: s for k, s in main.items() if k not in last}, 3_000, seed),
        ("another seed", last, 3_000, seed + 1),
        ("ablations", ablation, 500, seed),
        ("narrow modes", {k: s for k, s in others.items() if k not in wide}, 1_000, seed),
        ("other pixels", wide, 2_000, seed),
    ]


def _quick_jobs(starts, seed):
    """All of them in one program."""
    main, others, ablation = _settings(starts)
    return [("all", main | others | ablation, 200, seed)]


def _settings(starts) -> tuple[dict[tuple, Setting], ...]:
    first, *rest = TARGETS
    main = {
        (first, name, start): Setting(a, *TARGETS[first], floor=f, start=start)
        for name, (a, f) in SAMPLERS.items()
        for start in starts
    }
    others = {
        (target, name, starts[1]): Setting(a, *TARGETS[target], floor=f, start=starts[1])
        for target in rest
        for name, (a, f) in SAMPLERS.items()
    }
    ablation = {("alpha", a): Setting(a, start=starts[1]) for a in (0.0, *ALPHAS)}
    ablation |= {("epsilon", e): Setting(0.15, eps=e, start=starts[1]) for e in EPSILONS}
    return main, others, ablation

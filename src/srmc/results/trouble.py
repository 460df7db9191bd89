"""What a user must know before trusting a run, in words, with the remedy."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from srmc.metrics.convergence import bfmi, rank_r_hat
from srmc.metrics.errors import effective_size
from srmc.results.result import Result, blocks

MIXED = 1.01  # R-hat up to which chains count as mixed (Vehtari et al., 2021)
FEW = 100  # independent draws, below which errors from one run are poor
DEPTH = 10  # the largest depth of a tree of NUTS, unless another is asked for
LOW_ENERGY = 0.3  # E-BFMI below which chains may miss the tails (Betancourt, 2016)
SHOWN = 1000  # coordinates that are looked at


class RunWarning(UserWarning):
    """A warning about a run: its draws, or some of them, may not be those of the target."""


def troubles(result: Result) -> list[str]:
    """All warnings about a run."""
    return [*_of_steps(result), *_of_the_loop(result), *_of_chains(result)]


def _of_steps(result: Result) -> Iterator[str]:
    steps = len(result.stats["alpha"]) * result.about["num_draws"]
    diverging = result.total("diverging")
    if diverging:
        yield (
            f"{diverging:,} of {steps:,} draws came after a divergence, so that parts of the "
            "target may be missing. Reparametrise the model (non-centred), or use smaller steps "
            "(target_acceptance=0.95)"
        )
    refused = steps - result.total("is_finite")
    if refused > 0.1 * steps:
        yield (
            f"{refused / steps:.0%} of the draws came after a proposal whose density or acceptance "
            "was 0 or not finite. Use unbounded parameters, or smaller steps"
        )
    if result.about["settings"]["thin"] == 1:
        yield from _of_trajectories(result)


def _of_trajectories(result: Result) -> Iterator[str]:
    settings = result.about["settings"]
    if settings["kernel"] == "nuts":
        depth = settings.get("max_tree_depth") or DEPTH
        deep = np.mean(np.asarray(result.stats["gradients"]) >= 2**depth - 1)
        if deep > 0.01:
            yield (
                f"{deep:.0%} of the NUTS steps reached the largest tree depth, {depth}, which is "
                'slow. Rescale or reparametrise the model, use metric="dense" or a larger '
                "max_tree_depth, or run a longer warm-up"
            )
    if result.moments is not None:
        return
    fractions = bfmi(result.stats["energy"])
    low = np.flatnonzero(fractions < LOW_ENERGY)
    if len(low):
        yield (
            f"the energy changes slowly in chains {', '.join(map(str, low))}: E-BFMI is "
            f"{fractions[low].min():.2f}, and should be above {LOW_ENERGY}, so that the tails may "
            "be missed. Reparametrise the model (non-centred), or run a longer warm-up"
        )


def _of_the_loop(result: Result) -> Iterator[str]:
    unstable = 1 - float(np.mean(result.stats["is_stable"]))
    if unstable > 0.01:
        yield (
            "the loop of history and kernel blew up: the exponent scale alpha |theta·s| exceeded "
            f"10 + d in {unstable:.0%} of the draws, which are not draws of the target. Use "
            'alpha="auto", a smaller alpha or gain, or srmc.watched(alpha)'
        )


def _of_chains(result: Result) -> Iterator[str]:
    if result.kept.draws is None or result.about["num_draws"] < 4:
        return
    names, r_hat, sizes, still = _convergence(result)
    if len(still):
        yield (
            f"chains {', '.join(map(str, still))} never moved. Start them elsewhere, run a longer "
            "warm-up, or use smaller steps"
        )
    worst = int(np.nanargmax(r_hat)) if np.any(np.isfinite(r_hat)) else None
    moved = len(still) < len(result.stats["alpha"])
    if worst is not None and r_hat[worst] > MIXED and moved:
        yield (
            f"the chains have not mixed: R-hat of the plain chains is up to {r_hat[worst]:.2f} "
            f"({names[worst]}), and should be below {MIXED}. Run longer, or reparametrise; with "
            "separate modes try srmc.tempering"
        )
    slowest = int(np.argmin(sizes))
    if sizes[slowest] < FEW:
        yield (
            f"the plain chains amount to {sizes[slowest]:.0f} independent draws "
            f"({names[slowest]}), too few for reliable standard errors. Run longer"
        )


def _convergence(result: Result) -> tuple[list[str], np.ndarray, np.ndarray, np.ndarray]:
    """Names, R-hats and effective sizes of coordinates, and the chains that never moved."""
    names: list[str] = []
    found: list[tuple[Any, Any]] = []
    moved = np.zeros(len(result.stats["alpha"]), bool)
    for name, array in (result.base or result.draws).items():
        for labels, block in blocks(name, array, result.labels):
            x = block[..., : SHOWN - len(names)]
            with np.errstate(all="ignore"):
                found.append((rank_r_hat(x), effective_size(x)))
            # Rounding alone is no move.
            moved |= np.any(np.ptp(x, axis=1) > 1e-4 * x.std(axis=(0, 1)), axis=1)
            names += labels[: x.shape[2]]
            if len(names) >= SHOWN:
                break
    r_hat, sizes = (np.concatenate(column) for column in zip(*found, strict=True))
    return names, r_hat, sizes, np.flatnonzero(~moved)

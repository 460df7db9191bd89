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
FEWEST = 4  # draws per chain, below which there are no errors
WEAK = 0.5  # mean over largest alpha, below which the guard made repellence weak
SHOWN = 1000  # coordinates that are looked at


class RunWarning(UserWarning):
    """A warning about a run: its draws, or some of them, may not be those of the target."""


def troubles(result: Result) -> list[str]:
    """All warnings about a run."""
    found = _of_the_density(result), _of_steps(result), _of_the_loop(result), of_chains(result)
    return [text for some in found for text in some]


def _of_the_density(result: Result) -> Iterator[str]:
    scores = (result.kept.scored or {}).get("score")
    if scores is None or not scores.size:
        return
    flat = np.flatnonzero(np.all(np.asarray(scores) == 0, axis=(0, 1)))
    if len(flat):
        which = "" if len(flat) == scores.shape[2] else f" in coordinate {_listed(flat)}"
        yield (
            f"the log density is flat{which}: its gradient was 0 at every draw. Unless it has "
            "walls, it is improper, and the draws mean nothing. Give every parameter a proper prior"
        )


def _listed(numbers: np.ndarray, most: int = 10) -> str:
    return ", ".join(map(str, numbers[:most])) + " ..." * (len(numbers) > most)


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
    alpha, hot = np.asarray(result.stats["alpha"], float), result.total("is_hot")
    if hot and np.mean(alpha) < WEAK * np.max(alpha):
        yield (
            f"the guard lowered alpha at {hot:,} draws, to {np.mean(alpha):.2g} on average, since "
            "the loop of history and kernel heated up: draws were repelled less than was asked "
            f'for. Use alpha="auto", or an alpha well below {np.max(alpha):.2g}'
        )


def of_chains(result: Result) -> Iterator[str]:
    """Warnings after which standard errors are not to be trusted."""
    if result.kept.draws is None:
        return
    if result.about["num_draws"] < FEWEST:
        yield (
            f"there are fewer than {FEWEST} draws per chain, too few to tell whether the chains "
            "have mixed, and for standard errors. Run longer"
        )
        return
    names, r_hat, sizes, still = _convergence(result)
    if len(still):
        accepted = float(np.mean(result.stats["acceptance_rate"][still]))
        steps = "larger" if accepted > 0.5 else "smaller"
        yield (
            f"chains {', '.join(map(str, still))} never moved, and accepted {accepted:.0%} of "
            f"their proposals. Use {steps} steps, start elsewhere, or run a longer warm-up"
        )
    worst = int(np.nanargmax(r_hat)) if np.any(np.isfinite(r_hat)) else None
    moved = len(still) < len(result.stats["alpha"])
    if worst is not None and r_hat[worst] > MIXED and moved:
        yield (
            f"the chains have not mixed: R-hat of the plain chains is up to {r_hat[worst]:.3f} "
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

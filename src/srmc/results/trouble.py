"""What a user must know before trusting a run, in words, with the remedy."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import special

from srmc.metrics.convergence import bfmi, mixing_p_value, normal_scores, rank_r_hat
from srmc.metrics.errors import effective_size
from srmc.results.blocks import blocks
from srmc.results.result import Result

MIXED = 1.01  # largest R-hat of chains that count as mixed (Vehtari et al., 2021)
CHANCE = 1e-3  # probability of a false warning, over all coordinates
FEW = 100  # effective sample size below which error estimates are unreliable
DEPTH = 10  # default largest tree depth of NUTS
LOW_ENERGY = 0.3  # E-BFMI below which chains may miss the tails (Betancourt, 2016)
CLUSTER = 5  # fewest divergences that are tested for clustering
FEWEST = 4  # fewest draws per chain for standard errors
SAID = 4  # largest number of learned effects listed in a sentence; others are counted
WEAK = 0.5  # ratio of mean to largest alpha below which repellence counts as weakened
FLAT = (
    "the log density is flat: its gradient was 0 at every draw. Unless it has walls, it is "
    "improper, and the draws mean nothing. Give every parameter a proper prior"
)
GROWS = (
    "the log density grows with the distance of draws from their mean, in every chain: it "
    "has no maximum there and is probably improper. The draws mean nothing. Check its "
    "sign, and give every parameter a proper prior"
)


class RunWarning(UserWarning):
    """A warning that some draws of a run may not follow the target.

    The documentation has an entry for each: Help, Troubleshooting.
    """


def troubles(result: Result) -> list[str]:
    """All warnings about a run."""
    if improper := list(_improper(result)):
        return improper  # which explains all other warnings
    found = _of_the_density(result), _of_steps(result), _of_the_loop(result), of_chains(result)
    return [text for some in found for text in some]


def _improper(result: Result) -> Iterator[str]:
    """Of a proper target, E[(x - E x)·s] = -d, while here the score points away from the draws."""
    scored = result.kept.scored or {}
    if "score" not in scored or scored["score"].shape[1] < FEWEST:
        return
    s = np.asarray(scored["score"], float)
    x = np.asarray(scored.get("position", np.zeros_like(s)), float)
    if not np.any(s):
        yield FLAT
    with np.errstate(all="ignore"):
        slope = np.sum((x - x.mean(axis=1, keepdims=True)) * s, axis=(1, 2))
    if np.all(slope > 0):
        yield GROWS


def _of_the_density(result: Result) -> Iterator[str]:
    scores = (result.kept.scored or {}).get("score")
    if scores is None or not scores.size:
        return
    flat = np.flatnonzero(np.all(np.asarray(scores) == 0, axis=(0, 1)))
    if len(flat):
        yield (
            f"the log density is flat in coordinate {_listed(flat)}: its gradient was 0 at every "
            "draw. Unless it has walls, it is improper, and the draws mean nothing. Give every "
            "parameter a proper prior"
        )


def _listed(numbers: np.ndarray, most: int = 10) -> str:
    return ", ".join(map(str, numbers[:most])) + " ..." * (len(numbers) > most)


def _of_steps(result: Result) -> Iterator[str]:
    steps = len(result.stats["alpha"]) * result.about["num_draws"]
    diverging = result.total("diverging")
    if diverging:
        yield (
            f"{diverging:,} of {steps:,} draws ({diverging / steps:.2%}) came after a divergence. "
            + _about_divergences(result, diverging)
        )
    refused = steps - result.total("is_finite")
    if refused > 0.1 * steps:
        yield (
            f"{refused / steps:.0%} of the draws came after a proposal whose density or acceptance "
            "was 0 or not finite. Use unbounded parameters, or smaller steps"
        )
    if result.about["settings"]["thin"] == 1:
        yield from _of_trajectories(result)


def _about_divergences(result: Result, count: int) -> str:
    """Whether divergences cluster, and what to do about them."""
    draws = result.base or result.kept.draws
    found = None if draws is None else _cluster(draws, result)
    if found is not None:
        name, share = found
        return (
            f"They cluster at {'low' if share < 0.5 else 'high'} values of {name} (their mean rank "
            f"is {share:.0%}), where parts of the target may be missing. Use smaller steps "
            f"(target_acceptance=0.95). {_advice(result, name)}"
        )
    where = "They are too few to tell whether they" if count < CLUSTER else "They do not"
    return f"{where} cluster. Smaller steps (target_acceptance=0.95) usually remove them"


def _advice(result: Result, name: str) -> str:
    """What else to do where draws diverge at some values of a coordinate."""
    if is_learned(result):
        return (
            f"{said_of(result)}; what is left of the dependence on {name} is not of that form, and "
            "may need a model that is parametrised otherwise"
        )
    return f"Reparametrise the model if the scale or location of other parameters depends on {name}"


def is_learned(result: Result) -> bool:
    """Whether the run went on in learned coordinates."""
    return bool(result.about.get("coordinates", {}).get("kind") == "learned")


def said_of(result: Result) -> str:
    """The coordinates that were learned, in a sentence without its stop."""
    found = result.about["coordinates"]["found"] or ["no parameter follows another strongly"]
    more = f"{len(found) - SAID} weaker ones"
    text = ", and ".join(found if len(found) <= SAID else [*found[:SAID], more])
    return f"{text[:1].upper()}{text[1:]}: sampled in coordinates in which that is undone"


def _cluster(draws: dict[str, Any], result: Result) -> tuple[str, float] | None:
    """The coordinate in which diverging draws differ most from the others, and their mean rank.

    Ranks of draws that diverge anywhere are uniform, so that their mean has variance 1 / 12 n.
    """
    diverging = np.asarray(result.stats["diverging"], bool).ravel()
    if np.sum(diverging) < CLUSTER:
        return None
    names: list[str] = []
    means: list[np.ndarray] = []
    for name, array in draws.items():
        for labels, block in blocks(name, array, result.labels):
            ranks = normal_scores(block).reshape(-1, block.shape[2])
            names += labels
            means.append(special.ndtr(ranks[diverging]).mean(axis=0))
    shares = np.concatenate(means)
    z = np.abs(shares - 0.5) * np.sqrt(12 * np.sum(diverging))
    worst = int(np.nanargmax(z))
    return (
        (names[worst], float(shares[worst]))
        if 2 * special.ndtr(-z[worst]) < CHANCE / len(z)
        else None
    )


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
            f"{fractions[low].min():.2f} and should be above {LOW_ENERGY}. The tails may be "
            "missed. Reparametrise the model (non-centred), or run a longer warm-up"
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
    names, r_hat, sizes, still, apart = _convergence(result)
    if len(still):
        accepted = float(np.mean(result.stats["acceptance_rate"][still]))
        steps = "larger" if accepted > 0.5 else "smaller"
        yield (
            f"chains {', '.join(map(str, still))} never moved, and accepted {accepted:.0%} of "
            f"their proposals. Use {steps} steps, start elsewhere, or run a longer warm-up"
        )
    if len(apart) and len(still) < len(result.stats["alpha"]):
        worst = apart[np.argmax(r_hat[apart])]
        yield (
            f"the chains have not mixed: R-hat of the plain chains is up to {r_hat[worst]:.3f} "
            f"({names[worst]}), and chance would give that in fewer than one run in "
            f"{round(1 / CHANCE):,}. Run longer, or reparametrise; with separate modes try "
            "srmc.tempering"
        )
    slowest = int(np.argmin(sizes))
    if sizes[slowest] < FEW:
        yield (
            f"the plain chains amount to {sizes[slowest]:.0f} independent draws "
            f"({names[slowest]}), too few for reliable standard errors. Run longer"
        )


def _convergence(result: Result) -> tuple[list[str], np.ndarray, np.ndarray, Any, Any]:
    """Names, R-hats and effective sizes of coordinates, the chains that never moved, and the
    coordinates in which chains differ by more than chance."""
    names: list[str] = []
    found: list[tuple[Any, Any, Any]] = []
    moved = np.zeros(len(result.stats["alpha"]), bool)
    for name, array in (result.base or result.draws).items():
        for labels, x in blocks(name, array, result.labels):
            with np.errstate(all="ignore"):
                r_hat, p_values = rank_r_hat(x), np.ones(x.shape[2])
                high = r_hat > MIXED
                if np.any(high):
                    p_values[high] = mixing_p_value(x[..., high])
                found.append((r_hat, effective_size(x), p_values))
            # Rounding alone is no move.
            moved |= np.any(np.ptp(x, axis=1) > 1e-4 * x.std(axis=(0, 1)), axis=1)
            names += labels
    r_hat, sizes, p_values = (np.concatenate(column) for column in zip(*found, strict=True))
    apart = np.flatnonzero(p_values < CHANCE / len(names))
    return names, r_hat, sizes, np.flatnonzero(~moved), apart

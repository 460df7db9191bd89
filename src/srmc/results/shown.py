"""The first coordinates of a run, which its page shows."""

from typing import Any, NamedTuple

import numpy as np

from srmc.results.blocks import blocks, labels
from srmc.results.result import Result

MOST = 100  # largest number of coordinates shown


class Shown(NamedTuple):
    """The first coordinates of a run."""

    # Their names, and how many coordinates the run has.
    names: list[str]
    total: int
    # Draws (chain, draw, k) of the run, and of the plain chain where they differ. Of a run that
    # kept moments, `after` are the means of batches.
    after: np.ndarray
    before: np.ndarray | None


def first_coordinates(result: Result) -> Shown:
    """The coordinates that the page shows."""
    if result.kept.draws is None:
        found = [
            (label, m["batch_means"].reshape(len(m["batch_means"]), -1)[:, k])
            for name, m in (result.moments or {}).items()
            for k, (label, _) in enumerate(labels(name, m["mean"].shape[1:]))
        ]
        means = np.stack([x for _, x in found[:MOST]], axis=-1)[None]
        return Shown([name for name, _ in found[:MOST]], len(found), means, None)
    names, after = _first(result.draws)
    total = sum(int(np.prod(x.shape[2:])) for x in result.draws.values())
    changed = result.base is not None and kind_of(result) != "plain"
    return Shown(names, total, after, _first(result.base or {})[1] if changed else None)


def _first(draws: dict[str, Any]) -> tuple[list[str], np.ndarray]:
    names: list[str] = []
    parts: list[np.ndarray] = []
    for name, array in draws.items():
        for found, block in blocks(name, array):
            left = MOST - len(names)
            names += found[:left]
            parts.append(block[..., :left])
            if len(names) == MOST:
                return names, np.concatenate(parts, axis=-1)
    return names, np.concatenate(parts, axis=-1)


def summary_of(result: Result, shown: Shown, base: bool) -> Any:
    """The summary of the coordinates that are shown."""
    if result.kept.draws is None:
        return result.summary(base)
    before = shown.after if shown.before is None else shown.before
    kept = result.kept._replace(draws={"x": shown.after}, base={"x": before})
    about, shared = result.about, result.shared_history
    return Result(kept, about, shared).summary(base).set_axis(shown.names)


def kind_of(result: Result) -> str:
    """What the draws are: rebalanced, resampled, repelled or plain; or with control variates."""
    if result.is_controlled:
        return "controlled"
    if result.is_rebalanced:
        resampled = any("states" in report.chosen for report in result.rebalancing)
        return "resampled" if resampled else "rebalanced"
    return "repelled" if np.max(result.stats["alpha"]) > 0 else "plain"

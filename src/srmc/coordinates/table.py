"""Who modulates whom, in the names of the model."""

import itertools
import re
from typing import Any, NamedTuple

import numpy as np

from srmc.coordinates import rule


class Effect(NamedTuple):
    """An effect: a modulator determines the scale or the location of other coordinates.

    modulator, of
        Its name, and those of the coordinates.
    what
        "scale", "location", or "curved location".
    size
        The median standard deviation of their log scales, or of their locations in units of their
        scales, as the modulator varies by its own.
    explained
        The median share of their part of the divergence that the map removes.
    """

    modulator: str
    of: tuple[str, ...]
    what: str
    size: float
    explained: float

    def __str__(self) -> str:
        return (
            f"the {self.what} of {grouped(self.of)} follows {self.modulator} "
            f"(explains {100 * self.explained:.0f}%)"
        )


def effects(coordinates: Any) -> list[Effect]:
    """The effects of each modulator, the strongest first."""
    slopes, linear, quadratic, log_scale, explained, modulators = (
        np.asarray(getattr(coordinates, name), float if name != "modulators" else int)
        for name in ("slopes", "linear", "quadratic", "log_scale", "explained", "modulators")
    )
    names = coordinates.names or tuple(f"x[{k}]" for k in range(len(log_scale)))
    unit = np.exp(-log_scale)
    found = []
    for j, a in enumerate(modulators):
        bend = unit * np.sqrt(2 * np.sum(quadratic[:, j] ** 2, axis=1))
        line = unit * np.abs(linear[:, j])
        parts = {
            "scale": np.abs(slopes[:, j]),
            "curved location": bend,
            "location": np.where(bend < rule.SAID, line, 0),
        }
        for what, size in parts.items():
            rows = np.flatnonzero(size >= rule.SAID)
            if len(rows):
                of = tuple(names[k] for k in rows)
                median = float(np.median(size[rows])), float(np.median(explained[rows]))
                found.append(Effect(names[a], of, what, *median))
    return sorted(found, key=lambda effect: -effect.size * len(effect.of))


def sentences(found: list[Effect]) -> list[str]:
    """The effects in words."""
    return [str(effect) for effect in found]


def grouped(names: tuple[str, ...]) -> str:
    """Names in short: theta[0], theta[1] and theta[2] are theta[0..2].

    >>> grouped(("mu", "theta[0]", "theta[1]", "theta[2]", "theta[5]"))
    'mu, theta[0..2, 5]'
    """
    split = [(re.fullmatch(r"(.*)\[(\d+)\]", name), name) for name in names]
    parts = []
    for base, group in itertools.groupby(split, lambda pair: pair[0] and pair[0][1]):
        if base is None:
            parts += [name for _, name in group]
        else:
            parts.append(f"{base}[{_runs([int(match[2]) for match, _ in group if match])}]")
    return ", ".join(parts)


def _runs(numbers: list[int]) -> str:
    """Whole numbers in short; the first runs of many."""
    runs: list[list[int]] = []
    for n in numbers:
        if runs and n == runs[-1][-1] + 1:
            runs[-1].append(n)
        else:
            runs.append([n])
    shown = [str(run[0]) if len(run) == 1 else f"{run[0]}..{run[-1]}" for run in runs]
    return ", ".join(shown[:4]) + (f", ... {len(numbers)} in all" if len(shown) > 4 else "")

"""Which estimate of a mean to take, by an estimate of its error.

The candidates are the plain average, the one with Gaussian coefficients, and regressions of what
these leave on growing dictionaries, each with several ridges. Of each, the error is taken to be the
mean square of what it leaves on a part of the run, with coefficients *and mean* from the others.
The parts are contiguous, so that a slow chain, whose parts have different means, shows as one: a
regression that only fits the draws at hand does not predict the mean of the next part. Functions
that belong together share a choice, by the sum of their errors.
"""

import functools
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from srmc.rebalance import rule
from srmc.rebalance.features import Scored, dictionaries
from srmc.rebalance.ridge import Columns, Ridge, plain_left
from srmc.types import Float, Int


class Choice(NamedTuple):
    """Coefficients for Gaussians times a factor, then a regression; without both, nothing."""

    gaussian: float = 0.0
    dictionary: str = ""
    ridge: float = 0.0

    @property
    def name(self) -> str:
        first = "Gaussian coefficients" if self.gaussian else ""
        then = f"{self.dictionary} features" if self.dictionary else ""
        return ", then ".join(filter(None, (first, then))) or "nothing"


NOTHING, GAUSSIAN = Choice(), Choice(1.0)


class Bank:
    """Regressions on each dictionary, made when they are first used."""

    def __init__(self, at: Scored):
        self._at = at

    @functools.cached_property
    def ridges(self) -> Mapping[str, Ridge]:
        return {name: Ridge(phi) for name, phi in dictionaries(self._at).items()}

    @property
    def has_all_maps(self) -> bool:
        """Whether dictionaries have products of coordinates, as second moments need them."""
        return "affine" in self.ridges

    def errors(
        self, f: Columns, first: Choice = NOTHING
    ) -> tuple[list[Choice], Float[np.ndarray, "choice q"]]:
        """All regressions of what a first choice left of functions, and their errors."""
        choices, found = list[Choice](), list[np.ndarray]()
        for name, regression in self.ridges.items():
            choices += [first._replace(dictionary=name, ridge=ridge) for ridge in rule.RIDGES]
            found += [mean_square(rest) for rest in regression.left(f, rule.RIDGES)]
        return choices, np.array(found).reshape(len(choices), f.shape[1])

    def left(self, f: Columns, choice: Choice) -> Columns:
        """What is left of functions, each part of the run predicted by the others."""
        if not choice.dictionary:
            return plain_left(f)
        (rest,) = self.ridges[choice.dictionary].left(f, (choice.ridge,))
        return rest

    def correction(self, f: Columns, choice: Choice) -> Float[np.ndarray, " q"]:
        """What the regression adds to the averages of functions."""
        if not choice.dictionary:
            return np.zeros(f.shape[1])
        return self.ridges[choice.dictionary].correction(f, choice.ridge)

    def spread(self, choice: Choice) -> float:
        """The mean squared weight of a draw in the estimates; 1 for averages."""
        if not choice.dictionary:
            return 1.0
        return self.ridges[choice.dictionary].spread(choice.ridge)


def mean_square(f: Columns) -> Float[np.ndarray, " q"]:
    found: np.ndarray = np.einsum("nq,nq->q", f, f) / len(f)
    return found


class Chosen(NamedTuple):
    """The choice of each group, and the squared errors to expect, over those of averages."""

    choices: list[Choice]
    ratio: Float[np.ndarray, " group"]


def choose(
    choices: list[Choice], errors: Float[np.ndarray, "choice q"], group: Int[np.ndarray, " q"]
) -> Chosen:
    """The choice of least error for each group; the first of the choices is to do nothing."""
    count = int(group.max()) + 1
    sums = np.stack([np.bincount(group, row, count) for row in errors])
    sums = np.where(np.isfinite(sums), sums, np.inf)
    best = np.argmin(sums, axis=0)
    least, plain = sums[best, np.arange(count)], sums[0]
    known = np.isfinite(plain) & (plain > 0)
    ratio = np.where(known, least / np.where(known, plain, 1.0), 1.0)
    return Chosen([choices[k] for k in best], ratio)


def by_choice(choices: list[Choice]) -> dict[Choice, Int[np.ndarray, " group"]]:
    """The groups that made each choice."""
    found: dict[Choice, list[int]] = {}
    for group, choice in enumerate(choices):
        found.setdefault(choice, []).append(group)
    return {choice: np.array(groups) for choice, groups in found.items()}

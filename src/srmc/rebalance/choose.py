"""Which estimate of a mean to take, by an estimate of its error.

The candidates are the plain average, the one with Gaussian coefficients, and regressions of what
these leave on growing dictionaries, each with several ridges. Of each, the error is taken to be the
mean square of what it leaves on a part of the run, with coefficients *and mean* from the others.
The parts are contiguous, so that a slow chain, whose parts have different means, shows as one: a
regression that only fits the present draws does not predict the mean of the next part. Functions
that belong together share a choice, by the sum of their errors.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from srmc.coordinates.whiten import Rows
from srmc.rebalance import rule
from srmc.rebalance.features import Scored, averaged_dictionaries
from srmc.rebalance.ridge import Columns, Ridge, averaged, plain_left, sizes_of
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
    """Regressions on each dictionary of features, with each of the ridges.

    Their rows are draws, or of very many draws averages over successive ones.
    """

    def __init__(self, dictionaries: Mapping[str, Rows], ridges: Sequence[float] = rule.RIDGES):
        self._ridges = ridges
        self.regressions = {name: Ridge(phi) for name, phi in dictionaries.items()}

    @classmethod
    def of(cls, at: Scored) -> "Bank":
        """The regressions on the features of draws."""
        return cls(averaged_dictionaries(at))

    def rows(self, f: np.ndarray) -> np.ndarray:
        """Values at all draws as rows of the regressions."""
        counts = [len(regression) for regression in self.regressions.values()]
        return averaged(f, sizes_of(len(f))) if counts and counts[0] < len(f) else f

    @property
    def has_all_maps(self) -> bool:
        """Whether dictionaries have products of coordinates, as second moments need them."""
        return "affine" in self.regressions

    def errors(
        self, f: Columns, first: Choice = NOTHING, products: bool = True
    ) -> tuple[list[Choice], Float[np.ndarray, "choice q"]]:
        """All regressions of what a first choice left of functions, and their errors."""
        choices, found, f = list[Choice](), list[np.ndarray](), self.rows(f)
        for name, regression in self.regressions.items():
            if name == "products" and not products:
                continue
            choices += [first._replace(dictionary=name, ridge=ridge) for ridge in self._ridges]
            found += [*regression.errors(f, self._ridges)]
        return choices, np.array(found).reshape(len(choices), f.shape[1])

    def left(self, f: Columns, choice: Choice) -> Columns:
        """What is left of rows of functions, each part of the run predicted by the others."""
        f = self.rows(f)
        if not choice.dictionary:
            return plain_left(f)
        return self.regressions[choice.dictionary].left(f, choice.ridge)

    def estimate(self, f: Columns, choice: Choice) -> Float[np.ndarray, " q"]:
        """The means of functions: without a regression, their averages."""
        found: np.ndarray = self.weights(choice, len(f)) @ f
        return found

    def weights(self, choice: Choice, count: int) -> Float[np.ndarray, " n"]:
        """The weights of draws with which a regression estimates means; equal ones without."""
        if not choice.dictionary:
            return np.full(count, 1 / count)
        weights = self.regressions[choice.dictionary].weights(choice.ridge)
        if len(weights) == count:
            return weights
        sizes = sizes_of(count)
        return np.repeat(weights / sizes, sizes)


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

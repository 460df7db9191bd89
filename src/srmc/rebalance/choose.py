"""Which form of map draws get: the richest that can be afforded and whose iteration converges."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from srmc.metrics.errors import autocorrelation_time
from srmc.rebalance.batched import Batched
from srmc.rebalance.coordinates import Coordinates, Rows, coordinates
from srmc.rebalance.foresee import Regression, regression
from srmc.rebalance.report import Expected, expect
from srmc.rebalance.solve import ITERATIONS, Solved, solve
from srmc.rebalance.transport import Form
from srmc.types import Float

CONVERGED = 0.35  # residual over that before, above which fewer fields are tried
SCORED = 250  # draws at least that are scored again in each iteration; half of it where
LITTLE = 0.3  # this share of the errors, or more, is expected to be left
DEAR = 0.25  # of what the draws took, for an iteration, above which the last densities are a risk
CHEAP = 0.05  # the same, up to which an iteration is not spared; if it is, it scores at least
FEWEST = 32  # draws, where these are foreseen by a regression
MISSED = 0.03  # that leaves less than this share of them
PER_TIME = 5  # draws per autocorrelation time that are scored; if scores are not known, nothing is
AT_FIRST = 0.5  # done where that takes more than this share of what the draws took
FARTHEST = 1.0  # of 1 + |z|, by which a draw may be moved; a map that goes farther was overfitted
FARTHEST_FORESEEN = 1.5  # the same where scores are foreseen, and maps can be trusted; very near a
FARTHEST_CLOSE = 3.0  # Gaussian, few draws may have to be moved far
PER_DIMENSION = 4.0  # draws at least, for all linear maps to be tried; fewer where scores are
PER_DIMENSION_FORESEEN = 2.4  # foreseen, and still fewer
PER_DIMENSION_CLOSE = 1.2  # very near a Gaussian
DRAWS_PER_FEATURE = 40  # at least, for products to be tried,
MOST_FEATURES = 1000  # and features at most
MOST = 0.3  # of what the draws took, that is spent at most; with foresight twice as much, and all
CLOSE = 0.01  # where a regression leaves less than this share of the scores;
WORTH = 0.85  # and so that at equal cost no more than this is expected to be left of the errors
DECLINED = "rebalancing would take more gradients than it is expected to be worth"
FRESH = 9  # autocorrelation times of the slowest coordinate that draws must last to be worth it,
FRESH_CLOSE = 7  # or fewer very near a Gaussian
ENOUGH = 3  # iterations that must be affordable; one where scores are foreseen
FORMS = {
    "products": Form("full", 5, products=True),
    "full": Form("full", 5),
    "affine": Form("full"),
    "diagonal": Form("diagonal", 5),
    "scale": Form("diagonal"),
    "shift": Form("shift"),
}


class Part(NamedTuple):
    """Draws whose scores are known: in chains, and as rows x with scores s."""

    chains: Float[np.ndarray, "chain draw d"]
    scores: Float[np.ndarray, "chain draw d"]

    @property
    def x(self) -> Rows:
        return self.chains.reshape(-1, self.chains.shape[2])

    @property
    def s(self) -> Rows:
        return self.scores.reshape(-1, self.chains.shape[2])


def filled(chains: Float[np.ndarray, "chain draw d"], part: Part, every: int) -> Part:
    """All draws, of which one in `every` was scored, if a regression foresees the other scores.

    It does very near a Gaussian. Elsewhere the part that was scored.
    """
    known = np.all(np.isfinite(part.s), axis=1)
    at = coordinates(part.x[known], part.s[known])
    foresee = regression(at, at.standardise(part.x), part.s * at.scale)
    if foresee is None or foresee.missed >= CLOSE:
        return part
    z = at.standardise(chains.reshape(-1, chains.shape[2]))
    scores = (foresee(z) / at.scale).reshape(chains.shape)
    scores[:, ::every] = part.scores
    return Part(chains, scores)


class Budget(NamedTuple):
    """What may be spent, in gradients.

    cost
        What the draws took, if that is known.
    spent
        What was spent on them since.
    last
        What the density at all moved draws will take, if they are moved.
    """

    cost: float | None
    spent: Callable[[], float]
    last: float

    def left(self, expected: Expected, foresee: Regression | None, count: int) -> float:
        """What may be spent on iterations of `count` gradients, if so much of the errors is left.

        The last densities count as a risk unless iterations are cheap and hardly in vain.
        """
        if self.cost is None:
            return np.inf
        most = MOST * self.cost
        if foresee is not None:
            most = (1.0 if foresee.missed < CLOSE else 2 * MOST) * self.cost
            most += self.last if count <= DEAR * self.cost else 0.0
        worth = (WORTH / max(float(np.mean(expected)), 1e-3) - 1) * self.cost
        return min(most, worth) - self.last - self.spent()


class Choice(NamedTuple):
    """A form, the map that was found, and the gain to be expected."""

    form: Form
    solved: Solved
    expected: Expected


def choose(
    at: Coordinates,
    form: str,
    part: Part,
    score: Batched,
    thinned: bool,
    budget: Budget,
    is_sound: Callable[[], bool],
) -> tuple[Choice | None, str]:
    """The first form whose residual falls enough, and why others before it were not taken.

    The reason is `DECLINED` if no form was affordable.

    `is_sound` checks the assumption, which takes gradients; it is called when a form is affordable.
    """
    reasons, tried = list[str](), False
    foresee = regression(at, at.standardise(part.x), part.s * at.scale)
    close = foresee is not None and foresee.missed < CLOSE
    bound, fewest = (FARTHEST, ENOUGH) if foresee is None else (FARTHEST_FORESEEN, 1)
    bound = FARTHEST_CLOSE if close else bound
    num_draws, dim = part.x.shape
    time = autocorrelation_time(part.chains)
    stale = num_draws < (FRESH_CLOSE if close else FRESH) * np.max(time)
    if form == "auto" and budget.cost is not None and stale:
        return None, DECLINED
    for candidate in _candidates(form, at, num_draws, foresee):
        expected = expect(at, candidate, part.chains.shape, part.x, part.s)
        count = len(part.x)
        if thinned:
            count = _again(candidate, num_draws, dim, time, expected, foresee, budget.cost)
        iterations = ITERATIONS
        if form == "auto":
            iterations = int(min(ITERATIONS, budget.left(expected, foresee, count) / count))
        if iterations < fewest:
            reasons.append(f"{candidate} was too expensive")
            continue
        tried = True
        if not is_sound() and form == "auto":
            return None, ""
        solved = solve(at, candidate, part.x, part.s, score, count, foresee, iterations)
        if form != "auto" or (solved.reduction < CONVERGED and solved.farthest < bound):
            return Choice(candidate, solved, expected), "; ".join(reasons)
        if solved.reduction < CONVERGED:
            reasons.append(f"{candidate} moved a draw by {solved.farthest:.0%} of its distance")
        else:
            reasons.append(f"{candidate} left {solved.reduction:.0%} of the residual")
    return None, "; ".join(reasons) if tried else DECLINED


def _candidates(
    form: str, at: Coordinates, num_draws: int, foresee: Regression | None
) -> list[Form]:
    """The forms to try, the richest first."""
    if form != "auto":
        return [FORMS[form]]
    close = foresee is not None and foresee.missed < CLOSE
    dim, per_dimension = len(at.scale), PER_DIMENSION
    if foresee is not None:
        per_dimension = PER_DIMENSION_CLOSE if close else PER_DIMENSION_FORESEEN
    dense = at.root is not None and num_draws >= per_dimension * dim
    order = 3 if num_draws < 200 else 5 if foresee is None or num_draws < 400 else 9
    if at.root is not None and num_draws < 2 * dim:
        order = 1  # marginal fields would fit the noise of the whitening
    full = [Form("full", order), Form("full")] if dense else []
    richest = FORMS["products"]
    if richest.size(dim) <= min(MOST_FEATURES, num_draws / DRAWS_PER_FEATURE):
        full = [richest, *full]
    every = [*full, Form("diagonal", order), Form("diagonal"), Form("shift")]
    return list(dict.fromkeys(every))


def _again(
    form: Form,
    count: int,
    dim: int,
    time: Float[np.ndarray, " d"],
    expected: Expected,
    foresee: Regression | None,
    cost: float | None,
) -> int:
    """How many draws are scored again in each iteration.

    The noise that this leaves, over what would have been left otherwise, is about the number of
    features that move a coordinate over that of the draws. Where features explain little, much is
    left anyway; where changes are foreseen, there is the less noise the better they are. Of sticky
    chains some draws per correlation time tell as much as all.
    """
    num_features = form.size(dim) if form.linear == "full" else form.size(dim) // dim
    fresh = count * PER_TIME / float(np.median(time))
    if foresee is not None:
        wanted = max(2 * num_features, min(count / 4, fresh, 8 * num_features), SCORED)
        if cost is not None:
            fewer = min(wanted, count) * min(1.0, (foresee.missed / MISSED) ** 0.5)
            wanted = min(wanted, max(FEWEST, fewer, CHEAP * cost))
    elif form.products:  # far from a Gaussian, where features are heavy
        wanted = max(8 * num_features, min(count / 4, fresh), SCORED)
    elif np.mean(expected) > LITTLE:
        wanted = max(2 * num_features, min(count / 6, fresh), SCORED / 2)
    else:
        wanted = max(4 * num_features, min(count / 2, fresh), SCORED)
    return int(min(count, np.ceil(wanted)))

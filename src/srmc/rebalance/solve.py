"""The fixed point of repellence: a map under which the mean of every Stein feature is 0.

A step is that of `newton` from the means of the features, and Anderson acceleration learns what it
misses. Where changes of scores can be foreseen (see `foresee`), several steps are taken before
draws are scored again.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from srmc.rebalance.coordinates import Coordinates, Rows
from srmc.rebalance.foresee import Regression
from srmc.rebalance.newton import newton
from srmc.rebalance.transport import Form, Weights, mean_features, mover, no_move
from srmc.types import Bool, Int

MEMORY = 5  # iterations that Anderson acceleration remembers
ITERATIONS = 6  # at most
ENOUGH = 0.06  # residual over that before the first move, at which the iteration ends
FORESEEN = 10  # steps at most before draws are scored again, where scores are foreseen,
CLEAR = 0.03  # or until so much of the residual is left
WORTH = 0.5  # what may be left of it for such steps to be taken
POLISHING = 8  # steps of shifts and linear maps in the end, at most,
CLEAN = 1e-4  # until so much of their residual is left
STALLED = 0.8  # what is left of it in truth, at which they end,
LOW = 0.1  # if the residual over that before the first move is below this
HOPELESS = 3  # iterations, after which it ends if the residual is not below the first
TOO_FAR = 4.0  # times the least residual, at which the iteration goes back;
OVERSHOT = 1.2  # times the first, if nothing below it was found
BOLD = 0.5  # root mean square of a step, in standard deviations, beyond which it is shortened
AT_ONCE = 2**16  # numbers of draws whose features are evaluated together, in the cache

ScoreRows = Callable[[Rows], Rows]  # scores at draws x, not finite where there are none


class Solved(NamedTuple):
    """The outcome of an iteration.

    weights
        Those of the map.
    stays
        Which of the draws that were scored again could not be moved.
    before, after
        Means of the features, in units of their sizes.
    noise
        The error of `after`, which comes of scoring some draws only.
    iterations
        The number of times that draws were scored again.
    farthest
        The largest move of a draw over 1 + |z|, its distance in standard deviations.
    """

    weights: Weights
    stays: Bool[np.ndarray, " m"]
    before: Weights
    after: Weights
    noise: Weights
    iterations: int
    farthest: float

    @property
    def reduction(self) -> float:
        """The norm of the residual after the last step over that before the first."""
        first, last = (np.linalg.norm(w.flat()) for w in (self.before, self.after))
        return float(last / first) if first > 0 else 0.0


def solve(
    at: Coordinates,
    form: Form,
    x: Rows,
    s: Rows,
    score: ScoreRows,
    count: int | None = None,
    foresee: Regression | None = None,
    most: int = ITERATIONS,
) -> Solved:
    """Find the map of this form for draws x with scores s, scoring `count` again, `most` times.

    The mean of a feature over all moved draws is its mean before the move, which the scores at
    hand give, plus the mean of its change. The change is small, or foreseen, so that some draws
    suffice for it.
    """
    some = _spread(len(x), len(x) if count is None else count)
    features = _Features(at, no_move(form, x.shape[1]), x, s, some, foresee)
    z, like, norm = at.standardise(x), features.like, features.norm
    stays = ~np.all(np.isfinite(s), axis=1)
    at_first = _Point(like.flat(), z, s[some], features.mean(z, s[some]))
    now = best = at_first
    steps, iterations = _Steps(features, z, stays, foresee is not None), 0
    enough, low = (share * norm(at_first.residual) for share in (ENOUGH, LOW))
    while iterations < most and norm(best.residual) > enough and not np.all(stays):
        step = steps.next(now, may_end=norm(best.residual) < low)
        if step is None:
            break
        w, moved = step
        scores = score(at.restore(moved[some]))
        iterations += 1
        lost = ~np.all(np.isfinite(scores), axis=1) & ~stays[some]
        if np.any(lost):
            stays[some[lost]] = True
            moved = np.where(stays[:, None], z, moved)
        scores = np.where(stays[some, None], s[some], scores)
        now = _Point(w, moved, scores, features.mean(moved, scores))
        left = norm(now.residual) / norm(best.residual)
        best = now if left < 1 else best
        if foresee is None and best is at_first and iterations == HOPELESS:
            break
        if steps.foresees and left > STALLED and norm(best.residual) < low:
            break
        too_far = OVERSHOT if best is at_first else TOO_FAR
        if left > (1 if steps.foresees else too_far):
            steps.retreat()
            now = best
    if foresee is not None and iterations > 0:
        best = steps.polished(best, at_first.residual)
    unit = lambda r: r.like(r.flat() / features.size)
    noise = features.noise(best.z, best.scores)
    before, after, noise = map(unit, (at_first.residual, best.residual, noise))
    farthest = float(np.max(np.abs(best.z - z) / (1 + np.abs(z))))
    return Solved(like.like(best.w), stays[some], before, after, noise, iterations, farthest)


class _Point(NamedTuple):
    """Weights, draws z under their map, scores of some, and the means of the features."""

    w: np.ndarray
    z: Rows
    scores: Rows
    residual: Weights


class _Steps:
    """Where to go next: by foreseen scores as long as that works, then step by step."""

    def __init__(
        self, features: "_Features", z: Rows, stays: Bool[np.ndarray, " n"], foresees: bool
    ) -> None:
        self._features, self._z, self._stays, self.foresees = features, z, stays, foresees
        self._damping, self._history = 1.0, list[tuple[np.ndarray, np.ndarray]]()

    def next(self, now: _Point, may_end: bool) -> tuple[np.ndarray, Rows] | None:
        """The next weights, and the draws under their map.

        None if nothing more is foreseen and the iteration may end.
        """
        if self.foresees:
            found = self._foreseen(now)
            if found is not None or may_end:
                return found
            self.foresees = False
        step = self._damping * self._features.newton(now.residual.flat())
        self._history = [*self._history[-MEMORY + 1 :], (now.w, step)]
        return self._after(self._history, now.z)

    def retreat(self) -> None:
        """The last step went too far: forget what led there, and be careful."""
        if not self.foresees:
            self._damping /= 2
        self.foresees, self._history = False, []

    def polished(self, now: _Point, first: Weights) -> _Point:
        """More steps of shifts, and of linear maps if products of coordinates are foreseen."""
        features = self._features
        smooth = features.smooth
        surprise = now.residual.flat() - features.foreseen(now.z).flat()
        left = lambda residual: np.linalg.norm((residual.flat() / features.size)[smooth])
        for _ in range(POLISHING):
            if left(now.residual) < CLEAN * left(first):
                break
            step = np.where(
                smooth, features.newton(np.where(smooth, now.residual.flat(), 0.0)), 0.0
            )
            w, z = self._after([(now.w, step)], now.z)
            residual = now.residual.like(features.foreseen(z).flat() + surprise)
            if not left(residual) < left(now.residual):
                break
            now = now._replace(w=w, z=z, residual=residual)
        return now

    def _foreseen(self, now: _Point) -> tuple[np.ndarray, Rows] | None:
        """Several steps without scores; None if they lead nowhere."""
        features, (w, z, _, residual) = self._features, now
        surprise = residual.flat() - features.foreseen(z).flat()
        first = least = features.norm(residual)
        best, history = None, list[tuple[np.ndarray, np.ndarray]]()
        for _ in range(FORESEEN):
            history = [*history[-MEMORY + 1 :], (w, features.newton(residual.flat()))]
            w, z = self._after(history, z)
            residual = residual.like(features.foreseen(z).flat() + surprise)
            if features.norm(residual) < least:
                best, least = (w, z), features.norm(residual)
            if least < CLEAR * first:
                break
        return best if least < WORTH * first else None

    def _after(
        self, history: list[tuple[np.ndarray, np.ndarray]], z: Rows
    ) -> tuple[np.ndarray, Rows]:
        """The weights after a step that is shortened if it is bold, and the draws, now at z."""
        features, w = self._features, history[-1][0]
        step = _accelerated(history, features.size) - w
        while True:
            moved = apply(features.at, features.like.like(w + step), self._z)
            length = np.sqrt(np.mean((moved - z)[~self._stays] ** 2))
            if not length > BOLD:  # also where it overflows, which the scores will tell
                return w + step, np.where(self._stays[:, None], self._z, moved)
            step = step * (0.9 * BOLD / length)


def _spread(total: int, count: int) -> Int[np.ndarray, " m"]:
    """So many rows of all, at equal distances."""
    return np.arange(count) * total // count


def apply(at: Coordinates, weights: Weights, z: Rows) -> Rows:
    """The draws z, moved, in blocks that bound the memory."""
    move = mover(at, weights)
    return np.concatenate([move(z[rows]) for rows in _blocks(*z.shape)])


class _Features:
    """Means of features over all moved draws, of which `some` are scored again."""

    def __init__(
        self,
        at: Coordinates,
        like: Weights,
        x: Rows,
        s: Rows,
        some: Int[np.ndarray, " m"],
        foresee: Regression | None,
    ) -> None:
        self.at, self.like, self._some, self._foresee = at, like, some, foresee
        self._z, self._s = at.standardise(x), s * at.scale
        self.size, self.newton = newton(at, like, self._z, self._s)
        self._thinned = len(some) < len(x)
        self._rest = self._s  # of scores, beside the regression
        if foresee is not None:
            parts = [self._s[rows] - foresee(self._z[rows]) for rows in _blocks(*x.shape)]
            self._rest = np.concatenate(parts)
        self._start = None if foresee is not None else self._mean(np.arange(len(x)), self._z)
        self._last: tuple[Rows, Weights] | None = None  # draws that were looked at, and their means

    def mean(self, z: Rows, scores: Rows) -> Weights:
        """The means over all draws, now at z, if some of them have these scores."""
        if not self._thinned:
            return self._mean(self._some, z, scores)
        surprise = self._surprise(z, scores, slice(None))
        return self.like.like(self.foreseen(z).flat() + surprise)

    def foreseen(self, z: Rows) -> Weights:
        """The means over all draws, now at z, with scores as they are foreseen."""
        if self._start is not None:
            return self._start
        if self._last is None or self._last[0] is not z:
            self._last = z, self._mean(np.arange(len(z)), z)
        return self._last[1]

    @property
    def smooth(self) -> Bool[np.ndarray, " k"]:
        """Which features are foreseen well enough to be polished."""
        end = len(self.like.shift)
        if self._foresee is not None and self._foresee.crossed:
            end = len(self.size) - self.like.marginal.size - self.like.product.size
        return np.arange(len(self.size)) < end

    def norm(self, means: Weights) -> float:
        """The norm of means in units of the features' standard deviations."""
        return float(np.linalg.norm(means.flat() / self.size))

    def noise(self, z: Rows, scores: Rows) -> Weights:
        """The error of the means, from halves of the draws that were scored."""
        if not self._thinned or len(scores) < 4:
            return self.like
        one, two = (self._surprise(z, scores, slice(k, None, 2)) for k in (0, 1))
        return self.like.like((one - two) / 2)

    def _surprise(self, z: Rows, scores: Rows, part: slice) -> np.ndarray:
        """The means over some draws with these scores, minus what was foreseen of them."""
        some = self._some[part]
        surprise: np.ndarray = self._mean(some, z, scores[part]).flat() - self._mean(some, z).flat()
        return surprise

    def _mean(self, some: Int[np.ndarray, " m"], z: Rows, scores: Rows | None = None) -> Weights:
        """The means over some draws, now at z, with these scores or those that are foreseen.

        Without a regression nothing is foreseen to change. Draws without scores are left out.
        """
        return mean_features(self.at, self.like, self._parts(some, z, scores))

    def _parts(
        self, some: Int[np.ndarray, " m"], z: Rows, scores: Rows | None
    ) -> Iterator[tuple[Rows, Rows]]:
        """Draws and their scores, block by block."""
        for block in _blocks(len(some), z.shape[1]):
            rows = some[block]
            here, s = z[rows], self._rest[rows]
            known = np.all(np.isfinite(s), axis=1)
            if scores is not None:
                s = scores[block] * self.at.scale
            elif self._foresee is None:
                here = self._z[rows]
            else:
                s = s + self._foresee(here)
            yield (here, s) if np.all(known) else (here[known], s[known])


def _accelerated(history: list[tuple[np.ndarray, np.ndarray]], size: np.ndarray) -> np.ndarray:
    """Anderson's next point, from points w and steps K f(w), in units of the features."""
    w, step = history[-1]
    following: np.ndarray = w + step
    if len(history) == 1:
        return following
    dw = np.stack([w - a for a, _ in history[:-1]], axis=1)
    df = np.stack([step - b for _, b in history[:-1]], axis=1)
    scaled = df * size[:, None]
    gamma = np.linalg.lstsq(scaled, step * size, rcond=1e-6)[0]
    following = following - (dw + df) @ gamma
    return following


def _blocks(count: int, dim: int) -> list[slice]:
    length = max(1, AT_ONCE // dim)
    return [slice(start, start + length) for start in range(0, count, length)]

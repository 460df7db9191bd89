"""The fixed point of repellence: a map under which the mean of every Stein feature is 0.

Each iteration takes the step of `newton` from the means of the features, and Anderson acceleration
learns what that misses.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from srmc._types import Bool
from srmc.after.newton import newton
from srmc.after.transport import (
    Coordinates,
    Form,
    Rows,
    Weights,
    displaced,
    no_move,
    total_features,
)

MEMORY = 5  # iterations that Anderson acceleration remembers
ITERATIONS = 6  # at most
ENOUGH = 0.06  # residual over that before the first move, at which the iteration ends
BOLD = 0.5  # root mean square of a step, in standard deviations, beyond which it is shortened
ROWS_AT_ONCE = 2**22  # numbers of draws whose features are evaluated together

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
    """

    weights: Weights
    stays: Bool[np.ndarray, " m"]
    before: Weights
    after: Weights
    noise: Weights
    iterations: int

    @property
    def reduction(self) -> float:
        """The norm of the residual after the last step over that before the first."""
        first, last = (np.linalg.norm(w.flat()) for w in (self.before, self.after))
        return float(last / first) if first > 0 else 0.0


def solve(
    at: Coordinates, form: Form, x: Rows, s: Rows, score: ScoreRows, every: int = 1
) -> Solved:
    """Find the map of this form for draws x with scores s, scoring one in `every` draws again.

    The mean of a feature over all moved draws is its mean before the move, which the scores at
    hand give, plus the mean of its change. The change is small, so that some draws suffice for it.
    """
    features = _Features(at, no_move(form, x.shape[1]), x, s, every)
    x, s = x[::every], s[::every]
    z, weights = at.standardise(x), features.like
    damping = 1.0
    stays = ~np.all(np.isfinite(s), axis=1)
    history: list[tuple[np.ndarray, np.ndarray]] = []
    residual = before = best = features.mean(z, s)
    best_weights, moved, w = weights, x, weights.flat()
    best_moved, best_scores = x, s
    iterations = 0
    size, norm = features.size, features.norm
    while iterations < ITERATIONS and norm(best) > ENOUGH * norm(before) and not np.all(stays):
        history = [*history[-MEMORY + 1 :], (w, damping * features.newton(residual.flat()))]
        w, now = _bounded(at, weights, z, w, _accelerated(history, size) - w, moved, stays)
        moved = np.where(stays[:, None], x, at.restore(now))
        scores = score(moved)
        iterations += 1
        lost = ~np.all(np.isfinite(scores), axis=1) & ~stays
        if np.any(lost):
            stays |= lost
            moved = np.where(stays[:, None], x, moved)
        scores = np.where(stays[:, None], s, scores)
        residual = features.mean(at.standardise(moved), scores)
        if norm(residual) < norm(best):
            best, best_weights, best_moved, best_scores = residual, weights.like(w), moved, scores
        elif norm(residual) > 4 * norm(best):
            # too far: go back, and forget what led here
            w, moved, residual, history = best_weights.flat(), best_moved, best, []
            damping = damping / 2
    unit = lambda r: r.like(r.flat() / size)
    noise = features.noise(at.standardise(best_moved), best_scores)
    return Solved(best_weights, stays, unit(before), unit(best), unit(noise), iterations)


def _bounded(
    at: Coordinates,
    like: Weights,
    z: Rows,
    w: np.ndarray,
    step: np.ndarray,
    moved: Rows,
    stays: Bool[np.ndarray, " m"],
) -> tuple[np.ndarray, Rows]:
    """The weights after a step that is shortened if it is bold, and where they move draws z."""
    while True:
        now = apply(at, like.like(w + step), z)
        length = np.sqrt(np.mean((now - at.standardise(moved))[~stays] ** 2))
        if not length > BOLD:  # also where it overflows, which the scores will tell
            return w + step, now
        step = step * (0.9 * BOLD / length)


def apply(at: Coordinates, weights: Weights, z: Rows) -> Rows:
    """The draws z, moved, in blocks that bound the memory."""
    return np.concatenate([displaced(at, weights, z[rows]) for rows in _blocks(z)])


class _Features:
    """Means of features over all moved draws, from the change at one in `every` of them."""

    def __init__(self, at: Coordinates, like: Weights, x: Rows, s: Rows, every: int) -> None:
        self._at, self.like, self._thinned = at, like, every > 1
        self.size, self.newton = newton(at, like, at.standardise(x), s * at.scale)
        self._unknown = ~np.all(np.isfinite(s[::every]), axis=1)  # these tell nothing
        self._offset, self._start = np.zeros(len(self.size)), at.standardise(x[::every])
        self._scores = s[::every]
        if self._thinned:
            unknown = ~np.all(np.isfinite(s), axis=1)
            everywhere = _mean(at, like, at.standardise(x), s * at.scale, unknown)
            self._offset = everywhere.flat() - self.mean(self._start, self._scores).flat()

    def mean(self, z: Rows, s: Rows) -> Weights:
        """The means over all draws, if the draws of the part are at z with scores s."""
        part = _mean(self._at, self.like, z, s * self._at.scale, self._unknown)
        return self.like.like(part.flat() + self._offset)

    def norm(self, means: Weights) -> float:
        """The norm of means in units of the features' standard deviations."""
        return float(np.linalg.norm(means.flat() / self.size))

    def noise(self, z: Rows, s: Rows) -> Weights:
        """The error of the means, from halves of the part."""
        if not self._thinned or len(z) < 4:
            return self.like

        def change(half: slice) -> np.ndarray:
            s_now, s_then = (v[half] * self._at.scale for v in (s, self._scores))
            there = _mean(self._at, self.like, z[half], s_now, self._unknown[half])
            here = _mean(self._at, self.like, self._start[half], s_then, self._unknown[half])
            changed: np.ndarray = there.flat() - here.flat()
            return changed

        halves = change(slice(0, None, 2)) - change(slice(1, None, 2))
        return self.like.like(halves / 2)


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


def _mean(
    at: Coordinates, like: Weights, z: Rows, s: Rows, unknown: Bool[np.ndarray, " n"]
) -> Weights:
    """The means of all features over the draws that have scores."""
    total, count = None, 0
    for rows in _blocks(z):
        use = ~unknown[rows]
        part = total_features(at, like, z[rows][use], s[rows][use]).flat()
        total = part if total is None else total + part
        count += int(np.sum(use))
    assert total is not None
    return like.like(total / max(count, 1))


def _blocks(z: Rows) -> list[slice]:
    length = max(1, ROWS_AT_ONCE // (8 * z.shape[1]))
    return [slice(start, start + length) for start in range(0, len(z), length)]

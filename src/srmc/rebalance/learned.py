"""Learned coordinates of finished draws, in NumPy and double precision."""

from typing import NamedTuple

import numpy as np

from srmc.coordinates import Coordinates
from srmc.coordinates.triangular import Weights, mapped, unmapped
from srmc.coordinates.whiten import Rows
from srmc.types import Float, Int


class Turned(NamedTuple):
    """The map of `Coordinates`, with the modulators first."""

    center: Float[np.ndarray, " d"]
    scale: Float[np.ndarray, " d"]
    order: Int[np.ndarray, " d"]
    weights: Weights

    @classmethod
    def by(cls, found: Coordinates) -> "Turned":
        """The same map."""
        first = np.asarray(found.modulators)
        order = np.concatenate([first, np.setdiff1d(np.arange(len(found.shift)), first)])
        weights = Weights(*(np.asarray(getattr(found, k), float) for k in Weights._fields))
        center, scale = (np.asarray(v, float) for v in (found.center, found.scale))
        return cls(center, scale, order, weights.rows(order))

    def forward(self, x: Rows, s: Rows) -> tuple[Rows, Rows]:
        """From draws and scores in x to those in u, with the modulators first."""
        z, s = (x - self.center) / self.scale, s * self.scale
        at = mapped(self.weights, z[:, self.order], s[:, self.order])
        return at.u, at.score

    def inverse(self, u: Rows) -> Rows:
        """From u to x."""
        z = np.empty_like(u)
        z[:, self.order] = unmapped(self.weights, u)
        x: Rows = self.center + self.scale * z
        return x

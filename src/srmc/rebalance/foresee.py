"""How scores change when draws move a little, from a regression of the scores on the draws.

The score of a draw that moved from z to z' is foreseen as s + g(z') - g(z). On a Gaussian that is
exact, and near one it is close: then the means of features over moved draws can be computed without
gradients, but for a small correction, which some draws suffice for.
"""

import numpy as np

from srmc.rebalance.coordinates import FAR, Coordinates, Rows
from srmc.rebalance.transport import polynomial
from srmc.types import Float

GOOD = 0.9  # share of the squared scores that a regression must explain, at draws not in it
DRAWS_PER_TERM = 4  # at least
FOLDS = 4  # each of which is predicted from the others
RIDGE = 1e-3
NUMBERS = 2**23  # draws times terms in a regression, at most,
FEWER = int((NUMBERS / DRAWS_PER_TERM) ** 0.5)  # so that products have at most so many terms


class Regression:
    """Scores as a linear function of draws, as on a Gaussian, plus polynomials.

    `missed` is the share of the squared scores that it does not explain at draws not in it.

    These are products of two coordinates, and cubes, if there are draws enough and the terms are
    not too many; otherwise powers of each coordinate alone, up to cubes. All are of coordinates
    cut at ±3.
    """

    def __init__(self, at: Coordinates, z: Rows, s: Rows, missed: float = 0.0) -> None:
        self.missed = missed
        self._precision = None if at.inverse is None else at.inverse @ at.inverse
        terms = _crossed_terms(z.shape[1])
        self.crossed = DRAWS_PER_TERM * terms <= min(len(z), NUMBERS // terms)
        phi, rest = self._terms(z), s - self._linear(z)
        if self.crossed:
            gram, right = phi @ phi.T, phi @ rest
        else:
            gram, right = np.einsum("knd,lnd->dkl", phi, phi), np.einsum("knd,nd->dk", phi, rest)
            right = right[..., None]
        ridge = RIDGE * len(z) * np.eye(gram.shape[-1])
        self._coefficients = np.linalg.solve(gram + ridge, right)

    def __call__(self, z: Rows) -> Rows:
        found = self._linear(z)
        if self.crossed:
            found += self._terms(z).T @ self._coefficients
        else:
            found += polynomial(self._coefficients[..., 0].T, np.clip(z, -FAR, FAR))
        return found

    def _linear(self, z: Rows) -> Rows:
        return -z if self._precision is None else -(z @ self._precision)

    def _terms(self, z: Rows) -> Float[np.ndarray, "..."]:
        """The polynomials, (term, n), or (power, n, d) if each coordinate has its own."""
        cut = np.clip(z, -FAR, FAR)
        if not self.crossed:
            square = cut * cut
            return np.stack([np.ones_like(cut), cut, square, square * cut])
        by_coordinate = np.ascontiguousarray(cut.T)  # whose rows are quick to take
        i, j = np.triu_indices(z.shape[1])
        cubes = by_coordinate * by_coordinate * by_coordinate
        products = by_coordinate[i] * by_coordinate[j]
        return np.concatenate([np.ones((1, len(z))), by_coordinate, cubes, products])


def _crossed_terms(dim: int) -> int:
    """The number of terms with products."""
    return 1 + 2 * dim + dim * (dim + 1) // 2


def regression(at: Coordinates, z: Rows, s: Rows) -> Regression | None:
    """The regression of scores s on draws z, or None if it explains too little of them."""
    known = np.all(np.isfinite(s), axis=1)
    z, s = z[known], s[known]
    if len(z) < 16:
        return None
    # Where the terms are crossed they are few enough to leave draws enough.
    width = max(4 * z.shape[1], min(_crossed_terms(z.shape[1]), FEWER))
    every = 1 + len(z) * width // NUMBERS
    z, s = z[::every], s[::every]
    fold = np.arange(len(z)) % FOLDS
    errors = [
        np.sum((s[fold == k] - Regression(at, z[fold != k], s[fold != k])(z[fold == k])) ** 2)
        for k in range(FOLDS)
    ]
    missed = float(sum(errors) / np.sum(s**2)) if np.any(s) else 1.0
    return Regression(at, z, s, missed) if missed < 1 - GOOD else None

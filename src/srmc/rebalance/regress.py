"""What Stein features explain of functions of a draw, with coefficients from other draws."""

import dataclasses
import functools
import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from srmc.rebalance import rule
from srmc.types import Float, Int

DRAWS_PER_FEATURE = 4  # at least, in a regression
MOST = 64  # features in a regression,
TOGETHER = 1024  # if there are no more than these to choose from; else
STRONGEST = 24
STAGE = 8  # features that are chosen at a time,
ROWS = 512  # draws, or a quarter of all if these are fewer
SCREENED = 4096  # features beyond which those of a few coordinates alone are looked at:
NEAREST = 8  # the ones that correlate best
PAIRS = 16  # of coordinates, if their features are made for each function
NUMBERS = 2**22  # draws times features that are held at once
ROUNDING = 1e-5  # of Gram matrices in single precision, per draw

Functions = Float[np.ndarray, "row function chain draw"]


class Pairs(NamedTuple):
    """Coordinates z with R s_z and R, of which R_ij + (z_i (R s_z)_j + z_j (R s_z)_i) / 2 is made.

    Rebalancing matches covariances, and with them the part of a function that is a product of two
    coordinates. In many dimensions there are too many pairs to look at all for each function.
    """

    z: Float[np.ndarray, "d n"]
    own: Float[np.ndarray, "d n"]
    correlation: Float[np.ndarray, "d d"]

    def strongest(
        self, f: Float[np.ndarray, "row function n"], every: int
    ) -> Int[np.ndarray, "row p"]:
        """The pairs whose features correlate best with the functions, at some of the draws."""
        z, own = (np.ascontiguousarray(v[:, ::every]) for v in (self.z, self.own))
        dim = len(z)
        most = min(PAIRS, dim * (dim - 1) // 2)
        found = np.empty((len(f), most), int)
        for row, values in zip(found, f, strict=True):
            cross = (z * values[:, None]) @ own.T
            both = np.square(cross + np.swapaxes(cross, 1, 2)).sum(axis=0)
            strength = np.triu(both, 1).ravel()
            best = np.argpartition(-strength, most - 1)[:most]
            row[:] = best[np.argsort(-strength[best])]
        return found

    def features(self, chosen: Int[np.ndarray, "row p"]) -> Float[np.ndarray, "row p n"]:
        """Those of the chosen pairs, of mean square 1."""
        i, j = np.divmod(chosen, len(self.z))
        phi: np.ndarray = (self.z[i] * self.own[j] + self.z[j] * self.own[i]) / 2
        phi += self.correlation[i, j][..., None]
        phi /= np.sqrt(np.mean(phi**2, axis=2, keepdims=True)) + 1e-30
        return phi


@dataclasses.dataclass(frozen=True, eq=False)
class Features:
    """Stein features that have mean 0 over rebalanced draws, at plain draws; and what is left.

    phi
        The features, of mean square 1.
    left
        The share of the error along each that rebalancing left.
    num_shifts
        How many of them, the first, are those of shifts.
    num_coordinates
        If each belongs to one coordinate: of how many, in whose order they repeat; else 0.
    pairs
        Further features, of pairs of coordinates, if they are not among the others.
    """

    phi: Float[np.ndarray, "k chain draw"]
    left: Float[np.ndarray, " k"]
    num_shifts: int
    num_coordinates: int = 0
    pairs: Pairs | None = None

    @functools.cached_property
    def some(self) -> Float[np.ndarray, "k n"]:
        """The features at the draws by which they are chosen."""
        phi = self.phi.reshape(len(self.phi), -1)
        return np.ascontiguousarray(phi[:, :: _every(phi.shape[1])])

    @staticmethod
    def of(phi: Float[np.ndarray, "chain draw k"], left: float, num_shifts: int) -> "Features":
        """Features of which the same share is left along each."""
        size = np.sqrt(np.mean(np.square(phi), axis=(0, 1)))
        scaled = np.moveaxis(phi / np.maximum(size, 1e-30), 2, 0)
        return Features(scaled.astype(np.float32, order="C"), np.full(len(size), left), num_shifts)


def explain(
    f: Functions, features: Features
) -> Iterator[tuple[slice, Functions, Float[np.ndarray, "row function draw"]]]:
    """What features explain of each function, some rows at a time; and what of that is left.

    All functions of a row, which are of one quantity, are regressed on the same features: those
    that correlate best with them, over some of the draws. Coefficients for a part of the run come
    from the other parts, and from as many features as predict the parts that were left out best.
    The remainder is averaged over chains.
    """
    count = f.shape[2] * f.shape[3]
    phi = features.phi.reshape(-1, count)
    most = MOST if len(phi) <= TOGETHER else STRONGEST
    most = max(1, min(most, len(phi), count * (rule.FOLDS - 1) // rule.FOLDS // DRAWS_PER_FEATURE))
    at_once = max(1, NUMBERS // ((most + PAIRS * (features.pairs is not None)) * count))
    for start in range(0, len(f), at_once):
        part = slice(start, start + at_once)
        scale = f[part].std(axis=(2, 3), keepdims=True)
        here = _scaled(f[part], scale)
        some = here.reshape(*here.shape[:2], -1)[..., :: _every(count)]
        order = _strongest(features.some, some, features, most)
        own, shares = phi[order], features.left[order]
        if features.pairs is not None:
            rest = some[:, :2] - _fitted(features.some[order], some[:, :2])
            pairs = features.pairs.features(features.pairs.strongest(rest, _every(count)))
            own = np.concatenate([own, pairs], axis=1)
            shares = np.pad(shares, [(0, 0), (0, pairs.shape[1])])
        own = own.reshape(*own.shape[:2], *f.shape[2:])
        explained, left = _cross_fitted(here, own, shares)
        yield part, explained * scale, left * scale[..., 0]


def _every(count: int) -> int:
    return max(1, min(4, count // MOST), count // ROWS)


def _scaled(f: Functions, scale: Float[np.ndarray, "row function 1 1"]) -> Functions:
    """Functions of mean square 1 in single precision; 0 where they are not finite."""
    known = np.isfinite(scale) & (scale > 0)
    scaled: Functions = np.where(known, f / np.where(known, scale, 1.0), 0.0).astype(np.float32)
    return scaled


def _strongest(
    phi: Float[np.ndarray, "p n"],
    f: Float[np.ndarray, "row function n"],
    features: Features,
    most: int,
) -> Int[np.ndarray, "row m"]:
    """The features that correlate best with the functions, then those with what is left, ..."""
    near = None
    if len(phi) > SCREENED and features.num_coordinates:
        near = _near(phi, f[:, :2], features.num_coordinates)
        most = min(most, near.shape[1])
    first = features.num_shifts if features.num_shifts <= most // 2 and near is None else 0
    chosen = np.repeat(np.arange(first)[None], len(f), axis=0)
    bank = None if near is None else phi[near]
    rest = f - _fitted(phi[chosen], f)
    while chosen.shape[1] < most:
        if bank is None:
            products = (rest.reshape(-1, rest.shape[2]) @ phi.T).reshape(*f.shape[:2], -1)
        else:
            products = rest @ np.swapaxes(bank, 1, 2)
        strength = np.sum(np.square(products), axis=1)
        np.put_along_axis(strength, chosen, -1.0, axis=1)
        more = min(STAGE, most - chosen.shape[1])
        best = np.argpartition(-strength, more - 1, axis=1)[:, :more]
        rank = np.argsort(-np.take_along_axis(strength, best, axis=1), axis=1)
        chosen = np.concatenate([chosen, np.take_along_axis(best, rank, axis=1)], axis=1)
        if chosen.shape[1] < most:
            own = phi[chosen] if bank is None else np.take_along_axis(bank, chosen[..., None], 1)
            rest = f - _fitted(own, f)
    return chosen if near is None else np.take_along_axis(near, chosen, axis=1)


def _near(
    phi: Float[np.ndarray, "p n"], f: Float[np.ndarray, "row function n"], size: int
) -> Int[np.ndarray, "row m"]:
    """All features of the coordinates whose shift and scaling correlate best with functions."""
    products = f.reshape(-1, f.shape[2]) @ phi[: 2 * size].T
    strength = np.sum(np.square(products).reshape(len(f), -1, size), axis=1)
    coordinates = np.argpartition(-strength, NEAREST, axis=1)[:, :NEAREST]
    groups = size * np.arange(len(phi) // size)
    return (coordinates[:, None] + groups[:, None]).reshape(len(f), -1)


def _fitted(
    own: Float[np.ndarray, "row m n"], f: Float[np.ndarray, "row function n"]
) -> Float[np.ndarray, "row function n"]:
    """Least squares on these features."""
    turned = np.swapaxes(own, 1, 2)
    root = _inverse_root((own @ turned).astype(float), len(own[0])).astype(np.float32)
    beta = f @ turned @ np.swapaxes(root, 1, 2) @ root
    fitted: np.ndarray = beta @ own
    return fitted


def _cross_fitted(
    f: Functions, own: Float[np.ndarray, "row m chain draw"], shares: Float[np.ndarray, "row m"]
) -> tuple[Functions, Float[np.ndarray, "row function draw"]]:
    """What features explain of each part of the run, with coefficients from the other parts.

    The regressions have an intercept, since averages over the draws are not those of the target.
    """
    ends = np.linspace(0, f.shape[3], rule.FOLDS + 1).astype(int)
    parts = [slice(*pair) for pair in itertools.pairwise(ends)]
    chains = range(f.shape[2])
    centred = own - own.mean(axis=(2, 3), keepdims=True)
    product = lambda a, part: sum(
        np.matmul(a[:, :, c, part], np.swapaxes(centred[:, :, c, part], 1, 2)) for c in chains
    )
    gram = np.stack([product(centred, part) for part in parts]).astype(float)
    cross = np.stack([product(f, part) for part in parts]).astype(float)
    others, right = gram.sum(axis=0) - gram, cross.sum(axis=0) - cross
    unseen_gram, unseen_cross = gram.copy(), cross.copy()
    for k, part in enumerate(parts):  # less the means over the other parts
        share = (part.stop - part.start) / f.shape[3]
        more = (part.stop - part.start) * len(chains) * ((1 - share) ** -2 - 1)
        means = [v[..., part].mean(axis=(2, 3), dtype=float) for v in (f, centred)]
        unseen_cross[k] += more * means[0][:, :, None] * means[1][:, None]
        unseen_gram[k] += more * means[1][:, :, None] * means[1][:, None]
    best, least = np.zeros_like(cross), np.zeros(f.shape[:2])
    for ridge in rule.RIDGES:
        inverse = _inverse_root(others, ridge + ROUNDING * f[0, 0].size)
        turned = right @ np.swapaxes(inverse, 2, 3)
        for size in sorted({*np.geomspace(1, own.shape[1], 5).astype(int)}):
            beta = np.zeros_like(cross)
            beta[..., :size] = turned[..., :size] @ inverse[..., :size, :size]
            change = np.sum(beta * (beta @ unseen_gram - 2 * unseen_cross), axis=(0, 3))
            best = np.where((change < least)[..., None], beta, best)
            least = np.minimum(least, change)
    average = own.mean(axis=2)
    out, left = np.empty_like(f), np.empty_like(f[:, :, 0])
    for beta, part in zip(best.astype(np.float32), parts, strict=True):
        left[..., part] = (beta * shares[:, None].astype(np.float32)) @ average[..., part]
        for c in chains:
            out[:, :, c, part] = beta @ own[:, :, c, part]
    return out, left


def _inverse_root(gram: Float[np.ndarray, "... m m"], ridge: float) -> Float[np.ndarray, "... m m"]:
    """The inverse of the lower root: its leading parts are those of the leading features."""
    return np.linalg.inv(np.linalg.cholesky(gram + ridge * np.eye(gram.shape[-1])))

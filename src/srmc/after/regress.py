"""What Stein features explain of functions of a draw, with coefficients from other draws."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from srmc._types import Float, Int

FOLDS = 5  # parts of the run; beta for each comes from the others
DRAWS_PER_FEATURE = 4  # at least, in a regression
MOST = 64  # features in a regression
TOGETHER = 1024  # features up to which any of them may be in it; of more, it is one of the
STRONGEST = 24  # that correlate best with the function,
STAGE = 8  # so many at a time,
ROWS = 512  # over so many draws
AT_ONCE = 64  # functions then


class Features(NamedTuple):
    """Stein features that have mean 0 over rebalanced draws, at plain draws; and what is left.

    phi
        The features, (chain, draw, k).
    left
        The share of the error along each that rebalancing left.
    num_shifts
        How many of them, the first, are those of shifts.
    """

    phi: Float[np.ndarray, "chain draw k"]
    left: Float[np.ndarray, " k"]
    num_shifts: int


def explain(
    f: Float[np.ndarray, "chain draw k"], features: Features
) -> tuple[Float[np.ndarray, "chain draw k"], Float[np.ndarray, "chain draw k"]]:
    """What features explain of each function, which has mean 0, and what of that is left.

    Regressions have an intercept, since f's mean over the target is not quite 0. Coefficients for a
    part of the run come from the other parts, and from as many features as predict the parts that
    were left out best. Of very many features, those that correlate best with a function are looked
    at.
    """
    if features.phi.shape[2] > TOGETHER:
        phi = np.ascontiguousarray(features.phi.reshape(-1, features.phi.shape[2]).T)
        pieces = [_explain_few(part, phi, features.left) for part in _split(f)]
        explained, left = (np.concatenate(v, axis=2) for v in zip(*pieces, strict=True))
        return explained, left
    parts = np.array_split(np.arange(f.shape[1]), FOLDS)
    rows = lambda v, part: v[:, part].reshape(-1, v.shape[2])
    phi = features.phi - features.phi.mean(axis=(0, 1))
    grams = np.stack([rows(phi, part).T @ rows(phi, part) for part in parts])
    cross = np.stack([rows(phi, part).T @ rows(f, part) for part in parts])
    count = int(f.shape[0] * f.shape[1] * (1 - 1 / FOLDS))
    best = np.zeros((FOLDS, *cross.shape[1:]))
    least = np.zeros(f.shape[2])
    fits = [
        _fits(grams.sum(0) - g, cross.sum(0) - c, features.num_shifts, count)
        for g, c in zip(grams, cross, strict=True)
    ]
    for betas in zip(*fits, strict=True):
        beta = np.stack(betas)
        change = np.sum(beta * (grams @ beta - 2 * cross), axis=(0, 1))
        best = np.where(change < least, beta, best)
        least = np.minimum(least, change)
    out, left = np.zeros_like(f), np.zeros_like(f)
    for beta, part in zip(best, parts, strict=True):
        shape = (f.shape[0], len(part), -1)
        out[:, part] = (rows(features.phi, part) @ beta).reshape(shape)
        left[:, part] = (rows(features.phi, part) @ (beta * features.left[:, None])).reshape(shape)
    return out, left


def _fits(
    gram: Float[np.ndarray, "p p"], cross: Float[np.ndarray, "p k"], num_shifts: int, count: int
) -> Iterator[Float[np.ndarray, "p k"]]:
    """Least squares on more and more features: those of shifts, then what correlates with the rest.

    `count` is the number of draws that the sums are over.
    """
    most = int(min(MOST, count // DRAWS_PER_FEATURE, len(gram) - 1))
    chosen = np.zeros((0, cross.shape[1]), int)
    beta = np.zeros_like(cross)
    if num_shifts <= most // 2:
        chosen = np.repeat(np.arange(num_shifts)[:, None], cross.shape[1], axis=1)
        beta = _fit(gram, cross, chosen)
        yield beta
    while len(chosen) < most:
        rest = np.abs(cross - gram @ beta)
        np.put_along_axis(rest, chosen, -1.0, axis=0)
        more = min(max(1, len(chosen) // 3), most - len(chosen))
        strongest = np.argpartition(-rest, more - 1, axis=0)[:more]
        chosen = np.concatenate([chosen, strongest])
        beta = _fit(gram, cross, chosen)
        yield beta


def _fit(
    gram: Float[np.ndarray, "p p"], cross: Float[np.ndarray, "p k"], chosen: Int[np.ndarray, "m k"]
) -> Float[np.ndarray, "p k"]:
    """Regression of each function on the features chosen for it.

    The ridge is as of one more draw per feature: features that are almost constant together over
    these draws would take the intercept's place.
    """
    index = chosen.T
    square = gram[index[:, :, None], index[:, None, :]]
    ridge = index.shape[1] * np.eye(index.shape[1])
    right = np.take_along_axis(cross.T, index, axis=1)
    small = np.linalg.solve(square + ridge, right[..., None])[..., 0]
    beta = np.zeros_like(cross.T)
    np.put_along_axis(beta, index, small, axis=1)
    return beta.T


def _split(f: Float[np.ndarray, "chain draw k"]) -> list[Float[np.ndarray, "chain draw j"]]:
    return [f[..., n : n + AT_ONCE] for n in range(0, f.shape[2], AT_ONCE)]


def _explain_few(
    f: Float[np.ndarray, "chain draw k"],
    phi: Float[np.ndarray, "p n"],
    left_of: Float[np.ndarray, " p"],
) -> tuple[Float[np.ndarray, "chain draw k"], Float[np.ndarray, "chain draw k"]]:
    """The same, with the features of each function that correlate best with it, the best first."""
    values = f.reshape(-1, f.shape[2])
    every = 1 + len(values) // ROWS
    order = _strongest(phi[:, ::every], values[::every])
    fold = np.concatenate([np.arange(FOLDS).repeat(-(-f.shape[1] // FOLDS))[: f.shape[1]]] * len(f))
    own = phi[order]  # (k, feature, draw)
    centred = own - own.mean(axis=2, keepdims=True)
    grams, crosses = [], []
    for part in range(FOLDS):
        here = centred[:, :, fold == part]
        grams.append(here @ np.swapaxes(here, 1, 2))
        crosses.append(here @ values.T[:, fold == part, None])
    gram, cross = np.stack(grams), np.stack(crosses)
    beta, least = np.zeros_like(cross), np.zeros(f.shape[2])
    most = min(STRONGEST, len(values) * (FOLDS - 1) // FOLDS // DRAWS_PER_FEATURE)
    for size in sorted({*np.geomspace(1, max(1, most), 10).astype(int)}):
        rest = gram.sum(0) - gram, cross.sum(0) - cross
        square = rest[0][..., :size, :size]
        ridge = size * np.eye(size)
        tried = np.zeros_like(cross)
        tried[..., :size, :] = np.linalg.solve(square + ridge, rest[1][..., :size, :])
        change = np.sum(tried * (gram @ tried - 2 * cross), axis=(0, 2, 3))
        beta = np.where((change < least)[:, None, None], tried, beta)
        least = np.minimum(least, change)
    shares = left_of[order]
    out, left = np.zeros_like(values), np.zeros_like(values)
    for part in range(FOLDS):
        here, b = own[:, :, fold == part], beta[part, :, :, 0]
        out[fold == part] = np.einsum("kf,kfn->nk", b, here)
        left[fold == part] = np.einsum("kf,kfn->nk", b * shares, here)
    return out.reshape(f.shape), left.reshape(f.shape)


def _strongest(
    phi: Float[np.ndarray, "p n"], values: Float[np.ndarray, "n k"]
) -> Int[np.ndarray, "k m"]:
    """The features that correlate best with each function, then those with what is left, ..."""
    chosen, rest = np.zeros((values.shape[1], 0), int), values
    while chosen.shape[1] < STRONGEST:
        strength = np.abs(phi @ rest)
        np.put_along_axis(strength, chosen.T, -1.0, axis=0)
        more = np.argpartition(-strength, STAGE, axis=0)[:STAGE]
        by_strength = np.argsort(-np.take_along_axis(strength, more, axis=0), axis=0)
        chosen = np.concatenate([chosen, np.take_along_axis(more, by_strength, axis=0).T], axis=1)
        own = phi[chosen]
        gram = own @ np.swapaxes(own, 1, 2)
        ridge = 1e-6 * np.trace(gram, axis1=1, axis2=2)[:, None, None] * np.eye(gram.shape[1])
        beta = np.linalg.solve(gram + ridge, own @ values.T[:, :, None])
        rest = values - np.einsum("kf,kfn->nk", beta[..., 0], own)
    return chosen

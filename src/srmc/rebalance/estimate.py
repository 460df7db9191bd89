"""Estimates of means, second moments and marginal distribution functions, from scores.

Gaussian coefficients come first: with them, each functional minus its expansion in features is
constant on a Gaussian, and nothing is estimated. Regressions follow, as far as they are worth it.

    y_i         + s_yi
    y_i y_j     + delta_ij + (y_i s_yj + y_j s_yi) / 2
    b_l(z_i)    + sum_k E[b_l h_k] / k! psi_{k-1}(z_i), up to the k that leaves the least variance

In many dimensions there are no regressions of the last two on features of all coordinates, and
the second moments share one coefficient in place of 1.
"""

from typing import NamedTuple

import numpy as np

from srmc.rebalance import rule
from srmc.rebalance.choose import (
    GAUSSIAN,
    NOTHING,
    Bank,
    Choice,
    by_choice,
    choose,
    mean_square,
)
from srmc.rebalance.features import Scored, levels, linear, marginal, pairs
from srmc.rebalance.ridge import Columns, plain_left
from srmc.rebalance.smoothed import Knots, below, gaussian_coefficients
from srmc.types import Float, Int

LOOKED_AT = 500  # draws, of many dimensions, by which orders are chosen
AT_ONCE = 2**22  # numbers


class Estimates(NamedTuple):
    """What the draws are to be matched to, the choices, and the gains to expect.

    mean
        In y.
    second
        Of y, (d, d), or (d,) in very many dimensions; None if it is left to the other maps.
    knots, below
        Knots of the distribution functions in z, and what to add to the averages there.
    choices
        For means, second moments and distribution functions: the choice of each group.
    ratios
        The squared errors to expect of each group, over those of plain averages.
    """

    mean: Float[np.ndarray, " d"]
    second: Float[np.ndarray, "..."] | None
    knots: Knots
    below: Knots
    choices: dict[str, list[Choice]]
    ratios: dict[str, Float[np.ndarray, " group"]]


def estimate(at: Scored, bank: Bank) -> Estimates:
    """All estimates from these draws."""
    knots = levels(at.z)
    mean, by_mean, first = _means(at, bank)
    second, by_second, then = _second(at, bank)
    move, by_function, last = _functions(at, knots, bank)
    choices = {"means": by_mean, "second moments": by_second, "distributions": by_function}
    ratios = {"means": first, "second moments": then, "distributions": last}
    return Estimates(mean, second, knots, move, choices, ratios)


def _slope(f: Columns, g: Columns) -> Float[np.ndarray, " q"]:
    """The coefficients c of least variance of f + c g."""
    f, g = f - f.mean(axis=0), g - g.mean(axis=0)
    found: np.ndarray = -np.sum(f * g, axis=0) / np.maximum(mean_square(g) * len(g), 1e-30)
    return found


def _means(at: Scored, bank: Bank) -> tuple[np.ndarray, list[Choice], np.ndarray]:
    f, g = at.y, at.s
    own = f + _slope(f, g) * g
    more, errors = bank.errors(f + g, GAUSSIAN)
    simple = [mean_square(plain_left(v)) for v in (f, f + g, own)]
    fitted = Choice(1.0, "own")
    chosen = choose(
        [NOTHING, GAUSSIAN, fitted, *more], np.concatenate([simple, errors]), np.arange(at.dim)
    )
    mean = f.mean(axis=0)
    for choice, columns in by_choice(chosen.choices).items():
        if choice == fitted:
            mean[columns] = own[:, columns].mean(axis=0)
        elif choice != NOTHING:
            v = f[:, columns] + g[:, columns]
            mean[columns] = v.mean(axis=0) + bank.correction(v, choice)
    return mean, chosen.choices, chosen.ratio


def _second(at: Scored, bank: Bank) -> tuple[np.ndarray | None, list[Choice], np.ndarray]:
    i, j = pairs(at.dim) if at.dim <= rule.LARGEST else (np.arange(at.dim), np.arange(at.dim))
    rng = np.random.default_rng(0)
    some = rng.permutation(len(i))[: rule.SAMPLED]
    some[: min(at.dim, rule.SAMPLED // 2)] = np.flatnonzero(i == j)[: rule.SAMPLED // 2][: at.dim]
    f, g = _pairs(at, i[some], j[some])
    factor = float(np.sum(_slope(f, g) * mean_square(g)) / max(np.sum(mean_square(g)), 1e-300))
    one = np.zeros(len(some), int)
    choices = [NOTHING, GAUSSIAN, Choice(factor)]
    errors = [mean_square(plain_left(v)) for v in (f, f + g, f + factor * g)]
    if bank.has_all_maps:
        more, found = bank.errors(f + g, GAUSSIAN)
        choices, errors = choices + more, [*errors, *found]
    chosen = choose(choices, np.array(errors), one)
    (choice,) = chosen.choices
    if choice == NOTHING:
        return None, chosen.choices, chosen.ratio
    if at.dim > rule.LARGEST:
        scalings = 1 + np.mean(at.y * at.s, axis=0)
        return np.mean(at.y**2, axis=0) + choice.gaussian * scalings, *chosen
    cross = at.y.T @ at.s / len(at.y)
    maps = np.eye(at.dim) + (cross + cross.T) / 2
    second = at.y.T @ at.y / len(at.y) + choice.gaussian * maps
    if choice.dictionary:
        v = at.y[:, i] * at.y[:, j] + linear(at)
        correction = bank.correction(v, choice)
        second[i, j] += correction
        second[j, i] = second[i, j]
    return second, chosen.choices, chosen.ratio


def _pairs(at: Scored, i: Int[np.ndarray, " q"], j: Int[np.ndarray, " q"]) -> tuple[Columns, ...]:
    """y_i y_j and their Gaussian expansion."""
    f = at.y[:, i] * at.y[:, j]
    return f, (i == j) + (at.y[:, i] * at.s[:, j] + at.y[:, j] * at.s[:, i]) / 2


def _functions(
    at: Scored, knots: Knots, bank: Bank
) -> tuple[Knots, list[Choice], Float[np.ndarray, " d"]]:
    """What to add to the averages of b_l, coordinate by coordinate."""
    move, choices, ratios = np.zeros_like(knots), list[Choice](), list[np.ndarray]()
    looked = np.arange(1, rule.LEVELS, 4)
    regressed = bank.has_all_maps
    every = 1 if regressed else max(1, len(at.z) // LOOKED_AT)
    size = max(1, AT_ONCE // (len(at.z) // every * rule.LEVELS))
    for start in range(0, at.dim, size):
        part = slice(start, start + size)
        z, own = at.z[:, part], at.own[:, part]
        plain, smooth, added = _gaussian(z, own, knots[:, part], every)
        _count, levels, width = plain.shape
        group = np.tile(np.arange(width), levels)
        flat = lambda v: v.reshape(len(v), -1)
        options = [NOTHING, GAUSSIAN]
        errors = [mean_square(plain_left(flat(v))) for v in (plain, smooth)]
        if regressed:
            more, found = bank.errors(flat(smooth[:, looked]), GAUSSIAN)
            errors = [e.reshape(levels, width)[looked].ravel() for e in errors] + list(found)
            options, group = options + more, np.tile(np.arange(width), len(looked))
        chosen = choose(options, np.array(errors), group)
        for choice, columns in by_choice(chosen.choices).items():
            if choice != NOTHING:
                more_added = bank.correction(flat(smooth[:, :, columns]), choice)
                move[:, start + columns] = added[:, columns] + more_added.reshape(levels, -1)
        choices += chosen.choices
        some = z[::every, None] <= knots[None, looked, part]
        ratios.append(_ratio(some, plain[:, looked], smooth[:, looked], chosen.choices, bank))
    return move, choices, np.concatenate(ratios)


def _ratio(
    steps: np.ndarray, plain: np.ndarray, smooth: np.ndarray, choices: list[Choice], bank: Bank
) -> Float[np.ndarray, " d"]:
    """The squared errors of distribution functions that are not smoothed, over those of averages.

    What smoothing leaves out stays as it is.
    """
    steps = steps - steps.mean(axis=0)
    ratio = np.ones(len(choices))
    for choice, columns in by_choice(choices).items():
        if choice != NOTHING:
            f, sharp = smooth[:, :, columns], steps[:, :, columns] - plain[:, :, columns]
            left = bank.left(f.reshape(len(f), -1), choice).reshape(f.shape) + sharp
            left = left - left.mean(axis=0)
            size = np.sum(steps[:, :, columns] ** 2, axis=(0, 1))
            ratio[columns] = np.sum(left**2, axis=(0, 1)) / np.maximum(size, 1e-300)
    return ratio


def _gaussian(z: Columns, own: Columns, knots: Knots, every: int) -> tuple[np.ndarray, ...]:
    """b_l at some draws, the same plus its expansion, and the average of the latter at all."""
    coefficients = gaussian_coefficients(knots)
    plain = below(z[::every], knots)
    now, best = plain.copy(), plain.copy()
    added, best_added = np.zeros_like(knots), np.zeros_like(knots)
    least = np.full(knots.shape, np.inf)
    for k, psi in enumerate(marginal(z, own, rule.ORDER)):
        now += coefficients[..., k] * psi[::every, None]
        added = added + coefficients[..., k] * psi.mean(axis=0)
        variance = np.einsum("nld,nld->ld", now, now) / len(now) - now.mean(axis=0) ** 2
        better = variance < least
        best[:, better] = now[:, better]
        best_added = np.where(better, added, best_added)
        least = np.minimum(least, variance)
    return plain, best, best_added

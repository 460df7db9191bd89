"""Estimates of means, second moments and marginal distribution functions, from scores.

Gaussian coefficients come first: with them, each functional minus its expansion in features is
constant on a Gaussian, and nothing is estimated. Regressions follow, as far as they are worth it.

    y_i         + s_yi
    y_i y_j     + delta_ij + (y_i s_yj + y_j s_yi) / 2
    1[z_i <= t] - g'(z_i) - g(z_i) (R s_z)_i, with the g of `srmc.rebalance.distribution`

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
from srmc.rebalance.distribution import Knots, Sides, estimated, sides, solution
from srmc.rebalance.features import Scored, levels, linear, pairs
from srmc.rebalance.ridge import Columns, plain_left
from srmc.types import Float, Int

STEPS = 5  # of a distribution function, by which its choice is made
LOOKED_AT = 500  # draws, at least, by which that choice is made if the coordinates are many
AT_ONCE = 2**22  # numbers


class Estimates(NamedTuple):
    """What the draws are to be matched to, the choices, and the gains to expect.

    mean
        In y.
    second
        Of y, (d, d), or (d,) in very many dimensions; None if it is left to the other maps.
    knots, below
        Knots of the distribution functions in z, and their values there.
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
    with np.errstate(over="ignore", invalid="ignore"):  # draws far out, which are not chosen
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
    simple = [mean_square(plain_left(bank.rows(v))) for v in (f, f + g, own)]
    fitted = Choice(1.0, "own")
    chosen = choose(
        [NOTHING, GAUSSIAN, fitted, *more], np.concatenate([simple, errors]), np.arange(at.dim)
    )
    mean = f.mean(axis=0)
    for choice, columns in by_choice(chosen.choices).items():
        if choice == fitted:
            mean[columns] = own[:, columns].mean(axis=0)
        elif choice != NOTHING:
            mean[columns] = bank.estimate(f[:, columns] + g[:, columns], choice)
    return mean, chosen.choices, chosen.ratio


def _second(at: Scored, bank: Bank) -> tuple[np.ndarray | None, list[Choice], np.ndarray]:
    i, j = pairs(at.dim) if at.dim <= rule.LARGEST else (np.arange(at.dim), np.arange(at.dim))
    rng = np.random.default_rng(0)
    some = rng.permutation(len(i))[: rule.SAMPLED]
    some[: min(at.dim, rule.SAMPLED // 2)] = np.flatnonzero(i == j)[: rule.SAMPLED // 2][: at.dim]
    f, g = map(bank.rows, _pairs(at, i[some], j[some]))
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
        second[i, j] = second[j, i] = bank.estimate(v, choice)
    return second, chosen.choices, chosen.ratio


def _pairs(at: Scored, i: Int[np.ndarray, " q"], j: Int[np.ndarray, " q"]) -> tuple[Columns, ...]:
    """y_i y_j and their Gaussian expansion."""
    f = at.y[:, i] * at.y[:, j]
    return f, (i == j) + (at.y[:, i] * at.s[:, j] + at.y[:, j] * at.s[:, i]) / 2


def _functions(
    at: Scored, knots: Knots, bank: Bank
) -> tuple[Knots, list[Choice], Float[np.ndarray, " d"]]:
    """The distribution functions at the knots, coordinate by coordinate."""
    below, choices, ratios = np.empty_like(knots), list[Choice](), list[np.ndarray]()
    t = knots[np.linspace(2, rule.LEVELS - 3, STEPS).astype(int)]
    every = 1 if bank.has_all_maps else max(1, len(at.z) // LOOKED_AT)
    size = max(1, AT_ONCE // (len(at.z) * STEPS))
    for start in range(0, at.dim, size):
        part = slice(start, start + size)
        z, own = at.z[:, part].astype(float), at.own[:, part].astype(float)
        both = sides(z, own, knots[:, part])
        some, rows = z[::every], Sides(*(side[::every] for side in both))
        flat = lambda v: v.reshape(len(v), -1)
        plain = flat((some[:, None] <= t[:, part]).astype(float))
        exact = flat(-solution(some, rows, t[:, part]))
        options = [NOTHING, GAUSSIAN]
        errors = [mean_square(plain_left(bank.rows(v))) for v in (plain, exact)]
        if bank.has_all_maps:
            more, found = bank.errors(exact, GAUSSIAN, products=False)
            options, errors = options + more, [*errors, *found]
        chosen = choose(options, np.array(errors), np.tile(np.arange(z.shape[1]), STEPS))
        for choice, columns in by_choice(chosen.choices).items():
            own_sides = Sides(*(side[:, columns] for side in both))
            own_knots = knots[:, start + columns]
            weights = bank.weights(choice, len(z))
            below[:, start + columns] = estimated(z[:, columns], own_sides, own_knots, weights)
        choices += chosen.choices
        ratios.append(chosen.ratio)
    return below, choices, np.concatenate(ratios)

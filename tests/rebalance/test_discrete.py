"""Means by regression on Gibbs residuals, against enumeration, plain averages and their spread."""

import functools

import numpy as np
import pytest
from scipy.special import expit

import srmc
from srmc.metrics.tails import plain_error
from srmc.rebalance.discrete import MeanField, regressions
from srmc.rebalance.resample import balanced_products

FIELD = 0.1 + 0.3 * np.random.default_rng(0).normal(size=400)


def chances(x, coupling):
    """P(x_i = 1 given the rest) of the Ising model on a periodic square of sites."""
    spins = 2 * x - 1
    around = sum(np.roll(spins, n, axis) for n in (-1, 1) for axis in (-1, -2))
    side = x.shape[-1]
    return expit(2 * (coupling * around + FIELD[: side**2].reshape(side, side)))


def influence(side, coupling):
    """How E[x_i given the rest] changes with x_j, at the state of zeros."""
    x = np.zeros((side**2, side, side))
    flipped = x + np.eye(side**2).reshape(-1, side, side)
    change = np.abs(chances(flipped, coupling) - chances(x, coupling))
    return change.reshape(side**2, side**2).T


INFLUENCE = influence(4, 0.15)


@functools.cache
def runs(side, coupling, count, length):
    """Draws of replicate runs, (run, chain, draw, d), by alternate squares, and their residuals."""
    rng = np.random.default_rng(side)
    x = np.zeros((count, 2, side, side))
    even = np.add.outer(np.arange(side), np.arange(side)) % 2 == 0
    draws, residuals = np.empty((2, count, 2, length, side**2))
    for n in range(-100, length):
        for squares in (even, ~even):
            new = rng.uniform(size=x.shape) < chances(x, coupling)
            x = np.where(squares, new, x)
        if n >= 0:
            draws[:, :, n] = x.reshape(count, 2, -1)
            residuals[:, :, n] = (chances(x, coupling) - x).reshape(count, 2, -1)
    return draws, residuals


def functions(x, side):
    """Groups of functions of states (..., d): sites, pairs, the magnetisation and its square."""
    spins = 2 * x - 1
    grid = spins.reshape(*x.shape[:-1], side, side)
    pairs = (grid * np.roll(grid, -1, axis=-1)).reshape(x.shape)
    whole = spins.mean(axis=-1, keepdims=True)
    return {"sites": x, "pairs": pairs, "magnetisation": whole, "square": whole**2}


def ratio_and_score(found, truth):
    """The squared error over that of plain averages, and the root mean square of error / claim.

    `found` are tuples (plain mean, mean, claimed error), one per run.
    """
    plain, mean, error = (np.stack(v) for v in zip(*found, strict=True))
    ratio = np.mean((mean - truth) ** 2) / np.mean((plain - truth) ** 2)
    return ratio, np.sqrt(np.mean(((mean - truth) / error) ** 2))


def test_few_sites_against_enumeration():
    draws, residuals = runs(4, 0.15, 60, 600)
    table = srmc.targets.ising(srmc.targets.lattice(4, 4), 0.15, FIELD[:16]).table
    weights = np.exp(np.asarray(table.log_probability))
    truth = functions(np.asarray(table.states).reshape(-1, 16), 4)
    bounds = {"sites": 0.1, "pairs": 0.3, "magnetisation": 0.1, "square": 0.7}
    found = {name: [] for name in bounds}
    for x, phi in zip(draws, residuals, strict=True):
        products = balanced_products(x.reshape(-1, 16), phi.reshape(-1, 16), INFLUENCE)
        fit = regressions(phi, products.reshape(*x.shape[:2], -1))
        for name, values in functions(x, 4).items():
            found[name].append((values.mean(axis=(0, 1)), *fit.estimate(values)))
    for name, bound in bounds.items():
        ratio, score = ratio_and_score(found[name], weights @ truth[name])
        assert ratio < bound, name
        assert 0.5 < score < 1.4, name


@pytest.mark.parametrize("coupling", [0.1, 0.25])
def test_many_sites_by_mean_field_coefficients(coupling):
    """400 sites; the truth is taken from all runs, which are 20 times as long as each."""
    draws, residuals = runs(20, coupling, 20, 390)
    bounds = {"sites": 0.3, "magnetisation": 0.8}
    found = {name: [] for name in bounds}
    for x, phi in zip(draws, residuals, strict=True):
        fit = regressions(phi)
        assert isinstance(fit, MeanField)
        values = functions(x, 20)
        for name in bounds:
            f = values[name][..., :50]
            found[name].append((f.mean(axis=(0, 1)), *fit.estimate(f)))
    for name, bound in bounds.items():
        truth = np.mean([mean for _, mean, _ in found[name]], axis=0)
        ratio, score = ratio_and_score(found[name], truth)
        assert ratio < bound, name
        assert 0.5 < score < 1.4, name


def test_what_residuals_do_not_explain_stays_plain():
    """Noise that has nothing to do with the states: the average and its error."""
    for side, length in ((4, 600), (20, 390)):
        _, residuals = runs(side, 0.15, 60 if side == 4 else 1, length)
        noise = np.random.default_rng(1).normal(size=(2, length, 40))
        plain = plain_error(noise)
        mean, error = regressions(residuals[0]).estimate(noise)
        assert np.all(np.abs(mean - noise.mean(axis=(0, 1))) < plain)
        assert abs(np.mean(error**2) / np.mean(plain**2) - 1) < 0.2

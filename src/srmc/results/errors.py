"""The standard errors of a result's estimates, by the way in which its draws were made."""

import dataclasses
import functools
from typing import Any

import numpy as np

from srmc.metrics.convergence import rank_r_hat
from srmc.metrics.errors import (
    are_stuck,
    between_chains_error,
    effective_size,
    repelled_error,
    rounding,
)
from srmc.metrics.tails import plain_error, tail_shape
from srmc.rebalance.discrete import MeanField, regressions
from srmc.rebalance.errors import error_beside, features_of
from srmc.rebalance.fit import Fit
from srmc.rebalance.regress import Features
from srmc.rebalance.report import Report, from_record
from srmc.results.kept import Kept
from srmc.types import Float

Block = Float[np.ndarray, "chain draw k"]


@dataclasses.dataclass(frozen=True)
class Errors:
    """Standard errors of means and quantiles: from batch means, unless features tell more.

    rebalanced
        The features of each map; for sticky chains, version 0.2 stores them for a subset of draws.
    scored
        The draws and scores of the only map, if there is one.
    repelled
        The features that the history averaged, its gain and alpha, and whether it was shared.
    residuals
        On a discrete space, the Gibbs residuals of the draws, and their products with other sites.
    """

    rebalanced: list[Features] | None = None
    scored: tuple[Block, Block] | None = None
    repelled: tuple[Any, ...] | None = None
    residuals: tuple[Block, Block | None] | None = None

    @staticmethod
    def of(kept: Kept, about: dict[str, Any], shared: bool) -> "Errors":
        """The errors of what a run kept."""
        reports = [from_record(record) for record in about.get("rebalancing") or ()]
        if kept.scored is not None and "residuals" in kept.scored:
            return Errors.of_sites(kept.scored["residuals"], kept.scored.get("products"), reports)
        if kept.scored is not None and any(r.moved for r in reports):
            if "features" in kept.scored:  # of version 0.2, on a discrete space
                phi = np.asarray(kept.scored["features"], float)
                return Errors(rebalanced=[Features.of(phi, reports[0].left, 0)])
            x, s = (np.asarray(kept.scored[k], float) for k in ("position", "score"))
            return Errors.of_rebalanced(x, s, reports)
        if "features" in kept.stats:
            names = ("features", "gain", "alpha")
            found = (np.asarray(kept.stats[name], float) for name in names)
            return Errors(repelled=(*found, shared))
        return Errors()

    @staticmethod
    def of_rebalanced(x: Block, s: Block, reports: list[Report]) -> "Errors":
        """The errors of rebalanced draws: x before with scores s, and one report per map."""
        split = lambda v: np.array_split(v, len(reports))
        features = [
            features_of(own, score, report)
            for own, score, report in zip(split(x), split(s), reports, strict=True)
        ]
        return Errors(features, (x, s) if len(reports) == 1 else None)

    @staticmethod
    def of_sites(residuals: Block, products: Block | None, reports: list[Report]) -> "Errors":
        """The errors of draws on a discrete space, resampled or plain."""
        rebalanced = None
        if reports[0].moved:
            parts = [v for v in (residuals, products) if v is not None]
            phi = np.concatenate(parts, axis=2).astype(float)
            rebalanced = [Features.of(phi, reports[0].left, residuals.shape[2])]
        return Errors(rebalanced, residuals=(residuals, products))

    @functools.cached_property
    def _fit(self) -> Fit | MeanField | None:
        if self.residuals is not None:
            return regressions(*self.residuals)
        return None if self.scored is None else Fit.of(*self.scored)

    def _fits(self, base: Block) -> bool:
        """Whether these are values at all draws of which scores or residuals are known."""
        known = self.scored or self.residuals
        return known is not None and known[0].shape[:2] == base.shape[:2]

    def estimate(self, draws: Block, base: Block) -> tuple[np.ndarray, np.ndarray]:
        """The mean of a function over `draws`, which are `base` before they were moved, its error.

        For rebalanced draws it comes from a regression of the function itself, unless no regression
        is better than the average.
        """
        plain = draws.mean(axis=(0, 1)), self.of_mean(draws, base)
        if self._fit is None or not self._fits(base):
            return plain
        return self._fit.estimate(base, plain)

    def share_left(self, base: Block, error: Float[np.ndarray, " k"]) -> Float[np.ndarray, " k"]:
        """The squared error over that of plain draws, on a discrete space; 1 elsewhere.

        So much less do events count there that were not seen: regressions make up for them.
        """
        if self.residuals is None:
            return np.ones_like(error)
        plain = plain_error(base)
        return np.minimum(1.0, np.square(error / np.where(plain > 0, plain, np.inf)) + (plain <= 0))

    def of_mean(self, draws: Block, base: Block, functions: int = 1) -> Float[np.ndarray, " k"]:
        """The error of the mean over `draws`, which are `base` before they were moved.

        The columns may be several functions of the same quantities, one function after the other.
        Of rebalanced draws it is the least by two regressions, that on a few features and that of
        the estimates, which both allow for the difference from the mean over the moved draws.
        """
        if self.rebalanced is not None:
            features = self.rebalanced
            every = -(-base.shape[1] // features[0].phi.shape[2])
            before, after = (np.array_split(v[:, ::every], len(features)) for v in (base, draws))
            parts = zip(before, features, after, strict=True)
            errors = [error_beside(*part, functions) for part in parts]
            error = np.asarray(np.sqrt(np.sum(np.square(errors), axis=0)) / len(errors))
            fit = self._fit
            if not isinstance(fit, Fit) or not self._fits(base) or not fit.has_all_maps:
                return error
            mean, own = fit.estimate(base)
            own = np.maximum(own, np.abs(draws.mean(axis=(0, 1)) - mean))
            return np.where(own < error, own, error)
        if self.repelled is not None:
            return plain_error(draws, repelled_error(draws, *self.repelled))
        return plain_error(draws)

    def estimates(
        self, draws: Block, base: Block, quantiles: tuple[float, ...]
    ) -> list[Float[np.ndarray, " k"]]:
        """The columns of a summary: estimates, their errors, and diagnostics of the chains.

        The error of a quantile is the error of its probability, mapped by the order statistics.
        """
        mean, sd = draws.mean(axis=(0, 1)), draws.std(axis=(0, 1))
        ordered = np.sort(draws.reshape(-1, draws.shape[2]).T, axis=1)
        levels = [_at(ordered, q) for q in quantiles]

        def functions(x: Block) -> Block:
            rows = np.moveaxis(x, 2, 0)
            out = np.empty((2 + len(levels), *rows.shape))
            np.subtract(rows, mean[:, None, None], out=out[0])
            np.square(out[0], out=out[1])
            for level, below in zip(levels, out[2:], strict=True):
                np.less_equal(rows, level[:, None, None], out=below)
            return np.moveaxis(out.reshape(-1, *rows.shape[1:]), 0, 2)

        count = 2 + len(quantiles)
        found = self.of_mean(functions(draws), functions(base), count)
        of_mean, of_variance, *of_levels = np.split(found, count)
        of_sd = of_variance / np.where(sd > 0, 2 * sd, np.inf)
        pairs = zip(quantiles, of_levels, strict=True)
        of_quantiles = [_of_quantile(ordered, q, error) for q, error in pairs]
        stuck = are_stuck(base)
        if np.any(stuck):
            own = np.quantile(draws, quantiles, axis=1)  # of each chain
            between = [between_chains_error(x[:, None]) for x in own]
            of_quantiles = [
                np.where(stuck, np.maximum(error, more), error)
                for error, more in zip(of_quantiles, between, strict=True)
            ]
        step = rounding(draws)
        average = step / np.sqrt(12 * ordered.shape[1])
        bias = step**2 / np.where(sd > 0, 24 * sd, np.inf)
        if self.residuals is not None:  # regressions do better than the draws
            mean, of_mean = self.estimate(draws, base)
        of_mean, of_sd = np.hypot(of_mean, average), np.hypot(of_sd, average + bias)
        of_quantiles = [np.hypot(error, step / 2) for error in of_quantiles]
        chains = [rank_r_hat(base), effective_size(base), tail_shape(ordered)]
        return [mean, sd, of_mean, *levels, of_sd, *of_quantiles, *chains]


def _of_quantile(
    ordered: Float[np.ndarray, "k n"], q: float, error: Float[np.ndarray, " k"]
) -> Float[np.ndarray, " k"]:
    count = ordered.shape[1]
    error = np.maximum(error, 0.5 / count)  # between two draws it is not known
    span = np.maximum(error, np.sqrt(q * (1 - q) / count))  # fewer draws do not show the density
    low, high = (_at(ordered, np.clip(q + sign * span, 0, 1)) for sign in (-1, 1))
    half: np.ndarray = (high - low) / 2 * error / span
    return half


def _at(
    ordered: Float[np.ndarray, "k n"], q: float | Float[np.ndarray, " k"]
) -> Float[np.ndarray, " k"]:
    """A quantile of each row at its own level, as `np.quantile` has it."""
    place = np.broadcast_to(np.nan_to_num(q, nan=0.0) * (ordered.shape[1] - 1), len(ordered))
    below = np.floor(place).astype(int)
    rows = np.arange(len(ordered))
    low, high = ordered[rows, below], ordered[rows, np.minimum(below + 1, ordered.shape[1] - 1)]
    found: np.ndarray = low + (place - below) * (high - low)
    return np.where(np.isnan(q) | np.isnan(ordered[:, -1]), np.nan, found)

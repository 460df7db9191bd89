"""The standard errors of a result's estimates, by the way in which its draws were made."""

import dataclasses
from typing import Any

import numpy as np

from srmc._types import Float
from srmc.after.errors import active_features, error_beside
from srmc.after.regress import Features
from srmc.after.report import Report, from_record
from srmc.metrics.errors import (
    are_stuck,
    batch_means_error,
    between_chains_error,
    repelled_error,
)
from srmc.run.keep import Kept

Block = Float[np.ndarray, "chain draw k"]


@dataclasses.dataclass(frozen=True)
class Errors:
    """Standard errors of means and quantiles: from batch means, unless features tell more.

    rebalanced
        The features of each map, and the number of draws per draw that has features.
    repelled
        The features that the history averaged, its gain and alpha, and whether it was shared.
    """

    rebalanced: tuple[list[Features], int] | None = None
    repelled: tuple[Any, ...] | None = None

    @staticmethod
    def of(kept: Kept, about: dict[str, Any], shared: bool) -> "Errors":
        """The errors of what a run kept."""
        reports = about.get("rebalancing") or []
        if kept.scored is not None and any(r["form"] != "none" for r in reports):
            if "features" in kept.scored:
                phi = np.asarray(kept.scored["features"], float)
                left = np.full(phi.shape[2], reports[0]["left"]["shift"])
                return Errors(rebalanced=([Features(phi, left, 0)], 1))
            x, s = (np.asarray(kept.scored[k], float) for k in ("position", "score"))
            return Errors.of_rebalanced(x, s, [from_record(report) for report in reports])
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
            active_features(own, score, report.form, report.left)
            for own, score, report in zip(split(x), split(s), reports, strict=True)
        ]
        return Errors(rebalanced=(features, reports[0].every))

    def of_mean(self, draws: Block, base: Block) -> Float[np.ndarray, " k"]:
        """The error of the mean over `draws`, which are `base` before they were moved."""
        if self.rebalanced is not None:
            features, every = self.rebalanced
            before, after = (np.array_split(v[:, ::every], len(features)) for v in (base, draws))
            errors = [error_beside(*part) for part in zip(before, features, after, strict=True)]
            return np.asarray(np.sqrt(np.sum(np.square(errors), axis=0)) / len(errors))
        if self.repelled is not None:
            return repelled_error(draws, *self.repelled)
        error: np.ndarray = batch_means_error(draws)
        return error

    def of_all(
        self, draws: Block, base: Block, quantiles: tuple[float, ...]
    ) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, " k"], list[Float[np.ndarray, " k"]]]:
        """The errors of means, standard deviations and quantiles.

        The error of a quantile is that of its probability, by the spread of draws about it.
        """
        mean, sd = draws.mean(axis=(0, 1)), draws.std(axis=(0, 1))
        flat = draws.reshape(-1, draws.shape[2])
        levels = np.quantile(flat, quantiles, axis=0)

        def functions(x: Block) -> Block:
            below = [(x <= level).astype(float) for level in levels]
            return np.concatenate([x, (x - mean) ** 2, *below], axis=2)

        parts = np.split(self.of_mean(functions(draws), functions(base)), 2 + len(quantiles))
        of_mean, of_variance, *of_levels = parts
        spread = of_variance / np.where(sd > 0, 2 * sd, np.inf)
        found = [_of_quantile(flat, q, e) for q, e in zip(quantiles, of_levels, strict=True)]
        stuck = are_stuck(base)
        if np.any(stuck):
            own = np.quantile(draws, quantiles, axis=1)  # of each chain
            between = [between_chains_error(x[:, None]) for x in own]
            pairs = zip(found, between, strict=True)
            found = [np.where(stuck, np.maximum(e, more), e) for e, more in pairs]
        return of_mean, spread, found


def _of_quantile(
    flat: Float[np.ndarray, "n k"], q: float, error: Float[np.ndarray, " k"]
) -> Float[np.ndarray, " k"]:
    error = np.maximum(error, 0.5 / len(flat))  # between two draws a quantile is not known
    low, high = (_each(flat, np.clip(q + sign * error, 0, 1)) for sign in (-1, 1))
    half: np.ndarray = (high - low) / 2
    return half


def _each(flat: Float[np.ndarray, "n k"], q: Float[np.ndarray, " k"]) -> Float[np.ndarray, " k"]:
    """A quantile of each column at its own level."""
    return np.array([np.quantile(x, p) for x, p in zip(flat.T, q, strict=True)])

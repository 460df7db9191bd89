"""Means of any functions of a draw, by regressions on the features of the draws."""

import numpy as np

from srmc.metrics.errors import batch_means_error, size_from
from srmc.metrics.tails import error_and_variance, hidden_tail
from srmc.rebalance import rule
from srmc.rebalance.choose import NOTHING, Bank, by_choice, choose, mean_square
from srmc.rebalance.features import scored
from srmc.rebalance.ridge import plain_left
from srmc.types import Bool, Float

Block = Float[np.ndarray, "chain draw k"]
Estimate = tuple[Float[np.ndarray, " k"], Float[np.ndarray, " k"]]


class Fit:
    """The regressions of a bank, and at which of the draws its features are known."""

    def __init__(self, bank: Bank | None, usable: Bool[np.ndarray, " n"]):
        self._bank, self._usable = bank, usable

    @classmethod
    def of(cls, chains: Block, scores: Block) -> "Fit":
        """The regressions on the features of draws, (chain, draw, d), with these scores."""
        dim = chains.shape[2]
        x, s = chains.reshape(-1, dim), scores.reshape(-1, dim)
        usable = np.all(np.isfinite(s), axis=1)
        varies = np.ptp(x, axis=0) > 0
        few = np.sum(usable) < rule.FEWEST or not np.any(varies)
        where = np.ix_(usable, varies)
        return cls(None if few else Bank.of(scored(x[where], s[where])), usable)

    @property
    def has_all_maps(self) -> bool:
        return self._bank is not None and self._bank.has_all_maps

    def estimate(self, values: Block, otherwise: Estimate | None = None) -> Estimate:
        """Means of functions with these values at the draws, and their standard errors.

        Each function has its own choice of regression, or none, and then the estimate is
        `otherwise`, or the average. An error is that of what a part of the run leaves of the
        regressions on the others, times the root of the mean squared weight of a draw. Where tails
        are too heavy for a variance it is that of the average, or NaN.
        """
        shape = values.shape
        flat = np.asarray(values, float).reshape(-1, shape[2])
        plain, has_variance = error_and_variance(flat.reshape(shape))
        mean, error = otherwise or (flat.mean(axis=0), plain)
        if self._bank is None or not np.all(np.isfinite(flat)):
            return mean, error
        mean, error = mean.copy(), error.copy()
        f = flat[self._usable]
        more, errors = self._bank.errors(f)
        errors = np.concatenate([mean_square(plain_left(self._bank.rows(f)))[None], errors])
        chosen = choose([NOTHING, *more], errors, np.arange(shape[2]))
        for choice, columns in by_choice(chosen.choices).items():
            if choice != NOTHING:
                part = f[:, columns]
                weights = self._bank.weights(choice, len(f))
                mean[columns] = weights @ part
                left = self._bank.left(part, choice)
                if len(left) == len(part):
                    left = self._at_all_draws(left)
                wider = np.sqrt(np.sum(weights**2) * len(flat))
                rows = left.reshape(*shape[:2], -1) if len(left) == len(flat) else left[None]
                found, is_heavy = _error(rows)
                # Without a variance of the function itself, that of the remainder says nothing.
                usable = has_variance[columns] | ~(is_heavy | np.isnan(plain[columns]))
                error[columns] = np.where(usable, wider * found, plain[columns])
        return mean, error

    def _at_all_draws(self, left: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "draw k"]:
        """With 0 at draws whose features are not known."""
        found = np.zeros((len(self._usable), left.shape[1]))
        found[self._usable] = left
        return found


def _error(left: Block) -> tuple[Float[np.ndarray, " k"], Bool[np.ndarray, " k"]]:
    """The error of the mean of what is left, with that of a tail beyond all draws if heavy."""
    error = batch_means_error(left)
    rows = np.moveaxis(left, 2, 0).reshape(left.shape[2], -1)
    hidden, _ = hidden_tail(rows, size_from(rows.var(axis=1), error, rows.shape[1]))
    return np.hypot(error, hidden), hidden > 0

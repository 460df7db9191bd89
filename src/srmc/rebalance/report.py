"""What `srmc.rebalance` reports: what was done, and the gain to expect."""

from typing import Any, NamedTuple

import numpy as np

from srmc.metrics.errors import batch_means_error
from srmc.rebalance.assumption import Finding
from srmc.rebalance.coordinates import Coordinates, Rows
from srmc.rebalance.products import product_features
from srmc.rebalance.transport import Form, Weights, hermite
from srmc.types import Float

NUMBERS = 2**23  # draws times features that are looked at, at most, to see what these explain


class Residual(NamedTuple):
    """Root mean squares of the mean features of a group, in units of their standard deviations."""

    shift: float
    linear: float
    marginal: float
    product: float = 0.0


class Expected(NamedTuple):
    """Variances of averages after rebalancing over those before, as far as features explain them.

    They are averages over coordinates, for means, variances, and the quantiles at 5, 50 and 95%.
    Coefficients are fitted to the same draws, so that they are optimistic where draws are few.
    """

    means: float
    variances: float
    quantiles: float


class Report(NamedTuple):
    """What `rebalance` did.

    form
        The fields of the map; "none" if the draws stayed as they were.
    reason
        Why a simpler form was taken than the first that was tried, or none; empty otherwise.
    iterations, gradients
        Iterations of the map that was taken; gradients evaluated, over all draws and all tries.
    before, after
        Mean features before the first and after the last iteration.
    left
        The mean features that are left, with the noise of scoring some draws only, over those
        before.
    typical_move, largest_move
        Root mean square over draws and coordinates, and the largest, in standard deviations.
    every
        One in so many draws was scored to begin with: all of them, unless the chains are sticky
        and their scores were not known.
    stayed
        The number of draws that could not be moved.
    findings
        What the checks of the assumption E[feature] = 0 found.
    expected
        The gain to be expected.
    densities
        Log densities evaluated, beside the gradients.
    """

    form: str
    reason: str
    iterations: int
    gradients: int
    before: Residual
    after: Residual
    left: Residual
    typical_move: float
    largest_move: float
    every: int
    stayed: int
    findings: tuple[Finding, ...]
    expected: Expected
    densities: int = 0

    @property
    def cost(self) -> float:
        """What was evaluated, in gradients; a log density counts as half of one."""
        return self.gradients + self.densities / 2


def expect(at: Coordinates, form: Form, shape: tuple[int, ...], x: Rows, s: Rows) -> Expected:
    """What regressions on the features of this form leave of the long-run variances."""
    width = max(x.shape[1], form.size(x.shape[1]) if form.products else 0)
    some = _first(shape, NUMBERS // width)
    shape, x, s = (*some, shape[2]), *(_of_first(v, shape, some) for v in (x, s))
    s = np.where(np.isfinite(s), s, 0.0) * at.scale
    z, own = at.standardise(x), at.regress(s)
    together = product_features(at, z, s) if form.products else np.zeros((len(z), 0))
    gram = together.T @ together
    shown = np.linspace(0, x.shape[1] - 1, min(x.shape[1], 32)).astype(int)
    befores, afters = [], []
    for i in shown:
        own_z = z[:, i : i + 1]
        features = [own[:, i]]
        if form.linear != "shift":
            features.append(1 + z[:, i] * own[:, i])
        if form.order >= 2:
            values, slopes = hermite(own_z, form.order)
            features += list((slopes + values * own[None, :, i : i + 1])[..., 0])
        below = (own_z < np.quantile(own_z, (0.05, 0.5, 0.95))).astype(float)
        before = np.concatenate([own_z, own_z**2, below], axis=1)
        before = before - before.mean(axis=0)
        befores.append(before)
        afters.append(before - _fit(np.column_stack(features), together, gram, before))
    whole = lambda parts: np.stack(parts, axis=-1).reshape(*shape[:2], 5, len(shown))
    errors = [batch_means_error(whole(parts)) for parts in (befores, afters)]
    known = errors[0] > 1e-9 * np.max(np.abs(befores), axis=1).T
    ratio = np.where(known, errors[1] / np.where(known, errors[0], 1.0), 1.0) ** 2
    return Expected(*(float(np.mean(part)) for part in (ratio[0], ratio[1], ratio[2:])))


def _first(shape: tuple[int, ...], most: int) -> tuple[int, int]:
    """So many chains, and so many of their draws, that these are at most `most`."""
    draws = min(shape[1], most)
    return min(shape[0], most // draws), draws


def _of_first(rows: Rows, shape: tuple[int, ...], some: tuple[int, int]) -> Rows:
    chains, draws = some
    return rows.reshape(shape)[:chains, :draws].reshape(-1, shape[2])


def _fit(
    own: Rows, others: Rows, others_gram: Float[np.ndarray, "p p"], f: Float[np.ndarray, "n k"]
) -> Float[np.ndarray, "n k"]:
    """The regression of f on a coordinate's own features and on those that all share."""
    cross = own.T @ others
    gram = np.block([[own.T @ own, cross], [cross.T, others_gram]])
    ridge = np.diag(1e-10 * np.diag(gram) + 1e-300)
    beta = np.linalg.solve(gram + ridge, np.concatenate([own.T @ f, others.T @ f]))
    fitted: np.ndarray = own @ beta[: own.shape[1]] + others @ beta[own.shape[1] :]
    return fitted


def residual(means: Weights) -> Residual:
    size = lambda v: float(np.sqrt(np.mean(v**2))) if v.size else 0.0
    return Residual(*(size(part) for part in means))


def left(before: Residual, after: Residual, noise: Residual) -> Residual:
    """What is left of mean features, with its noise, over what was there before."""
    share = lambda b, a, n: min(1.0, float(np.hypot(a, n)) / b) if b > 0 else 0.0
    return Residual(*map(share, before, after, noise))


def nothing(reason: str, findings: tuple[Finding, ...] = (), stayed: int = 0) -> Report:
    """The report of a run whose draws stay as they were."""
    none, all_left = Residual(0.0, 0.0, 0.0), Residual(1.0, 1.0, 1.0, 1.0)
    expected = Expected(1.0, 1.0, 1.0)
    return Report(
        "none", reason, 0, 0, none, none, all_left, 0.0, 0.0, 1, stayed, findings, expected
    )


def as_record(report: Report) -> dict[str, Any]:
    """A report as plain values, for files."""
    plain = report._asdict()
    for name in ("before", "after", "left", "expected"):
        plain[name] = plain[name]._asdict()
    return plain | {"findings": [finding._asdict() for finding in report.findings]}


def from_record(record: dict[str, Any]) -> Report:
    """The report that `as_record` returned the values of."""
    nested: dict[str, Any] = {k: Residual(**record[k]) for k in ("before", "after", "left")}
    nested["expected"] = Expected(**record["expected"])
    findings = tuple(Finding(**finding) for finding in record["findings"])
    return Report(**record | nested | {"findings": findings})

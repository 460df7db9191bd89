"""Standard errors of averages over draws, valid for repelled chains.

They are scaled so that mean ± 1.96 × error is a 95% interval, also where few batches or chains
make it a Student t interval."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from srmc._checks import as_numbers, check_count, check_flag
from srmc.types import Bool, Float, Int, PyTree

Series = Float[np.ndarray, "chain draw k"]
Columns = Float[np.ndarray, " k"]
Values = Float[np.ndarray, "..."]


def as_draws(values: Any, name: str = "draws") -> Float[np.ndarray, "chain draw ..."]:
    """Numbers (chain, draw, ...) in double precision, or an error that names them."""
    x = as_numbers(name, values)
    if x.ndim < 2 or not x.shape[0] or not x.shape[1]:
        raise ValueError(f"{name} must be (chain, draw, ...), not empty, got shape {x.shape}")
    return x


def over_leaves(measure: Callable[[Any], Any], draws: PyTree[Any]) -> PyTree[Any]:
    """The measure of each array of a tree."""
    if not jax.tree.leaves(draws):
        raise ValueError(f"draws must be an array, or a tree of arrays, got {draws!r}")
    return jax.tree.map(measure, draws)


def batch_means_error(draws: PyTree[ArrayLike], num_batches: int | None = None) -> PyTree[Values]:
    """The standard error of the mean over all draws, by batch means.

    `draws` has axes (chain, draw, ...); mean ± 1.96 × error is a 95% interval. The chains are
    averaged before batching, so that the error is valid for chains that share a history. For a
    repelled run it is an upper bound, and `repelled_error` is sharper. By default, the length of
    the batches follows the autocorrelation of each coordinate. If the chains differ by far more
    than their batches suggest, the error between chains is returned. A single draw gives NaN.

    >>> white = np.random.default_rng(0).normal(size=(4, 10_000))
    >>> bool(abs(batch_means_error(white) / 0.005 - 1) < 0.3)
    True
    """
    if num_batches is not None:
        check_count("num_batches", num_batches, at_least=2)
    return over_leaves(lambda x: _batch_means_error(as_draws(x), num_batches), draws)


def between_chains_error(draws: PyTree[ArrayLike]) -> PyTree[Values]:
    """The standard error of the mean over all draws, from the spread of the chain means.

    `draws` has axes (chain, draw, ...); mean ± 1.96 × error is a 95% interval. The chains must be
    independent, each with its own history, and there should be at least four of them.
    """
    return over_leaves(lambda x: _between_chains_error(as_draws(x)), draws)


def autocorrelation_time(draws: PyTree[ArrayLike]) -> PyTree[Values]:
    """The integrated autocorrelation time of each coordinate, from batch means.

    `draws` has axes (chain, draw, ...). Independent draws have time 1; smaller estimates, as from
    antithetic chains, are raised to 1.
    """

    def one(leaf: ArrayLike) -> Values:
        x = as_draws(leaf)
        if x.shape[1] < 2:
            raise ValueError(f"draws must be at least 2 per chain, got shape {x.shape}")
        return _autocorrelation_time(x)

    return over_leaves(one, draws)


def repelled_error(
    values: Series,
    scores: Float[np.ndarray, "chain draw d"],
    gain: Float[np.ndarray, "chain draw"],
    alpha: Float[np.ndarray, "chain draw"],
    shared: bool,
) -> Columns:
    """The standard error of the mean of `values` over a repelled run.

    `scores` are the whitened features that the history averages; they, `gain` and `alpha` are kept
    in `result.stats`. `shared` says whether the chains share a history. mean ± 1.96 × error is a
    95% interval.

    Along the scores u the loop subtracts a moving average of what it has seen: u = n - alpha theta
    and theta' = theta + gamma (u - theta), where n is what u would be along the base chain. The
    mean of f = r + beta u is therefore the mean of r + w beta n, with weights w from the same
    recursion run backwards. r and n have the short memory of the base chain, so that batch means
    apply to them, and w varies slowly.
    """
    check_flag("shared", shared)
    values, scores, gain, alpha = (
        as_numbers(name, x)
        for name, x in (("values", values), ("scores", scores), ("gain", gain), ("alpha", alpha))
    )
    shapes = [x.shape for x in (values, scores, gain, alpha)]
    if [len(shape) for shape in shapes] != [3, 3, 2, 2] or len({x[:2] for x in shapes}) > 1:
        raise ValueError(
            "values and scores must be (chain, draw, k), and gain and alpha (chain, draw), got "
            f"shapes {', '.join(map(str, shapes))}"
        )
    if not np.all(np.isfinite(scores)):
        return _batch_means_error(values)
    if shared:
        return _one_history_error(values, scores, gain, alpha)
    errors = [
        _one_history_error(*(x[c : c + 1] for x in (values, scores, gain, alpha)))
        for c in range(len(values))
    ]
    error: np.ndarray = np.sqrt(np.sum(np.square(errors), axis=0)) / len(values)
    return at_least_between(values, error)


def _one_history_error(
    values: Series,
    scores: Float[np.ndarray, "chain draw d"],
    gain: Float[np.ndarray, "chain draw"],
    alpha: Float[np.ndarray, "chain draw"],
) -> Columns:
    """The error of `repelled_error` for chains that share one history."""
    u, f = scores.reshape(-1, scores.shape[2]), values.reshape(-1, values.shape[2])
    u, f = u[:, np.any(u != 0, axis=0)], f - f.mean(axis=0)
    if u.shape[1] == 0 or 5 * u.shape[1] * np.mean(_autocorrelation_time(scores)) > len(u):
        return _batch_means_error(values)  # the regression would fit noise
    u = u / np.sqrt(np.mean(u**2, axis=0))
    beta = np.linalg.lstsq(u - u.mean(axis=0), f, rcond=1e-6)[0]
    shape = values.shape[:2]
    rest = (f - u @ beta).reshape(*shape, -1).mean(axis=0)
    base, weights = _unwind(
        u.reshape(*shape, -1).mean(axis=0), gain.mean(axis=0), alpha.mean(axis=0)
    )
    base = base @ beta
    variance, count = _long_run_variance(rest + weights.mean() * base, None)
    variance = variance + weights.var() * _long_run_variance(base, None)[0]
    return at_least_between(values, _t_over_normal(count - 1) * np.sqrt(variance / len(rest)))


def _batch_means_error(draws: ArrayLike, num_batches: int | None = None) -> Values:
    x = np.asarray(draws, float)
    if x.shape[1] < (num_batches or 1):
        raise ValueError(
            f"draws must have at least {num_batches} draws per chain, got shape {x.shape}"
        )
    if x.shape[1] == 1:
        return np.full(x.shape[2:], np.nan)
    values = x.reshape(*x.shape[:2], -1)
    error = series_error(values.mean(axis=0), num_batches)
    return at_least_between(values, error).reshape(x.shape[2:])


def series_error(series: Float[np.ndarray, "draw k"], num_batches: int | None = None) -> Columns:
    """The standard error of the mean of each column, by batch means."""
    variance, count = _long_run_variance(series, num_batches)
    return _t_over_normal(count - 1) * np.sqrt(variance / len(series))


def _between_chains_error(draws: ArrayLike) -> Values:
    means = np.asarray(draws, float).mean(axis=1)
    if len(means) < 2:
        raise ValueError(f"draws must be of at least 2 chains, got {len(means)}")
    factor = _t_over_normal(len(means) - 1)
    return factor * means.std(axis=0, ddof=1) / np.sqrt(len(means))


def _autocorrelation_time(draws: ArrayLike) -> Values:
    x = np.asarray(draws, float)
    flat = np.moveaxis(x, 1, 0).reshape(x.shape[1], x.shape[0], -1).mean(axis=1)
    variance = x.reshape(-1, flat.shape[1]).var(axis=0, ddof=1)
    long_run = len(x) * _long_run_variance(flat, None)[0]
    times: np.ndarray = np.maximum(1.0, long_run / np.where(variance > 0, variance, np.inf))
    return times.reshape(x.shape[2:])


def at_least_between(values: Series, error: Columns, within: Columns | None = None) -> Columns:
    """The error, or the error between chains if they are stuck in different places."""
    if len(values) < 2:
        return error
    between = _between_chains_error(values)
    return np.where(are_stuck(values, within), np.maximum(error, between), error)


def are_stuck(values: Series, within: Columns | None = None) -> Bool[np.ndarray, " k"]:
    """Whether the chains differ by far more than their own variation explains.

    `within` is the squared error of a chain's mean, by default from ten batches of each chain:
    long ones, and few, which suffice for a factor of 20.
    """
    chains, draws, size = values.shape
    if within is None:
        if chains < 2 or draws < 4:
            return np.zeros(size, bool)
        length = max(1, draws // 10)
        count = draws // length
        batches = values[:, -count * length :].reshape(chains, count, length, size).mean(axis=2)
        within = batches.var(axis=1, ddof=1).mean(axis=0) / count
    return values.mean(axis=1).var(axis=0, ddof=1) > 20 * within


def effective_size(draws: Series) -> Columns:
    """The number of independent draws with the same error of the mean, at most all of them."""
    return size_from(
        draws.var(axis=(0, 1)), _batch_means_error(draws), draws.shape[0] * draws.shape[1]
    )


def size_from(variance: Columns, error: Columns, count: int) -> Columns:
    """The number of independent draws whose mean has this error; at most `count`."""
    known = error > 0
    size: np.ndarray = np.where(known, variance / np.where(known, error, 1.0) ** 2, count)
    size = np.minimum(size, count)
    return size


def are_events(values: Series) -> Bool[np.ndarray, " k"]:
    """Whether values are all 0 or 1, so that their mean is a probability."""
    return np.all((values == 0) | (values == 1), axis=(0, 1))


def with_unseen(values: Series, error: Columns, size: float) -> Columns:
    """Errors of means; for probabilities they account for events that were not observed.

    With two events more among `size` independent draws, as in the interval of Agresti and Coull,
    an event that never occurred has an upper limit near 4 / size. An error becomes larger by the
    factor by which that of the average does.
    """
    size, variance = np.minimum(size, effective_size(values)), values.var(axis=(0, 1))
    unseen, plain = 2 / size, np.sqrt(variance / size)
    seen = plain > 0
    factor = np.hypot(1.0, unseen / np.where(seen, plain, 1.0))
    wider: np.ndarray = np.where(seen, factor * error, np.hypot(error, unseen))
    return np.where(are_events(values), wider, error)


def long_run_covariance(series: Series, num_batches: int | None = None) -> Float[np.ndarray, "k k"]:
    """The limit of n Cov(mean of n draws) by batch means, for independent chains."""
    chains, draws, size = series.shape
    if num_batches is None:
        centred = series - series.mean(axis=(0, 1))
        columns = np.moveaxis(centred, 1, 0).reshape(draws, -1)
        length = int(np.max(_lengths(columns)))
    else:
        check_count("num_batches", num_batches, at_least=2)
        length = max(1, draws // num_batches)
    count = draws // length
    means = series[:, -count * length :].reshape(chains * count, length, size).mean(axis=1)
    return length * np.cov(means, rowvar=False).reshape(size, size)


def _t_over_normal(degrees: int | Int[np.ndarray, " k"]) -> Values:
    """The factor that makes ± 1.96 standard errors a 95% Student t interval."""
    return special.stdtrit(degrees, 0.975) / special.ndtri(0.975)


def _long_run_variance(
    series: Float[np.ndarray, "draw k"], num_batches: int | None
) -> tuple[Columns, int | Int[np.ndarray, " k"]]:
    """n Var(mean) of each column, and the number of batches that it was estimated from.

    Batch means BM(b) have a downward relative bias of order 1/b, which 2 BM(b) - BM(b/3) corrects
    ("lugsail", Vats and Flegal, 2022).
    """
    if num_batches is not None:
        return _batch_means(series, len(series) // num_batches), num_batches
    lengths = _lengths(series)
    out = np.empty(series.shape[1])
    for length in np.unique(lengths):
        columns = lengths == length
        long, short = (_batch_means(series[:, columns], b) for b in (length, max(1, length // 3)))
        out[columns] = np.maximum(2 * long - short, long)
    return out, len(series) // lengths


def _lengths(series: Float[np.ndarray, "draw k"]) -> Int[np.ndarray, " k"]:
    """Batch length of each column, longer than its autocorrelation time, on a coarse grid."""
    draws = len(series)
    variance = series.var(axis=0)
    pilot = _batch_means(series, max(1, int(draws**0.5)))
    time = np.maximum(1.0, pilot / np.where(variance > 0, variance, np.inf))
    ideal = 1.5 * np.cbrt(np.nan_to_num(time, nan=1.0) ** 2 * draws)
    lengths: np.ndarray = np.clip(2 ** (np.round(4 * np.log2(ideal)) / 4), 1, max(1, draws // 10))
    return lengths.astype(int)


def _batch_means(series: Float[np.ndarray, "draw k"], length: int) -> Columns:
    """n Var(mean) of each column, from batches of this length."""
    count = len(series) // length
    means = series[-count * length :].reshape(count, length, -1).mean(axis=1)
    return length * means.var(axis=0, ddof=1)


def _unwind(
    u: Float[np.ndarray, "draw d"],
    gain: Float[np.ndarray, " draw"],
    alpha: Float[np.ndarray, " draw"],
) -> tuple[Float[np.ndarray, "draw d"], Float[np.ndarray, " draw"]]:
    """The series n of the base chain, and the weight of each of its terms in the sum of u."""
    theta, base = np.zeros(u.shape[1]), np.empty_like(u)
    for k in range(len(u)):
        base[k] = u[k] + alpha[k] * theta
        theta = theta + gain[k] * (u[k] - theta)
    pull, weights = 0.0, np.empty(len(u))
    for k in reversed(range(len(u))):
        weights[k] = 1 + gain[k] * pull
        pull = -alpha[k] + (1 - gain[k] * (1 + alpha[k])) * pull
    return base, weights


def rounding(draws: Float[np.ndarray, "chain draw k"]) -> Float[np.ndarray, " k"]:
    """The distance of floats at the draws' location, in single precision if that holds them all.

    Far from 0 it is what limits quantiles: at 1e6 single precision has steps of .06.
    """
    largest = np.max(np.abs(draws), axis=(0, 1))
    with np.errstate(over="ignore"):
        single = np.all(draws.astype(np.float32) == draws, axis=(0, 1))
        coarse = np.spacing(largest.astype(np.float32)).astype(float)
    return np.where(single, coarse, np.spacing(largest))

"""The result of a run: draws or moments, statistics, and how they were made."""

import dataclasses
import functools
import inspect
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from srmc._checks import as_numbers, check_flag, check_known, check_quantiles
from srmc._extras import extra
from srmc._files import as_file, write_whole
from srmc.metrics.errors import are_events, effective_size, with_unseen
from srmc.metrics.sketch import pooled_quantiles
from srmc.models.problem import Labels, Problem
from srmc.rebalance.errors import scored_in
from srmc.rebalance.report import Report, as_record, from_record
from srmc.results.blocks import columns, labels
from srmc.results.errors import Errors
from srmc.results.kept import Kept, Named, same

if TYPE_CHECKING:
    from matplotlib.figure import Figure

QUANTILES = (0.05, 0.5, 0.95)


@dataclasses.dataclass(repr=False, eq=False)
class Result:
    """The draws of a run, or their moments.

    kept
        The arrays; `draws`, `base`, `stats`, `moments` and `covariance` are views of them.
    about
        How to repeat the run, and what it cost: settings, measured, versions, num_draws, steps,
        seconds, gradients_of_warmup, and in `rebalancing` the report of `srmc.rebalance`, or one
        for each chain if they were rebalanced one by one.
    shared_history
        Whether the chains shared one history, or were rebalanced together.
    interrupted
        Whether the run was stopped before its end.
    labels
        The dims and coords of the variables, and the data of the model.
    problem
        The model itself, which is not saved.
    """

    kept: Kept
    about: dict[str, Any]
    shared_history: bool = True
    interrupted: bool = False
    labels: Labels = dataclasses.field(default_factory=Labels)
    problem: Problem | None = None
    _summaries: dict[Any, Any] = dataclasses.field(default_factory=dict, init=False)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Result):
            return NotImplemented
        return same(
            *((r.kept, r.about, r.shared_history, r.interrupted, r.labels) for r in (self, other))
        )

    def __getstate__(self) -> dict[str, Any]:
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return fields | {"problem": None, "_summaries": {}}  # functions cannot be pickled

    @staticmethod
    def of_rebalanced(
        draws: ArrayLike, base: ArrayLike, scores: ArrayLike, report: Report
    ) -> "Result":
        """The result of `srmc.rebalance`: draws after and before, scores before, and its report.

        All are (chain, draw, d). The name of the draws is "x".
        """
        if not isinstance(report, Report):
            raise TypeError(f"report must be that of srmc.rebalance, got {report!r}")
        given = (("draws", draws), ("base", base), ("scores", scores))
        after, before, s = (as_numbers(name, v) for name, v in given)
        if after.ndim != 3 or not after.shape == before.shape == s.shape:
            raise ValueError(
                "draws, base and scores must have one shape, (chain, draw, d), got "
                f"{after.shape}, {before.shape} and {s.shape}"
            )
        kept = Kept(
            stats={"alpha": np.zeros(after.shape[:2])},
            draws={"x": after},
            base={"x": before},
            scored=scored_in(before, s, report),
        )
        about = {"rebalancing": [as_record(report)], "num_draws": after.shape[1]}
        return Result(kept, about)

    @property
    def draws(self) -> dict[str, Any]:
        """Rebalanced or repelled draws (chain, draw, ...) by name; a bare array is called "x"."""
        if self.kept.draws is None:
            raise ValueError('this run kept moments alone; sample(..., keep="draws") keeps draws')
        return self.kept.draws

    @property
    def base(self) -> dict[str, Any] | None:
        """The draws of the plain kernel, where draws were kept and there is a plain chain."""
        return self.kept.base

    @property
    def scores(self) -> np.ndarray | None:
        """The scores of the plain draws, (chain, draw, d), in unconstrained space.

        A rebalanced run has them, if its kernel computes them.
        """
        scored = self.kept.scored or {}
        found = scored.get("model_score", scored.get("score"))
        whole = found is not None and found.shape[1] == self.about["num_draws"]
        return found if whole else None  # of sticky chains, version 0.2 scored some draws

    @property
    def stats(self) -> dict[str, np.ndarray]:
        """Statistics (chain, draw) by name.

        In a run that kept moments, they are averages over up to 64 batches of draws. The names
        are acceptance_rate, diverging, alpha, theta_norm, exponent, gradients, hvps, is_finite,
        is_hot, is_stable, gain, lp and energy. `lp` is the log density of the plain chain and
        `energy` the Hamiltonian of HMC and NUTS; see `metrics.bfmi`. Tuned repelled runs also have
        features (chain, draw, k): functions with mean 0 that the history averages, scores first.
        """
        return self.kept.stats

    @property
    def moments(self) -> Named | None:
        """By name: `mean` and `variance` (chain, ...), `error` of the mean, and `batch_means`."""
        return self.kept.moments

    @property
    def covariance(self) -> np.ndarray | None:
        """The covariance of the coordinates, in the order of `summary()`, if it was kept."""
        return self.kept.covariance

    @property
    def is_controlled(self) -> bool:
        """Whether the moments were computed with control variates."""
        return self.about.get("controlled", False) and self.kept.base_moments is not None

    @property
    def is_rebalanced(self) -> bool:
        """Whether the draws were rebalanced after sampling."""
        return any(report.moved for report in self.rebalancing)

    @property
    def rebalancing(self) -> list[Report]:
        """What rebalancing did: one report, or one for each chain; empty without rebalancing."""
        return [from_record(record) for record in self.about.get("rebalancing") or ()]

    @property
    def warnings(self) -> list[str]:
        """What `srmc.sample` warned of, in words, with the remedy."""
        return list(self.about.get("warnings", ()))

    @property
    def gradients(self) -> int:
        """The number of gradients that sampling evaluated, over all chains; -1 if unknown.

        Those of rebalancing are in `about["rebalancing"]`.
        """
        return -1 if np.any(np.asarray(self.stats["gradients"]) < 0) else self.total("gradients")

    def total(self, name: str) -> int:
        """The sum of a statistic over all draws and chains."""
        sizes = 1.0 if self.kept.batch_sizes is None else np.array(self.kept.batch_sizes)
        return round(float(np.sum(np.asarray(self.stats[name], float) * sizes)))

    def summary(
        self,
        base: bool = False,
        var_names: str | Sequence[str] | None = None,
        quantiles: Sequence[float] = QUANTILES,
    ) -> Any:
        """Mean, sd and quantiles of each coordinate, with their standard errors, as a DataFrame.

        `error` is the error of the mean: mean ± 1.96 × error is a 95% interval. `error_sd`,
        `error_5%` and so on are the errors of the other columns. After rebalancing they come from
        the residuals of the features (`rebalanced_error` in the package `srmc.rebalance`), in a
        repelled run from the features that the history averaged (`metrics.repelled_error`), else
        from batch means over all chains together, which for a repelled run are an upper bound.
        The effective sample size of a Markov chain applies to neither: `r_hat_base` and `ess_base`
        tell whether the plain chains have mixed and how many independent draws they amount to.
        `tail_k` is the shape of the heavier tail: moments of order 1 / tail_k and above do
        not exist. An error is NaN where the tails are too heavy for the estimate to have one.

        Parameters
        ----------
        base
            Summarise the draws of the plain kernel.
        var_names
            A variable, or several; all by default.
        quantiles
            Levels between 0 and 1, for runs that kept draws or were merged from sums.
        """
        check_flag("base", base)
        levels = check_quantiles("quantiles", quantiles)
        if base and self.base is None and self.kept.base_moments is None:
            raise ValueError("base=True needs a run that kept the base chain: sample(base=True)")
        if self.kept.draws is None and levels != QUANTILES and not self._has_sketches:
            raise ValueError('quantiles need draws; sample(..., keep="draws") keeps them')
        known = self.moments or {} if self.kept.draws is None else self.draws
        names = check_known("var_names", var_names, known)
        asked = (bool(base), names, levels)
        if asked not in self._summaries:
            self._summaries[asked] = self._summarise(*asked)
        return self._summaries[asked].copy()

    def _summarise(self, base: bool, names: tuple[str, ...], levels: tuple[float, ...]) -> Any:
        import pandas as pd

        words = [f"{100 * q:g}%" for q in levels]
        errors = [f"error_{word}" for word in words]
        names_of = ["mean", "sd", "error"]
        if self.kept.draws is None:
            rows = self._moment_rows(base, names, levels)
            names_of += [*words, *errors] if self._has_sketches else []
        else:
            names_of += [*words, "error_sd", *errors, "r_hat_base", "ess_base", "tail_k"]
            rows = self._draw_rows(base, names, levels)
        return pd.DataFrame.from_dict(rows, orient="index", columns=names_of)

    @property
    def _has_sketches(self) -> bool:
        """Whether quantiles of each chain were kept in place of draws."""
        return any("quantiles" in m for m in (self.moments or {}).values())

    def estimate(
        self, function: Callable[[dict[str, Any]], ArrayLike]
    ) -> tuple[np.ndarray, np.ndarray]:
        """The mean of a function of the draws, and its standard error.

        `function` takes `result.draws` and returns an array (chain, draw, ...):

            mean, error = result.estimate(lambda draws: draws["a"] > draws["b"])

        If the draws are rebalanced, the function is regressed on the features of the plain draws:
        that serves functions of several parameters better than the moved draws do. On a discrete
        space these are Gibbs residuals, and the means of `summary` are such estimates, too.
        The error of a probability allows for the events that were not seen. An error is NaN where
        the tails of the function are too heavy for its mean to have one.
        """
        shape = next(iter(self.draws.values())).shape[:2]
        mean = _of_draws(function, self.draws)
        if mean.shape[:2] != shape:
            raise ValueError(
                f"function must return an array (chain, draw, ...), {shape} first, got {mean.shape}"
            )
        values = _of_draws(function, self.base) if self.base is not None else mean
        after, before = (v.reshape(*shape, -1) for v in (mean, values))
        estimate, error = self._errors.estimate(after, before)
        if np.any(are_events(before)):
            estimate = np.where(are_events(before), np.clip(estimate, 0, 1), estimate)
            error = with_unseen(before, error, self._independent)
        return estimate.reshape(mean.shape[2:]), error.reshape(mean.shape[2:])

    def _moment_rows(
        self, base: bool, names: tuple[str, ...], levels: tuple[float, ...]
    ) -> dict[str, tuple[float, ...]]:
        rows: dict[str, tuple[float, ...]] = {}
        for name, m in ((self.kept.base_moments if base else self.moments) or {}).items():
            mean = m["mean"].mean(axis=0)
            sd = np.sqrt(m["variance"].mean(axis=0) + m["mean"].var(axis=0))
            found = [mean, sd, m["error"]]
            if "quantiles" in m:
                chains = m["quantiles"].reshape(*m["quantiles"].shape[:2], -1)
                both = np.concatenate(pooled_quantiles(chains, levels))
                found += list(both.reshape(-1, *mean.shape))
            for label, index in labels(name, mean.shape, self.labels) if name in names else ():
                rows[label] = tuple(x[index] for x in found)
        return rows

    def _draw_rows(
        self, base: bool, names: tuple[str, ...], levels: tuple[float, ...]
    ) -> dict[str, tuple[float, ...]]:
        rows: dict[str, tuple[float, ...]] = {}
        errors = Errors() if base else self._errors
        plain = self.base or {}
        draws = {k: v for k, v in (plain if base else self.draws).items() if k in names}
        before = {name: plain.get(name, array) for name, array in draws.items()}
        pairs = zip(columns(draws, self.labels), columns(before), strict=True)
        for (found, block), (_, own) in pairs:
            estimates = errors.estimates(block, own, levels)
            rows |= dict(zip(found, zip(*estimates, strict=True), strict=True))
        return rows

    @functools.cached_property
    def _independent(self) -> float:
        """The number of independent draws: the median over coordinates of the plain chains."""
        sizes = [effective_size(x) for _, x in columns(self.base or self.draws)]
        return float(np.median(np.concatenate(sizes)))

    @functools.cached_property
    def _errors(self) -> Errors:
        return Errors.of(self.kept, self.about, self.shared_history)

    def __repr__(self) -> str:
        from srmc.results.tables import in_one_line

        return f"<srmc.Result: {in_one_line(self)}>"

    def _repr_html_(self) -> str:
        from srmc.results.tables import as_html

        return as_html(self)

    def plot(self, path: str | os.PathLike[str] | None = None, *, what: str = "run") -> "Figure":
        """Traces, densities and running means as a figure, saved to `path` if given.

        They show the first coordinates that vary, for all chains, compared with the plain draws;
        bands are 95% intervals. Statistics of the kernel and the history follow. Notebooks show it.

        With `what="coordinates"`, it shows the two parameters with the strongest dependence, in the
        model's parameters and in learned coordinates.
        """
        if what not in ("run", "coordinates"):
            raise ValueError(f'what must be "run" or "coordinates", got {what!r}')
        with extra("result.plot"):
            from srmc.results.plots import plot, plot_pair

        if path is not None:
            path = as_file("path", path)
        figure = plot(self) if what == "run" else plot_pair(self)
        known = figure.canvas.get_supported_filetypes()
        if path is not None:
            if path.suffix and path.suffix[1:].lower() not in known:
                raise ValueError(f"path must end with one of {', '.join(known)}, got {path}")
            write_whole(path, lambda aside: figure.savefig(aside, dpi=110))
        return figure

    def report(self, path: str | os.PathLike[str]) -> None:
        """Write the page of the run: an HTML file that needs no other file and no network.

        It has a verdict, estimates with their errors, also of the plain chain, traces, densities,
        what rebalancing did, the cost, and the code that repeats the run.
        """
        with extra("result.report"):
            from srmc.results.page import page

        path = as_file("path", path)
        write_whole(path, lambda aside: aside.write_text(page(self), encoding="utf-8"))

    def to_arviz(self, log_likelihood: bool = False) -> Any:
        """An ArviZ InferenceData, or from ArviZ 1.0 on a DataTree.

        It has the dims, coords and data of the model, and with `log_likelihood` the log likelihood
        of each observation, for `az.loo`. What ArviZ computes from a Markov chain, mcse, ess and
        r_hat, holds for the group posterior_plain, the draws before they were rebalanced or
        repelled, and so do sample_stats. The errors of the draws themselves are in `summary()`.
        """
        from srmc.results.formats import to_arviz

        return to_arviz(self, log_likelihood)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a NetCDF file, which ArviZ and xarray read as well; `srmc.load` reads it back."""
        from srmc.results.formats import save

        save(self, as_file("path", path))


def _of_draws(function: Any, draws: dict[str, Any]) -> np.ndarray:
    """The numbers that a user's function returns for draws."""
    if not callable(function):
        raise TypeError(f"function must be a function of draws by name, got {function!r}")
    try:
        inspect.signature(function).bind(draws)
    except TypeError as error:
        raise TypeError(f"function must be a function of draws by name alone: {error}") from None
    except ValueError:  # it has no signature
        pass
    return as_numbers("what function returns", function(draws))

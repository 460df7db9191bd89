"""`srmc.merge`: one result from chains that ran by themselves."""

import os
import sys
import warnings
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from srmc._checks import check_flag
from srmc._files import as_path
from srmc._programs import keep_programs
from srmc._progress import progress_bar
from srmc.models.model import Model, as_problem
from srmc.models.problem import Problem, without_slashes
from srmc.results.formats import load
from srmc.results.result import Result
from srmc.results.trouble import RunWarning
from srmc.sample.alone import (
    Part,
    check_together,
    concluded,
    model_differs,
    of_folder,
    of_result,
    start_of,
    summed,
)
from srmc.sample.identity import probe
from srmc.sample.outcome import How
from srmc.sample.running import DENSITY
from srmc.sample.task import first_of
from srmc.sample.tune.discrete import Discrete
from srmc.sample.tune.kernels import recipe_of
from srmc.types import Position


def merge(
    runs: Any,
    model: Any = None,
    *,
    draws: bool = True,
    initial_position: Any = None,
    progress: bool = True,
) -> Result:
    """Join chains that ran by themselves, and rebalance them together.

    The result equals one call of `srmc.sample` with all these `chains`, bit for bit.

    Parameters
    ----------
    runs
        The `checkpoint` of `srmc.sample(..., chains=...)`, a result of it or a file of one; or a
        list of these. They must be different chains of one run: the same model, settings and seed.
        Chains that are missing are named in a warning.
    model
        The model, or a `srmc.Model`, which names and moves the draws. A run that is not to be
        rebalanced can do without, and results that have not been saved know it.
    draws
        Whether to read the draws. Without, the result has means, standard deviations and, of up to
        32 values, covariances, by regression on features of which each job has stored the sums;
        quantiles and diagnostics need draws.
    initial_position
        Where the chains started, for a model that needs one.
    progress
        Whether to show a progress bar on a terminal.
    """
    keep_programs()
    check_flag("progress", progress)
    given = _as_list(runs)
    check_flag("draws", draws)
    parts = list(_parts(given, draws))
    told = check_together(parts)
    if not draws:
        return _told(summed(parts), told)
    source = _source(parts[0], given, model, initial_position)
    if parts[0].rebalances and source.problem is None:
        raise ValueError(
            "model must be given to rebalance chains that are read from files, as in "
            "srmc.merge(runs, model)"
        )
    double = parts[0].settings["double_precision"]
    if parts[0].rebalances and double != (jnp.zeros(()).dtype == "float64"):
        raise ValueError(
            f"runs have {'double' if double else 'single'} precision: "
            f'jax.config.update("jax_enable_x64", {double}) before they are merged'
        )
    with progress_bar(progress and sys.stderr.isatty()) as show:
        result = concluded(parts, source.problem, source.how, source.first, show)
    return _told(result, told)


def _told(result: Result, told: list[str]) -> Result:
    """The result with more warnings, and give them all."""
    result.about["warnings"][:0] = told
    for text in result.warnings:
        warnings.warn(text, RunWarning, stacklevel=3)
    return result


class Source(NamedTuple):
    """The problem of a run, if it is known, how it is rebalanced, and some position."""

    problem: Problem | None
    how: How
    first: Position = None


def _as_list(runs: Any) -> list[Any]:
    if isinstance(runs, Result | str | os.PathLike):
        return [runs]
    if not isinstance(runs, Iterable):
        raise TypeError(f"runs must be folders or results, got {runs!r}")
    return list(runs)


def _parts(runs: list[Any], draws: bool) -> Iterator[Part]:
    for run in runs:
        if isinstance(run, Result):
            yield of_result(run, draws)
        elif (path := as_path("runs", run)).is_dir():
            yield from of_folder(path, draws)
        elif path.is_file():
            yield of_result(load(path), draws)
        else:
            raise ValueError(f"runs must be folders or results, but there is no {path}")


def _source(part: Part, runs: list[Any], model: Any, initial_position: Any) -> Source:
    settings = part.settings
    how = How(settings["shared_history"], recipe_of(settings["kernel"]).is_exact)
    if model is None:
        known = [run.problem for run in runs if isinstance(run, Result)]
        problem = next((problem for problem in known if problem is not None), None)
        if problem is None or not part.rebalances:
            return Source(problem, how)
        if settings["space"] is not None:
            raise ValueError(f"model must be given, with its space {settings['space']}")
        first = first_of(_start(part, problem, listed=True))
    else:
        whole = model if isinstance(model, Model) else Model(model)
        problem = as_problem(whole, initial_position)
        start = _start(part, problem, isinstance(initial_position, list))
        first = first_of(start)
        problem = without_slashes(problem, first)
        seen = lambda x: {DENSITY: problem.logdensity_fn(x)}
        if differences := model_differs(part, probe(seen, start)):
            raise ValueError(f"model must be that of the runs, but {differences[0]}")
        if (space := whole.own_space) is not None:
            kernel, feature = settings["kernel"], settings["feature"]
            tuner = Discrete(kernel, space, whole.own_differences, None, None, feature)
            how = how._replace(sites=tuner.sites)
    names = jax.eval_shape(problem.values, first)
    if unknown := [name for name in part.record["shapes"] if name not in names]:
        raise ValueError(
            f"runs kept {', '.join(unknown)}, which the model does not have; "
            "merge runs with statistics by srmc.sample itself, with all chains, checkpoint and "
            "resume=True"
        )
    return Source(problem, how, first)


def _start(part: Part, problem: Problem, listed: bool) -> Position:
    """The start of chain 0 of a run."""
    return start_of(problem, part.settings["seed"], part.settings["num_chains"], 0, listed)

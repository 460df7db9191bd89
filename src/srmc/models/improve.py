"""A finished run of another program, with smaller errors: ArviZ traces in and out."""

import sys
import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from srmc._checks import check_flag
from srmc._programs import keep_programs, pinned
from srmc._progress import progress_bar
from srmc.metrics.errors import batch_means_error
from srmc.models.draws import all_values, over_draws, resampled, stored_scores
from srmc.models.explain import (
    Constrain,
    Unconstrain,
    check_log_density,
    check_values,
    explain,
    positions_of,
)
from srmc.models.problem import Problem
from srmc.rebalance.batched import Batched
from srmc.rebalance.check import check_assumption
from srmc.rebalance.errors import active_features, error_beside
from srmc.rebalance.fit import Fit
from srmc.rebalance.gains import Gain, gains
from srmc.rebalance.rebalance import (
    Rebalanced,
    Run,
    complaints,
    gradient_of,
    rebalance_parts,
    refuse,
)
from srmc.rebalance.reweight import reweight
from srmc.rebalance.traces import (
    Dataset,
    check_posterior,
    groups_of,
    has_draws,
    picked,
    replaced,
    values_of,
    with_groups,
)
from srmc.repel.target import check_density
from srmc.types import Float, LogDensity

PLAIN = "posterior_plain"
ARRAYS = ("variables", "estimates")  # fields that are stored as attributes of each variable
ESTIMATED = 1024  # largest number of elements per variable whose means are regressed
OF_DRAWS = ("log_likelihood", "log_prior", "posterior_predictive", "unconstrained_posterior")
Groups = dict[str, Dataset]
Draws = Float[np.ndarray, "chain draw d"]


class Improvement(NamedTuple):
    """What `improve` did; it is in the attributes of the posterior, too, as `srmc_method` etc.

    method
        "rebalance", "reweight", or "none" if the draws are unchanged.
    reason
        Why the draws are unchanged; empty otherwise.
    gradients
        The number of gradients evaluated.
    means, variances, quantiles
        Expected variances of estimates, after over before, in unconstrained coordinates; NaN for
        weights.
    largest_change
        The largest change of a mean, in standard errors of the plain one.
    effective
        The effective size of the weights over the number of draws; 1 without weights.
    variables
        The `Gain` of each variable of the trace, deterministic ones too: expected variances of its
        mean, sd and quantiles, after over before. Empty for weights.
    worse
        The variables whose estimates get worse on average, if they are made from the moved draws.
        `srmc.summary` makes them from the plain draws.
    coordinates
        A description of the learned coordinates in which draws were moved, or an empty string.
    estimates
        The means of each variable that the parameters determine, such as a prediction, one per
        element, and their standard errors, by a regression of the variable itself.
    """

    method: str
    reason: str = ""
    gradients: int = 0
    means: float = np.nan
    variances: float = np.nan
    quantiles: float = np.nan
    largest_change: float = 0.0
    effective: float = 1.0
    variables: Mapping[str, Gain] = {}
    worse: tuple[str, ...] = ()
    coordinates: str = ""
    estimates: Mapping[str, tuple[np.ndarray, np.ndarray]] = {}


def improve(
    trace: Any,
    model: Any = None,
    *,
    data: Any = None,
    unconstrain: Unconstrain | None = None,
    constrain: Constrain | None = None,
    z_grad: Any = None,
    report: bool = False,
    progress: bool = True,
    **gone: Any,
) -> Any:
    """Improve the trace of a finished run: the same trace, with smaller errors.

    Draws are mapped to unconstrained space, rebalanced (see `srmc.rebalance`), and mapped back.
    If there are stored gradients but no model, they are weighted (see `srmc.reweight`) and
    resampled.

    Parameters
    ----------
    trace
        An ArviZ InferenceData or DataTree with a posterior, or the xarray.Dataset of a posterior.
    model
        The model that made it: of PyMC, Bambi, NumPyro (with its arguments in `data`) or
        BridgeStan, or a JAX log density of an unconstrained position.
    data
        The arguments of a NumPyro model, a tuple or a dictionary.
    unconstrain
        For a log density: a JAX function from a dictionary of the trace's variables at one draw to
        a position. If it is not given, the position is the dictionary itself, or the array if its
        only variable is called x.
    constrain
        The inverse of `unconstrain`, from a position to a dictionary.
    z_grad
        Without a model: the gradients that NumPyro stored, which ArviZ leaves out of the trace,
        `mcmc.get_extra_fields(group_by_chain=True)["z_grad"]`. A trace of nutpie contains them
        after `nutpie.sample(..., store_gradient=True, store_unconstrained=True)`.
    report
        Whether to return an `Improvement` as well.
    progress
        Whether to show a progress bar on a terminal.

    Returns
    -------
    A trace of the same type, whose posterior has the same variables, dimensions, coordinates and
    attributes. Deterministic variables and the log likelihood are recomputed, so that the variables
    of a draw belong together; a warning names those whose estimates get worse by this. The group
    posterior_plain has the original draws; sample_stats, effective sample sizes and R-hat refer to
    them. Weights
    are in sample_stats, as srmc_weight. A dataset has no groups and returns only its new draws.
    """
    refuse("improve", gone)
    keep_programs()
    groups = groups_of(trace)
    if PLAIN in groups or "srmc_method" in groups["posterior"].attrs:
        raise ValueError("trace must not be improved already, but its attributes or groups say so")
    check_posterior(groups)
    check_flag("report", report)
    check_flag("progress", progress)
    if model is None:
        new, done = _weighted(groups, z_grad)
    elif z_grad is not None:
        raise ValueError("z_grad is for a trace without a model; give one of the two")
    else:
        problem = explain(groups["posterior"], model, data, unconstrain, constrain)
        new, done = _moved(groups, problem, progress)
    done = done._replace(largest_change=_change(groups["posterior"], new["posterior"]))
    about = {f"srmc_{name}": x for name, x in done._asdict().items() if name not in ARRAYS}
    about["srmc_worse"] = ", ".join(done.worse)
    about["srmc_diagnostics"] = f"effective sample sizes and R-hat hold for the group {PLAIN}"
    new["posterior"] = _with_gains(new["posterior"].assign_attrs(about), done)
    for name, group in groups.items():
        if name not in new and has_draws(group, groups["posterior"]):
            new[name] = group.assign_attrs(srmc_draws=f"those of the group {PLAIN}")
    result = with_groups(trace, groups | new | {PLAIN: groups["posterior"]})
    return (result, done) if report else result


def _moved(groups: Groups, problem: Problem, progress: bool) -> tuple[Groups, Improvement]:
    """The groups that change when draws are rebalanced."""
    plain = groups["posterior"]
    flat, unravel = positions_of(problem, plain)
    check_values(problem, plain, flat, unravel)
    check_density(problem.logdensity_fn, unravel(jnp.asarray(flat[0, 0])))
    check_log_density(problem, groups, flat, unravel)
    found = _rebalanced(lambda z: problem.logdensity_fn(unravel(z)), flat, progress)
    named = over_draws(lambda z: all_values(problem, unravel(z)), flat + found.moves)
    known = values_of(plain)
    left = [name for name in known if name not in named]
    if left:
        warnings.warn(
            f"the model does not compute {', '.join(left)} of the trace, which is therefore only "
            f"in the group {PLAIN}",
            stacklevel=3,
        )
    parameters = problem.inverse.names if problem.inverse else tuple(known)
    done = _done(found, {k: x for k, x in known.items() if k in named}, named, parameters)
    if done.worse:
        warnings.warn(
            f"estimates of {', '.join(done.worse)} get worse if they are made from the moved "
            f"draws; srmc.summary makes them from the group {PLAIN}",
            stacklevel=3,
        )
    kept = {k: x for k, x in named.items() if k in known}
    new = {"posterior": replaced(plain.drop_vars(left), kept)}
    return new | _log_likelihood(groups, problem, named), done


def _rebalanced(density: LogDensity, flat: Draws, progress: bool) -> Rebalanced:
    """The moves of the draws; an error if they are not draws of the density."""
    x, one = np.asarray(flat, float), jnp.asarray(flat[0, 0])
    score = Batched("the gradient", pinned(gradient_of(density), one), x, x.shape[2:])
    value = Batched("the log density", pinned(density, one), x, ())
    with progress_bar(progress and sys.stderr.isatty()) as show:
        (found,) = rebalance_parts(Run(x, None, score, value), True, show=show)
    failed = [finding.text for finding in found.report.findings if finding.failed]
    if failed:
        raise ValueError(
            "the model does not explain the draws of trace, which therefore cannot be improved: "
            f"{'; '.join(failed)}. If chains have not converged, run them for longer; "
            "if another model or other data made the trace, give these; for a log density of "
            "bounded parameters, give unconstrain and constrain"
        )
    for text in complaints([found]):
        warnings.warn(text, stacklevel=4)
    return found


def _done(
    found: Rebalanced,
    before: dict[str, np.ndarray],
    after: dict[str, np.ndarray],
    parameters: tuple[str, ...],
) -> Improvement:
    """What was done, with the gain of each variable, and the estimates of those not matched."""
    report, estimates = found.report, {}
    if not report.moved:
        own = {name: Gain(1.0, 1.0, 1.0) for name in before}
    else:
        features = active_features(found.chains, found.scores)
        own = gains(before, {name: after[name] for name in before}, features)
        fit = Fit.of(found.chains, found.scores)
        for name, values in before.items():
            if name not in parameters and values[0, 0].size <= ESTIMATED:
                now = values if own[name].is_loss else after[name]
                x, y = (np.asarray(v, float).reshape(*v.shape[:2], -1) for v in (values, now))
                moved = y.mean(axis=(0, 1)), error_beside(x, features, y)
                estimates[name] = fit.estimate(x, moved)
    return Improvement(
        "rebalance" if report.moved else "none",
        report.reason,
        report.gradients,
        **report.expected._asdict(),
        variables=own,
        worse=tuple(name for name, gain in own.items() if gain.is_loss),
        coordinates="" if report.coordinates is None else str(report.coordinates),
        estimates=estimates,
    )


def _with_gains(posterior: Dataset, done: Improvement) -> Dataset:
    """The posterior, whose variables have their gains as attributes."""
    gained = {
        name: posterior[name].assign_attrs(
            {f"srmc_{what}": value for what, value in gain._asdict().items()}
            | _estimate(done, name)
        )
        for name, gain in done.variables.items()
    }
    return posterior.assign(gained)


def _estimate(done: Improvement, name: str) -> dict[str, np.ndarray]:
    names = ("srmc_mean", "srmc_mean_error")
    return dict(zip(names, done.estimates.get(name, ()), strict=False))


def _log_likelihood(groups: Groups, problem: Problem, named: dict[str, np.ndarray]) -> Groups:
    """The log likelihood at the moved draws, if the trace and the model have one."""
    plain = groups.get("log_likelihood")
    if plain is None or problem.inverse is None or problem.inverse.log_likelihood is None:
        return {}
    given = {name: named[name] for name in problem.inverse.names}
    found = over_draws(problem.inverse.log_likelihood, given)
    known = values_of(plain)
    if any(name not in found or found[name].shape != x.shape for name, x in known.items()):
        return {}
    return {"log_likelihood": replaced(plain, {name: found[name] for name in known})}


def _weighted(groups: Groups, z_grad: Any) -> tuple[Groups, Improvement]:
    """The groups that change when draws are weighted and resampled."""
    draws, scores = stored_scores(groups, z_grad)
    failed = [f.text for f in check_assumption(draws, scores, lambda x: x, None) if f.failed]
    if failed:
        raise ValueError(
            "the gradients must be those of the trace's draws in unconstrained space, but "
            f"{'; '.join(failed)}, or give model"
        )
    weights = reweight(draws, scores)
    order = resampled(weights, draws)
    plain = groups["posterior"]
    new = {
        name: picked(group, order)
        for name, group in groups.items()
        if name in ("posterior", *OF_DRAWS) and has_draws(group, plain)
    }
    note = {"srmc_draws": f"those of the group {PLAIN}"}
    stats = groups.get("sample_stats", plain[[]])
    new["sample_stats"] = stats.assign(srmc_weight=(("chain", "draw"), weights)).assign_attrs(note)
    effective = float(1 / np.sum(weights**2) / weights.size)
    return new, Improvement("reweight", effective=effective)


def _change(plain: Dataset, new: Dataset) -> float:
    """The largest change of a mean in standard errors."""
    old, now = values_of(plain), values_of(new)
    changes = [0.0]
    for name, x in now.items():
        columns = np.asarray(old[name], float).reshape(*x.shape[:2], -1)
        error = batch_means_error(columns)
        move = np.abs(x.reshape(*x.shape[:2], -1).mean(axis=(0, 1)) - columns.mean(axis=(0, 1)))
        usable = np.isfinite(move) & (error > 1e-9 * np.max(np.abs(columns)))
        changes += list(move[usable] / error[usable])
    return float(max(changes))

"""PyMC: `sample` in place of `pm.sample`."""

from typing import Any

import jax
import numpy as np

from srmc._checks import check_count, check_flag, check_seed
from srmc._extras import import_arviz
from srmc._versions import versions
from srmc.models.draws import over_draws
from srmc.models.model import Model, as_problem
from srmc.models.problem import Problem
from srmc.results.result import Result
from srmc.sample.front import sample as srmc_sample
from srmc.types import Array

STATS = ("acceptance_rate", "diverging", "energy", "alpha", "gradients", "is_finite", "is_hot")


def sample(
    draws: int = 1000,
    *,
    tune: int = 1000,
    chains: int | None = None,
    random_seed: Any = None,
    model: Any = None,
    var_names: list[str] | None = None,
    initvals: dict[Any, Any] | None = None,
    progressbar: bool = True,
    idata_kwargs: dict[str, Any] | None = None,
    **options: Any,
) -> Any:
    """Draw from a PyMC model, with the conventions of `pm.sample`, by `srmc.sample`.

    Parameters
    ----------
    draws
        Number of draws per chain.
    tune
        Number of warm-up steps per chain, which are not kept.
    chains
        Number of chains; 4 if not given.
    random_seed
        None, an integer, a sequence of integers, or a `numpy.random.Generator`.
    model
        The model; the one of the `with` block if not given.
    var_names
        The variables to return; all if not given.
    initvals
        Initial values of free variables, which all chains share.
    progressbar
        Whether to show a progress bar on a terminal.
    idata_kwargs
        {"log_likelihood": True} adds the log likelihood. Further keys are `coords` and `dims`.
    **options
        Keywords of `srmc.sample`, such as `kernel` and `alpha`.

    Returns
    -------
    What `pm.sample` returns: an InferenceData, or a DataTree from PyMC 6 on. The draws of the plain
    chain are in the group posterior_plain; R-hat and effective sample sizes are to be taken from
    there.
    """
    import_arviz()  # before PyMC imports it, which would show ArviZ's FutureWarning
    import pymc as pm

    model = model or pm.Model.get_context(error_if_none=False)
    if not isinstance(model, pm.Model):
        raise TypeError(f"model must be a PyMC model, or that of the context, got {model!r}")
    check_count("draws", draws)
    check_count("tune", tune, at_least=100)
    check_count("chains", 4 if chains is None else chains)
    check_flag("progressbar", progressbar)
    _check_names(model, var_names, initvals)
    seed = _seed(random_seed)
    if not isinstance(idata_kwargs, dict | None):
        raise TypeError(f"idata_kwargs must be a dictionary, got {idata_kwargs!r}")
    more = dict(idata_kwargs or {})
    unknown = [name for name in more if name not in ("log_likelihood", "coords", "dims")]
    if unknown:
        raise TypeError(f"idata_kwargs got an unknown key, {', '.join(unknown)}")
    result = srmc_sample(
        model,
        num_samples=draws,
        num_warmup=tune,
        num_chains=4 if chains is None else chains,
        seed=seed,
        initial_position=None if initvals is None else _start(model, initvals, seed),
        progress=progressbar,
        **{"base": True} | options,
    )
    trace = _trace(model, result, tune, var_names, more)
    if more.get("log_likelihood"):
        trace = pm.compute_log_likelihood(trace, model=model, progressbar=False)
    return trace


def _check_names(model: Any, var_names: Any, initvals: Any) -> None:
    """Raise for names that the model does not have."""
    known = [v.name for v in model.unobserved_RVs]
    if isinstance(var_names, str) or not {*(var_names or ())} <= {*known}:
        raise ValueError(f"var_names must be a list of {', '.join(known)}, got {var_names!r}")
    if initvals is not None and not isinstance(initvals, dict):
        raise TypeError(f"initvals must be a dictionary of values by name, got {initvals!r}")
    known += [v.name for v in model.value_vars]
    unknown = [str(k) for k in initvals or () if getattr(k, "name", k) not in known]
    if unknown:
        raise ValueError(f"initvals must be of {', '.join(known)}, got {', '.join(unknown)}")


def _seed(random_seed: Any) -> int:
    if random_seed is None:
        return int(np.random.default_rng().integers(2**31))
    if isinstance(random_seed, np.random.Generator):
        return int(random_seed.integers(2**31))
    if np.ndim(random_seed):
        return int(np.random.SeedSequence(list(random_seed)).generate_state(1)[0] >> 1)
    check_seed("random_seed", random_seed)
    return int(random_seed)


def _start(model: Any, initvals: dict[Any, Any], seed: int) -> dict[str, Array]:
    """A position from values on the scale of the variables, or of their transforms."""
    from pymc.initial_point import make_initial_point_fn

    point = make_initial_point_fn(model=model, overrides=initvals)(seed)
    return {name: jax.numpy.asarray(x, float) for name, x in point.items()}


def _trace(
    model: Any, result: Result, tune: int, var_names: list[str] | None, more: dict[str, Any]
) -> Any:
    from pymc.backends.arviz import (
        coords_and_dims_for_inferencedata,
        find_constants,
        find_observations,
    )

    arviz = import_arviz()
    coords, dims = coords_and_dims_for_inferencedata(model)
    named = {"coords": coords | more.get("coords", {}), "dims": dims | more.get("dims", {})}
    keep = lambda found: {k: np.asarray(x) for k, x in found.items() if k in (var_names or found)}
    stats = {k: np.asarray(result.stats[k]) for k in STATS if k in result.stats}
    stats["lp"] = _log_density(as_problem(Model(model)), result)
    if "step_size" in result.about["measured"]:
        stats["step_size"] = np.full(stats["lp"].shape, result.about["measured"]["step_size"])
    groups = {
        "posterior": keep(result.draws),
        "sample_stats": stats,
        "observed_data": find_observations(model),
        "constant_data": find_constants(model),
    }
    if result.base is not None:
        groups["posterior_plain"] = keep(result.base)
    groups = {name: group for name, group in groups.items() if group}
    attrs = {
        "inference_library": "srmc",
        "inference_library_version": versions()["srmc"],
        "sampling_time": result.about["seconds"],
        "tuning_steps": tune,
        "srmc_diagnostics": "effective sample sizes and R-hat hold for the group posterior_plain",
    }
    if "InferenceData" not in vars(arviz):
        return arviz.from_dict(groups, attrs={"posterior": attrs}, **named)
    plain = groups.pop("posterior_plain", None)
    trace = arviz.from_dict(**groups, **named, posterior_attrs=attrs)
    if plain is not None:
        trace.add_groups(posterior_plain=arviz.from_dict(plain, **named).posterior)
    return trace


def _log_density(problem: Problem, result: Result) -> np.ndarray:
    """The log density of each draw, on the scale on which it was sampled."""
    assert problem.inverse is not None
    unconstrain = problem.inverse.unconstrain
    draws = {name: np.asarray(result.draws[name]) for name in problem.inverse.names}
    return over_draws(lambda v: problem.logdensity_fn(unconstrain(v)), draws)

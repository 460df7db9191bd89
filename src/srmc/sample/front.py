"""`srmc.sample`: from a model to a result."""

import dataclasses
import difflib
import functools
import inspect
import os
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from typing import Any

import blackjax
import jax
import numpy as np
from blackjax.base import SamplingAlgorithm

from srmc._checks import as_seed, check_flag, check_number
from srmc._files import Place, as_path
from srmc._programs import keep_programs
from srmc._progress import progress_bar
from srmc.kernels.mixed import mixed
from srmc.models.model import Model, as_problem
from srmc.models.problem import without_slashes
from srmc.repel.strength import Strength
from srmc.results.result import Result
from srmc.results.trouble import RunWarning
from srmc.sample.alone import each_alone
from srmc.sample.checkpoint import Checkpoint
from srmc.sample.devices import together
from srmc.sample.outcome import Ending
from srmc.sample.plan import Keep, Plan
from srmc.sample.precision import Aim, longest, looks
from srmc.sample.running import begin, check_names, identity, key_of
from srmc.sample.stop import stops
from srmc.sample.task import Call, dim_of, first_of
from srmc.sample.tune.kernels import as_kernel

# Keywords of other samplers for what is called otherwise here.
ELSEWHERE = {
    "num_samples": ("draws", "num_draws", "samples", "n_samples", "iter_sampling"),
    "num_warmup": ("tune", "warmup", "n_warmup", "burnin", "iter_warmup"),
    "num_chains": ("n_chains",),
    "seed": ("random_seed", "rng_key", "key", "rng"),
    "initial_position": ("initvals", "init", "inits", "init_params", "start"),
    "target_acceptance": ("target_accept", "target_accept_prob", "adapt_delta"),
    "thin": ("thinning",),
    "progress": ("progressbar", "progress_bar", "show_progress"),
}


def sample(
    model: Any,
    *,
    kernel: str | Callable[..., SamplingAlgorithm] | None = None,
    alpha: float | str | Strength = "auto",
    num_warmup: int = 1000,
    num_samples: int = 1000,
    num_chains: int = 4,
    chains: Iterable[int] | None = None,
    seed: int = 0,
    target_error: float | dict[str, float] | None = None,
    max_samples: int | None = None,
    initial_position: Any = None,
    step_size: float | None = None,
    num_integration_steps: int | None = None,
    target_acceptance: float | None = None,
    max_tree_depth: int | None = None,
    metric: str = "diag",
    coordinates: str = "auto",
    shared_history: bool = True,
    repellence: dict[str, Any] | None = None,
    thin: int = 1,
    keep: str | Keep = "draws",
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = False,
    checkpoint_seconds: float = 5.0,
    progress: bool = True,
    **parts: Any,
) -> Result:
    """Sample a model with a self-tuned kernel, then rebalance the draws.

    Parameters
    ----------
    model
        A JAX log density of a position, a NumPyro, PyMC, Bambi or BridgeStan model, a
        `srmc.targets.Target`, or a `srmc.Model`.
    kernel
        "nuts", the default, "hmc", "jittered_hmc", "mala", "mh", "ula" or "uld"; on a discrete
        space "gwg", the default, "dlp", "acs", "dlmc", "path_auxiliary", "gibbs", "flip_mh" or
        "locally_balanced". Or a BlackJAX algorithm, or a function in its form (see
        the how-to on kernels), whose step size and diagonal metric are found in warm-up.
        Pass its other arguments with `functools.partial`.
    alpha
        The strength of repellence. "auto" runs the plain kernel and rebalances its draws
        afterwards. With keep="moments", NUTS, HMC and MALA stay plain and use control variates. If
        draws are too many for memory, or nothing else applies, the chain is repelled with a
        strength measured in warm-up.
        0 is the plain kernel. A positive number repels the chain while it runs, and a guard lowers
        it if the loop heats up. A schedule, such as `srmc.watched(3.0)`, is used unchanged.
    num_warmup
        Number of warm-up steps per chain.
    num_samples
        Number of sampling steps per chain.
    num_chains
        Number of chains.
    seed
        Random seed of the whole run.
    chains
        Run these chains of all `num_chains`, such as [3], each by itself: it starts, tunes and
        draws by the seed and its number alone, whether the others run here, elsewhere or not at
        all. `srmc.merge` joins them to the result of `chains=range(num_chains)`, bit for bit.
        Without `chains`, all tune each other, which is better on one machine. Chains by
        themselves share no history and have the plain coordinates, as each would learn its own.
    target_error
        The largest standard error of a mean, in standard deviations of its coordinate, at which
        the run may end. `{"mean": 0.01, "sd": 0.02, "quantiles": 0.05}` sets separate targets.
        The errors are checked after `num_samples` draws and each time that the number of draws has
        doubled. The run ends when they are small enough and the chains have mixed; its result
        equals that of a run of this length.
    max_samples
        With `target_error`, the largest number of sampling steps per chain; 64 times
        `num_samples` if not given.
    initial_position
        Where chains start: a position, a list of one per chain, or a function of a key. For
        NumPyro and PyMC models "uniform", the default, or "prior".
    step_size
        Step size of the kernel; found in warm-up if not given.
    num_integration_steps
        Number of leapfrog steps of HMC; 10 if not given.
    target_acceptance
        The acceptance rate that warm-up sets the step size for: 0.8 for HMC and NUTS if not given,
        0.574 for MALA, DLP, ACS, DLMC and paths, 0.234 for MH. Raise it if there are divergences.
    max_tree_depth
        The largest tree depth of NUTS; 10 if not given.
    metric
        The metric of HMC and NUTS that warm-up finds: "diag"; "dense", for a moderate number of
        correlated parameters; or "low_rank", for correlations along a few directions of many.
    coordinates
        "auto" learns coordinates in warm-up for NUTS and HMC whose draws are rebalanced, if they
        bring the posterior clearly closer to a Gaussian (see `srmc.learn_coordinates`). "learned"
        does so for every kernel, even for a small gain; "plain" never does. The target and the
        names of its draws are unchanged.
    shared_history
        Whether all chains share one history, or are rebalanced together. This is best if their
        draws are pooled.
    repellence
        Keywords of `srmc.repel` that replace tuned ones. A `surrogate`, as in
        `srmc.paper_settings()`, replaces all of them.
    thin
        Keep every `thin`-th draw.
    keep
        "draws"; or, in constant memory, "moments" (means and variances) or "covariance"; or a
        `srmc.Keep`.
    checkpoint
        A folder, or the URL of one on an object store such as "s3://bucket/run", to which draws
        are written during the run, and from which it can be resumed. Each of `chains` has a folder
        of its own in it, so that all jobs can be given the same one.
    resume
        Whether to continue the run in `checkpoint`, if there is one. A larger `num_samples` than
        before extends it.
    checkpoint_seconds
        Time between two commits to the checkpoint.
    progress
        Whether to show a progress bar on a terminal.
    **parts
        Fields of `srmc.Model` (`data`, `space`, `differences`, `feature`, `dims`, `coords`) and of
        `srmc.Keep` (`statistics`, `base`) may be given directly.

    Notes
    -----
    With `space={"z": srmc.Binary()}`, a position is a dictionary of which these blocks are discrete
    and all others continuous: `srmc.kernels.mixed` draws each given the others.

    Ctrl-C or SIGTERM ends a run early; the result then has what was drawn, not rebalanced. A
    second one, or one in warm-up, raises KeyboardInterrupt.
    """
    keep_programs()
    whole, kept_parts = _parts(model, keep, thin, parts)
    if isinstance(whole.space, Mapping):
        kernel, alpha = _by_blocks(whole.space, kernel, alpha)
    space = whole.own_space
    aim = _aim(target_error, max_samples)
    plan = Plan(
        kernel=as_kernel(("nuts" if space is None else "gwg") if kernel is None else kernel),
        alpha=alpha,
        num_warmup=num_warmup,
        num_samples=num_samples if aim is None else longest(num_samples, max_samples),
        num_chains=num_chains,
        seed=as_seed("seed", seed),
        step_size=step_size,
        num_integration_steps=num_integration_steps,
        target_acceptance=target_acceptance,
        max_tree_depth=max_tree_depth,
        metric=metric,
        shared_history=shared_history,
        repellence=repellence,
        keep=kept_parts,
        space=space,
        feature=whole.feature,
        coordinates=coordinates,
        chains=_chains(chains, target_error),
    )
    tuner = plan.tuner(whole.own_differences)
    check_number("checkpoint_seconds", checkpoint_seconds, above=0.0)
    check_flag("progress", progress)
    check_flag("resume", resume)
    folder = None if checkpoint is None else as_path("checkpoint", checkpoint)
    if resume and folder is None:
        raise ValueError("resume=True needs checkpoint, the folder of the run to go on with")
    problem = as_problem(whole, initial_position)
    with progress_bar(progress and jax.process_index() == 0) as show, stops() as stop:
        show("warm-up", 0, None, "compiling")
        call = Call(problem, plan, tuner, checkpoint_seconds, show, stop)
        if plan.chains is None:
            result, lost = _together(call, aim, int(num_samples), folder, resume)
        else:
            listed = isinstance(initial_position, list)
            result, lost = each_alone(call, folder, resume, listed)
    for text in result.warnings:
        warnings.warn(text, RunWarning, stacklevel=2)
    result.about["warnings"] += lost  # which was warned of when it happened
    return result


def _together(
    call: Call, aim: Aim | None, num_samples: int, folder: Place | None, resume: bool
) -> tuple[Result, list[str]]:
    """The result of chains that run in lockstep, and what was lost."""
    plan = call.plan
    began = time.perf_counter()
    start_key, *keys = jax.random.split(key_of(plan.seed), 4)
    positions = call.problem.starts(start_key, plan.num_chains)
    call = call._replace(problem=without_slashes(call.problem, first_of(positions)))
    check_names(call, positions)
    dim = dim_of(positions)
    plan.check_room(dim, on_disk=folder is not None)
    lengths = looks(plan, None if aim is None else num_samples, dim)
    plan = dataclasses.replace(plan, num_samples=lengths[-1])
    call = call._replace(plan=plan)
    with ExitStack() as held:
        store = None
        if folder is not None:  # which this process then holds
            record, fixed = identity(call, positions), plan.fixed_length(dim)
            store = together(lambda: Checkpoint(folder, record, resume, fixed))
            held.callback(store.close)
        begun = begin(call, keys, positions, store, lengths)
        result = Ending(call, begun, lengths, began).result(aim)
    return result, [store.lost] if store and store.lost else []


def _by_blocks(space: Mapping[str, Any], kernel: Any, alpha: Any) -> tuple[Any, float]:
    """The kernel of a position with discrete blocks, of which nothing is rebalanced."""
    if isinstance(kernel, str) and kernel != "nuts":
        raise ValueError(
            f"kernel {kernel!r} is not for several blocks; give a BlackJAX algorithm that takes "
            "step_size and inverse_mass_matrix, for the continuous ones"
        )
    if not (alpha == "auto" or (isinstance(alpha, int | float) and alpha == 0)):
        raise ValueError(f"alpha must be 0 with several blocks, which are not repelled: {alpha!r}")
    continuous = blackjax.nuts if kernel in (None, "nuts") else kernel
    return functools.partial(mixed, space=dict(space), continuous=continuous), 0.0


def _chains(chains: Any, target_error: Any) -> tuple[int, ...] | None:
    """The chains to be run by themselves, if any."""
    if chains is None:
        return None
    if isinstance(chains, str) or not isinstance(chains, Iterable):
        raise TypeError(
            "chains must be a list of chains that run by themselves, such as [3], got "
            f"{chains!r}; num_chains is their number"
        )
    if target_error is not None:
        raise ValueError("target_error looks at all chains at once; with chains, give num_samples")
    return tuple(n.item() if isinstance(n, np.integer) else n for n in chains)


def _aim(target_error: Any, max_samples: int | None) -> Aim | None:
    """The errors to go on to, if any."""
    if max_samples is not None and target_error is None:
        raise ValueError("max_samples needs target_error; without it num_samples is the length")
    return None if target_error is None else Aim.of(target_error)


def _parts(model: Any, keep: str | Keep, thin: int, parts: dict[str, Any]) -> tuple[Model, Keep]:
    """The model and what is kept, from however they were given."""
    fields = [field.name for field in dataclasses.fields(Model)[1:]]
    of_model = {k: v for k, v in parts.items() if k in fields}
    of_keep = {k: v for k, v in parts.items() if k not in of_model}
    unknown = [k for k in of_keep if k not in ("statistics", "base")]
    if unknown:
        names = inspect.signature(sample).parameters
        known = [ours for ours, theirs in ELSEWHERE.items() if unknown[0] in theirs]
        near = known or difflib.get_close_matches(unknown[0], names, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise TypeError(f"sample got an unknown keyword, {unknown[0]}{hint}")
    if isinstance(model, Model):
        if of_model:
            raise ValueError(f"{', '.join(of_model)} must be in the srmc.Model that is given")
    else:
        model = Model(model, **of_model)
    if isinstance(keep, Keep):
        if of_keep or thin != 1:
            raise ValueError(f"{', '.join(of_keep) or 'thin'} must be in the srmc.Keep of keep")
        return model, keep
    return model, Keep(keep=keep, thin=thin, **of_keep)

"""The two targets and two samplers of the continuous experiments (app:simulation_setup)."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from blackjax.base import SamplingAlgorithm

import srmc
from srmc.repel import RepelInfo, RepelState
from srmc.targets import Target
from srmc.types import Array, Bool, Float, Int, PRNGKey, PyTree
from srmc_studies.paper._chains import Kept, Setting, Trial, averages
from srmc_studies.paper._numbers import running_errors
from srmc_studies.paper._progress import OnBlock, no_report
from srmc_studies.paper._truth import Truth, posterior_truth

Block: TypeAlias = tuple[str, str]  # the name of a target, and that of a sampler
RepelOptions: TypeAlias = dict[str, Any]  # keywords of `srmc.repel`

BURN_IN = 0.3
LEAPFROGS = 10
STEP_SIZES: dict[Block, float] = {
    ("gaussian", "mala"): 0.01,
    ("gaussian", "hmc"): 0.2,
    ("logistic", "mala"): 0.005,
    ("logistic", "hmc"): 0.03,
}


class Problem(NamedTuple):
    """A target with its truth, and a sampler with the paper's step size.

    build
        Builds the sampler from the keywords of `srmc.repel`.
    leapfrogs
        The number of the paper's steps, and of gradients, per transition: 10 for HMC, 1 for MALA.
    """

    kernel: str
    target: Target
    truth: Truth
    build: Callable[..., SamplingAlgorithm]
    leapfrogs: int

    def starts(self, replicates: int, seed: int) -> tuple[Float[Array, "replicate d"], PRNGKey]:
        """Exact draws to start from, and the key to run with."""
        pick_key, run_key = jax.random.split(jax.random.key(seed))
        picks = jax.random.randint(pick_key, (replicates,), 0, len(self.truth.draws))
        return jnp.asarray(self.truth.draws, float)[picks], run_key


def title(block: Block) -> str:
    """The name of a problem in tables and pictures.

    >>> title(("logistic", "hmc"))
    'logistic, HMC'
    """
    return f"{block[0]}, {block[1].upper()}"


@functools.cache
def _target(name: str, size: str) -> tuple[Target, Truth]:
    if name == "logistic":
        target = srmc.targets.logistic()
        return target, posterior_truth(target, 2**18 if size == "full" else 2**15)
    target = srmc.targets.gaussian()
    assert target.sample is not None
    draws = np.asarray(jax.jit(jax.vmap(target.sample))(jax.random.split(jax.random.key(1), 4096)))
    zeros = np.zeros(10)
    return target, Truth(zeros, zeros, 10.0, draws)


def problem(block: Block, size: str) -> Problem:
    """The target, "gaussian" or "logistic", and the sampler, "mala" or "hmc", of a block."""
    name, kernel = block
    target, truth = _target(name, size)
    step_size = STEP_SIZES[block]
    if kernel == "mala":
        build = functools.partial(srmc.mala, target.logdensity_fn, step_size)
        return Problem(kernel, target, truth, build, 1)
    build = functools.partial(srmc.hmc, target.logdensity_fn, step_size, LEAPFROGS)
    return Problem(kernel, target, truth, build, LEAPFROGS)


class Errors(NamedTuple):
    """Squared errors of the mean since burn-in, and what they cost.

    steps
        Steps since burn-in at the end of each block, counted as the paper does.
    gradients
        Gradients per step; a Hessian-vector product counts as two.
    acceptance
        The acceptance rate of each replicate.
    alpha
        The average strength in the last block.
    exponent
        The median of alpha |theta·s| over the averages of all blocks.
    seconds
        Processor time per step, counted as the paper does.
    """

    errors: Float[np.ndarray, "setting replicate block"]
    steps: Int[np.ndarray, " block"]
    gradients: Float[np.ndarray, " setting"]
    acceptance: Float[np.ndarray, "setting replicate"]
    alpha: Float[np.ndarray, " setting"]
    exponent: Float[np.ndarray, " setting"]
    seconds: float

    @property
    def last(self) -> Float[np.ndarray, "setting replicate"]:
        """Errors at the end of the run."""
        return self.errors[..., -1]


def measure(
    problem: Problem,
    options: Callable[[Setting], RepelOptions],
    settings: PyTree[Float[Array, " setting"]],
    trial: Trial,
    on_block: OnBlock = no_report,
) -> Errors:
    """Measure the errors of chains that start from exact draws and repel by `options(setting)`."""

    def build(setting: Setting) -> SamplingAlgorithm:
        return problem.build(**options(setting))

    start, run_key = problem.starts(trial.replicates, trial.seed)
    count = len(jax.tree.leaves(settings)[0])
    found = averages(
        build,
        settings,
        jnp.broadcast_to(start[None], (count, *start.shape)),
        run_key,
        trial.plan(on_block, problem.leapfrogs),
        _record,
    )
    kept = found.kept
    errors = running_errors(kept["x"], problem.truth.mean, BURN_IN)
    return Errors(
        errors,
        trial.steps // trial.blocks * np.arange(1, errors.shape[-1] + 1),
        kept["gradients"].mean(axis=(1, 2)) / problem.leapfrogs,
        kept["acceptance"].mean(axis=2),
        kept["alpha"][:, :, -1].mean(axis=1),
        _median(kept["exponent"]),
        found.seconds / problem.leapfrogs,
    )


def _median(x: Float[np.ndarray, "setting replicate block"]) -> Float[np.ndarray, " setting"]:
    """The median over replicates and blocks; NaN counts as infinite."""
    finite = np.nan_to_num(x.astype(float), nan=np.inf, posinf=np.inf)
    median: Float[np.ndarray, " setting"] = np.median(finite, axis=(1, 2))
    return median


def _record(state: RepelState, info: RepelInfo) -> Kept:
    return {
        "x": state.position,
        "gradients": info.gradients + info.hvps,
        "acceptance": info.inner_info.acceptance_rate,
        "alpha": state.alpha,
        "exponent": info.exponent,
    }


def diverged(
    errors: Float[np.ndarray, " replicate"], problem: Problem
) -> Bool[np.ndarray, " replicate"]:
    """Whether the error of each run exceeds that of a single exact draw of the target."""
    return ~(errors <= problem.truth.variance)

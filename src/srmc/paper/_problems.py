"""The two targets and two samplers of the continuous experiments (app:simulation_setup)."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import srmc
from srmc.paper._chains import averages
from srmc.paper._numbers import running_errors
from srmc.paper._truth import Truth, posterior_truth
from srmc.targets import Target

BURN_IN = 0.3
LEAPFROGS = 10
STEP_SIZES = {
    ("gaussian", "mala"): 0.01,
    ("gaussian", "hmc"): 0.2,
    ("logistic", "mala"): 0.005,
    ("logistic", "hmc"): 0.03,
}


class Problem(NamedTuple):
    """A target with its truth, and a sampler with the printed step size.

    build
        The sampler, given the keywords of `srmc.repel`.
    leapfrogs
        Gradients of a step, as the paper counts steps: an HMC iteration is 10 of them.
    """

    name: str
    kernel: str
    target: Target
    truth: Truth
    build: Callable[..., Any]
    leapfrogs: int

    @property
    def title(self) -> str:
        return f"{self.name}, {self.kernel.upper()}"


@functools.cache
def _target(name: str, size: str) -> tuple[Target, Truth]:
    if name == "logistic":
        target = srmc.targets.logistic()
        return target, posterior_truth(target, 2**18 if size == "full" else 2**15)
    target = srmc.targets.gaussian()
    sample: Any = target.sample
    draws = np.asarray(jax.jit(jax.vmap(sample))(jax.random.split(jax.random.key(1), 4096)))
    zeros = np.zeros(10)
    return target, Truth(zeros, zeros, 10.0, draws)


def problem(name: str, kernel: str, size: str) -> Problem:
    """One of the four: "gaussian" or "logistic", "mala" or "hmc"."""
    target, truth = _target(name, size)
    step_size = STEP_SIZES[name, kernel]
    if kernel == "mala":
        build = functools.partial(srmc.mala, target.logdensity_fn, step_size)
        return Problem(name, kernel, target, truth, build, 1)
    build = functools.partial(srmc.hmc, target.logdensity_fn, step_size, LEAPFROGS)
    return Problem(name, kernel, target, truth, build, LEAPFROGS)


class Errors(NamedTuple):
    """Squared errors of the mean since burn-in, (setting, replicate, block), and what they cost.

    steps
        Steps since burn-in at the end of each block, as the paper counts them.
    gradients, acceptance
        Gradients of a step, a Hessian-vector product counted twice, and the acceptance rate of
        each replicate.
    alpha, exponent
        The strength of the last block, and the median of alpha |theta·s| over blocks' averages.
    seconds
        Processor time of a step, as the paper counts steps.
    """

    errors: np.ndarray
    steps: np.ndarray
    gradients: np.ndarray
    acceptance: np.ndarray
    alpha: np.ndarray
    exponent: np.ndarray
    seconds: float

    @property
    def last(self) -> np.ndarray:
        """Errors at the end, (setting, replicate)."""
        return self.errors[..., -1]


def measure(
    problem: Problem,
    options: Callable[[Any], dict[str, Any]],
    settings: Any,
    *,
    steps: int,
    replicates: int,
    blocks: int,
    seed: int,
    light: bool = False,
    on_block: Callable[[int], None] = lambda n: None,
) -> Errors:
    """Errors of repelled chains from draws of the target, for `options(setting)` of each setting.

    `steps` is the length of a run with burn-in, as the paper counts steps.
    """
    count = len(jax.tree.leaves(settings)[0])
    pick_key, run_key = jax.random.split(jax.random.key(seed))
    picks = jax.random.randint(pick_key, (replicates,), 0, len(problem.truth.draws))
    start = jnp.asarray(problem.truth.draws, float)[picks]
    found = averages(
        lambda setting: problem.build(**options(setting)),
        settings,
        jnp.broadcast_to(start[None], (count, *start.shape)),
        run_key,
        num_blocks=blocks,
        block=steps // problem.leapfrogs // blocks,
        record=_record,
        light=light,
        on_block=on_block,
    )
    errors = running_errors(found.kept["x"], problem.truth.mean, BURN_IN)
    after = errors.shape[-1]
    return Errors(
        errors,
        steps // blocks * np.arange(1, after + 1),
        found.kept["gradients"].mean(axis=(1, 2)) / problem.leapfrogs,
        np.mean(found.kept["acceptance"], axis=2),
        found.kept["alpha"][:, :, -1].mean(axis=1),
        _median(found.kept["exponent"]),
        found.seconds / problem.leapfrogs,
    )


def _median(x: np.ndarray) -> np.ndarray:
    """Over replicates and blocks; what is not a number is infinite."""
    return np.median(np.nan_to_num(x.astype(float), nan=np.inf, posinf=np.inf), axis=(1, 2))


def _record(state: Any, info: Any) -> dict[str, Any]:
    return {
        "x": state.position,
        "gradients": info.gradients + info.hvps,
        "acceptance": info.inner_info.acceptance_rate,
        "alpha": state.alpha,
        "exponent": info.exponent,
    }


def diverged(errors: np.ndarray, problem: Problem) -> np.ndarray:
    """Runs whose mean is worse than a single exact draw of the target."""
    return ~(errors <= problem.truth.variance)

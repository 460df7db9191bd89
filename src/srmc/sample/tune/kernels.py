"""The kernels of `srmc.sample`, by name or of a user's own, and how each is warmed up.

`KERNELS` is what warm-up, the plan and the command line know of a kernel.
"""

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any

import blackjax
import jax
import numpy as np
from blackjax.base import SamplingAlgorithm

from srmc.kernels import builders, plain
from srmc.kernels.builders import rescaled
from srmc.repel.kernel import kernel_name
from srmc.repel.repel import repel
from srmc.sample.tune import rule
from srmc.types import Array, ArrayLike, LogDensity

METRICS = ("diag", "dense", "low_rank")


@dataclasses.dataclass(frozen=True, eq=False)
class Recipe:
    """How a kernel is warmed up, and what it can do."""

    build: Callable[..., SamplingAlgorithm]
    acceptance: float = 0.5  # rate that warm-up aims at, if it determines anything
    step_gradients: float = 1  # approximate cost of a step; a density counts as half a gradient
    # What finds the step size in place of the kernel: another builder, or what BlackJAX adapts.
    pilot: Callable[..., SamplingAlgorithm] | None = None
    has_metric: bool = False  # whether window adaptation finds the step size and the metric
    adapts_itself: bool = False  # whether it can warm up in the program that samples
    has_leapfrogs: bool = False  # whether it takes a number of leapfrog steps
    caches_score: bool = False  # whether its state has the score of its position
    is_exact: bool = True  # whether it leaves the target invariant
    on_sites: bool = False  # whether it is for discrete spaces
    # On a discrete space: what the acceptance rate determines, its first value, and its bounds.
    tuned: tuple[str, float, tuple[float, float]] | None = None

    @property
    def takes_step_size(self) -> bool:
        """Whether a user can give the step size."""
        return not self.on_sites or (self.tuned is not None and self.tuned[0] == "step_size")

    @property
    def takes_acceptance(self) -> bool:
        """Whether a user can give the acceptance rate to aim at."""
        return self.is_exact and (not self.on_sites or self.tuned is not None)


def _one_leapfrog(
    logdensity_fn: LogDensity, step_size: ArrayLike, scale: Array, **options: Any
) -> SamplingAlgorithm:
    return builders.hmc(logdensity_fn, step_size, 1, scale**2, **options)


def _jittered_hmc(
    logdensity_fn: LogDensity,
    step_size: ArrayLike,
    num_integration_steps: int,
    inverse_mass_matrix: Array,
    **options: Any,
) -> SamplingAlgorithm:
    return repel(
        blackjax.dynamic_hmc,
        logdensity_fn,
        step_size=step_size,
        inverse_mass_matrix=inverse_mass_matrix,
        integration_steps_fn=lambda key: jax.random.randint(key, (), 1, 2 * num_integration_steps),
        **options,
    )


_UNADJUSTED: dict[str, Any] = {"acceptance": rule.UNADJUSTED_ACCEPTANCE, "is_exact": False}
_BY_WINDOWS: dict[str, Any] = {"step_gradients": 10, "has_metric": True, "caches_score": True}
_HMC = _BY_WINDOWS | {"acceptance": 0.8, "pilot": blackjax.hmc, "has_leapfrogs": True}
_SITES: dict[str, Any] = {"on_sites": True}
_TUNED = _SITES | {"acceptance": 0.574}

KERNELS = {
    "mh": Recipe(builders.mh, 0.234, 0.5),
    "ula": Recipe(builders.ula, pilot=builders.mala, **_UNADJUSTED),
    "uld": Recipe(builders.uld, pilot=_one_leapfrog, **_UNADJUSTED),
    "mala": Recipe(builders.mala, 0.574, caches_score=True),
    "hmc": Recipe(builders.hmc, adapts_itself=True, **_HMC),
    "jittered_hmc": Recipe(_jittered_hmc, **_HMC),
    "nuts": Recipe(builders.nuts, 0.8, pilot=blackjax.nuts, adapts_itself=True, **_BY_WINDOWS),
    "gwg": Recipe(builders.gwg, **_SITES),
    "dlp": Recipe(builders.dlp, tuned=("step_size", 0.5, rule.DLP_STEPS), **_TUNED),
    "acs": Recipe(builders.acs, tuned=("step_size", 0.5, rule.DLP_STEPS), **_TUNED),
    "dlmc": Recipe(builders.dlmc, tuned=("step_size", 0.5, rule.DLMC_STEPS), **_TUNED),
    "path_auxiliary": Recipe(
        builders.path_auxiliary, tuned=("path_length", rule.PATH_START, (1.0, np.inf)), **_TUNED
    ),
    "gibbs": Recipe(builders.gibbs, **_SITES),
    "flip_mh": Recipe(builders.flip_mh, **_SITES),
    "locally_balanced": Recipe(builders.locally_balanced, **_SITES),
}
"""The target acceptance rates are the theoretical optima for random walks (Roberts, Gelman and
Gilks, 1997), Langevin proposals (Roberts and Rosenthal, 1998) and locally balanced proposals on
discrete spaces (Sun, Dai and Schuurmans, 2022), and Stan's default for HMC and NUTS."""


def named(has: Callable[[Recipe], bool]) -> tuple[str, ...]:
    """The names of the kernels of which this holds."""
    return tuple(name for name, recipe in KERNELS.items() if has(recipe))


@dataclasses.dataclass(frozen=True, eq=False)
class OwnKernel:
    """A kernel of a user's own, whose step size and diagonal metric are found in warm-up.

    `algorithm` is a BlackJAX algorithm, or a function of a log density, `step_size` and maybe
    `inverse_mass_matrix` that returns a `blackjax.SamplingAlgorithm`. Other arguments are given by
    `functools.partial`. Its info must have an `acceptance_rate`.
    """

    algorithm: Callable[..., SamplingAlgorithm]

    def __post_init__(self) -> None:
        if not callable(self.algorithm):
            raise TypeError(
                f"kernel must be a name or a BlackJAX algorithm, got {self.algorithm!r}"
            )
        try:
            names = self._arguments
        except ValueError:
            raise ValueError(
                f"kernel must be a function with a signature, got {self.algorithm!r}"
            ) from None
        found = ("step_size", "inverse_mass_matrix")
        missing = [n for n, p in names.items() if p.default is p.empty and n not in found]
        if "step_size" not in names:
            raise ValueError(
                f"kernel {self} must take step_size, which warm-up finds, but it takes "
                f"{', '.join(names) or 'nothing'}; srmc.repel runs any kernel"
            )
        if missing:
            raise ValueError(
                f"kernel {self} needs {', '.join(missing)}, too; give it by functools.partial"
            )

    @functools.cached_property
    def _core(self) -> tuple[Any, set[str]]:
        """The algorithm without what `functools.partial` gives, and the names of that."""
        algorithm, given = self.algorithm, set[str]()
        while isinstance(algorithm, functools.partial):
            given |= {*algorithm.keywords}
            algorithm = algorithm.func
        return inspect.unwrap(algorithm), given

    @property
    def _arguments(self) -> dict[str, inspect.Parameter]:
        """What the algorithm takes beside the log density, and is not given yet."""
        core, given = self._core
        found = inspect.signature(getattr(core, "differentiable", core)).parameters
        several = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
        _, *rest = (n for n, p in found.items() if p.kind not in several)
        return {n: found[n] for n in rest if n not in given}

    def build(
        self, logdensity_fn: LogDensity, step_size: ArrayLike, scale: Array, **options: Any
    ) -> SamplingAlgorithm:
        """The kernel, in units of `scale` for each coordinate, repelled."""
        options["step_size"] = step_size
        if "inverse_mass_matrix" in self._arguments:
            return repel(self.algorithm, logdensity_fn, inverse_mass_matrix=scale**2, **options)
        return repel(rescaled(self.algorithm, scale), logdensity_fn, **options)

    @functools.cached_property
    def recipe(self) -> Recipe:
        """How it is warmed up. Its cost, and whether it caches gradients, are not known."""
        like = "hmc" if "inverse_mass_matrix" in self._arguments else "mala"
        return Recipe(self.build, KERNELS[like].acceptance, rule.CHEAP_STEP)

    def __str__(self) -> str:
        return kernel_name(self._core[0])


def as_kernel(kernel: Any) -> str | OwnKernel:
    """The name of a kernel that srmc knows, however it was given, or a kernel of the user's own."""
    if isinstance(kernel, str | OwnKernel):
        return kernel
    for name in KERNELS:
        if any(kernel is getattr(home, name, None) for home in (blackjax, plain, builders)):
            return name
    return OwnKernel(kernel)


def recipe_of(kernel: str | OwnKernel) -> Recipe:
    """What is known of a kernel; nothing of a name that is not known."""
    if isinstance(kernel, OwnKernel):
        return kernel.recipe
    return KERNELS.get(kernel, Recipe(repel))

"""Kernels that a user brings: BlackJAX's algorithms, and functions in their form."""

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any

import blackjax
from blackjax.base import SamplingAlgorithm

from srmc.kernels import builders, plain
from srmc.kernels.builders import rescaled
from srmc.repel.kernel import kernel_name
from srmc.repel.repel import repel
from srmc.sample.tune import rule
from srmc.sample.tune.adapt import Recipe
from srmc.types import Array, ArrayLike, LogDensity

FOUND = ("step_size", "inverse_mass_matrix")  # what warm-up finds
NAMES = (
    *("nuts", "hmc", "mala", "ula", "uld", "mh"),
    *("gwg", "dlp", "dlmc", "path_auxiliary", "gibbs", "flip_mh", "locally_balanced"),
)


@dataclasses.dataclass(frozen=True, eq=False)
class OwnKernel:
    """A kernel of a user's own, whose step size and diagonal metric are found in warm-up.

    algorithm
        A BlackJAX algorithm, or a function of a log density, `step_size` and maybe
        `inverse_mass_matrix` that returns a `blackjax.SamplingAlgorithm`. Other arguments are
        given by `functools.partial`. Its info must have an `acceptance_rate`.
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
        missing = [n for n, p in names.items() if p.default is p.empty and n not in FOUND]
        if "step_size" not in names:
            raise ValueError(
                f"kernel {self} must take step_size, which warm-up finds, but it takes "
                f"{', '.join(names) or 'nothing'}; srmc.repel runs any kernel"
            )
        if missing:
            raise ValueError(
                f"kernel {self} needs {', '.join(missing)}, too; give it by functools.partial"
            )

    @property
    def _arguments(self) -> dict[str, inspect.Parameter]:
        """What the algorithm takes beside the log density, and is not given yet."""
        algorithm, given = self.algorithm, set[str]()
        while isinstance(algorithm, functools.partial):
            given |= {*algorithm.keywords}
            algorithm = algorithm.func
        core = inspect.unwrap(algorithm)
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
        return Recipe(self.build, self.build, rule.ACCEPTANCE[like], rule.CHEAP_STEP, False)

    def __str__(self) -> str:
        algorithm = self.algorithm
        while isinstance(algorithm, functools.partial):
            algorithm = algorithm.func
        return kernel_name(inspect.unwrap(algorithm))


def as_kernel(kernel: Any) -> str | OwnKernel:
    """The name of a kernel that srmc knows, however it was given, or a kernel of the user's own."""
    if isinstance(kernel, str):
        return kernel
    for name in NAMES:
        if any(kernel is getattr(home, name, None) for home in (blackjax, plain, builders)):
            return name
    if isinstance(kernel, OwnKernel):
        return kernel
    return OwnKernel(kernel)

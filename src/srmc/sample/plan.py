"""The settings of a call of `srmc.sample`, checked."""

import dataclasses
import os
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from srmc._checks import (
    check_count,
    check_flag,
    check_number,
    check_option,
    is_concrete,
)
from srmc.kernels.discrete.changes import Differences
from srmc.kernels.discrete.space import Space
from srmc.repel.repel import check_options
from srmc.repel.strength import Strength
from srmc.sample.identity import describe
from srmc.sample.stored import IN_MEMORY
from srmc.sample.tune.continuous import Continuous
from srmc.sample.tune.discrete import Discrete
from srmc.sample.tune.kernels import KERNELS, METRICS, OwnKernel, Recipe, named, recipe_of
from srmc.sample.tune.tuner import Alpha, Tuner, check_alpha
from srmc.types import Array

MOST_WARMUP = 10**7  # largest number of warm-up steps; their schedule is a list
MOST_DEPTH = 20  # largest tree depth of NUTS
ROW = 4  # smallest number of bytes per stored value
STATISTICS = 13  # values stored per draw in addition to its coordinates
LEAST_WARMUP = 100  # smallest number of warm-up steps; fewer do not find a step size
SITE_OPTIONS = ("feature", "differences", "preconditioner", "bend")  # of `repel` on a space


@dataclasses.dataclass(frozen=True)
class Keep:
    """What to keep of a run.

    keep
        "draws"; or, in memory that does not grow, "moments" (means and variances) or
        "covariance".
    thin
        Keep every `thin`-th draw.
    statistics
        A function of a draw's values by name that returns more values by name.
    base
        Whether to keep moments of the plain kernel's draws as well, which repellence in the
        moving frame does not change. Where draws are kept, those of the plain kernel always are.
    """

    keep: str = "draws"
    thin: int = 1
    statistics: Callable[[dict[str, Array]], dict[str, Array]] | None = None
    base: bool = False

    def __post_init__(self) -> None:
        _make_plain(self)
        check_option("keep", self.keep, ("draws", "moments", "covariance"))
        check_count("thin", self.thin)
        if self.statistics is not None and not callable(self.statistics):
            raise TypeError(
                f"statistics must be a function of a draw's values, got {self.statistics!r}"
            )
        check_flag("base", self.base)


@dataclasses.dataclass(frozen=True)
class Plan:
    """The settings of a run; the fields are keywords of `srmc.sample`."""

    kernel: str | OwnKernel
    alpha: Alpha
    num_warmup: int
    num_samples: int
    num_chains: int
    seed: int
    step_size: float | None
    num_integration_steps: int | None
    shared_history: bool
    repellence: dict[str, Any] | None
    keep: Keep
    space: Space | None
    target_acceptance: float | None = None
    max_tree_depth: int | None = None
    metric: str = "diag"
    feature: str | None = None
    coordinates: str = "auto"
    chains: tuple[int, ...] | None = None

    @property
    def num_together(self) -> int:
        """The number of chains that run in lockstep: all, or 1 if each runs by itself."""
        return self.num_chains if self.chains is None else 1

    @property
    def num_draws(self) -> int:
        """The number of draws per chain that are kept."""
        return self.num_samples // self.keep.thin

    @property
    def is_auto(self) -> bool:
        return isinstance(self.alpha, str)

    @property
    def is_plain(self) -> bool:
        """Whether nothing repels the draws."""
        given = isinstance(self.alpha, float | int) and self.alpha == 0
        return given and (self.repellence is None or "alpha" not in self.repellence)

    @property
    def is_replaced(self) -> bool:
        """Whether `repellence` replaces all tuned settings: they belong to the tuned surrogate."""
        return self.repellence is not None and "surrogate" in self.repellence

    def rebalances(self, dim: int) -> bool:
        """Whether the plain kernel runs, and its draws are rebalanced or resampled in the end.

        Draws that would not fit into memory are repelled as they are made.
        """
        count = self.num_draws * self.num_chains
        is_open = self.is_auto and self.repellence is None and self.keep.keep == "draws"
        return is_open and 8 * 2 * dim * count <= IN_MEMORY  # draws and scores, in bytes

    @property
    def controls(self) -> bool:
        """Whether the plain kernel runs, and moments are kept with those of its cached scores."""
        is_open = self.is_auto and self.repellence is None and self.keep.keep == "moments"
        return is_open and self.space is None and recipe_of(self.kernel).caches_score

    def fixed_length(self, dim: int) -> str | None:
        """Why a run that is resumed cannot have more samples than were planned; None if it can."""
        if self.keep.keep != "draws":
            return "the batches of its moments depend on num_samples"
        if self.rebalances(dim) or self.is_plain or self.is_replaced:
            return None
        return "the loop that repels its draws is tuned for num_samples"

    def check_alone(self, dim: int) -> None:
        """Raise if chains that run by themselves would share a history, or tune for each other."""
        if self.chains is None:
            return
        if jax.process_count() > 1:
            raise ValueError("chains is for processes that know nothing of each other")
        shares_nothing = self.is_plain or self.controls or self.rebalances(dim)
        if self.shared_history and not shares_nothing:
            raise ValueError(
                "chains needs chains that share nothing, but these would share a history: give "
                "shared_history=False, or alpha=0"
            )

    def check_room(self, dim: int, on_disk: bool) -> None:
        """Raise if what is kept of draws with `dim` coordinates cannot fit into memory."""
        draws = self.num_draws if self.keep.keep == "draws" and not on_disk else 1
        count = self.num_chains if self.chains is None else len(self.chains)
        size = ROW * (dim + STATISTICS) * draws * count
        memory = memory_size()
        if size > memory:
            shorter = "num_samples" if draws > 1 else "num_chains"
            raise ValueError(
                f"{shorter}={getattr(self, shorter)} is too large: {draws:,} draws of "
                f"{self.num_chains:,} chains with {dim:,} coordinates take {size / 1e9:,.0f} GB, "
                f"and this machine has {memory / 1e9:,.0f} GB; use fewer, thin, "
                'keep="moments", or a checkpoint, which holds draws on disk'
            )
        between = ROW * STATISTICS * self.keep.thin * self.num_together
        if between > memory:
            raise ValueError(
                f"thin={self.keep.thin} is too large: the statistics of the steps between two "
                f"draws of {self.num_together:,} chains take {between / 1e9:,.0f} GB, and this "
                f"machine has {memory / 1e9:,.0f} GB; thin less"
            )

    def tuner(self, differences: Differences | None = None) -> Tuner:
        """The tuner of the kernel."""
        if self.space is None:
            return Continuous(
                self.kernel,
                self.num_integration_steps,
                self.step_size,
                target_acceptance=self.target_acceptance,
                max_tree_depth=self.max_tree_depth,
                metric=self.metric,
            )
        assert isinstance(self.kernel, str)
        return Discrete(
            self.kernel,
            self.space,
            differences,
            self.step_size,
            self.target_acceptance,
            self.feature or (None if self.is_replaced else (self.repellence or {}).get("feature")),
        )

    def settings(self) -> dict[str, Any]:
        """The plan as plain values, for files."""
        given = self.repellence
        shown = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return shown | {
            "kernel": str(self.kernel),
            "alpha": describe(self.alpha) if isinstance(self.alpha, Strength) else self.alpha,
            "thin": self.keep.thin,
            "keep": self.keep.keep,
            "base": self.keep.base,
            "repellence": None if given is None else {k: describe(v) for k, v in given.items()},
            "space": None if self.space is None else str(self.space),
            "chains": None if self.chains is None else list(self.chains),
        }

    def __post_init__(self) -> None:
        """Raise an error that names the argument if the plan cannot be carried out."""
        _make_plain(self)
        if self.space is not None and not isinstance(self.kernel, str):
            raise ValueError(f"kernel {self.kernel} is not for {self.space}; give its name")
        if self.space is None and recipe_of(self.kernel).on_sites:
            raise ValueError(
                f"kernel {self.kernel!r} is for discrete spaces; say which with space, such as "
                "srmc.Binary()"
            )
        self._check_numbers()
        self._check_kernel()
        check_flag("shared_history", self.shared_history)
        self._check_coordinates()
        self._check_chains()
        given = self.repellence
        if given is not None and not isinstance(given, dict):
            raise TypeError(f"repellence must be a dict of keywords of repel, got {given!r}")
        check_options(given or {}, SITE_OPTIONS)
        if given is not None and "alpha" in given and not self.is_replaced and self.space is None:
            raise ValueError(
                f"alpha in repellence must be given as sample(alpha={given['alpha']!r}), unless "
                "repellence has a surrogate and so replaces all that is tuned"
            )
        if self.keep.base and self.space is not None:
            raise ValueError("base=True needs a continuous kernel; here no base chain is run")
        if self.keep.base and self.is_replaced and (given or {}).get("frame") != "moving":
            raise ValueError(
                "base=True needs frame='moving' in repellence; else no base chain is run"
            )

    def _check_numbers(self) -> None:
        check_alpha(self.alpha)
        check_count("num_warmup", self.num_warmup, at_least=LEAST_WARMUP, at_most=MOST_WARMUP)
        check_count("num_samples", self.num_samples)
        check_count("num_chains", self.num_chains)
        check_count("seed", self.seed, at_least=0, at_most=2**64 - 1)
        self.check_room(1, on_disk=False)
        if self.keep.thin > self.num_samples:
            raise ValueError(
                f"thin must be at most num_samples, {self.num_samples}, got {self.keep.thin}"
            )

    def _check_chains(self) -> None:
        if self.chains is None:
            return
        if not self.chains or len(set(self.chains)) < len(self.chains):
            raise ValueError(f"chains must be different numbers, got {list(self.chains)}")
        for chain in self.chains:
            check_count("chains", chain, at_least=0, at_most=self.num_chains - 1)
        if self.coordinates == "learned":
            raise ValueError(
                "coordinates='learned' is not for chains that run by themselves: each would learn "
                "its own, in which the others could not be rebalanced"
            )

    def _check_kernel(self) -> None:
        """Raise for settings that are out of range, or not for this kernel."""
        if self.step_size is not None:
            check_number("step_size", self.step_size, above=0.0)
            if self.space is not None:
                has = lambda recipe: recipe.on_sites and recipe.takes_step_size
                self._only("step_size", has, f" on {self.space}")
        if self.num_integration_steps is not None:
            check_count("num_integration_steps", self.num_integration_steps, at_most=2**MOST_DEPTH)
            self._only("num_integration_steps", lambda recipe: recipe.has_leapfrogs)
        if self.target_acceptance is not None:
            check_number("target_acceptance", self.target_acceptance, above=0.0)
            if self.target_acceptance >= 1:
                raise ValueError(
                    f"target_acceptance must be below 1, got {self.target_acceptance!r}"
                )
            self._only("target_acceptance", lambda recipe: recipe.takes_acceptance)
            if self.step_size is not None:
                raise ValueError(
                    "target_acceptance sets the step size; give it or step_size, and not both"
                )
        if self.max_tree_depth is not None:
            why = f", where a step takes 2**{MOST_DEPTH} gradients"
            check_count("max_tree_depth", self.max_tree_depth, at_most=MOST_DEPTH, why=why)
            self._only("max_tree_depth", lambda recipe: recipe is KERNELS["nuts"])
        check_option("metric", self.metric, METRICS)
        if self.metric != "diag":
            self._only(f"metric={self.metric!r}", lambda recipe: recipe.has_metric)

    def _only(self, what: str, has: Callable[[Recipe], bool], where: str = "") -> None:
        """Raise unless the kernel is one of which this holds."""
        known = named(has)
        if self.kernel not in known:
            names = ", ".join(map(repr, known))
            raise ValueError(f"{what} is for kernel {names}{where}, got {str(self.kernel)!r}")

    def _check_coordinates(self) -> None:
        check_option("coordinates", self.coordinates, ("auto", "plain", "learned"))
        if self.coordinates != "learned":
            return
        if self.space is not None:
            raise ValueError(f"coordinates='learned' is not for {self.space}")
        if self.num_warmup < 2 * LEAST_WARMUP:
            raise ValueError(
                "coordinates='learned' needs num_warmup of at least "
                f"{2 * LEAST_WARMUP}, got {self.num_warmup}"
            )


def memory_size() -> float:
    """The bytes of this machine's memory; infinite where the system does not tell."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return float("inf")


def _make_plain(plan: Any) -> None:
    """Turn NumPy and JAX scalars among the fields into Python's numbers, which files can hold."""
    for field in dataclasses.fields(plan):
        value = getattr(plan, field.name)
        is_array = isinstance(value, np.number | np.bool | np.ndarray | jax.Array)
        is_array = is_array and not np.issubdtype(value.dtype, np.timedelta64)
        if is_array and value.ndim == 0 and is_concrete(value):
            object.__setattr__(plan, field.name, value.item())

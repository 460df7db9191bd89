"""The tuner of kernels on continuous spaces."""

import dataclasses
from typing import Any

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
from blackjax.base import SamplingAlgorithm

from srmc._checks import check_count, check_number, check_option, is_concrete
from srmc.kernels import builders
from srmc.repel.repel import repel
from srmc.repel.state import RepelState
from srmc.sample.tune import measure, rule
from srmc.sample.tune.adapt import (
    Goal,
    Recipe,
    by_acceptance,
    flatten,
    scores_of,
    spacing_of,
)
from srmc.sample.tune.measure import Loop
from srmc.sample.tune.own import OwnKernel
from srmc.sample.tune.settings import settings
from srmc.sample.tune.tuner import Alpha, Parameters, Warmup
from srmc.sample.tune.window import by_window, whole
from srmc.types import Array, ArrayLike, Bool, Draws, Float, LogDensity, Position, PRNGKey


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


RECIPES = {
    "mh": Recipe(builders.mh, builders.mh, rule.ACCEPTANCE["mh"], 0.5, False),
    "ula": Recipe(builders.ula, builders.mala, rule.UNADJUSTED_ACCEPTANCE, 1, False),
    "uld": Recipe(builders.uld, _one_leapfrog, rule.UNADJUSTED_ACCEPTANCE, 1, False),
    "mala": Recipe(builders.mala, builders.mala, rule.ACCEPTANCE["mala"], 1, False),
    "hmc": Recipe(builders.hmc, blackjax.hmc, rule.ACCEPTANCE["hmc"], 10, True),
    "jittered_hmc": Recipe(_jittered_hmc, blackjax.hmc, rule.ACCEPTANCE["hmc"], 10, True),
    "nuts": Recipe(builders.nuts, blackjax.nuts, rule.ACCEPTANCE["nuts"], 10, True),
}
WITH_LEAPFROGS = ("hmc", "jittered_hmc")
UNADJUSTED = ("ula", "uld")  # whose draws are not quite of the target
WITH_METRIC = tuple(name for name, recipe in RECIPES.items() if recipe.has_metric)
METRICS = ("diag", "dense", "low_rank")


@dataclasses.dataclass(frozen=True)
class Continuous:
    """Tunes a kernel on a continuous space; see `Tuner`.

    kernel
        "nuts", "hmc", "jittered_hmc", "mala", "mh", "ula" or "uld"; or an `OwnKernel`.
    num_integration_steps
        The number of leapfrog steps of HMC; on average, if jittered.
    step_size
        The step size; found in warm-up if not given.
    form
        "affine", or "shift" for shifts alone.
    target_acceptance
        The acceptance rate to aim at; that of the kernel's recipe if not given.
    max_tree_depth
        The most doublings of a trajectory of NUTS; BlackJAX's default, 10, if not given.
    metric
        "diag", "dense" or "low_rank", for HMC and NUTS.
    """

    kernel: str | OwnKernel
    num_integration_steps: int | None = None
    step_size: float | None = None
    form: str = "affine"
    target_acceptance: float | None = None
    max_tree_depth: int | None = None
    metric: str = "diag"

    def __post_init__(self) -> None:
        if not isinstance(self.kernel, OwnKernel):
            check_option("kernel", self.kernel, RECIPES)
        check_option("form", self.form, ("affine", "shift"))
        if self.step_size is not None:
            check_number("step_size", self.step_size, above=0.0)
        if self.num_integration_steps is not None:
            check_count("num_integration_steps", self.num_integration_steps)

    @property
    def no_loop(self) -> Loop:
        return Loop(**dict.fromkeys(Loop._fields, 0.0) | {"factors": (0.0, 0.0)})  # type: ignore[arg-type]

    @property
    def _recipe(self) -> Recipe:
        return self.kernel.recipe if isinstance(self.kernel, OwnKernel) else RECIPES[self.kernel]

    @property
    def _leapfrogs(self) -> int:
        return self.num_integration_steps or rule.INTEGRATION_STEPS

    @property
    def _options(self) -> dict[str, Any]:
        if self.kernel in WITH_LEAPFROGS:
            return {"num_integration_steps": self._leapfrogs}
        if self.max_tree_depth is not None:
            return {"max_num_doublings": self.max_tree_depth}
        return {}

    def adapt(
        self,
        logdensity_fn: LogDensity,
        rng_key: PRNGKey,
        positions: Position,
        num_steps: int,
        *,
        measures: bool = True,
    ) -> Warmup:
        """Find the step size, and for HMC and NUTS the metric, from all chains."""
        check_count("num_steps", num_steps, at_least=100)
        recipe, spacing, extra = self._recipe, spacing_of(positions, num_steps), 0
        goal = Goal(self.target_acceptance or recipe.acceptance, self.metric)
        arguments = recipe, goal, logdensity_fn, rng_key, positions, num_steps, self._options
        if recipe.has_metric:
            late = by_window(*arguments)
        else:
            late, scored = by_acceptance(*arguments)
        path, scores, gradients = late.path, late.scores, late.gradients
        if scores is None and not measures:
            scores = jax.tree.map(jnp.zeros_like, path)
        elif scores is None:
            # For a kernel that caches no scores, those of some draws are evaluated.
            more = max(1, len(jax.tree.leaves(path)[0][0]) // rule.MEASURED_DRAWS)
            path = jax.tree.map(lambda x: x[:, ::-1][:, ::more][:, ::-1], path)
            scores, spacing = scores_of(logdensity_fn, path), spacing * more
            count = len(jax.tree.leaves(path)[0][0])
            gradients = gradients + count * len(jax.tree.leaves(positions)[0])
            extra = count + scored
        given = {} if self.step_size is None else {"step_size": jnp.asarray(self.step_size)}
        return Warmup(
            positions=late.positions,
            parameters=late.parameters | given,
            draws=flatten(path),
            features=flatten(scores),
            spacing=spacing,
            gradients=gradients,
            extra_gradients=extra,
        )

    def is_biased(self, logdensity_fn: LogDensity, position: Position) -> bool:
        """No: Stein features have mean 0."""
        return False

    def measure(
        self, draws: Draws, features: Draws, num_samples: int, *, spacing: int, together: int
    ) -> Loop:
        """Measure the loop on draws and their scores."""
        return measure.measure(draws, features, num_samples, spacing=spacing, together=together)

    def select(self, loop: Loop) -> Loop:
        """Switch off features that would be of no use."""
        return measure.select(loop, self._history_every(loop))

    def is_on(self, loop: Loop) -> Bool[Array, ""]:
        """Whether any feature acts."""
        return measure.is_on(loop)

    def repellence(self, loop: Loop, num_samples: int, alpha: Alpha) -> dict[str, Any]:
        """The keywords of `repel` that suit the loop, for 5% to 20% more gradients."""
        every = self._history_every(loop)
        every = int(every) if is_concrete(every) else every
        options = settings(loop, num_samples, alpha=alpha, history_every=every, form=self.form)
        if self.kernel != "mh":
            leapfrogs = self.kernel in WITH_LEAPFROGS
            step = self._leapfrogs if leapfrogs else self._recipe.step_gradients
            cheap = step < rule.CHEAP_STEP
            options["feedback_every"] = round(rule.FEEDBACK_COST / step) if cheap else 1
        return options

    def build(
        self, logdensity_fn: LogDensity, parameters: Parameters, **repellence: Any
    ) -> SamplingAlgorithm:
        """The kernel with these parameters, repelled."""
        return self._recipe.build(logdensity_fn, **whole(parameters), **self._options, **repellence)

    def features(self, state: RepelState, loop: Loop) -> Float[Array, " k"] | None:
        """The active features, those of shifts first; only these if there are more than 128."""
        if self.form != "affine":
            return None
        linear, shifts = (
            feature * (factor > 0)
            for feature, factor in zip(state.feature, loop.factors, strict=True)
        )
        if linear.ndim == 2:
            linear = linear[jnp.triu_indices(len(linear))]
        return jnp.concatenate([shifts, linear]) if len(shifts) + len(linear) <= 128 else shifts

    def describe(self, loop: Loop) -> dict[str, Array]:
        """What a result reports about the loop."""
        return {
            "loop_rate": loop.rate,
            "slowest_autocorrelation_time": jnp.max(loop.time),
            "top_eigenvalue": loop.top_eigenvalue,
            "explained": jnp.mean(loop.explained),
            "explained_squares": jnp.mean(loop.explained_squares),
            "explained_products": loop.explained_products,
            "expected_exponent": loop.exponent,
            "offset": loop.offset,
        }

    def _history_every(self, loop: Loop) -> int | Array:
        """The steps per update of the history, which is thinned for a kernel without gradients."""
        if self.kernel != "mh":
            return 1
        every = jnp.round(rule.THINNING_TIMES * jnp.min(loop.time))
        return jnp.clip(every, *rule.THINNING).astype(int)


def check_step(step_size: ArrayLike) -> None:
    """Refuse a log density for which warm-up found no step size."""
    if is_concrete(step_size) and not 0 < float(np.asarray(step_size)) < np.inf:
        raise ValueError(
            "logdensity_fn must be a proper log density, with a finite integral, but warm-up found "
            f"no step size ({step_size}): it is flat, or not finite near the start"
        )

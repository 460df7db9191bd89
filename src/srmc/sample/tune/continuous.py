"""The tuner of kernels on continuous spaces."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from blackjax.base import SamplingAlgorithm

from srmc._checks import check_count, check_number, check_option, is_concrete
from srmc.repel.state import RepelState
from srmc.sample.tune import measure, rule
from srmc.sample.tune.adapt import Search, by_acceptance, by_window, flatten, scores_of, whole
from srmc.sample.tune.kernels import OwnKernel, Recipe, named, recipe_of
from srmc.sample.tune.measure import Loop, settings
from srmc.sample.tune.tuner import Alpha, Parameters, Tuner, Warmup
from srmc.types import Array, ArrayLike, Draws, Float, LogDensity, Position, PRNGKey


@dataclasses.dataclass(frozen=True)
class Continuous(Tuner):
    """Tunes a kernel on a continuous space; `Plan` documents the fields.

    `form` is "affine", or "shift" for shifts alone.
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
            check_option("kernel", self.kernel, named(lambda recipe: not recipe.on_sites))
        check_option("form", self.form, ("affine", "shift"))
        if self.step_size is not None:
            check_number("step_size", self.step_size, above=0.0)
        if self.num_integration_steps is not None:
            check_count("num_integration_steps", self.num_integration_steps)

    @property
    def no_loop(self) -> Loop:
        return Loop(**dict.fromkeys(Loop._fields, 0.0) | {"factors": (0.0, 0.0)})  # type: ignore[arg-type]

    @property
    def recipe(self) -> Recipe:
        """How the kernel is warmed up."""
        return recipe_of(self.kernel)

    @property
    def acceptance(self) -> float:
        """The acceptance rate to aim at."""
        return self.target_acceptance or self.recipe.acceptance

    @property
    def _leapfrogs(self) -> int:
        return self.num_integration_steps or rule.INTEGRATION_STEPS

    @property
    def _options(self) -> dict[str, Any]:
        if self.recipe.has_leapfrogs:
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
        options = tuple(self._options.items())
        search = Search(self.recipe, self.acceptance, self.metric, options, num_steps)
        find = by_window if self.recipe.has_metric else by_acceptance
        late = find(search, logdensity_fn, rng_key, positions)
        path, scores, gradients = late.path, late.scores, late.gradients
        spacing, extra = search.spacing(positions), 0
        if scores is None and not measures:
            scores = jax.tree.map(jnp.zeros_like, path)
        elif scores is None:
            # If the kernel caches no scores, the scores of some draws are evaluated.
            more = max(1, len(jax.tree.leaves(path)[0][0]) // rule.MEASURED_DRAWS)
            path = jax.tree.map(lambda x: x[:, ::-1][:, ::more][:, ::-1], path)
            scores, spacing = scores_of(logdensity_fn, path), spacing * more
            count = len(jax.tree.leaves(path)[0][0])
            gradients = gradients + count * len(jax.tree.leaves(positions)[0])
            extra = count + late.scored
        given = {} if self.step_size is None else {"step_size": jnp.asarray(self.step_size)}
        found = late.parameters | given
        draws, features = flatten(path), flatten(scores)
        return Warmup(late.positions, found, draws, features, spacing, gradients, extra)

    def measure(
        self, draws: Draws, features: Draws, num_samples: int, *, spacing: int, together: int
    ) -> Loop:
        return measure.measure(draws, features, num_samples, spacing=spacing, together=together)

    def select(self, loop: Loop) -> Loop:
        return measure.select(loop, self._history_every(loop))

    def repellence(self, loop: Loop, num_samples: int, alpha: Alpha) -> dict[str, Any]:
        """The keywords of `repel` that suit the loop, for 5% to 20% more gradients."""
        every = self._history_every(loop)
        every = int(every) if is_concrete(every) else every
        options = settings(loop, num_samples, alpha=alpha, history_every=every, form=self.form)
        if self.kernel != "mh":
            step = self._leapfrogs if self.recipe.has_leapfrogs else self.recipe.step_gradients
            cheap = step < rule.CHEAP_STEP
            options["feedback_every"] = round(rule.FEEDBACK_COST / step) if cheap else 1
        return options

    def build(
        self, logdensity_fn: LogDensity, parameters: Parameters, **repellence: Any
    ) -> SamplingAlgorithm:
        return self.recipe.build(logdensity_fn, **whole(parameters), **self._options, **repellence)

    def features(self, state: RepelState, loop: Loop) -> Float[Array, " k"] | None:
        """The active features, shifts first; only shifts if there are more than 128."""
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

"""The tuner of kernels on discrete spaces."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from blackjax.adaptation.step_size import dual_averaging_adaptation
from blackjax.base import SamplingAlgorithm

from srmc._checks import check_count, check_option, is_concrete
from srmc._programs import Code, parted, remembered
from srmc.kernels import discrete as kernels
from srmc.kernels.discrete import longest_mean
from srmc.kernels.discrete.changes import Differences
from srmc.kernels.discrete.features import check_kind, is_biased
from srmc.kernels.discrete.sites import Sites
from srmc.kernels.discrete.space import Space
from srmc.repel.history import Gain
from srmc.repel.target import all_finite
from srmc.sample.tune import rule
from srmc.sample.tune.adapt import fold, late_steps
from srmc.sample.tune.kernels import KERNELS, named
from srmc.sample.tune.measure import autocorrelation_times, guarded_by, nominal, top_time
from srmc.sample.tune.tuner import Alpha, Parameters, Tuner, Warmup
from srmc.types import Array, Draws, Float, Int, KernelState, LogDensity, PRNGKey


class SiteLoop(NamedTuple):
    """The measured loop."""

    factors: Float[Array, " d"]  # preconditioner: one over the mean square of each feature
    rate: Float[Array, ""]  # rate g = gamma (1 + alpha) of the loop per step
    time: Float[Array, " d"]  # autocorrelation times of the features, in steps
    # The autocorrelation time of the direction in which states vary most, in steps.
    slowest: Float[Array, ""]
    exponent: Float[Array, ""]  # expected root mean square of the exponent scale


@dataclasses.dataclass(frozen=True)
class Discrete(Tuner):
    """Tunes a kernel on a discrete space; what is not given is found or chosen.

    `differences` are the one-site changes of the log density, if they are cheap to compute, and
    `feature` is what the history averages.
    """

    kernel: str
    space: Space
    differences: Differences | None = None
    step_size: float | None = None
    target_acceptance: float | None = None
    feature: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.space, Space):
            raise TypeError(f"space must be srmc.Binary() or another space, got {self.space!r}")
        known = named(lambda recipe: recipe.on_sites)
        check_option(f"kernel on {self.space}", self.kernel, known)
        if self.feature is not None:
            check_kind(self.feature, self.space)

    @property
    def no_loop(self) -> SiteLoop:
        return SiteLoop(*[0.0] * 5)  # type: ignore[arg-type]

    def adapt(
        self,
        logdensity_fn: LogDensity,
        rng_key: PRNGKey,
        positions: Array,
        num_steps: int,
        *,
        measures: bool = True,
    ) -> Warmup:
        """Tune in the first half of the steps; keep draws of the second half, with features."""
        check_count("num_steps", num_steps, at_least=100)
        half = num_steps // 2
        keys = jax.random.split(rng_key, len(positions))
        sites = self.sites(logdensity_fn)
        first = {name: jnp.asarray(start) for name, start in self._tuned.items()}
        self._plain(logdensity_fn, first).init(positions[0])  # raises on unsuitable input
        if measures:
            sites.check_feature(positions[0])
        code, data = parted(logdensity_fn)
        positions, found, spent = _settling(self, code, half)(data, keys, positions)
        spacing = max(1, half // max(64, rule.DISCRETE_WARMUP_NUMBERS // positions.size))
        spacing = max(spacing, half // 512)
        late = _late_steps(self, code, half, spacing)
        last, draws, _, more = late(data, keys, positions, found)
        if not measures:
            return Warmup(last, found, draws, jnp.zeros_like(draws), spacing, spent + more, 0)
        features = _features(self, code)(data, draws.reshape(-1, *draws.shape[2:]))
        cost = sites.bent(last[0], jnp.zeros(())).evaluations(last[0])[0]
        return Warmup(
            positions=last,
            parameters=found,
            draws=draws,
            features=features.reshape(*draws.shape[:2], -1),
            spacing=spacing,
            gradients=spent + more + cost * len(features),
            extra_gradients=cost * draws.shape[1],
        )

    def sites(self, logdensity_fn: LogDensity) -> Sites:
        """The log density with the feature that the history averages."""
        return Sites(logdensity_fn, self.space, None, self.feature, self.differences)

    @property
    def _tuned(self) -> dict[str, float]:
        """What warm-up finds, and where it begins; at most one number."""
        tuned = KERNELS[self.kernel].tuned
        given = tuned is None or (tuned[0] == "step_size" and self.step_size)
        return {} if tuned is None or given else {tuned[0]: tuned[1]}

    def _found(self, value: Array | float, num_sites: int) -> dict[str, Array]:
        """What warm-up finds, within the bounds beyond which a flat target would let it go."""
        tuned = KERNELS[self.kernel].tuned
        if tuned is None or not self._tuned:
            return {}
        name, _, (low, high) = tuned
        most = min(high, longest_mean(num_sites)) if name == "path_length" else high
        return {name: jnp.clip(jnp.asarray(value), low, most)}

    def _plain(self, logdensity_fn: LogDensity, parameters: Parameters) -> SamplingAlgorithm:
        return self.build(logdensity_fn, parameters, alpha=0.0)

    def _settle(
        self, logdensity_fn: LogDensity, keys: Array, positions: Array, num_steps: int
    ) -> tuple[Array, Parameters, Int[Array, ""]]:
        """Find what is tuned by the acceptance rate; return last states, it, and the cost."""
        aim = self.target_acceptance or KERNELS[self.kernel].acceptance
        begin, update, final = dual_averaging_adaptation(aim)
        num_sites = self.space.num_sites(positions[0])
        found = lambda value: self._found(value, num_sites)

        def one(carry: tuple[KernelState, Any, Array], n: Array) -> tuple[Any, None]:
            states, averaging, spent = carry
            step = self._plain(logdensity_fn, found(jnp.exp(averaging.log_step_size))).step
            states, info = jax.vmap(step)(fold(keys, n), states)
            rate = jnp.mean(info.inner_info.acceptance_rate)
            return (states, update(averaging, rate), spent + jnp.sum(info.gradients)), None

        first = max(self._tuned.values(), default=0.5)
        states = jax.vmap(self._plain(logdensity_fn, found(first)).init)(positions, keys)
        start = states, begin(first), jnp.zeros((), int)
        (states, averaging, spent), _ = jax.lax.scan(one, start, jnp.arange(num_steps))
        return states.position, found(final(averaging)), spent

    def is_biased(self, logdensity_fn: LogDensity, position: Array) -> bool:
        kind = self.sites(logdensity_fn).chosen(position)
        return is_biased(kind, logdensity_fn, self.space, position)

    def measure(
        self, draws: Draws, features: Draws, num_samples: int, *, spacing: int, together: int
    ) -> SiteLoop:
        """Measure the loop on the features of plain draws."""
        square = jnp.mean(features**2, axis=(0, 1))
        square = jnp.maximum(square, jnp.maximum(1e-2 * jnp.mean(square), 1e-12))
        times = jnp.maximum(spacing * autocorrelation_times(features), 1.0)
        squared = jnp.maximum(spacing * autocorrelation_times(features**2), 1.0)
        slowest = jnp.maximum(spacing * top_time(draws.reshape(*draws.shape[:2], -1)), 1.0)
        # As on continuous spaces, but slowly, since a chain takes time to follow its surrogate.
        rate = jnp.sqrt(8 * rule.DISCRETE_TOLERANCE * together * jnp.mean(squared) / num_samples)
        rate = rate / jnp.sqrt(jnp.mean(times**2))
        time = jnp.mean(times)
        rate = jnp.minimum(rate, jnp.minimum(rule.STEADY * together / time, rule.LAG / slowest))
        spread = features.shape[-1] * rate * time / 2 / together
        loop = SiteLoop(
            factors=1 / square,
            rate=rate,
            time=times,
            slowest=slowest,
            exponent=jnp.sqrt(spread) + 2 * spread,
        )
        known = all_finite(loop) & jnp.any(features != 0)
        off = jax.tree.map(jnp.zeros_like, loop)._replace(
            rate=jnp.asarray(1 / num_samples), time=0 * times + 1
        )
        return jax.tree.map(lambda a, b: jnp.where(known, a, b), loop, off)

    def repellence(self, loop: SiteLoop, num_samples: int, alpha: Alpha) -> dict[str, Any]:
        most = nominal(alpha, rule.DISCRETE_ALPHA)
        share = jnp.round(rule.DISCRETE_THINNING * jnp.mean(jnp.asarray(loop.time)))
        share = jnp.clip(share, 1, max(1, num_samples // rule.DISCRETE_UPDATES)).astype(int)
        share = jnp.maximum(share, self._steps_per_update(loop))
        every = int(share) if is_concrete(share) else share
        gamma = jnp.minimum(loop.rate * every, rule.LARGEST_GAIN) / (1 + most)
        updates = num_samples / every
        return {
            "alpha": guarded_by(loop.exponent, gamma, alpha, most),
            "gain": Gain(rule.RHO, gamma * updates**rule.RHO, updates),
            "preconditioner": loop.factors,
            "history_every": every,
            "history_average": True,
            "bend": "sites",
        }

    def _steps_per_update(self, loop: SiteLoop) -> int:
        """The steps per update of the history that keep its features cheap."""
        kernel = getattr(kernels, self.kernel)
        sites = Sites(
            jnp.sum, self.space, kernel.guide, self.feature, self.differences, bend="sites"
        )
        return sites.steps_per_update(jnp.asarray(loop.factors), kernel.sweeps)

    def build(
        self, logdensity_fn: LogDensity, parameters: Parameters, **repellence: Any
    ) -> SamplingAlgorithm:
        own = {"space": self.space, "differences": self.differences, "feature": self.feature}
        given = {} if self.step_size is None else {"step_size": self.step_size}
        build = KERNELS[self.kernel].build
        return build(logdensity_fn, **own | given | {**parameters} | repellence)

    def describe(self, loop: SiteLoop) -> dict[str, Array]:
        return {
            "loop_rate": loop.rate,
            "slowest_autocorrelation_time": jnp.maximum(jnp.max(loop.time), loop.slowest),
            "expected_exponent": loop.exponent,
        }


@remembered
def _settling(tuner: Discrete, code: Code, num_steps: int) -> Callable[..., Any]:
    return jax.jit(lambda data, keys, x: tuner._settle(code(data), keys, x, num_steps))


@remembered
def _late_steps(tuner: Discrete, code: Code, half: int, spacing: int) -> Callable[..., Any]:
    def run(data: Any, keys: Array, x: Array, found: Parameters) -> Any:
        algorithm = tuner._plain(code(data), found)
        return late_steps(algorithm, keys, x, (half, 2 * half), spacing)

    return jax.jit(run)


@remembered
def _features(tuner: Discrete, code: Code) -> Callable[..., Any]:
    one = lambda data, x: tuner.sites(code(data)).look(x).feature
    return jax.jit(
        lambda data, draws: jax.lax.map(functools.partial(one, data), draws, batch_size=64)
    )

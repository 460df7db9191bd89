"""NumPyro: repellence around a kernel for `numpyro.infer.MCMC`."""

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from blackjax.base import SamplingAlgorithm
from numpyro.infer import NUTS
from numpyro.infer.mcmc import MCMCKernel
from numpyro.util import is_prng_key

from srmc.repel.history import gain
from srmc.repel.repel import repel
from srmc.repel.state import RepelState
from srmc.repel.strength import Strength, watched
from srmc.repel.surrogate import shift
from srmc.types import Array, Bool, Float, Int, LogDensity, Position, PRNGKey

__all__ = ["SRNUTS", "Repelled", "RepelledState"]

ALL_CHAINS = "srmc_chains"
SETTLED = 0.5  # fraction of warm-up that is discarded before scales are estimated


class Base(NamedTuple):
    """A state of the base kernel as `srmc.repel` reads it."""

    position: Position
    logdensity: Float[Array, ""]


class RepelledState(NamedTuple):
    """The state of `Repelled`; any field may be among the `extra_fields` of `MCMC.run`."""

    i: Int[Array, ""]  # number of steps, warm-up included
    # The draw and the draw of the base kernel, in unconstrained space.
    z: Position
    z_plain: Position
    # What the base kernel reports.
    potential_energy: Float[Array, ""]
    diverging: Bool[Array, ""]
    alpha: Float[Array, ""]  # strength of repellence
    # The number, the mean and the sum of squares of late warm-up draws.
    scales: tuple[Float[Array, ""], Position, Position]
    # The repelled chain, and the state of the base kernel.
    repelled: RepelState
    inner: Any
    rng_key: PRNGKey  # key of the steps to come


class Repelled(MCMCKernel):  # type: ignore[misc]  # NumPyro has no types
    """A kernel of NumPyro whose draws are repelled from regions that were visited too often.

    The base kernel runs and adapts as it would alone, with the same draws (`z_plain` among the
    `extra_fields`). After warm-up each of its draws is moved by a history of scores, at the cost of
    one gradient. With chain_method="vectorized" all chains share one history, which works best.

    Parameters
    ----------
    kernel
        `numpyro.infer.NUTS(model)`, `HMC`, `BarkerMH` or another kernel on a continuous space.
    alpha
        The strength of repellence: a number, or a schedule.
    **options
        More keywords of `srmc.repel`, such as `gain`.
    """

    sample_field = "z"
    default_fields = ("z", "diverging")

    def __init__(
        self, kernel: Any, *, alpha: float | Strength | None = None, **options: Any
    ) -> None:
        known = isinstance(kernel, MCMCKernel) and hasattr(kernel, "_potential_fn")
        if not known or kernel.is_ensemble_kernel or kernel.sample_field != "z":
            raise TypeError(
                "kernel must be a NumPyro kernel with a potential energy, such as "
                f"numpyro.infer.NUTS(model), got {kernel!r}"
            )
        self._kernel = kernel
        loop = {"gain": gain(rho=0.8, scale=0.5, delay=1000), "frame": "moving"}
        self._options: dict[str, Any] = loop | options
        self._options["alpha"] = watched(10.0) if alpha is None else alpha
        self._sample_fn: Any = None  # MCMC tests this for whether `init` was called
        self._num_warmup = 0

    @property
    def model(self) -> Any:
        """The model of the base kernel."""
        return self._kernel.model

    def init(
        self,
        rng_key: Array,
        num_warmup: int,
        init_params: Any,
        model_args: tuple[Any, ...] = (),
        model_kwargs: dict[str, Any] | None = None,
    ) -> RepelledState:
        """The chain, or chains if there are several keys, at their starts."""
        inner = self._kernel.init(rng_key, num_warmup, init_params, model_args, model_kwargs or {})
        self._sample_fn, self._num_warmup = self.sample, num_warmup
        density = self._density(model_args, model_kwargs)

        def begin(inner: Any) -> RepelledState:
            scales = (jnp.zeros(()), *[jax.tree.map(jnp.zeros_like, inner.z)] * 2)
            state = self._algorithm(density, inner, scales, None).init(inner.z)
            return _state(jnp.zeros((), int), inner, state, scales)

        return begin(inner) if is_prng_key(rng_key) else jax.vmap(begin)(inner)

    def sample(
        self, state: RepelledState, model_args: tuple[Any, ...], model_kwargs: dict[str, Any] | None
    ) -> RepelledState:
        """One step of the base kernel, whose draw is moved after warm-up."""
        start = state.inner._replace(rng_key=state.rng_key)
        inner = self._kernel.sample(start, model_args, model_kwargs)
        density = self._density(model_args, model_kwargs)
        alone = is_prng_key(state.rng_key)
        axis = None if alone else ALL_CHAINS

        def learn(state: RepelledState, inner: Any) -> RepelledState:
            late = state.i >= SETTLED * self._num_warmup
            scales = _merged(state.scales, inner.z, late)
            chain = state.repelled._replace(position=inner.z, inner_state=_base(inner))
            return _state(state.i + 1, inner, chain, scales)

        def move(state: RepelledState, inner: Any) -> RepelledState:
            algorithm = self._algorithm(density, inner, state.scales, axis)
            chain, _ = algorithm.step(jax.random.key(0), state.repelled)
            return _state(state.i + 1, inner, chain, state.scales)

        over = lambda f: f if alone else jax.vmap(f, axis_name=ALL_CHAINS)
        is_warm = jnp.all(state.i >= self._num_warmup)
        return jax.lax.cond(is_warm, over(move), over(learn), state, inner)

    def postprocess_fn(
        self, model_args: tuple[Any, ...], model_kwargs: dict[str, Any] | None
    ) -> Callable[[Any], Any]:
        """Map unconstrained values to values of the model's sites."""
        return self._kernel.postprocess_fn(model_args, model_kwargs)

    def get_diagnostics_str(self, state: RepelledState) -> str:
        """What the progress bar shows."""
        return f"{self._kernel.get_diagnostics_str(state.inner)}, alpha {state.alpha:.1f}"

    def _density(
        self, model_args: tuple[Any, ...], model_kwargs: dict[str, Any] | None
    ) -> LogDensity:
        make = getattr(self._kernel, "_potential_fn_gen", None)
        potential = self._kernel._potential_fn
        if make is not None:
            potential = make(*model_args, **(model_kwargs or {}))
        return lambda z: -potential(z)

    def _algorithm(
        self, density: LogDensity, inner: Any, scales: Any, axis: str | None
    ) -> SamplingAlgorithm:
        """The loop around a kernel whose next state is known."""
        count, _, squares = scales
        variance = jax.tree.map(lambda v: v / jnp.maximum(count, 1.0), squares)
        surrogate = shift(lambda theta: jax.tree.map(jnp.multiply, variance, theta))
        known = lambda _: SamplingAlgorithm(
            lambda position: _base(inner), lambda key, state: (_base(inner), ())
        )
        return repel(known, density, surrogate=surrogate, history_axis=axis, **self._options)


def _base(inner: Any) -> Base:
    energy = getattr(inner, "potential_energy", jnp.asarray(jnp.inf))
    return Base(inner.z, -jnp.asarray(energy))


def _merged(scales: Any, z: Position, late: Array) -> Any:
    """Welford's update of count, mean and sum of squares, if `late`."""
    count, mean, squares = scales
    count = count + late
    weight = late / jnp.maximum(count, 1.0)
    new = jax.tree.map(lambda m, x: m + weight.astype(m.dtype) * (x - m), mean, z)
    add = lambda q, m, n, x: q + late.astype(q.dtype) * (x - m) * (x - n)
    return count, new, jax.tree.map(add, squares, mean, new, z)


def _state(i: Array, inner: Any, chain: RepelState, scales: Any) -> RepelledState:
    return RepelledState(
        i=i,
        z=chain.position,
        z_plain=inner.z,
        potential_energy=-chain.inner_state.logdensity,
        diverging=jnp.asarray(getattr(inner, "diverging", False)),
        alpha=jnp.asarray(chain.alpha),
        scales=scales,
        repelled=chain,
        inner=inner,
        rng_key=inner.rng_key,
    )


class SRNUTS(Repelled):
    """The former name of `Repelled(NUTS(model))`."""

    def __init__(
        self,
        model: Callable[..., Any] | None = None,
        potential_fn: Callable[[Any], Array] | None = None,
        *,
        alpha: Any = "auto",
        kernel: Any = None,
        num_samples: Any = None,
        **options: Any,
    ) -> None:
        warnings.warn("SRNUTS is now Repelled(NUTS(model))", DeprecationWarning, stacklevel=2)
        chosen = None if isinstance(alpha, str) else alpha
        super().__init__(NUTS(model, potential_fn, **options), alpha=chosen)

"""NumPyro: kernels for `numpyro.infer.MCMC`."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from blackjax.base import SamplingAlgorithm
from numpyro.infer import init_to_uniform
from numpyro.infer.mcmc import MCMCKernel
from numpyro.infer.util import initialize_model
from numpyro.util import is_prng_key

from srmc._checks import check_count
from srmc.plugins.repelled import Repelled, RepelledState
from srmc.repel.state import RepelInfo, RepelState
from srmc.sample.tune import Continuous
from srmc.sample.tune.tuner import Alpha, Loop, Parameters, check_alpha, tune
from srmc.types import Array, Bool, Float, Int, LogDensity, Position, PRNGKey

__all__ = ["SRNUTS", "Repelled", "RepelledState", "SRState"]

ALL_CHAINS = "srmc_chains"


class SRState(NamedTuple):
    """The state of `SRNUTS`; any field may be among the `extra_fields` of `MCMC.run`.

    i
        The number of steps, warm-up included.
    z, z_plain
        The draw, and that of the plain chain, in unconstrained space.
    potential_energy
        That of the plain chain.
    accept_prob, diverging, num_steps
        What the base kernel reports; `num_steps` is the number of gradients.
    alpha
        The strength of repellence.
    repelled, parameters, loop
        The repelled chain, the step size and metric found, and the measured loop.
    rng_key
        The key of the steps to come.
    """

    i: Int[Array, ""]
    z: Position
    z_plain: Position
    potential_energy: Float[Array, ""]
    accept_prob: Float[Array, ""]
    diverging: Bool[Array, ""]
    num_steps: Int[Array, ""]
    alpha: Float[Array, ""]
    repelled: RepelState
    parameters: Parameters
    loop: Loop
    rng_key: PRNGKey


class SRNUTS(MCMCKernel):  # type: ignore[misc]  # NumPyro has no types
    """NUTS that repels itself, for `numpyro.infer.MCMC`.

    Warm-up is that of `srmc.sample`, and is done when the first step is asked for: the warm-up
    steps that `MCMC` counts afterwards cost nothing. With chain_method="vectorized" chains share
    one history, which is best; otherwise each has its own.

    Parameters
    ----------
    model
        A NumPyro model.
    potential_fn
        Minus a log density, in place of a model. It needs `init_params` in `MCMC.run`.
    kernel
        "nuts", "hmc", "jittered_hmc", "mala", "mh", "ula" or "uld".
    alpha
        The strength of repellence, as in `srmc.sample`.
    num_samples
        The planned number of draws per chain, which NumPyro does not tell a kernel; it sets how
        fast the history forgets.
    init_strategy
        Where chains start; see `numpyro.infer.NUTS`.
    """

    sample_field = "z"
    default_fields = ("z", "diverging")

    def __init__(
        self,
        model: Callable[..., Any] | None = None,
        potential_fn: Callable[[Any], Array] | None = None,
        *,
        kernel: str = "nuts",
        alpha: Alpha = "auto",
        num_samples: int = 1000,
        init_strategy: Any = init_to_uniform,
    ) -> None:
        if (model is None) == (potential_fn is None):
            raise ValueError("one of model and potential_fn must be given, and not both")
        given = (("model", model), ("potential_fn", potential_fn), ("init_strategy", init_strategy))
        for name, value in given:
            if value is not None and not callable(value):
                raise TypeError(f"{name} must be a function, got {value!r}")
        check_count("num_samples", num_samples)
        check_alpha(alpha)
        self.model = model
        self._potential_fn = potential_fn
        self._tuner = Continuous(kernel)
        self._alpha = alpha
        self._num_samples = num_samples
        self._init_strategy = init_strategy
        self._potential_gen: Any = None
        self._postprocess: Any = None
        self._sample_fn: Any = None  # by this MCMC knows that `init` was called
        self._num_warmup = 0

    def init(
        self,
        rng_key: Array,
        num_warmup: int,
        init_params: Any,
        model_args: tuple[Any, ...] = (),
        model_kwargs: dict[str, Any] | None = None,
    ) -> SRState:
        """The tuned chain, or chains if there are several keys, at their starts."""
        check_count("num_warmup", num_warmup, at_least=100)
        alone = is_prng_key(rng_key)
        split = lambda key: tuple(jax.random.split(key, 4))
        setup_key, tune_key, start_key, run_key = (
            split(rng_key) if alone else jax.vmap(split)(rng_key)
        )
        if self.model is not None:
            found = initialize_model(
                setup_key,
                self.model,
                init_strategy=self._init_strategy,
                dynamic_args=True,
                model_args=model_args,
                model_kwargs=model_kwargs,
            )
            self._potential_gen, self._postprocess = found.potential_fn, found.postprocess_fn
            init_params = found.param_info.z if init_params is None else init_params
        elif init_params is None:
            raise ValueError("init_params must be given to MCMC.run with potential_fn")
        self._sample_fn, self._num_warmup = self.sample, num_warmup
        positions = jax.tree.map(lambda x: x[None], init_params) if alone else init_params
        density = self._density(model_args, model_kwargs)
        tuned = tune(
            self._tuner,
            density,
            tune_key if alone else tune_key[0],
            jax.tree.map(lambda x: jnp.asarray(x, float), positions),
            num_warmup=num_warmup,
            num_samples=self._num_samples,
            alpha=self._alpha,
            together=len(jax.tree.leaves(positions)[0]),
        )
        algorithm = self._algorithm(density, tuned.parameters, tuned.loop, alone)

        def begin(position: Position, start_key: PRNGKey, run_key: PRNGKey) -> SRState:
            state = algorithm.init(position, start_key)
            return _state(state, None, tuned.parameters, tuned.loop, run_key)

        if alone:
            return begin(jax.tree.map(lambda x: x[0], tuned.positions), start_key, run_key)
        return jax.vmap(begin, axis_name=ALL_CHAINS)(tuned.positions, start_key, run_key)

    def sample(
        self, state: SRState, model_args: tuple[Any, ...], model_kwargs: dict[str, Any] | None
    ) -> SRState:
        """One step; in warm-up, which is over, none."""
        density = self._density(model_args, model_kwargs)
        alone = is_prng_key(state.rng_key)

        def step(state: SRState) -> SRState:
            algorithm = self._algorithm(density, state.parameters, state.loop, alone)
            rng_key, key = jax.random.split(state.rng_key)
            new, info = algorithm.step(key, state.repelled)
            return _state(new, info, state.parameters, state.loop, rng_key)

        steps = step if alone else jax.vmap(step, axis_name=ALL_CHAINS)
        is_warm = jnp.all(state.i >= self._num_warmup)
        out: SRState = jax.lax.cond(is_warm, steps, lambda state: state, state)
        return out._replace(i=state.i + 1)

    def postprocess_fn(
        self, model_args: tuple[Any, ...], model_kwargs: dict[str, Any] | None
    ) -> Callable[[Any], Any]:
        """From unconstrained values to those of the model's sites."""
        if self._postprocess is None:
            return lambda z: z
        fn: Callable[[Any], Any] = self._postprocess(*model_args, **(model_kwargs or {}))
        return fn

    def get_diagnostics_str(self, state: SRState) -> str:
        """What the progress bar shows."""
        size = state.parameters["step_size"]
        return f"step size {size:.2e}, alpha {state.alpha:.1f}, acc. prob={state.accept_prob:.2f}"

    def _density(
        self, model_args: tuple[Any, ...], model_kwargs: dict[str, Any] | None
    ) -> LogDensity:
        potential = self._potential_fn
        if self._potential_gen is not None:
            potential = self._potential_gen(*model_args, **(model_kwargs or {}))
        assert potential is not None
        return lambda z: -potential(z)

    def _algorithm(
        self, density: LogDensity, parameters: Parameters, loop: Loop, alone: bool
    ) -> SamplingAlgorithm:
        options = self._tuner.repellence(loop, self._num_samples, self._alpha)
        axis = None if alone else ALL_CHAINS
        return self._tuner.build(density, parameters, **options, history_axis=axis)


def _state(
    state: RepelState, info: RepelInfo | None, parameters: Parameters, loop: Loop, key: PRNGKey
) -> SRState:
    inner = None if info is None else info.inner_info
    energy = -getattr(state.inner_state, "logdensity", jnp.asarray(jnp.nan))
    return SRState(
        i=jnp.zeros((), int),
        z=state.position,
        z_plain=state.inner_state.position,
        potential_energy=energy,
        accept_prob=jnp.asarray(getattr(inner, "acceptance_rate", 0.0), energy.dtype),
        diverging=jnp.asarray(getattr(inner, "is_divergent", False)),
        num_steps=jnp.zeros((), int) if info is None else info.gradients.astype(int),
        alpha=jnp.asarray(state.alpha),
        repelled=state,
        parameters=parameters,
        loop=loop,
        rng_key=key,
    )

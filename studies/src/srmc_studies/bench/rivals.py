"""Samplers that experts use, and ours, as they come: draws, scores, and what they cost."""

import importlib.util
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import blackjax
import jax
import jax.numpy as jnp
import numpy as np

import srmc
from srmc.types import Array, Float, Int, LogDensity, PRNGKey
from srmc_studies.bench.posteriors import Posterior

Vector = Float[Array, " d"]
Clock = Callable[[], float]
# From a log density, a key, a start and the numbers of steps to draws, scores, and gradients.
Sampler = Callable[[LogDensity, PRNGKey, Vector, int, int], tuple[Array, Array, Array, Array]]


class Runs(NamedTuple):
    """Replicates of a sampler.

    draws, scores
        (replicate, draw, d), after warm-up.
    tuning, gradients
        Gradients per replicate, of the warm-up and of the draws.
    compile_seconds, seconds
        To compile, once; and to run one replicate, warm-up included.
    """

    draws: Float[np.ndarray, "replicate draw d"]
    scores: Float[np.ndarray, "replicate draw d"]
    tuning: Int[np.ndarray, " replicate"]
    gradients: Int[np.ndarray, " replicate"]
    compile_seconds: float
    seconds: float


def run(
    name: str,
    posterior: Posterior,
    rng_key: PRNGKey,
    starts: Float[Array, "replicate d"],
    num_warmup: int,
    num_samples: int,
    clock: Clock = time.perf_counter,
) -> Runs:
    """Run a sampler from each start in turn, so that times are those of single chains."""
    length = num_samples * DRAWS.get(name, 1)
    if name.startswith("nutpie"):
        return _nutpie(name, posterior, rng_key, starts, num_warmup, length, clock)
    if name in OURS:
        return _ours(OURS[name], posterior, rng_key, starts, num_warmup, length, clock)

    def one(pair: tuple[PRNGKey, Vector]) -> tuple[Array, Array, Array, Array]:
        return SAMPLERS[name](posterior.logdensity_fn, *pair, num_warmup, length)

    keys = jax.random.split(rng_key, len(starts))
    began = clock()
    program = jax.jit(lambda pairs: jax.lax.map(one, pairs)).lower((keys, starts)).compile()
    compiled = clock()
    draws, scores, tuning, gradients = map(np.asarray, program((keys, starts)))
    seconds = (clock() - compiled) / len(starts)
    return Runs(draws, scores, tuning, gradients, compiled - began, seconds)


def _blackjax_nuts(adaptation: Callable[..., Any]) -> Sampler:
    def sample(
        logdensity_fn: LogDensity, key: PRNGKey, start: Vector, num_warmup: int, num_samples: int
    ) -> tuple[Array, Array, Array, Array]:
        warm_key, run_key = jax.random.split(key)
        warmup = adaptation(blackjax.nuts, logdensity_fn)
        (_, parameters), info = warmup.run(warm_key, start, num_warmup)
        # Where the warm-up ended; the low-rank one returns an estimate of the mean instead, which
        # can be a hundred standard deviations away.
        state = jax.tree.map(lambda x: x[-1], info.state)
        step = blackjax.nuts(logdensity_fn, **parameters).step
        draws, scores, steps = _scan(step, run_key, state, num_samples)
        return draws, scores, jnp.sum(info.info.num_integration_steps), jnp.sum(steps)

    return sample


def _adjusted_mclmc(
    logdensity_fn: LogDensity, key: PRNGKey, start: Vector, num_warmup: int, num_samples: int
) -> tuple[Array, Array, Array, Array]:
    """Microcanonical HMC with random trajectory lengths; a McLachlan step takes two gradients."""
    init_key, warm_key, run_key = jax.random.split(key, 3)
    draw = blackjax.mcmc.adjusted_mclmc_dynamic.make_random_trajectory_length_fn(True)
    # No trajectory is longer than those of NUTS; the tuning can ask for millions of steps.
    lengths = lambda *args: jnp.minimum(draw(*args), 1023)
    kernel = blackjax.adjusted_mclmc_dynamic.build_kernel(integration_steps_fn=lengths)
    state = blackjax.adjusted_mclmc_dynamic.init(start, logdensity_fn, init_key)
    state, found, tuning = blackjax.adjusted_mclmc_find_L_and_step_size(
        kernel,
        logdensity_fn,
        num_warmup,
        state,
        warm_key,
        target=0.9,
        frac_tune1=0.5,
        frac_tune2=0.5,
    )

    def step(key: PRNGKey, state: Any) -> Any:
        return kernel(
            key,
            state,
            logdensity_fn,
            found.step_size,
            inverse_mass_matrix=found.inverse_mass_matrix,
            integration_steps_params=(found.L / found.step_size,),
        )

    draws, scores, steps = _scan(step, run_key, state, num_samples)
    return draws, scores, jnp.asarray(2 * tuning), 2 * jnp.sum(steps)


def _scan(
    step: Callable[..., Any], rng_key: PRNGKey, state: Any, num_samples: int
) -> tuple[Array, Array, Array]:
    """Draws, scores, and integration steps."""

    def one(state: Any, key: PRNGKey) -> tuple[Any, tuple[Array, Array, Array]]:
        state, info = step(key, state)
        return state, (state.position, state.logdensity_grad, info.num_integration_steps)

    keys = jax.random.split(rng_key, num_samples)
    kept: tuple[Array, Array, Array] = jax.lax.scan(one, state, keys)[1]
    return kept


def _numpyro_nuts(
    logdensity_fn: LogDensity, key: PRNGKey, start: Vector, num_warmup: int, num_samples: int
) -> tuple[Array, Array, Array, Array]:
    from numpyro.infer import NUTS

    kernel = NUTS(potential_fn=lambda x: -logdensity_fn(x))
    state = kernel.init(key, num_warmup, start, (), {})

    def one(state: Any, _: None) -> tuple[Any, tuple[Array, Array, Array]]:
        state = kernel.sample(state, (), {})
        return state, (state.z, -state.z_grad, state.num_steps)

    steps = num_warmup + num_samples
    draws, scores, lengths = jax.lax.scan(one, state, None, length=steps)[1]
    tuning, gradients = jnp.sum(lengths[:num_warmup]), jnp.sum(lengths[num_warmup:])
    return draws[num_warmup:], scores[num_warmup:], tuning, gradients


def _nutpie(
    name: str,
    posterior: Posterior,
    rng_key: PRNGKey,
    starts: Float[Array, "replicate d"],
    num_warmup: int,
    num_samples: int,
    clock: Clock,
) -> Runs:
    """nutpie through its Python interface, which adds some time to each gradient."""
    import nutpie
    from nutpie.compiled_pyfunc import from_pyfunc

    began = clock()
    evaluate = jax.jit(jax.value_and_grad(posterior.logdensity_fn))
    evaluate(starts[0])

    def make_logp() -> Callable[[np.ndarray], tuple[float, np.ndarray]]:
        def logp(x: np.ndarray) -> tuple[float, np.ndarray]:
            with jax.enable_x64(True):  # nutpie calls from threads of its own
                value, gradient = evaluate(x)
                return float(value), np.asarray(gradient)

        return logp

    def model(start: Vector) -> Any:
        shape = [np.dtype(float)], [(posterior.dim,)], ["x"]
        expand = lambda *seeds: lambda x: {"x": x}
        first = lambda seed: np.asarray(start)
        return from_pyfunc(posterior.dim, make_logp, expand, *shape, make_initial_point_fn=first)

    compiled = clock()
    seeds = np.asarray(jax.random.randint(rng_key, (len(starts),), 0, 2**31 - 1))
    draws, tuning, gradients = [], [], []
    for seed, start in zip(seeds, starts, strict=True):
        trace = nutpie.sample(
            model(start),
            draws=num_samples,
            tune=num_warmup,
            chains=1,
            cores=1,
            seed=int(seed),
            progress_bar=False,
            low_rank_modified_mass_matrix=name.endswith("low rank"),
        )
        draws.append(np.asarray(trace.posterior["x"])[0])
        tuning.append(int(trace.warmup_sample_stats["n_steps"].sum()))
        gradients.append(int(trace.sample_stats["n_steps"].sum()))
    seconds = (clock() - compiled) / len(starts)
    x = np.array(draws)
    counts = np.array(tuning), np.array(gradients)
    return Runs(x, _scores(posterior, x), *counts, compiled - began, seconds)


def _ours(
    kernel: str,
    posterior: Posterior,
    rng_key: PRNGKey,
    starts: Float[Array, "replicate d"],
    num_warmup: int,
    num_samples: int,
    clock: Clock,
) -> Runs:
    """The plain chains of `srmc.sample`, which it rebalances by default."""
    seeds = np.asarray(jax.random.randint(rng_key, (len(starts),), 0, 2**31 - 1))

    def one(seed: int, start: Vector) -> srmc.Result:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # single chains may not mix; their errors tell
            return srmc.sample(
                posterior.logdensity_fn,
                kernel=kernel,
                alpha=0.0,
                initial_position=start,
                num_chains=1,
                num_warmup=num_warmup,
                num_samples=num_samples,
                seed=seed,
                progress=False,
            )

    began = clock()
    one(0, starts[0])  # compiles
    compiled = clock()
    found = [one(int(seed), start) for seed, start in zip(seeds, starts, strict=True)]
    seconds = (clock() - compiled) / len(starts)
    x = np.array([result.draws["x"][0] for result in found])
    tuning = np.array([result.about["gradients_of_warmup"] for result in found])
    gradients = np.array([result.stats["gradients"].sum() for result in found])
    compiling = max(0.0, compiled - began - seconds)
    return Runs(x, _scores(posterior, x), tuning, gradients, compiling, seconds)


def _scores(
    posterior: Posterior, x: Float[np.ndarray, "replicate draw d"]
) -> Float[np.ndarray, "replicate draw d"]:
    each = jax.jit(jax.vmap(jax.vmap(jax.grad(posterior.logdensity_fn))))
    return np.asarray(each(jnp.asarray(x)))


SAMPLERS: dict[str, Sampler] = {
    "BlackJAX NUTS": _blackjax_nuts(blackjax.window_adaptation),
    "BlackJAX NUTS, low rank": _blackjax_nuts(blackjax.window_adaptation_low_rank),
    "NumPyro NUTS": _numpyro_nuts,
    "adjusted MCLMC": _adjusted_mclmc,
}
OURS = {"srmc NUTS": "nuts", "srmc HMC": "hmc", "srmc MALA": "mala"}
DRAWS = {"adjusted MCLMC": 4, "srmc MALA": 10}  # per draw of the others: trajectories are short


def installed() -> list[str]:
    """The names of the samplers that can run here."""
    names = [n for n in SAMPLERS if "NumPyro" not in n or importlib.util.find_spec("numpyro")]
    nutpie = ["nutpie", "nutpie, low rank"] if importlib.util.find_spec("nutpie") else []
    return names + nutpie + list(OURS)

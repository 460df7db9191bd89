"""Annealed importance sampling: from a base distribution to the target, with weights."""

import itertools
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from blackjax.base import SamplingAlgorithm

from srmc._checks import (
    as_numbers,
    check_call,
    check_count,
    check_flag,
    check_key,
    check_number,
    outputs_of,
)
from srmc._progress import progress_bar
from srmc.repel.target import check_density
from srmc.types import Array, ArrayLike, LogDensity, Position, PRNGKey, PyTree


class AISResult(NamedTuple):
    """The outcome of annealing.

    log_normalizer, error
        The log normalising constant of the target and its standard error.
    samples, log_weights
        The last states of the particles, and their weights.
    effective_sample_size
        (sum w)^2 / sum w^2.
    acceptance_rate
        The mean over particles at each temperature; NaN if the kernel reports none.
    is_exact
        False if the transitions were repelled; the weights are then not exact.
    """

    log_normalizer: float
    error: float
    samples: PyTree[np.ndarray]
    log_weights: np.ndarray
    effective_sample_size: float
    acceptance_rate: np.ndarray
    is_exact: bool


def ais(
    rng_key: PRNGKey,
    logdensity_fn: LogDensity,
    build: Callable[[LogDensity], SamplingAlgorithm],
    sample_base: Callable[[PRNGKey], Position],
    base_logdensity_fn: LogDensity,
    *,
    log_base_normalizer: float = 0.0,
    schedule: int | ArrayLike = 1000,
    num_particles: int = 100,
    num_steps: int = 1,
    chunk_size: int | None = None,
    progress: bool = True,
) -> AISResult:
    """Estimate the log normalising constant of a target by annealing (Neal, 2001).

    Particles start in the base distribution and follow log pi_b = (1 - b) log base + b log target
    from b = 0 to 1. Each step from b to b' adds (b' - b) (log target - log base) to the log weight
    of a particle, and the kernel then moves the particle at the new temperature.

    Parameters
    ----------
    rng_key
        The key of all random numbers.
    logdensity_fn
        The log density of the target, up to the constant that is sought.
    build
        A function from a log density to a sampler that leaves it invariant, such as
        `lambda f: srmc.gwg(f, srmc.Binary(), alpha=0.0)`. A repelled sampler may explore better,
        but its transitions leave no single distribution invariant, so that the weights are no
        longer exact.
    sample_base
        A function of a key that draws from the base distribution.
    base_logdensity_fn
        The log density of the base distribution, up to a constant.
    log_base_normalizer
        The log of the normalising constant of `base_logdensity_fn`.
    schedule
        The inverse temperatures from 0 to 1, or the number of equal steps between them.
    num_particles
        The number of independent particles.
    num_steps
        The number of kernel steps at each temperature.
    chunk_size
        The number of particles that run at once; all if not given.
    progress
        Whether to show a progress bar on a terminal.
    """
    check_count("num_particles", num_particles)
    chunk = num_particles if chunk_size is None else chunk_size
    check_count("chunk_size", chunk)
    check_count("num_steps", num_steps)
    check_number("log_base_normalizer", log_base_normalizer)
    check_flag("progress", progress)
    check_key("rng_key", rng_key)
    betas = jnp.asarray(_schedule(schedule), float)
    path = _Path(logdensity_fn, base_logdensity_fn, build, betas, num_steps)
    keys = jax.random.split(rng_key, num_particles)
    path.check(keys[0], sample_base)
    out = []
    with progress_bar(progress) as show:
        total = num_particles * path.length
        for first in range(0, num_particles, chunk):
            mine = keys[first : first + chunk]
            size = len(mine)
            if size < chunk <= num_particles:  # padded, so that one program serves all chunks
                mine = jnp.concatenate([mine, keys[: chunk - size]])
            tell = lambda n, a=first, b=size: show("annealing", a * path.length + n * b, total)
            particles = path.run(mine, sample_base, tell)
            out.append(jax.tree.map(lambda x, n=size: np.asarray(x)[:n], particles))
    found = jax.tree.map(lambda *x: np.concatenate(x), *out)
    if np.any(found.repels):
        warnings.warn(
            "ais: repelled transitions leave no single distribution invariant, and the weights "
            "are not exact; build a kernel with alpha=0 for an unbiased normaliser",
            stacklevel=2,
        )
    log_weights = found.log_weight.astype(float)
    if not np.any(np.isfinite(log_weights)):
        raise ValueError("logdensity_fn must be finite on the base's draws, but no particle has it")
    value, error = log_mean(log_weights)
    weights = np.exp(log_weights - np.max(log_weights))
    return AISResult(
        log_normalizer=value + log_base_normalizer,
        error=error,
        samples=found.position,
        log_weights=log_weights,
        effective_sample_size=float(np.sum(weights) ** 2 / np.sum(weights**2)),
        acceptance_rate=found.rates.mean(axis=0),
        is_exact=not np.any(found.repels),
    )


class _Particle(NamedTuple):
    """A particle on its path: position, weight, and the history of a repelled chain."""

    position: Position
    log_weight: Array
    memory: dict[str, Any]
    rates: Array
    repels: Array


class _Path(NamedTuple):
    """The path from the base to the target, through the inverse temperatures `betas`."""

    target: LogDensity
    base: LogDensity
    build: Callable[[LogDensity], SamplingAlgorithm]
    betas: Array
    num_steps: int

    @property
    def length(self) -> int:
        return len(self.betas) - 1

    def between(self, beta: Array) -> LogDensity:
        """The log density at an inverse temperature."""
        return lambda x: (1 - beta) * self.base(x) + beta * self.target(x)

    def check(self, key: PRNGKey, sample_base: Callable[[PRNGKey], Position]) -> None:
        """Raise for functions that do not fit together; one particle is tried."""
        outputs_of("sample_base", sample_base, key, of="a key")
        x = jax.tree.map(jnp.asarray, sample_base(key))
        check_density(self.target, x, "logdensity_fn")
        check_density(self.base, x, "base_logdensity_fn")
        check_call("build", self.build, (self.target,), {})
        algorithm = self.build(self.between(self.betas[-1]))
        if not isinstance(algorithm, SamplingAlgorithm):
            raise TypeError(f"build must return a sampler, such as srmc.mala, got {algorithm!r}")
        try:
            algorithm.init(x, key)
        except (TypeError, ValueError) as error:
            raise type(error)(
                f"sample_base must draw what the sampler of build takes, but {error}"
            ) from error

    def run(
        self, keys: Array, sample_base: Callable[[PRNGKey], Position], tell: Callable[[int], None]
    ) -> _Particle:
        """The particles at the end of the path, one per key."""
        x = jax.vmap(lambda key: sample_base(jax.random.fold_in(key, self.length)))(keys)
        algorithm = self.build(self.between(self.betas[-1]))
        if (space := getattr(algorithm, "space", None)) is not None:
            try:
                space.as_state(x)
            except (TypeError, ValueError) as error:
                raise ValueError(f"sample_base must draw states of {space}: {error}") from None
        states = jax.vmap(algorithm.init)(x, keys)
        zeros = jnp.zeros(len(keys), self.betas.dtype)
        rates = jnp.zeros((len(keys), self.length))
        particles = _Particle(states.position, zeros, _memory(states), rates, zeros != 0)
        advance = jax.jit(jax.vmap(self._advance, in_axes=(0, 0, None, None)))
        ends = np.linspace(0, self.length, min(self.length, 20) + 1).astype(int)
        for start, end in itertools.pairwise(ends):
            particles = advance(particles, keys, start, end)
            tell(int(end))
        return particles

    def _advance(self, particle: _Particle, key: PRNGKey, first: Array, last: Array) -> _Particle:
        """Move one particle from temperature `first` to `last`."""

        def one(n: Array, at: _Particle) -> _Particle:
            gap = self.target(at.position) - self.base(at.position)
            algorithm = self.build(self.between(self.betas[n + 1]))
            init_key, run_key = jax.random.split(jax.random.fold_in(key, n))
            # A repelled kernel keeps its history and its strength.
            state = algorithm.init(at.position, init_key)._replace(**at.memory)

            def move(carry: tuple[Any, Array], key: PRNGKey) -> tuple[tuple[Any, Array], Array]:
                state, repels = carry
                repels |= jnp.asarray(getattr(state, "alpha", 0.0)) != 0
                state, info = algorithm.step(key, state)
                inner = getattr(info, "inner_info", info)
                return (state, repels), getattr(inner, "acceptance_rate", jnp.asarray(jnp.nan))

            keys = jax.random.split(run_key, self.num_steps)
            (state, repels), accepted = jax.lax.scan(move, (state, at.repels), keys)
            return _Particle(
                position=state.position,
                log_weight=at.log_weight + (self.betas[n + 1] - self.betas[n]) * gap,
                memory=_memory(state),
                rates=at.rates.at[n].set(jnp.mean(accepted).astype(at.rates.dtype)),
                repels=repels,
            )

        return jax.lax.fori_loop(first, last, one, particle)


def log_mean(log_weights: np.ndarray) -> tuple[float, float]:
    """The log of the mean weight, and its standard error by the delta method."""
    top = np.max(log_weights)
    weights = np.exp(log_weights - top)
    spread = np.std(weights, ddof=1) if len(weights) > 1 else np.nan
    mean = np.mean(weights)
    return float(top + np.log(mean)), float(spread / mean / np.sqrt(len(weights)))


def _schedule(schedule: int | ArrayLike) -> np.ndarray:
    if isinstance(schedule, int | np.integer):  # check_count raises for True
        check_count("schedule", schedule)
        return np.linspace(0, 1, schedule + 1)
    betas = as_numbers("schedule", schedule)
    good = betas.ndim == 1 and len(betas) > 1 and betas[0] == 0 and betas[-1] == 1
    if not good or not np.all(np.diff(betas) > 0):
        raise ValueError(
            f"schedule must rise from 0 to 1, or be a number of steps, got {schedule!r}"
        )
    return betas


def _memory(state: Any) -> dict[str, Any]:
    """What a repelled chain carries from one temperature to the next."""
    names = ("theta", "alpha", "step", "strength_state")
    return {name: getattr(state, name) for name in names} if hasattr(state, "theta") else {}

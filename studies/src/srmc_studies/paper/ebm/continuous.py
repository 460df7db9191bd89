"""Energies of colour images, trained by persistent Langevin chains (Du and Mordatch, 2019)."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import srmc
from srmc.repel import RepelState
from srmc.types import Array, Float, PRNGKey, Scalar
from srmc_studies.paper.ebm.data import Images
from srmc_studies.paper.ebm.networks import BUILD, rounded
from srmc_studies.paper.ebm.training import Task, Training, adam, picks

SHAPE = (32, 32, 3)
STEEP = 10.0  # of the wall around [0, 1]
FRESH = 0.05  # the share of chains that begin again from uniform noise


def logdensity(
    network: Callable[[Array], Scalar], noise: float
) -> Callable[[Float[Array, " pixel"]], Scalar]:
    """log pi = (f(x) - wall(x)) / T, at the temperature T = noise^2 / 2.

    A Langevin step of size T then moves by the gradient of f with noise of this size, which is how
    the authors of these models sample them. The wall is where they clip pixels to [0, 1].
    """
    temperature = noise**2 / 2

    def value(x: Float[Array, " pixel"]) -> Scalar:
        outside = jnp.maximum(x - 1, 0) ** 2 + jnp.maximum(-x, 0) ** 2
        return (network(x.reshape(SHAPE)) - STEEP / 2 * jnp.sum(outside)) / temperature

    return value


def image_energy(images: Images, iterations: int, seed: int, options: dict[str, Any]) -> Task:
    """An energy of colour images; the chains and data are pulled apart by the energy."""
    size, noise = options["batch"], options["noise"]
    optimiser = adam(options["rate"], iterations)
    step_size = noise**2 / 2

    def start(key: PRNGKey) -> Training:
        model = BUILD["cifar-ebm"](key)
        chains = jax.random.uniform(key, (options["chains"], 3072))
        return Training(model, optimiser.init(model), chains)

    def step(
        key: PRNGKey, at: Training, batch: Float[Array, "batch pixel"]
    ) -> tuple[Training, Scalar]:
        pick_key, fresh_key, noise_key, run_key = jax.random.split(key, 4)
        picked = jax.random.choice(pick_key, options["chains"], (size,), replace=False)
        fresh = jax.random.uniform(fresh_key, (size, 3072))
        begins = jnp.arange(size)[:, None] < FRESH * size
        chains = langevin_steps(
            logdensity(at.model, noise),
            run_key,
            jnp.where(begins, fresh, at.chains[picked]),
            options["steps"],
            step_size,
        )
        chains = jnp.clip(chains, 0, 1)
        seen = batch + noise * jax.random.normal(noise_key, batch.shape)

        def loss(model: Callable[[Array], Scalar]) -> tuple[Scalar, Scalar]:
            f = jax.vmap(lambda x: model(x.reshape(SHAPE)))
            real, ours = f(seen), f(chains)
            gap = jnp.mean(real) - jnp.mean(ours)
            return options["shrink"] * jnp.mean(real**2 + ours**2) - gap, gap

        gradient, gap = jax.grad(loss, has_aux=True)(at.model)
        updates, state = optimiser.update(gradient, at.optimiser)
        model = eqx.apply_updates(at.model, updates)
        return Training(model, state, at.chains.at[picked].set(chains)), gap

    def finish(at: Training) -> tuple[Any, dict[str, object]]:
        model = rounded(at.model)
        f = jax.jit(jax.vmap(lambda x: model(x.reshape(SHAPE))))
        real = f(_pixels(images.x_test))
        random = f(jax.random.uniform(jax.random.key(seed), (1000, 3072)))
        return model, {
            "value_of_test_images": [round(float(x), 3) for x in (real.mean(), real.std())],
            "value_of_chains": [round(float(g(f(at.chains))), 3) for g in (np.mean, np.std)],
            "value_of_uniform_noise": [round(float(g(random)), 3) for g in (np.mean, np.std)],
        }

    settings = {"data": images.source, "images": len(images.x_train), **options}
    batch = lambda n: _pixels(images.x_train[picks(seed, n, len(images.x_train), size)])
    return Task(start, batch, step, "gap", settings, finish)


def _pixels(images: np.ndarray) -> Float[np.ndarray, "image pixel"]:
    """Images of bytes, as rows of numbers in [0, 1]."""
    return images.reshape(len(images), -1) / np.float32(255)


def langevin_steps(
    logdensity_fn: Callable[[Array], Scalar],
    key: PRNGKey,
    x: Float[Array, "chain pixel"],
    steps: int,
    step_size: float,
) -> Float[Array, "chain pixel"]:
    """Move chains by unadjusted Langevin steps."""
    algorithm = srmc.ula(logdensity_fn, step_size, alpha=0.0)
    states = jax.vmap(algorithm.init)(x)

    def one(states: RepelState, key: PRNGKey) -> tuple[RepelState, None]:
        return jax.vmap(algorithm.step)(jax.random.split(key, len(x)), states)[0], None

    states, _ = jax.lax.scan(one, states, jax.random.split(key, steps))
    position: Float[Array, "chain pixel"] = states.position
    return position

"""Energies of binary images, trained by persistent chains of the discrete Langevin proposal."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import srmc
from srmc.repel import RepelState
from srmc.types import Array, Float, Int, PRNGKey, Scalar
from srmc_studies.paper.ebm.networks import BinaryEnergy, rounded
from srmc_studies.paper.ebm.training import Task, Training, adam, picks


def binary_energy(
    train: Int[np.ndarray, "image pixel"],
    test: Int[np.ndarray, "image pixel"],
    iterations: int,
    seed: int,
    options: dict[str, Any],
    source: str,
) -> Task:
    """An energy of binary images: the gradient of log pi over data minus that over chains."""
    size = options["batch"]
    optimiser = adam(options["rate"], iterations)
    mean = np.clip(train.mean(axis=0), 0.01, 0.99).astype(np.float32)

    def start(key: PRNGKey) -> Training:
        model = eqx.tree_at(lambda m: m.base, BinaryEnergy(key), jnp.log(mean / (1 - mean)))
        chains = jax.random.bernoulli(key, jnp.tile(mean, (options["chains"], 1)))
        return Training(model, optimiser.init(model), chains.astype(jnp.float32))

    def step(
        key: PRNGKey, at: Training, batch: Float[Array, "batch pixel"]
    ) -> tuple[Training, Scalar]:
        pick_key, run_key = jax.random.split(key)
        picked = jax.random.choice(pick_key, options["chains"], (size,), replace=False)
        chains, rates = dlp_steps(
            at.model, run_key, at.chains[picked], options["steps"], options["step_size"]
        )

        def loss(model: BinaryEnergy) -> Scalar:
            return jnp.mean(jax.vmap(model)(chains)) - jnp.mean(jax.vmap(model)(batch))

        gradient = jax.grad(loss)(at.model)
        updates, state = optimiser.update(gradient, at.optimiser)
        model = eqx.apply_updates(at.model, updates)
        return Training(model, state, at.chains.at[picked].set(chains)), jnp.mean(rates)

    def finish(at: Training) -> tuple[BinaryEnergy, dict[str, object]]:
        model = rounded(at.model)
        return model, binary_quality(model, test, seed)

    settings = {"data": source, "images": len(train), **options}
    batch = lambda n: train[picks(seed, n, len(train), size)].astype(np.float32)
    return Task(start, batch, step, "acceptance", settings, finish)


def dlp_steps(
    logdensity: Callable[[Array], Scalar],
    key: PRNGKey,
    x: Float[Array, "chain pixel"],
    steps: int,
    step_size: float,
) -> tuple[Float[Array, "chain pixel"], Float[Array, "step chain"]]:
    """Move chains by the discrete Langevin proposal; also the acceptance rates."""
    algorithm = srmc.dlp(logdensity, srmc.Binary(), step_size, alpha=0.0)
    states = jax.vmap(algorithm.init)(x)

    def one(states: RepelState, key: PRNGKey) -> tuple[RepelState, Array]:
        states, info = jax.vmap(algorithm.step)(jax.random.split(key, len(x)), states)
        return states, info.acceptance_rate

    states, rates = jax.lax.scan(one, states, jax.random.split(key, steps))
    return states.position, rates


def binary_quality(
    model: BinaryEnergy, test: Int[np.ndarray, "image pixel"], seed: int
) -> dict[str, object]:
    """The log likelihood of the test images in nats, with log Z by annealing from the base."""
    probabilities = jax.nn.sigmoid(model.base)
    found = srmc.ais(
        jax.random.key(seed),
        model,
        lambda f: srmc.gwg(f, srmc.Binary(), alpha=0.0),
        lambda key: jax.random.bernoulli(key, probabilities).astype(jnp.float32),
        model.base_logdensity,
        log_base_normalizer=float(jnp.sum(jax.nn.softplus(model.base))),
        schedule=4000,
        num_particles=50,
        progress=False,
    )
    values = jax.jit(jax.vmap(model))(test.astype(np.float32))
    return {
        "test_log_likelihood": round(float(jnp.mean(values)) - found.log_normalizer, 2),
        "log_normalizer": round(found.log_normalizer, 2),
        "log_normalizer_error": round(found.error, 2),
        "effective_particles": round(found.effective_sample_size, 1),
    }

"""Classifiers, which say of what class a sample is."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from srmc.types import Array, PRNGKey, Scalar
from srmc_studies.paper.ebm.data import Images
from srmc_studies.paper.ebm.networks import BUILD, rounded
from srmc_studies.paper.ebm.training import Task, Training, adam, picks


def classifier(
    name: str,
    images: Images,
    iterations: int,
    seed: int,
    options: dict[str, Any],
    prepare: Callable[[np.random.Generator, np.ndarray], np.ndarray],
) -> Task:
    """A classifier of images that `prepare` makes of the data, at random."""
    optimiser = adam(options["rate"], iterations)

    def start(key: PRNGKey) -> Training:
        model = BUILD[name](key)
        return Training(model, optimiser.init(model))

    def batch(n: int) -> tuple[np.ndarray, np.ndarray]:
        chosen = picks(seed, n, len(images.x_train), options["batch"])
        rng = np.random.default_rng((seed, n, 1))
        return prepare(rng, images.x_train[chosen]), images.y_train[chosen]

    def step(key: PRNGKey, at: Training, batch: tuple[Array, Array]) -> tuple[Training, Scalar]:
        x, y = batch

        def loss(model: Callable[[Array], Array]) -> Scalar:
            logits = jax.vmap(model)(x)
            return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(logits, y))

        value, gradient = jax.value_and_grad(loss)(at.model)
        updates, state = optimiser.update(gradient, at.optimiser)
        return Training(eqx.apply_updates(at.model, updates), state), value

    def finish(at: Training) -> tuple[Any, dict[str, object]]:
        model = rounded(at.model)
        x = prepare(np.random.default_rng(seed), images.x_test)
        logits = np.concatenate([jax.jit(jax.vmap(model))(part) for part in np.array_split(x, 20)])
        return model, {"test_accuracy": float(np.mean(logits.argmax(axis=1) == images.y_test))}

    settings = {"data": images.source, "images": len(images.x_train), **options}
    return Task(start, batch, step, "loss", settings, finish)

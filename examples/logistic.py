"""Logistic regression on real data (Wisconsin breast cancer) in plain JAX, against plain NUTS."""

import jax
import jax.numpy as jnp
from sklearn.datasets import load_breast_cancer

import srmc

features, labels = load_breast_cancer(return_X_y=True)
features = (features - features.mean(axis=0)) / features.std(axis=0)
design = jnp.column_stack([jnp.ones(len(labels)), features])
sign = jnp.asarray(2.0 * labels - 1.0)


def logdensity(weights):
    return -0.5 * jnp.sum(weights**2) + jnp.sum(jax.nn.log_sigmoid(sign * (design @ weights)))


if __name__ == "__main__":
    result = srmc.sample(logdensity, initial_position=jnp.zeros(design.shape[1]), base=True)
    print(result.summary().round(3).head(8))
    result.plot("logistic.png")
    print(f"{result.gradients} gradients; trace, history and the plain chain are in logistic.png")

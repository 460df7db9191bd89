"""Small discrete spaces that can be enumerated, and what kernels say of their steps there."""

import jax
import jax.numpy as jnp
import numpy as np

import srmc

TABLE = np.random.default_rng(3).normal(size=(3, 3))
ALPHA = 1.5


def binary(x):
    """Linear in no site: what a gradient says of a flip is wrong."""
    return jnp.sum(jnp.sin(2 * x[:-1] + 3 * x[1:])) + 0.4 * x[0] - 0.8 * x[2] ** 2 * x[1]


def ordinal(x):
    return 0.5 * jnp.cos(x[0] * x[1]) - 0.3 * (x[0] - 1.2) ** 2 + 0.2 * x[1]


def categorical(x):
    weights = jnp.asarray(TABLE, x.dtype)
    return x[0] @ weights @ x[1] + jnp.sum(jnp.tanh(2 * x[0])) * x[1, 2]


SPACES = {
    "binary": (srmc.Binary(), binary, (3,)),
    "ordinal": (srmc.Ordinal(3), ordinal, (2,)),
    "categorical": (srmc.Categorical(3), categorical, (2,)),
}


def repelled(build, logdensity_fn, space, feature):
    """The sampler with a history that stands still, or the plain one if there is no feature."""
    options = {"alpha": 0.0}
    if feature == "sites":
        options = {"alpha": ALPHA, "bend": "sites", "gain": srmc.gain(scale=0.0)}
    elif feature is not None:
        options = {"alpha": ALPHA, "feature": feature, "bend": "feature"}
        options["gain"] = srmc.gain(scale=0.0)
    return build(logdensity_fn, space, **options)


def observed(algorithm, space, states, theta, num_keys):
    """From each state, many single steps: indices of proposals, and the kernel's own numbers."""
    digits = space.num_values ** jnp.arange(len(space.labels(states[0])))
    index = lambda x: jnp.sum(space.labels(x) * digits)

    def one(x, key):
        state = algorithm.init(x, theta=theta)
        after, info = algorithm.step(key, state)
        inner = info.inner_info
        return (
            *(index(inner.proposal), inner.log_proposal, inner.acceptance_rate),
            *(index(after.position), state.feature),
        )

    program = jax.vmap(jax.vmap(one, (None, 0)), (0, None))
    keys = jax.random.split(jax.random.key(0), num_keys)
    return map(np.asarray, jax.jit(program)(states, keys))


def normalised(log_values):
    weights = np.exp(log_values - log_values.max())
    return weights / weights.sum()

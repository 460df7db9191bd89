"""Means and variances in 100,000 dimensions, in memory that does not grow with the run.

python examples/moments.py [STEPS]
"""

import resource
import sys

import jax
import jax.numpy as jnp

import srmc

scale = jnp.linspace(0.5, 2.0, 100_000)


def logdensity(x):
    return -0.5 * jnp.sum((x / scale) ** 2)


if __name__ == "__main__":
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    result = srmc.sample(
        logdensity,
        kernel="mala",
        num_chains=2,
        num_warmup=400,
        num_samples=steps,
        initial_position=lambda key: scale * jax.random.normal(key, scale.shape),
        keep="moments",
    )
    moments = result.moments["x"]
    relative = jnp.mean(moments["variance"], axis=0) / scale**2
    print(f"variances over the truth: {relative.mean():.3f} ± {relative.std():.3f}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    print(f"peak memory: {peak:.0f} MB after {result.about['steps']} steps")

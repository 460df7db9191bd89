"""What tests share: kernels, and a target that is skewed and exact even when tilted."""

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import digamma, polygamma

import srmc
from srmc.sample import run as run_chains

SHAPES = np.array([1.5, 4.0])


def log_gamma(x):
    """The log density of log G, G ~ Gamma(SHAPES): skewed, with score SHAPES - exp(x)."""
    return jnp.sum(SHAPES.astype(x.dtype) * x - jnp.exp(x))


MEAN, VARIANCE = digamma(SHAPES), polygamma(1, SHAPES)


def log_gamma_tree(x):
    return log_gamma(jnp.stack([x["a"], x["b"][0]]))


# Every kernel that must work: a builder of a repelled kernel, given a log density and options.
KERNELS = {
    "rmh": lambda f, **kw: srmc.mh(f, 0.8, **kw),
    "mala": lambda f, **kw: srmc.mala(f, 0.1, **kw),
    "barker": lambda f, **kw: srmc.repel(blackjax.barker, f, step_size=0.8, **kw),
    "hmc": lambda f, **kw: srmc.hmc(f, 0.35, 3, **kw),
    "dynamic_hmc": lambda f, **kw: srmc.repel(
        blackjax.dynamic_hmc, f, step_size=0.35, inverse_mass_matrix=np.ones(2, np.float32), **kw
    ),
    "nuts": lambda f, **kw: srmc.nuts(f, 0.35, **kw),
    # GHMC has an alpha of its own, which is therefore given by position.
    "ghmc": lambda f, **kw: srmc.repel(
        blackjax.ghmc, f, 0.35, np.ones(2, np.float32), 0.3, 0.2, **kw
    ),
    "adjusted_mclmc": lambda f, **kw: srmc.repel(
        blackjax.adjusted_mclmc, f, step_size=0.5, num_integration_steps=3, **kw
    ),
    "ula": lambda f, **kw: srmc.ula(f, 0.02, **kw),
    "uld": lambda f, **kw: srmc.uld(f, 0.2, **kw),
}
UNADJUSTED = ("ula", "uld")
ADJUSTED = [name for name in KERNELS if name not in UNADJUSTED]

# The same kernels as BlackJAX builds them, for comparisons bit by bit.
BASES = {
    "rmh": lambda f: blackjax.additive_step_random_walk.normal_random_walk(f, 0.8),
    "mala": lambda f: blackjax.mala(f, 0.1),
    "barker": lambda f: blackjax.barker(f, 0.8),
    "hmc": lambda f: blackjax.hmc(f, 0.35, jnp.ones(2), 3),
    "dynamic_hmc": lambda f: blackjax.dynamic_hmc(f, 0.35, jnp.ones(2)),
    "nuts": lambda f: blackjax.nuts(f, 0.35, jnp.ones(2)),
    "ghmc": lambda f: blackjax.ghmc(f, 0.35, jnp.ones(2), 0.3, 0.2),
    "adjusted_mclmc": lambda f: blackjax.adjusted_mclmc(f, 0.5, num_integration_steps=3),
    "ula": lambda f: srmc.kernels.plain.ula(f, 0.02),
    "uld": lambda f: srmc.kernels.plain.uld(f, 0.2),
}

MODES = {
    "tilt": {"surrogate": srmc.tilt()},
    "shift-fixed": {"surrogate": srmc.shift(), "frame": "fixed"},
    "shift-moving": {"surrogate": srmc.shift(), "frame": "moving"},
}


def _chain(algorithm, rng_key, position, num_steps, keep):
    """Run one chain and stack what `keep(state, info)` returns."""

    def one(state, key):
        state, info = algorithm.step(key, state)
        return state, keep(state, info)

    init_key, run_key = jax.random.split(rng_key)
    state = algorithm.init(position, init_key)
    return jax.lax.scan(one, state, jax.random.split(run_key, num_steps))


# For long chains, and for comparisons bit by bit.
AS_USUAL = {"xla_backend_optimization_level": 3, "xla_llvm_disable_expensive_passes": False}
chain = jax.jit(_chain, static_argnums=(0, 3, 4), compiler_options=AS_USUAL)
short_chain = jax.jit(_chain, static_argnums=(0, 3, 4))


def run(algorithm, rng_key, positions, num_draws, **options):
    """Draws and statistics (chain, draw, ...) of chains from these positions, and last states."""
    keys = jax.random.split(rng_key, len(jax.tree.leaves(positions)[0]))
    states = jax.jit(jax.vmap(algorithm.init))(positions, keys)
    program = jax.jit(lambda s: run_chains(algorithm, rng_key, s, num_draws, **options))
    states, draws, stats = program(states)
    by_chain = lambda x: np.swapaxes(np.asarray(x), 0, 1)
    return jax.tree.map(by_chain, draws), jax.tree.map(by_chain, stats), states

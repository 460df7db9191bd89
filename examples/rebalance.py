"""Rebalance draws of another program: python examples/rebalance.py [PICTURE]

Thirty-two runs of plain NUTS on a logistic posterior, 500 draws each, before and after
`srmc.rebalance`. The truth is a long run, rebalanced as well.
"""

import sys

import blackjax
import jax
import matplotlib.pyplot as plt
import numpy as np

import srmc

target = srmc.targets.logistic()
score = jax.grad(target.logdensity_fn)


def nuts(key, num_chains, num_draws):
    """Plain NUTS, as anybody would run it."""

    def chain(key):
        warm_key, key = jax.random.split(key)
        adaptation = blackjax.window_adaptation(blackjax.nuts, target.logdensity_fn)
        (state, parameters), _ = adaptation.run(warm_key, target.position, 1000)
        kernel = blackjax.nuts(target.logdensity_fn, **parameters)

        def step(state, key):
            state, _ = kernel.step(key, state)
            return state, state.position

        _, draws = jax.lax.scan(step, state, jax.random.split(key, num_draws))
        return draws

    return jax.jit(jax.vmap(chain))(jax.random.split(key, num_chains))


truth = srmc.rebalance(np.asarray(nuts(jax.random.key(1), 64, 4000)), score)
truth = truth.reshape(-1, truth.shape[-1])
draws = np.asarray(nuts(jax.random.key(2), 32, 500))
rebalanced = srmc.rebalance(draws, score, pooled=False)  # each run by itself

mean, sd = truth.mean(axis=0), truth.std(axis=0)
functionals = {
    "mean": lambda x: x.mean(axis=-2) / sd,
    "standard deviation": lambda x: x.std(axis=-2) / sd,
    "5% quantile": lambda x: np.quantile(x, 0.05, axis=-2) / sd,
    "median": lambda x: np.median(x, axis=-2) / sd,
    "95% quantile": lambda x: np.quantile(x, 0.95, axis=-2) / sd,
    "P(x > mean + 1.5 sd)": lambda x: (x > mean + 1.5 * sd).mean(axis=-2),
}
errors = {
    name: [np.sqrt(np.mean((f(x) - f(truth)) ** 2)) for x in (draws, rebalanced)]
    for name, f in functionals.items()
}
print(f"{'root mean square error':24} plain    rebalanced")
for name, (plain, ours) in errors.items():
    print(f"{name:24} {plain:.4f}   {ours:.4f}")

if len(sys.argv) > 1:
    fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    grid = np.linspace(mean[0] - 3 * sd[0], mean[0] + 3 * sd[0], 200)
    below = lambda x: np.searchsorted(np.sort(x), grid) / len(x)
    for x, colour, label in ((draws, "0.4", "plain"), (rebalanced, "C3", "rebalanced")):
        off = np.array([below(run[:, 0]) for run in x]) - below(truth[:, 0])
        low, high = np.quantile(off, [0.1, 0.9], axis=0)
        left.fill_between(grid, low, high, color=colour, alpha=0.5, lw=0, label=label)
    left.axhline(0, color="k", lw=0.8)
    left.set(
        title="distribution function less the truth's: 80% of 32 runs", xlabel="first coefficient"
    )
    left.legend()
    place = np.arange(len(errors))
    for shift, colour, side in ((-0.2, "0.4", 0), (0.2, "C3", 1)):
        right.barh(place + shift, [e[side] for e in errors.values()], 0.38, color=colour)
    right.set_yticks(place, list(errors))
    right.invert_yaxis()
    right.set(title="root mean square error over runs and coordinates", xlabel="in units of the sd")
    fig.savefig(sys.argv[1], dpi=110)

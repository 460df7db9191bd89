"""Rebalance draws of another program: python examples/rebalance.py [PICTURE]

Thirty-two runs of plain NUTS on a logistic posterior, 500 draws each, before and after
`srmc.rebalance`. The truth is a long run, rebalanced as well.
"""

import sys
from pathlib import Path

import blackjax
import jax
import numpy as np
from matplotlib.figure import Figure

import srmc
from srmc.results.look import COLOURS, WIDTH, look, save

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
    with look():
        figure = Figure(figsize=(WIDTH, 3.0), layout="constrained")
        left, right = figure.subplots(1, 2)
        grid = np.linspace(mean[0] - 3 * sd[0], mean[0] + 3 * sd[0], 200)
        below = lambda x: np.searchsorted(np.sort(x), grid) / len(x)
        for x, side in ((draws, "plain"), (rebalanced, "rebalanced")):
            off = np.array([below(run[:, 0]) for run in x]) - below(truth[:, 0])
            low, high = np.quantile(off, [0.1, 0.9], axis=0)
            look_of = {"color": COLOURS[side], "alpha": 0.5, "lw": 0, "label": side}
            left.fill_between(grid, low, high, **look_of)
        left.axhline(0, color="k", lw=0.8)
        left.set(title="error of the distribution function", xlabel="first coefficient")
        place = np.arange(len(errors))
        for shift, side, n in ((-0.2, "plain", 0), (0.2, "rebalanced", 1)):
            widths = [e[n] for e in errors.values()]
            right.barh(place + shift, widths, 0.38, color=COLOURS[side])
        right.set_yticks(place, list(errors))
        right.invert_yaxis()
        right.set(title="root mean square error", xlabel="← smaller      in posterior sds")
        named = left.get_legend_handles_labels()
        figure.legend(*named, loc="outside upper center", ncols=2)
        save(figure, Path(sys.argv[1]))

"""Minibatches: SGLD and SGHMC, plain and repelled, on a regression with 100,000 rows.

`python examples/stochastic_gradients.py` measures the errors of posterior means and the bias of
variances, writes both to `stochastic-gradients.json`, and draws `stochastic-gradients.png`.
"""

import json
from pathlib import Path

import blackjax
import jax
import jax.numpy as jnp
import numpy as np

import srmc

ROWS, BATCH, EPOCHS, CHAINS = 100_000, 1_000, 50, 16
STEPS = {"sgld": (3e-3, 1e-2, 3e-2), "sghmc": (1e-2, 2e-2, 4e-2)}


def make_data(rows=ROWS):
    """A design with correlated and skewed columns, and labels from a logistic model."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, 5))
    x[:, 0] = 1.0
    x[:, 2] = 0.8 * x[:, 1] + 0.6 * x[:, 2]
    x[:, 3] = rng.exponential(size=rows) - 1.0
    weights = np.array([-1.0, 0.5, -0.5, 0.8, 0.0])
    y = rng.random(rows) < 1 / (1 + np.exp(-x @ weights))
    return jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32)


def logprior(w):
    return -0.5 * jnp.sum(w**2)


def loglikelihood(w, row):
    x, y = row
    return y * (x @ w) - jax.nn.softplus(x @ w)


def reference(data):
    """The posterior mean and covariance, by Laplace's method with its next term for the mean."""
    with jax.enable_x64(True):
        data = jax.tree.map(lambda a: jnp.asarray(np.asarray(a), float), data)
        rows = jax.vmap(loglikelihood, in_axes=(None, 0))
        logdensity = lambda w: logprior(w) + jnp.sum(rows(w, data))
        score, hessian = jax.jit(jax.grad(logdensity)), jax.jit(jax.hessian(logdensity))
        mode = jnp.zeros(data[0].shape[1])
        for _ in range(8):
            mode = mode - jnp.linalg.solve(hessian(mode), score(mode))
        covariance = jnp.linalg.inv(-hessian(mode))
        slope = jax.grad(lambda w: jnp.linalg.slogdet(hessian(w))[1])(mode)
        return np.asarray(mode - 0.5 * covariance @ slope), np.asarray(covariance)


def in_units(data, mean, covariance):
    """The minibatch score of z, w = mean + L z, so that z has mean 0 and unit variances."""
    root = jnp.asarray(np.linalg.cholesky(covariance), jnp.float32)
    mean = jnp.asarray(mean, jnp.float32)
    score = blackjax.sgmcmc.gradients.grad_estimator(logprior, loglikelihood, len(data[0]))
    return lambda z, rows: root.T @ score(mean + root @ z, rows)


def sample(algorithm, data, rng_key, epochs=EPOCHS, batch=BATCH):
    """One draw per minibatch; each epoch goes through all rows in another order of minibatches."""
    batches = jax.tree.map(lambda a: a.reshape(-1, batch, *a.shape[1:]), data)
    count = len(batches[0])

    def one(state, keys_and_index):
        key, index = keys_and_index
        state, _ = algorithm.step(key, state, jax.tree.map(lambda a: a[index], batches))
        return state, state.position

    init_key, order_key, run_key = jax.random.split(rng_key, 3)
    order = jax.vmap(lambda key: jax.random.permutation(key, count))
    indices = order(jax.random.split(order_key, epochs)).reshape(-1)
    start = jax.random.normal(init_key, (5,))
    state = algorithm.init(start, init_key)
    return jax.lax.scan(one, state, (jax.random.split(run_key, len(indices)), indices))[1]


def measure(data, score, name, step_size, chains=CHAINS, epochs=EPOCHS, **options):
    """Squared error of means, and variance, both in units of the posterior, a fifth left out."""
    algorithm = getattr(srmc, name)(score, step_size, **options)
    keys = jax.random.split(jax.random.key(0), chains)
    draws = jax.jit(jax.vmap(lambda key: sample(algorithm, data, key, epochs)))(keys)
    kept = np.asarray(draws[:, draws.shape[1] // 5 :], float)
    errors = np.mean(kept.mean(1) ** 2, axis=1)
    variances = np.mean(kept**2, axis=(1, 2))
    spread = lambda x: float(x.std(ddof=1) / np.sqrt(chains))
    return {
        "sampler": name,
        "step size": step_size,
        "repelled": options.get("alpha") != 0.0,
        "squared error": [float(errors.mean()), spread(errors)],
        "variance": [float(variances.mean()), spread(variances)],
    }


def study(chains=CHAINS, epochs=EPOCHS, steps=STEPS):
    data = make_data()
    score = in_units(data, *reference(data))
    return [
        measure(data, score, name, step_size, chains, epochs, **options)
        for name, sizes in steps.items()
        for step_size in sizes
        for options in ({"alpha": 0.0}, {})
    ]


def table(rows):
    """Plain and repelled runs side by side, as Markdown."""
    lines = [
        "| sampler | step size | squared error of means, plain | repelled | ratio | "
        "variance, plain | repelled |",
        "|---|---|---|---|---|---|---|",
    ]
    for plain, repelled in zip(rows[::2], rows[1::2], strict=True):
        a, b = plain["squared error"], repelled["squared error"]
        shown = [f"{value:.2g} ± {error:.1g}" for value, error in (a, b)]
        variances = [
            f"{row['variance'][0]:.2f} ± {row['variance'][1]:.1g}" for row in (plain, repelled)
        ]
        cells = (
            plain["sampler"],
            f"{plain['step size']:g}",
            *shown,
            f"{b[0] / a[0]:.2g}",
            *variances,
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def draw(rows, path):
    from matplotlib.figure import Figure

    from srmc.results.look import COLOURS, WIDTH, look, save

    with look():
        figure = Figure(figsize=(WIDTH, 3.0), layout="constrained")
        axes = figure.subplots(1, 2)
        for name, marker in (("sgld", "o"), ("sghmc", "s")):
            for side in ("plain", "repelled"):
                mine = [r for r in rows if r["sampler"] == name]
                mine = [r for r in mine if r["repelled"] == (side == "repelled")]
                if not mine:
                    continue
                for axis, key in zip(axes, ("squared error", "variance"), strict=True):
                    values, errors = zip(*(r[key] for r in mine), strict=True)
                    sizes = [r["step size"] for r in mine]
                    style = {"marker": marker, "color": COLOURS[side]}
                    axis.errorbar(sizes, values, errors, label=f"{name.upper()}, {side}", **style)
        axes[0].set(xscale="log", yscale="log", xlabel="step size", title="squared error of means")
        axes[1].set(xscale="log", xlabel="step size", title="variance (1 is exact)")
        for axis in axes:
            axis.set_xticks((0.003, 0.01, 0.03), ("0.003", "0.01", "0.03"))
            axis.tick_params(axis="x", which="minor", length=0, labelbottom=False)
        axes[1].axhline(1.0, color="0.3", lw=1, zorder=0)
        handles = axes[1].get_legend_handles_labels()
        figure.legend(*handles, loc="outside upper center", ncols=4)
        save(figure, path)


if __name__ == "__main__":
    rows = study()
    Path("stochastic-gradients.json").write_text(json.dumps(rows, indent=1) + "\n")
    draw(rows, "stochastic-gradients.png")
    print(table(rows))

"""Scores without a density: annealed Langevin sampling from a learned score of digits.

A small network learns the score of digits with noise (denoising score matching; Song and Ermon,
2019). Annealed ULA follows it through falling noise levels. It has no density, so nothing can be
accepted or rejected, but repellence needs scores only. `python examples/scores.py` compares both.
"""

import functools
import json
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

import srmc

WIDTH = 256  # of the layers of the network
LEVELS = np.geomspace(3.0, 0.1, 10)  # standard deviations of the noise, from pure noise down
STEP = 0.1  # of the Langevin steps, in units of the variance of the noise
REPELLED = (0.3, 1.0, 3.0)  # alpha, in the same units


class Method(NamedTuple):
    """A sampler, its alpha, its steps per level, and the scores that each step takes."""

    name: str
    alpha: float
    steps: int
    scores: int


def methods(steps):
    """Plain chains with as many steps and with as many scores as the repelled ones."""
    return [
        Method("plain, equal steps", 0.0, steps, 1),
        Method("plain, equal scores", 0.0, 2 * steps, 1),
        *(Method(f"repelled, alpha = {a:g}", a, steps, 2) for a in REPELLED),
    ]


def digits():
    """Scikit-learn's digits of 8 x 8 pixels in [-1, 1], and their classes: two halves of each."""
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(x))
    x, y = (x[order] / 8 - 1).astype(np.float32), y[order]
    return (x[::2], y[::2]), (x[1::2], y[1::2])


def start_network(rng_key, dim, width=WIDTH):
    sizes = [(dim + 1, width), (width, width), (width, width), (width, dim)]
    keys = jax.random.split(rng_key, len(sizes))
    normal = lambda key, s: jax.random.normal(key, s) * jnp.sqrt(2 / s[0])
    return [(normal(key, s), jnp.zeros(s[1])) for key, s in zip(keys, sizes, strict=True)]


def score(network, x, sigma):
    """The score of digits with noise of this size: minus the noise that the network sees in x."""
    h = jnp.append(x / jnp.sqrt(sigma**2 + 0.5), jnp.log(sigma))
    for weight, bias in network[:-1]:
        h = jax.nn.silu(h @ weight + bias)
    weight, bias = network[-1]
    return -(h @ weight + bias) / sigma


def loss(network, x, rng_key):
    """The squared error of sigma s(x + sigma xi, sigma) for -xi: denoising score matching."""
    level_key, noise_key = jax.random.split(rng_key)
    low, high = np.log(LEVELS[-1]), np.log(LEVELS[0])
    sigma = jnp.exp(jax.random.uniform(level_key, (len(x),), minval=low, maxval=high))
    noise = jax.random.normal(noise_key, x.shape)
    found = jax.vmap(functools.partial(score, network))(x + sigma[:, None] * noise, sigma)
    return jnp.mean((sigma[:, None] * found + noise) ** 2)


def train(x, num_steps=6_000, batch=128, width=WIDTH):
    """Train by Adam, and average the weights of the second half."""
    key = jax.random.key(0)
    network = start_network(jax.random.fold_in(key, 1), x.shape[1], width)
    adam = optax.adam(optax.cosine_decay_schedule(1e-3, num_steps))
    x = jnp.asarray(x)

    def step(carry, n):
        network, state, average = carry
        pick_key, loss_key = jax.random.split(jax.random.fold_in(key, n))
        picks = jax.random.randint(pick_key, (batch,), 0, len(x))
        value, slope = jax.value_and_grad(loss)(network, x[picks], loss_key)
        change, state = adam.update(slope, state)
        network = optax.apply_updates(network, change)
        weight = jnp.where(n < num_steps // 2, 1.0, 1 / (n - num_steps // 2 + 1))
        average = jax.tree.map(lambda a, w: a + weight * (w - a), average, network)
        return (network, state, average), value

    first = network, adam.init(network), network
    (_, _, average), values = jax.jit(lambda: jax.lax.scan(step, first, jnp.arange(num_steps)))()
    return average, np.asarray(values)


def anneal(network, method, rng_key, dim):
    """One chain from noise through all levels; each level has a target and a history of its own."""

    def level(x, sigma_and_key):
        sigma, key = sigma_and_key
        options = srmc.paper_settings(method.alpha * sigma**2)
        options |= {"surrogate": srmc.tilt("shifted")}
        ula = srmc.ula(
            score_fn=lambda x: score(network, x, sigma), step_size=STEP * sigma**2, **options
        )
        step = lambda state, key: (ula.step(key, state)[0], None)
        state, _ = jax.lax.scan(step, ula.init(x), jax.random.split(key, method.steps))
        return state.position, None

    start_key, run_key = jax.random.split(rng_key)
    start = LEVELS[0] * jax.random.normal(start_key, (dim,))
    each = jnp.asarray(LEVELS, start.dtype), jax.random.split(run_key, len(LEVELS))
    x, _ = jax.lax.scan(level, start, each)
    return x + LEVELS[-1] ** 2 * score(
        network, x, LEVELS[-1]
    )  # the mean of what is below the noise


def energy_distance(x, y):
    """The energy distance of two samples, without bias: 0 if they have one distribution."""
    apart = lambda a, b: np.sqrt(
        np.maximum(0, (a**2).sum(1)[:, None] + (b**2).sum(1) - 2 * a @ b.T)
    )
    within = lambda a: apart(a, a).sum() / (len(a) * (len(a) - 1))
    return 2 * apart(x, y).mean() - within(x) - within(y)


def study(network, num_steps=30, batches=16, chains=64):
    """Measures of batches of samples, for each method, with errors over batches."""
    from sklearn.neighbors import KNeighborsClassifier

    (x, y), (held_out, labels) = digits()
    classify = KNeighborsClassifier(3).fit(x, y).predict
    shares = np.bincount(labels, minlength=10) / len(labels)
    keys = jax.random.split(jax.random.key(1), (batches, chains))
    rows, shown = [], {}
    for method in methods(num_steps):
        one = lambda key, m=method: anneal(network, m, key, x.shape[1])
        samples = np.asarray(jax.jit(jax.vmap(jax.vmap(one)))(keys), float)
        found = [_measures(s, held_out, classify, shares) for s in samples]
        row = {"method": method.name, "scores": method.scores * method.steps * len(LEVELS)}
        for name in found[0]:
            each = np.array([f[name] for f in found])
            row[name] = [float(each.mean()), float(each.std(ddof=1) / np.sqrt(batches))]
        rows.append(row)
        shown[method.name] = samples[0]
    real = [_measures(s, held_out, classify, shares) for s in np.array_split(x, len(x) // chains)]
    row = {"method": "digits of the training half", "scores": 0}
    for name in real[0]:
        each = np.array([f[name] for f in real])
        row[name] = [float(each.mean()), float(each.std(ddof=1) / np.sqrt(len(real)))]
    return [*rows, row], shown


def _measures(samples, held_out, classify, shares):
    found = np.bincount(classify(samples), minlength=10) / len(samples)
    return {
        "energy distance": energy_distance(samples, held_out),
        "error of the mean": np.mean((samples.mean(0) - held_out.mean(0)) ** 2),
        "distance of classes": 0.5 * np.abs(found - shares).sum(),
    }


def table(rows):
    names = list(rows[0])[2:]
    head = ["samples", "scores per sample", *names]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in rows:
        values = [f"{row[name][0]:.2g} ± {row[name][1]:.1g}" for name in names]
        lines.append("| " + " | ".join([row["method"], f"{row['scores']:,}", *values]) + " |")
    return "\n".join(lines)


def draw(shown, path):
    """The first samples of each method beside held-out digits."""
    from matplotlib.figure import Figure

    from srmc.results.look import WIDTH, look, save

    shown = {"digits": digits()[1][0]} | shown
    with look():
        figure = Figure(figsize=(WIDTH, 1.05 * len(shown)), layout="constrained")
        for axis, (name, x) in zip(figure.subplots(len(shown)), shown.items(), strict=True):
            tiles = x[:24].reshape(-1, 12, 8, 8).transpose(0, 2, 1, 3).reshape(-1, 96)
            axis.imshow(tiles, cmap="gray_r", vmin=-1, vmax=1)
            axis.set(xticks=[], yticks=[])
            axis.set_title(name, fontsize=9, loc="left")
        save(figure, path)


if __name__ == "__main__":
    network, losses = train(digits()[0][0])
    print(f"loss of the last 500 steps: {losses[-500:].mean():.3f}; 1 for a score of 0")
    rows, shown = study(network)
    Path("scores.json").write_text(json.dumps(rows, indent=1) + "\n")
    draw(shown, "scores.png")
    print(table(rows))

"""The finite-state ancestors on a graph: SRRW and HDT beside repellence with features.

SRRW (Doshi et al., 2023) and HDT (Hu et al., 2025) repel a chain from nodes by the share of visits
to each, a history of one number per node. SRMC repels it by the average of features. With one-hot
features its history has one number per node too, and agrees with HDT to first order; with few
features it has few numbers. `python examples/graph.py` compares errors, memory and work.
"""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

NODES, GROUPS, FEATURES = 2_000, 10, 20
SETTINGS = ("method", "alpha", "numbers", "steps")
ALPHAS = {"plain": 0.0, "SRRW": 3.0, "HDT": 3.0, "SRMC, one-hot": 3.0, "SRMC, few": 10.0}


def make_graph(nodes=NODES, groups=GROUPS, seed=0):
    """A connected graph of communities: neighbours (padded by the node itself), and degrees."""
    rng = np.random.default_rng(seed)
    group = np.arange(nodes) % groups
    alike = group[:, None] == group
    chance = np.where(alike, 8 * groups / nodes, 0.4 / nodes)
    edges = np.triu(rng.random((nodes, nodes)) < chance, 1)
    order = rng.permutation(nodes)  # a cycle through all nodes of a group, and on to the next
    order = order[np.argsort(group[order], kind="stable")]
    edges[order, np.roll(order, 1)] = True
    edges |= edges.T
    np.fill_diagonal(edges, False)
    degree = edges.sum(1)
    padded = np.tile(np.arange(nodes)[:, None], degree.max())
    for node in range(nodes):
        padded[node, : degree[node]] = np.flatnonzero(edges[node])
    return edges, jnp.asarray(padded), jnp.asarray(degree), group


def slow_functions(edges, count=FEATURES):
    """The slowest functions of the Metropolis walk with uniform target, of unit variance."""
    degree = edges.sum(1)
    walk = np.where(edges, 1 / np.maximum(degree[:, None], degree), 0.0)
    np.fill_diagonal(walk, 1 - walk.sum(1))
    _, vectors = np.linalg.eigh(walk)
    return np.sqrt(len(edges)) * vectors[:, -1 - count : -1]


def walk(method, graph, features, alpha, num_steps, rng_key, parts=1):
    """The visits to each node by one chain with the uniform target, after each part of the run."""
    _, neighbours, degree, _ = graph
    nodes, most = neighbours.shape
    features = jnp.asarray(features, jnp.float32)

    def log_bias(visits, history, n, at):
        """What the history adds to the log density of some nodes."""
        if method == "SRMC, few":
            return -alpha * features[at] @ (history / (n + nodes))
        share = nodes * (visits[at] + 1) / (n + nodes)  # of visits, over that of the target
        return -alpha * (share - 1 if method == "SRMC, one-hot" else jnp.log(share))

    def step(carry, n_and_key):
        node, visits, history = carry
        n, key = n_and_key
        key, accept_key = jax.random.split(key)
        if method == "SRRW":  # from all neighbours, and the node itself, by their weights
            around = jnp.append(neighbours[node], node)
            moves = 1 / jnp.maximum(degree[node], degree[neighbours[node]])
            moves = jnp.where(jnp.arange(most) < degree[node], moves, 0.0)
            weights = jnp.log(jnp.append(moves, 1 - jnp.sum(moves)).clip(1e-30))
            weights += log_bias(visits, history, n, around)
            node = around[jax.random.categorical(key, weights)]
        else:
            other = neighbours[node, jax.random.randint(key, (), 0, degree[node])]
            pair = jnp.stack([node, other])
            # q(j, i) / q(i, j) = degree[i] / degree[j]
            here, there = log_bias(visits, history, n, pair) - jnp.log(degree[pair])
            accepted = jnp.log(jax.random.uniform(accept_key)) < there - here
            node = jnp.where(accepted, other, node)
        return (node, visits.at[node].add(1), history + features[node]), None

    start_key, run_key = jax.random.split(rng_key)
    start = jax.random.randint(start_key, (), 0, nodes)
    empty = start, jnp.zeros(nodes), jnp.zeros(features.shape[1])
    steps = jnp.arange(num_steps), jax.random.split(run_key, num_steps)
    steps = jax.tree.map(lambda x: x.reshape(parts, -1, *x.shape[1:]), steps)

    def part(carry, steps):
        carry, _ = jax.lax.scan(step, carry, steps)
        return carry, carry[1]

    return jax.lax.scan(part, empty, steps)[1]


def functions_of(graph):
    """What is averaged: a community, the degree, and labels that know nothing of the graph."""
    _, _, degree, group = graph
    labels = np.random.default_rng(1).normal(size=len(group))
    each = {"community": group == 0, "degree": np.asarray(degree), "labels": labels}
    return {name: np.asarray(f, float) for name, f in each.items()}


def study(num_steps=100_000, chains=24, graph=None):
    """Squared errors of averages, in units of the variance under the target, by method.

    They are taken after a fifth of the run and at its end.
    """
    graph = make_graph() if graph is None else graph
    slow = slow_functions(graph[0], min(FEATURES, len(graph[0]) // 4))
    keys = jax.random.split(jax.random.key(0), chains)
    rows = []
    for method, alpha in ALPHAS.items():
        one = lambda key, m=method, a=alpha: walk(m, graph, slow, a, num_steps, key, parts=5)
        visits = np.asarray(jax.jit(jax.vmap(one))(keys), float)
        kept = {"plain": 0, "SRMC, few": slow.shape[1]}.get(method, len(slow))
        for part in (1, 5):
            steps = part * num_steps // 5
            row = {"method": method, "alpha": alpha, "numbers": kept, "steps": steps}
            for name, f in functions_of(graph).items():
                squared = (visits[:, part - 1] @ f / steps - f.mean()) ** 2 / f.var()
                row[name] = [squared.mean(), squared.std(ddof=1) / np.sqrt(chains)]
            rows.append(row)
    return rows


def table(rows):
    names = [name for name in rows[0] if name not in SETTINGS]
    head = ["method", "numbers kept", "steps", *(f"{name}, error" for name in names)]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in rows:
        errors = [f"{row[name][0]:.2g} ± {row[name][1]:.1g}" for name in names]
        cells = [row["method"], f"{row['numbers']:,}", f"{row['steps']:,}"]
        lines.append("| " + " | ".join([*cells, *errors]) + " |")
    return "\n".join(lines)


def draw(rows, path):
    from matplotlib.figure import Figure

    from srmc.results.look import COLOURS, OTHERS, WIDTH, look, save

    names = [name for name in rows[0] if name not in SETTINGS]
    last = max(row["steps"] for row in rows)
    blue = COLOURS["repelled"]
    colours = {"plain": COLOURS["plain"], "SRMC, one-hot": blue, "SRMC, few": "#8fb3e6"}
    colours |= {"SRRW": OTHERS[0], "HDT": OTHERS[1]}
    with look():
        figure = Figure(figsize=(WIDTH, 3.6), layout="constrained")
        axis = figure.subplots()
        for n, row in enumerate(row for row in rows if row["steps"] == last):
            values, errors = zip(*(row[name] for name in names), strict=True)
            at = np.arange(len(names)) + 0.16 * (n - 2)
            label = f"{row['method']} ({row['numbers']:,} numbers)"
            bars = {"yerr": 1.96 * np.array(errors), "capsize": 2}
            axis.bar(at, values, 0.15, label=label, color=colours[row["method"]], **bars)
        axis.set_xticks(range(len(names)), names)
        axis.set(yscale="log", ylabel="squared error / variance")
        figure.legend(loc="outside upper center", ncols=2)
        save(figure, path)


if __name__ == "__main__":
    rows = study()
    Path("graph.json").write_text(json.dumps(rows, indent=1) + "\n")
    draw(rows, "graph.png")
    print(table(rows))

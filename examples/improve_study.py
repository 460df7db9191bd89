"""Errors of the improve_*.py examples before and after, against a long run.

    python examples/improve_study.py truth          the long run, by NumPyro
    python examples/improve_study.py numpyro ...     20 runs of each example, with other seeds
    python examples/improve_study.py page           the table of docs/howto/improve.md

The numbers go to docs/data/improve.json.
"""

import importlib
import json
import sys
import tempfile
import time
import warnings
from pathlib import Path

import jax
import numpy as np

DOCS = Path(__file__).parents[1] / "docs"
ROWS = DOCS / "data" / "improve.json"
VARIABLES = ("mu", "tau", "theta", "sigma", "p", "sd", "corr")
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
SEEDS = 20
LABELS = {
    "numpyro": "NumPyro",
    "pymc": "PyMC",
    "nutpie": "nutpie",
    "nutpie, weights": "nutpie, from stored gradients alone",
    "stan_csv": "CmdStan's CSV files, log density in JAX",
}


def columns(posterior):
    """All coordinates that vary, (draw, k)."""
    arrays = [np.asarray(posterior[name].values, float) for name in VARIABLES]
    upper = np.triu_indices(3, 1)
    arrays[-1] = arrays[-1][..., upper[0], upper[1]]
    return np.concatenate([x.reshape(x.shape[0] * x.shape[1], -1) for x in arrays], axis=1)


def estimates(x):
    quantiles = np.quantile(x, LEVELS, axis=0)
    return {"means": x.mean(axis=0), "sds": x.std(axis=0), "quantiles": quantiles}


def truth():
    example = importlib.import_module("improve_numpyro")
    sampler = example.make_sampler(draws=10_000, chains=16)
    sampler.run(jax.random.key(99), *example.DATA)
    draws = sampler.get_samples(group_by_chain=True)
    posterior = {name: np.asarray(draws[name], float) for name in VARIABLES}
    found = estimates(columns({k: type("V", (), {"values": x}) for k, x in posterior.items()}))
    return {"draws": 160_000} | {k: v.tolist() for k, v in found.items()}


def study(name, known):
    """Squared errors in units of the posterior variance, by estimate and side, one per seed."""
    example = importlib.import_module(f"improve_{name}")
    sides = {name: example.improve}
    if hasattr(example, "weigh"):
        sides[f"{name}, weights"] = example.weigh
    squares = {side: {k: [] for k in ("means", "sds", "quantiles")} for side in ("plain", *sides)}
    options = {"mcmc": example.make_sampler()} if hasattr(example, "make_sampler") else {}
    for seed in range(SEEDS):
        began = time.perf_counter()
        trace = example.make_trace(seed, **options)
        posteriors = {"plain": trace["posterior"]}
        for side, improve in sides.items():
            posteriors[side] = improve(trace, progress=False)["posterior"]
        for side, posterior in posteriors.items():
            for k, value in estimates(columns(posterior)).items():
                off = (value - np.array(known[k])) / np.array(known["sds"])
                squares[side][k].append(float(np.mean(off**2)))
        print(f"{name} {seed + 1}/{SEEDS}: {time.perf_counter() - began:.1f} s", file=sys.stderr)
    rows = {}
    for side in sides:
        rows[side] = {"seeds": SEEDS}
        for k in ("means", "sds", "quantiles"):
            before, after = np.array(squares["plain"][k]), np.array(squares[side][k])
            ratio = after.mean() / before.mean()
            error = np.std(after - ratio * before, ddof=1) / before.mean() / np.sqrt(SEEDS)
            rows[side][k] = {
                "before": float(np.sqrt(before.mean())),
                "after": float(np.sqrt(after.mean())),
                "ratio": float(ratio),
                "error": float(error),
            }
    return rows


def table(rows):
    lines = [
        "| run | means | sds | quantiles |",
        "|---|---|---|---|",
    ]
    for name, label in LABELS.items():
        if name in rows:
            cells = [
                f"{c['before']:.4f} → {c['after']:.4f} ({c['ratio']:.2f} ± {c['error']:.2f})"
                for c in (rows[name][k] for k in ("means", "sds", "quantiles"))
            ]
            lines.append(f"| {label} | {' | '.join(cells)} |")
    return "\n".join(lines)


def write_page(rows):
    page = DOCS / "howto" / "improve.md"
    start, end = "<!-- table -->\n", "<!-- end of table -->"
    head, _, rest = page.read_text().partition(start)
    page.write_text(head + start + table(rows) + "\n" + end + rest.partition(end)[2])


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    rows = json.loads(ROWS.read_text()) if ROWS.exists() else {}
    with tempfile.TemporaryDirectory() as folder:  # programs are compiled once for all seeds
        jax.config.update("jax_compilation_cache_dir", folder)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
        for name in sys.argv[1:]:
            if name == "page":
                write_page(rows)
            else:
                rows |= {"truth": truth()} if name == "truth" else study(name, rows["truth"])
                lines = [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in rows.items()]
                ROWS.write_text("{\n" + ",\n".join(lines) + "\n}\n")

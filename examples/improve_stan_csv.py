"""Improve draws in CmdStan's CSV files: python examples/improve_stan_csv.py [FILE ...]

With no Stan at hand the files are written here, by plain NUTS on the same posterior. The model is a
log density in JAX, with transforms of NumPyro. With BridgeStan it is one line:
`srmc.improve(trace, bridgestan.StanModel("shops.stan", data))`.
"""

import sys
import tempfile
from pathlib import Path

import arviz as az
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import xarray
from jax.scipy import stats
from numpyro.distributions import LKJCholesky, biject_to, constraints
from shops import COORDS, COUNTS, DIMS, MEASURES, SALES, SHOP

import srmc
from srmc.models.callback import Layout

SUPPORTS = {
    "mu": constraints.real,
    "tau": constraints.positive,
    "raw": constraints.real_vector,
    "sigma": constraints.positive,
    "p": constraints.simplex,
    "sd": constraints.independent(constraints.positive, 1),
    "root": constraints.corr_cholesky,
}


def log_density(z):
    """Of an unconstrained position, with the Jacobians of the transforms."""
    maps = {name: biject_to(support) for name, support in SUPPORTS.items()}
    v = {name: move(z[name]) for name, move in maps.items()}
    jacobians = [move.log_abs_det_jacobian(z[k], v[k]) for k, move in maps.items()]
    theta = v["mu"] + v["tau"] * v["raw"]
    root = v["sd"][:, None] * v["root"]
    terms = [
        stats.norm.logpdf(v["mu"], 0, 2),
        -0.5 * v["tau"] ** 2,
        stats.norm.logpdf(v["raw"]),
        -0.5 * v["sigma"] ** 2,
        -v["sd"],
        LKJCholesky(3, 2.0).log_prob(v["root"]),
        stats.norm.logpdf(SALES, theta[SHOP], v["sigma"]),
        COUNTS * jnp.log(v["p"]),
        stats.multivariate_normal.logpdf(MEASURES, jnp.zeros(3), root @ root.T),
    ]
    return sum(jnp.sum(term) for term in terms + jacobians)


def constrain(z):
    v = {name: biject_to(support)(z[name]) for name, support in SUPPORTS.items()}
    return v | {"theta": v["mu"] + v["tau"] * v["raw"], "corr": v["root"] @ v["root"].T}


def unconstrain(v):
    return {name: biject_to(support).inv(v[name]) for name, support in SUPPORTS.items()}


def write_csv(folder, seed, draws, tune):
    """Files as CmdStan writes them, one per chain."""
    zero = {"mu": 0.0, "tau": 0.0, "raw": jnp.zeros(6), "sigma": 0.0, "sd": jnp.zeros(3)}
    zero |= {"p": jnp.zeros(2), "root": jnp.zeros(3)}
    sampled = srmc.sample(
        log_density,
        alpha=0.0,
        num_warmup=tune,
        num_samples=draws,
        seed=seed,
        initial_position=zero,
        progress=False,
    )
    values = jax.vmap(jax.vmap(constrain))(jax.tree.map(jnp.asarray, dict(sampled.draws)))
    files = []
    for chain in range(4):
        columns = {
            "lp__": np.zeros(draws),
            "accept_stat__": sampled.stats["acceptance_rate"][chain],
        }
        for name, x in values.items():
            for index in np.ndindex(x.shape[2:]):
                label = ".".join([name, *(str(i + 1) for i in index)])
                columns[label] = x[(chain, slice(None), *index)]
        files.append(Path(folder) / f"shops-{seed}_{chain + 1}.csv")
        header = "# stan_version_major = 2\n# model = shops_model\n"
        files[-1].write_text(header + pd.DataFrame(columns).to_csv(index=False))
    return files


def read_csv(files):
    """Files of CmdStan as a trace; `az.from_cmdstanpy` does this where CmdStanPy ran."""
    tables = [pd.read_csv(file, comment="#") for file in files]
    labels = [name for name in tables[0] if not name.endswith("__")]
    values = np.stack([table[labels].to_numpy() for table in tables])
    where = Layout(labels).where
    names = lambda k: DIMS.get(k, [f"{k}_dim_{n}" for n in range(where[k].ndim)])
    data = {k: (("chain", "draw", *names(k)), values[..., at]) for k, at in where.items()}
    coords = {"chain": np.arange(len(files)), "draw": np.arange(values.shape[1])}
    posterior = xarray.Dataset(data, coords | COORDS)
    convert = getattr(az, "convert_to_datatree", None) or az.convert_to_inference_data
    return convert(posterior)


def make_trace(seed, draws=250, tune=500):
    with tempfile.TemporaryDirectory() as folder:
        return read_csv(write_csv(folder, seed, draws, tune))


def improve(trace, **options):
    return srmc.improve(trace, log_density, unconstrain=unconstrain, constrain=constrain, **options)


if __name__ == "__main__":
    trace = read_csv(sys.argv[1:]) if len(sys.argv) > 1 else make_trace(0)
    better, report = improve(trace, report=True)
    print(az.summary(better, var_names=["mu", "tau", "theta", "p", "corr"]))
    print(f"means: {report.means:.0%} of the variance is left, quantiles: {report.quantiles:.0%}")

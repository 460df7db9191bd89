"""Improve a PyMC run: python examples/improve_pymc.py"""

import arviz as az
import numpy as np
import pymc as pm
from shops import COORDS, COUNTS, MEASURES, SALES, SHOP

import srmc

with pm.Model(coords=COORDS) as shops:
    mu = pm.Normal("mu", 0, 2)
    tau = pm.HalfNormal("tau", 1)
    raw = pm.Normal("raw", 0, 1, dims="shop")
    theta = pm.Deterministic("theta", mu + tau * raw, dims="shop")
    sigma = pm.HalfNormal("sigma", 1)
    pm.Normal("sales", theta[SHOP], sigma, observed=SALES)
    p = pm.Dirichlet("p", np.ones(3), dims="kind")
    pm.Multinomial("counts", COUNTS.sum(), p, observed=COUNTS)
    root, corr, sd = pm.LKJCholeskyCov("root", n=3, eta=2.0, sd_dist=pm.Exponential.dist(1))
    pm.Deterministic("corr", corr, dims=("measure", "measure_too"))
    pm.Deterministic("sd", sd, dims="measure")
    pm.MvNormal("measures", np.zeros(3), chol=root, observed=MEASURES)


def make_trace(seed, draws=250, tune=500):
    return pm.sample(
        draws,
        tune=tune,
        chains=4,
        random_seed=seed,
        model=shops,
        nuts_sampler="numpyro",
        nuts_sampler_kwargs={"chain_method": "vectorized"},
        idata_kwargs={"log_likelihood": True},
        compute_convergence_checks=False,
        progressbar=False,
    )


def improve(trace, **options):
    return srmc.improve(trace, shops, **options)


if __name__ == "__main__":
    better, report = improve(make_trace(0), report=True)
    print(az.summary(better, var_names=["mu", "tau", "theta", "p", "corr"]))
    print(az.loo(better, var_name="sales"))
    print(f"means: {report.means:.0%} of the variance is left, quantiles: {report.quantiles:.0%}")

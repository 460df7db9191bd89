"""Improve a NumPyro run: python examples/improve_numpyro.py"""

import arviz as az
import jax
import jax.numpy as jnp
import numpyro
from numpyro import distributions as dist
from numpyro.infer import MCMC, NUTS
from shops import COORDS, COUNTS, DIMS, MEASURES, SALES, SHOP

import srmc

DATA = (SALES, COUNTS, MEASURES)


def shops(sales, counts, measures):
    mu = numpyro.sample("mu", dist.Normal(0, 2))
    tau = numpyro.sample("tau", dist.HalfNormal(1))
    raw = numpyro.sample("raw", dist.Normal(0, 1).expand([6]))
    theta = numpyro.deterministic("theta", mu + tau * raw)
    sigma = numpyro.sample("sigma", dist.HalfNormal(1))
    numpyro.sample("sales", dist.Normal(theta[SHOP], sigma), obs=sales)
    p = numpyro.sample("p", dist.Dirichlet(jnp.ones(3)))
    numpyro.sample("counts", dist.Multinomial(COUNTS.sum(), p), obs=counts)
    sd = numpyro.sample("sd", dist.Exponential(1).expand([3]))
    root = numpyro.sample("root", dist.LKJCholesky(3, 2.0))
    numpyro.deterministic("corr", root @ root.T)
    scale = dist.MultivariateNormal(jnp.zeros(3), scale_tril=sd[:, None] * root)
    numpyro.sample("measures", scale, obs=measures)


def make_sampler(draws=250, tune=500, chains=4):
    return MCMC(
        NUTS(shops),
        num_warmup=tune,
        num_samples=draws,
        num_chains=chains,
        chain_method="vectorized",
        progress_bar=False,
    )


def make_trace(seed, draws=250, tune=500, mcmc=None):
    mcmc = mcmc or make_sampler(draws, tune)
    mcmc.run(jax.random.key(seed), *DATA)
    return az.from_numpyro(mcmc, coords=COORDS, dims=DIMS)


def improve(trace, **options):
    return srmc.improve(trace, shops, data=DATA, **options)


if __name__ == "__main__":
    better, report = improve(make_trace(0), report=True)
    print(az.summary(better, var_names=["mu", "tau", "theta", "p", "corr"]))
    print(az.loo(better, var_name="sales"))
    print(f"means: {report.means:.0%} of the variance is left, quantiles: {report.quantiles:.0%}")

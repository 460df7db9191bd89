"""Improve a nutpie run, with its PyMC model and without: python examples/improve_nutpie.py"""

import arviz as az
import nutpie
from improve_pymc import shops

import srmc

compiled = nutpie.compile_pymc_model(shops)


def make_trace(seed, draws=250, tune=500):
    return nutpie.sample(
        compiled,
        draws=draws,
        tune=tune,
        chains=4,
        seed=seed,
        store_gradient=True,
        store_unconstrained=True,
        progress_bar=False,
    )


def improve(trace, **options):
    return srmc.improve(trace, shops, **options)


def weigh(trace, **options):
    """From the stored gradients alone."""
    return srmc.improve(trace, **options)


if __name__ == "__main__":
    trace = make_trace(0)
    better, report = improve(trace, report=True)
    print(az.summary(better, var_names=["mu", "tau", "theta", "p", "corr"]))
    print(f"means: {report.means:.0%} of the variance is left, quantiles: {report.quantiles:.0%}")
    weighed, report = weigh(trace, report=True)
    print(az.summary(weighed, var_names=["mu", "tau", "theta", "p", "corr"]))
    print(f"without the model: the weights have an effective size of {report.effective:.0%}")

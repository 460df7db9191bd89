"""Models of the galleries of PyMC and NumPyro, each as a user would write it."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from srmc_studies.bench.gallery import data


class Entry(NamedTuple):
    """A model of the gallery.

    build
        Makes the PyMC model, or returns the NumPyro model.
    data
        The arguments of a NumPyro model; None for a PyMC model.
    heavy
        Variables without a variance, which are compared by their quantiles alone.
    """

    about: str
    build: Callable[[], Any]
    data: Callable[[], tuple[Any, ...]] | None = None
    heavy: tuple[str, ...] = ()

    @property
    def library(self) -> str:
        return "PyMC" if self.data is None else "NumPyro"


def _radon(centred: bool) -> Any:
    import pymc as pm

    homes = data.radon()
    with pm.Model(coords={"county": np.arange(len(homes.uranium))}) as model:
        intercept = pm.Normal("intercept", 0, 2)
        uranium = pm.Normal("uranium", 0, 2)
        floor = pm.Normal("floor", 0, 2)
        between = pm.HalfNormal("between", 1)
        level = intercept + uranium * homes.uranium
        if centred:
            county = pm.Normal("county_level", level, between, dims="county")
        else:
            z = pm.Normal("z", 0, 1, dims="county")
            county = pm.Deterministic("county_level", level + between * z, dims="county")
        mu = county[homes.county] + floor * homes.floor
        if not centred:
            mu = pm.Deterministic("mu", mu)
        pm.Normal("log_radon", mu, pm.HalfNormal("within", 1), observed=homes.log_radon)
    return model


def _rats() -> Any:
    import pymc as pm

    days = data.RAT_DAYS - data.RAT_DAYS.mean()
    with pm.Model(coords={"rat": np.arange(30), "day": data.RAT_DAYS}) as model:
        start = pm.Normal("start", 0, 500)
        growth = pm.Normal("growth", 0, 50)
        weight = pm.Normal("weight", start, pm.HalfNormal("sd_weight", 50), dims="rat")
        slope = pm.Normal("slope", growth, pm.HalfNormal("sd_slope", 5), dims="rat")
        pm.Deterministic("at_birth", start - growth * data.RAT_DAYS.mean())
        mu = weight[:, None] + slope[:, None] * days
        pm.Normal("y", mu, pm.HalfNormal("sigma", 20), observed=data.RATS, dims=("rat", "day"))
    return model


def _best() -> Any:
    import pymc as pm

    both = np.r_[data.DRUG, data.PLACEBO]
    with pm.Model() as model:
        mean1, mean2 = (pm.Normal(f"mean{n}", both.mean(), 2 * both.std()) for n in (1, 2))
        sd1, sd2 = (pm.Uniform(f"sd{n}", 1, 10) for n in (1, 2))
        nu = pm.Deterministic("nu", pm.Exponential("nu_minus_one", 1 / 29) + 1)
        pm.StudentT("drug", nu=nu, mu=mean1, sigma=sd1, observed=data.DRUG)
        pm.StudentT("placebo", nu=nu, mu=mean2, sigma=sd2, observed=data.PLACEBO)
        difference = pm.Deterministic("difference", mean1 - mean2)
        pm.Deterministic("difference_of_sds", sd1 - sd2)
        pm.Deterministic("effect", difference / pm.math.sqrt((sd1**2 + sd2**2) / 2))
    return model


def _correlated() -> Any:
    import pymc as pm

    visits = data.cafes()
    with pm.Model(coords={"effect": ["morning", "change"], "cafe": np.arange(20)}) as model:
        mean = pm.Normal("mean", [5.0, 0.0], 2, dims="effect")
        root, corr, sd = pm.LKJCholeskyCov(
            "root", n=2, eta=2, sd_dist=pm.Exponential.dist(1), compute_corr=True
        )
        pm.Deterministic("corr", corr[0, 1])
        pm.Deterministic("sd", sd, dims="effect")
        z = pm.Normal("z", 0, 1, dims=("effect", "cafe"))
        each = pm.Deterministic("each", mean + pm.math.dot(root, z).T, dims=("cafe", "effect"))
        mu = each[visits.cafe, 0] + each[visits.cafe, 1] * visits.afternoon
        pm.Normal("wait", mu, pm.Exponential("sigma", 1), observed=visits.wait)
    return model


def _mixture() -> Any:
    import pymc as pm

    with pm.Model() as model:
        w = pm.Dirichlet("w", np.full(3, 4.0))
        ordered = pm.distributions.transforms.ordered
        mu = pm.Normal("mu", 0, 5, shape=3, transform=ordered, initval=[-2, 0, 2])
        sigma = pm.HalfNormal("sigma", 2, shape=3)
        pm.NormalMixture("y", w=w, mu=mu, sigma=sigma, observed=data.mixture())
    return model


def _zero_sum() -> Any:
    import pymc as pm

    variety, block, grown = data.yields()
    with pm.Model(coords={"variety": np.arange(8), "block": np.arange(5)}) as model:
        mean = pm.Normal("mean", 20, 5)
        effect = pm.ZeroSumNormal("effect", pm.HalfNormal("sd_effect", 2), dims="variety")
        shade = pm.ZeroSumNormal("shade", pm.HalfNormal("sd_shade", 1), dims="block")
        mu = mean + effect[variety] + shade[block]
        pm.Normal("grown", mu, pm.HalfNormal("sigma", 2), observed=grown)
    return model


def _change_point() -> Any:
    import pymc as pm

    with pm.Model(coords={"year": data.COAL_YEARS}) as model:
        switch = pm.Uniform("switch", 1851, 1962)
        early, late = pm.Exponential("early", 1), pm.Exponential("late", 1)
        after = pm.math.sigmoid((data.COAL_YEARS - switch) / 2)
        rate = pm.Deterministic("rate", early + (late - early) * after, dims="year")
        pm.Deterministic("ratio", late / early)
        pm.Poisson("disasters", rate, observed=data.COAL, dims="year")
    return model


def _gaussian_process() -> Any:
    import pymc as pm

    x, y = data.curve()
    with pm.Model() as model:
        length = pm.InverseGamma("length", 5, 5)
        height = pm.HalfNormal("height", 2)
        process = pm.gp.Marginal(cov_func=height**2 * pm.gp.cov.ExpQuad(1, ls=length))
        process.marginal_likelihood("y", x[:, None], y, sigma=pm.HalfNormal("sigma", 1))
    return model


def _ordered_logistic() -> Any:
    import pymc as pm

    x, rating = data.ratings()
    with pm.Model(coords={"predictor": ["a", "b"]}) as model:
        beta = pm.Normal("beta", 0, 2, dims="predictor")
        ordered = pm.distributions.transforms.ordered
        cuts = pm.Normal("cuts", 0, 3, shape=4, transform=ordered, initval=[-2, -1, 1, 2])
        eta = pm.math.dot(x, beta)
        pm.OrderedLogistic("rating", eta=eta, cutpoints=cuts, compute_p=False, observed=rating)
    return model


def horseshoe(x: Any, y: Any) -> None:
    """A sparse regression, as in NumPyro's gallery."""
    import numpyro
    import numpyro.distributions as dist

    columns = x.shape[1]
    local = numpyro.sample("local", dist.HalfCauchy(np.ones(columns)).to_event(1))
    overall = numpyro.sample("overall", dist.HalfCauchy(1.0))
    z = numpyro.sample("z", dist.Normal(np.zeros(columns), 1.0).to_event(1))
    beta = numpyro.deterministic("beta", overall * local * z)
    precision = numpyro.sample("precision", dist.Gamma(3.0, 1.0))
    numpyro.sample("y", dist.Normal(x @ beta, 1 / precision**0.5), obs=y)


def baseball(at_bats: Any, hits: Any) -> None:
    """Partial pooling of batting averages, as in NumPyro's gallery."""
    import numpyro
    import numpyro.distributions as dist

    m = numpyro.sample("m", dist.Uniform(0.0, 1.0))
    kappa = numpyro.sample("kappa", dist.Pareto(1.0, 1.5))
    with numpyro.plate("player", len(at_bats)):
        phi = numpyro.sample("phi", dist.Beta(m * kappa, (1 - m) * kappa))
        numpyro.sample("hits", dist.Binomial(at_bats, probs=phi), obs=hits)


def stochastic_volatility(returns: Any) -> None:
    """Returns with a log volatility that walks at random, as in NumPyro's gallery."""
    import numpyro
    import numpyro.distributions as dist

    step = numpyro.sample("step", dist.Exponential(20.0))
    walk = numpyro.sample("walk", dist.GaussianRandomWalk(step, num_steps=len(returns)))
    nu = numpyro.sample("nu", dist.Exponential(0.1))
    level = numpyro.sample("level", dist.Normal(-4.0, 2.0))
    scale = numpyro.deterministic("volatility", np.e ** (level + walk))
    numpyro.sample("returns", dist.StudentT(nu, 0.0, scale), obs=returns)


MODELS: dict[str, Entry] = {
    "radon": Entry("85 counties, centred", lambda: _radon(True)),
    "radon-noncentred": Entry("85 counties, non-centred", lambda: _radon(False)),
    "rats": Entry("growth of 30 rats", _rats),
    "best": Entry("two groups, Student t", _best),
    "horseshoe": Entry("sparse regression", lambda: horseshoe, data.sparse, ("local", "overall")),
    "lkj": Entry("correlated effects", _correlated),
    "mixture": Entry("three ordered components", _mixture),
    "zero-sum": Entry("effects that sum to zero", _zero_sum),
    "change-point": Entry("coal mining", _change_point),
    "baseball": Entry(
        "18 players", lambda: baseball, lambda: (data.AT_BATS, data.HITS), ("kappa",)
    ),
    "gaussian-process": Entry("30 points of a curve", _gaussian_process),
    "ordered-logistic": Entry("ratings, five levels", _ordered_logistic),
    "stochastic-volatility": Entry(
        "100 returns", lambda: stochastic_volatility, lambda: (data.returns(),)
    ),
}

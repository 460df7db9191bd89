"""Traces of Bambi, which drops offsets and reports intercepts of uncentred predictors."""

import jax
import numpy as np
import pytest

import srmc

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def _precision():
    with jax.enable_x64(True), jax.numpy_rank_promotion("allow"):
        yield
    jax.config.update("jax_enable_x64", False)


@pytest.fixture(scope="module")
def fitted():
    """A model with a group effect, a category and predictors whose means are not 0."""
    bambi, pandas = pytest.importorskip("bambi"), pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    group = np.repeat(list("abcdefgh"), 15)
    x, kind = 3 + rng.normal(size=120), rng.choice(["u", "v", "w"], 120)
    effect = rng.normal(size=8).repeat(15)
    y = 1 + 2 * x + (kind == "v") + effect + rng.normal(size=120)
    data = pandas.DataFrame({"y": y, "x": x, "kind": kind, "g": group})
    model = bambi.Model("y ~ x + kind + (1|g) + (0 + x|g)", data)
    options = {"chains": 2, "cores": 1, "random_seed": 1, "progressbar": False}
    return model, model.fit(draws=400, tune=400, target_accept=0.95, **options)


def test_a_bambi_model_is_taken_as_it_is(fitted):
    model, trace = fitted
    better, report = srmc.improve(trace, model, report=True, progress=False)
    new, old = better["posterior"], better["posterior_plain"]
    assert [*new.data_vars] == [*old.data_vars] == [*trace.posterior.data_vars]
    assert "1|g_offset" not in new
    assert report.method == "rebalance"
    assert report.means < 1
    assert {*report.variables} == {*new.data_vars}
    # The intercept of uncentred predictors, far from that of centred ones.
    assert abs(float(new["Intercept"].mean() - old["Intercept"].mean())) < 0.5
    assert report.largest_change < 5


def test_the_pymc_model_of_bambi_is_refused_where_intercepts_differ(fitted):
    model, trace = fitted
    with pytest.raises(ValueError, match="Give the Bambi model itself"):
        srmc.improve(trace, model.backend.model, progress=False)


def test_the_pymc_model_of_bambi_serves_without_centring(fitted):
    import bambi

    first, _ = fitted
    model = bambi.Model("y ~ x + (1|g)", first.data, center_predictors=False)
    options = {"chains": 2, "cores": 1, "random_seed": 1, "progressbar": False}
    trace = model.fit(draws=300, tune=300, target_accept=0.95, **options)
    for one in (model, model.backend.model):
        assert srmc.improve(trace, one, report=True, progress=False)[1].method == "rebalance"


def test_bambi_models_can_be_sampled(fitted):
    model, trace = fitted
    result = srmc.sample(model, num_warmup=300, num_samples=300, num_chains=2, progress=False)
    assert {*trace.posterior.data_vars} <= {*result.draws}
    plain = trace.posterior["Intercept"]
    assert abs(result.draws["Intercept"].mean() - float(plain.mean())) < 0.5 * float(plain.std())

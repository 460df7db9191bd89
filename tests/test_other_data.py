"""The same model with other data: nothing is compiled again, and no program keeps old data."""

import logging
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial

import srmc
from srmc._programs import parted, pinned
from srmc.models.model import Model, as_problem
from srmc.repel import Strength
from test_programs import compiled

OPTIONS = {"kernel": "hmc", "num_integration_steps": 3, "num_chains": 2, "progress": False}
OPTIONS |= {"num_warmup": 120, "num_samples": 100}
START = {"initial_position": np.zeros(2, np.float32)}
FIRST, SECOND = (np.random.default_rng(n).normal(n, 1.0, (20, 2)) for n in range(2))


def normal(data, x):
    return -0.5 * jnp.sum((x[None] - data) ** 2)


def score(data, x):
    return jax.grad(normal, 1)(data, x)


def copy(function):
    """A function that does the same, and that nobody knows."""
    parts = function.__defaults__, function.__closure__
    return types.FunctionType(function.__code__, function.__globals__, function.__name__, *parts)


@pytest.fixture
def names(caplog):
    """The programs that were compiled since the last call."""
    with jax.log_compiles(True), caplog.at_level(logging.WARNING):
        yield lambda: compiled(caplog)


def equal(one, other):
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], other[name])


def test_rebalance_compiles_nothing_for_other_data(names):
    draws = np.random.default_rng(0).normal(size=(2, 300, 2)) / np.sqrt(20)

    def moved(data, f=normal, s=score):
        given = {"logdensity_fn": Partial(f, data), "progress": False}
        whole = srmc.rebalance(draws + data.mean(axis=0), Partial(s, data), **given)
        by_name = {"x": draws + data.mean(axis=0)}
        return {"whole": whole} | srmc.rebalance(by_name, Partial(s, data), **given)

    first = moved(FIRST)
    names()
    second = moved(SECOND)
    assert names() == []
    equal(second, moved(SECOND, copy(normal), copy(score)))
    assert np.allclose(second["x"].mean(axis=(0, 1)), SECOND.mean(axis=0), atol=1e-3)
    equal(first, moved(FIRST))


@pytest.mark.parametrize("alpha", ["auto", 0.0])
def test_a_partial_compiles_nothing_for_other_data(names, alpha):
    options = OPTIONS | START | {"alpha": alpha}
    first = srmc.sample(Partial(normal, FIRST), **options)
    names()
    second = srmc.sample(Partial(normal, SECOND), **options)
    assert names() == []
    equal(second.draws, srmc.sample(Partial(copy(normal), SECOND), **options).draws)
    assert np.all(np.abs(second.draws["x"].mean(axis=(0, 1)) - SECOND.mean(axis=0)) < 0.15)
    equal(first.draws, srmc.sample(Partial(normal, FIRST), **options).draws)


def test_kernels_that_are_tuned_by_their_acceptance_take_other_data(names):
    options = OPTIONS | START | {"kernel": "mala", "num_integration_steps": None}
    srmc.sample(Partial(normal, FIRST), **options)
    names()
    second = srmc.sample(Partial(normal, SECOND), **options)
    assert names() == []
    equal(second.draws, srmc.sample(Partial(copy(normal), SECOND), **options).draws)


def test_a_function_that_closes_over_other_data_than_before_is_another():
    data, statistics = FIRST, lambda values: {"sum": jnp.sum(values["x"]) + float(data[0, 0])}
    logdensity = lambda x: normal(data, x)
    options = OPTIONS | START | {"alpha": 0.0, "statistics": statistics}
    first = srmc.sample(logdensity, **options)
    data = SECOND
    second = srmc.sample(logdensity, **options)
    equal(second.draws, srmc.sample(copy(logdensity), **options).draws)
    assert np.all(second.draws["x"].mean(axis=(0, 1)) - first.draws["x"].mean(axis=(0, 1)) > 0.4)

    gradient, draws = jax.grad(logdensity), second.draws["x"]
    rebalanced = lambda: srmc.rebalance(draws, gradient, progress=False)
    found = rebalanced()
    data = SECOND + 0.02
    change = (rebalanced() - found).mean(axis=(0, 1))
    assert np.allclose(change, 0.02, atol=1e-3)


def test_data_whose_values_are_needed_are_constants():
    def clipped(data, x):
        return normal(data[: int(np.max(data)) + 1], x)

    for data in (FIRST, SECOND):
        problem = as_problem(Model(Partial(clipped, data)), **START)
        assert parted(problem.logdensity_fn)[1] == []
        at = jnp.ones(2)
        assert problem.logdensity_fn(at) == clipped(data, at)
        result = srmc.sample(Partial(clipped, data), **OPTIONS | START)
        expected = data[: int(data.max()) + 1].mean(axis=0)
        assert np.all(np.abs(result.draws["x"].mean(axis=(0, 1)) - expected) < 0.5)


def test_floats_are_data_and_whole_numbers_are_code():
    power = lambda n, x: jnp.sum(x) ** n
    codes = {parted(Partial(power, n))[0] for n in (1, 2, True, 1.0, np.float32(2), np.int32(1))}
    assert len(codes) == 5  # all floats are one
    loop = lambda x: jax.lax.fori_loop(0, 3, lambda _, x: x * jnp.asarray(scale), x)
    scale = np.array([1.0, 2.0])
    one, again = (parted(pinned(loop, jnp.ones(2)))[0] for _ in range(2))
    scale = np.array([1.0, 3.0])
    assert one == again != parted(pinned(loop, jnp.ones(2)))[0]


def regression(x, y, degree=1):
    import numpyro
    import numpyro.distributions as dist

    slope = numpyro.sample("slope", dist.Normal(0.0, 1.0).expand([degree]).to_event(1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1.0))
    line = numpyro.deterministic("line", x[:, :degree] @ slope)
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Normal(line, sigma), obs=y)


def of_numpyro(data, model=regression, **options):
    return srmc.sample(model, data=data, **OPTIONS | options)


@pytest.mark.parametrize("alpha", ["auto", 0.0])
def test_a_numpyro_model_compiles_nothing_for_other_data(names, alpha):
    pytest.importorskip("numpyro")
    first, second = ({"x": x.astype(np.float32), "y": x[:, 0]} for x in (FIRST, SECOND))
    of_numpyro(first, alpha=alpha)
    names()
    result = of_numpyro(second, alpha=alpha)
    assert names() == []
    fresh = of_numpyro(second, copy(regression), alpha=alpha)
    equal(result.draws, fresh.draws)
    slope, line = result.draws["slope"][0, 0], result.draws["line"][0, 0]
    np.testing.assert_allclose(line, slope * SECOND[:, 0], rtol=1e-5)
    two = as_problem(Model(regression, data=second | {"degree": 2}))
    assert two.starts(jax.random.key(0), 3)["slope"].shape == (3, 2)


def test_a_numpyro_model_is_that_of_numpyro():
    """Bounds that depend on data, numbers that must be known, globals, and double precision."""
    numpyro = pytest.importorskip("numpyro")
    dist = numpyro.distributions
    elsewhere = 1.0

    def bounded(y):
        top = numpyro.sample("top", dist.TruncatedNormal(0.0, 1.0, high=jnp.min(y)))
        numpyro.sample("y", dist.Normal(top * elsewhere, 1.0).expand([len(y)]), obs=y)

    def counted(y):
        p = numpyro.sample("p", dist.Dirichlet(jnp.ones(int(y.max()) + 1)))
        numpyro.sample("y", dist.Categorical(p), obs=y)

    def centred(y):
        mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
        numpyro.sample("y", dist.Normal(mu, 1.0), obs=jnp.asarray(y - y.mean()))

    def check(model, y, constants):
        problem = as_problem(Model(model, data=(y,)))
        theirs = numpyro.infer.util.initialize_model(jax.random.key(0), model, model_args=(y,))
        z = theirs.param_info.z
        assert len(parted(problem.logdensity_fn)[1]) == (0 if constants else 1)
        found = jax.jit(problem.logdensity_fn)(z)
        np.testing.assert_allclose(found, -theirs.potential_fn(z), rtol=1e-6)
        equal(problem.values(z), theirs.postprocess_fn(z))
        return parted(problem.logdensity_fn)[0]

    one = check(bounded, FIRST[:, 0], False)
    assert one == check(bounded, SECOND[:, 0], False)
    elsewhere = 2.0
    assert one != check(bounded, SECOND[:, 0], False)
    check(counted, np.array([0, 1, 2, 1]), True)
    check(counted, np.array([0, 3, 2, 1]), True)
    check(centred, FIRST[:, 0], False)
    check(centred, 1e9 + FIRST[:, 0], True)


@pytest.fixture
def precision():
    """PyTensor turns double precision on for the whole process."""
    before = jax.config.read("jax_enable_x64")
    yield
    jax.config.update("jax_enable_x64", before)


@pytest.mark.usefixtures("precision")
@pytest.mark.filterwarnings("ignore")
def test_a_pymc_model_compiles_nothing_for_other_data(names):
    pm = pytest.importorskip("pymc")

    def make(data):
        with pm.Model(coords={"row": np.arange(20)}) as model:
            x = pm.Data("x", data[:, 0], dims="row")
            slope, sigma = pm.Normal("slope"), pm.HalfNormal("sigma")
            line = pm.Deterministic("line", slope * x)
            pm.Normal("y", line, sigma, observed=pm.Data("y_data", data[:, 1]), dims="row")
        return model

    model = make(FIRST)
    first = srmc.sample(model, **OPTIONS)
    names()
    equal(first.draws, srmc.sample(model, **OPTIONS).draws)
    assert names() == []
    with model:
        pm.set_data({"x": SECOND[:, 0], "y_data": SECOND[:, 1]})
    second = srmc.sample(model, **OPTIONS)
    assert names() == []
    equal(second.draws, srmc.sample(make(SECOND), **OPTIONS).draws)
    with model:
        pm.Potential("far", -1e4 * pm.math.sqr(model["slope"] - 5.0))
    assert srmc.sample(model, **OPTIONS).draws["slope"].mean() > 4.0


def test_a_schedule_may_read_what_has_changed():
    height = [0.5]
    one = lambda: jnp.asarray(height[0], float)
    schedule = Strength(lambda: (one(), ()), lambda state, seen: (one(), state), 3.0)
    logp = lambda x: -0.5 * jnp.sum(x**2)
    for alpha in (0.5, 2.0):
        height[0] = alpha
        result = srmc.sample(logp, **OPTIONS | START | {"alpha": schedule})
        assert result.stats["alpha"].max() == pytest.approx(alpha)

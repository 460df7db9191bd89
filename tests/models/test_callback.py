"""Log densities that JAX cannot trace: NumPy, PyTorch, BridgeStan."""

import inspect
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import srmc
from fake_stan import FakeStan
from srmc.models.callback import Layout

PRECISION = np.array([1.0, 4.0])


def gaussian(x):
    assert isinstance(x, np.ndarray)
    return float(-0.5 * x @ (PRECISION * x)), -PRECISION * x


def gaussians(x):
    return -0.5 * np.sum(PRECISION * x * x, axis=1), -PRECISION * x


def named(x):
    value = -0.5 * (x["a"] ** 2 + np.sum(x["b"] ** 2))
    return value, {"a": -x["a"], "b": -x["b"]}


@pytest.mark.parametrize(("function", "vectorized"), [(gaussian, False), (gaussians, True)])
def test_values_and_gradients_are_those_of_the_function(function, vectorized):
    f = srmc.models.from_value_and_grad(function, vectorized=vectorized)
    exact = lambda x: -0.5 * jnp.sum(PRECISION.astype(np.float32) * x**2)
    x = jax.random.normal(jax.random.key(0), (3, 2, 2))
    for ours, theirs in ((f, exact), (jax.grad(f), jax.grad(exact))):
        np.testing.assert_allclose(ours(x[0, 0]), theirs(x[0, 0]), rtol=1e-6)
        every = lambda g: jax.jit(jax.vmap(jax.vmap(g)))(x)
        np.testing.assert_allclose(every(ours), every(theirs), rtol=1e-6)
    _, tangent = jax.jvp(f, (x[0, 0],), (jnp.ones(2),))
    np.testing.assert_allclose(tangent, jnp.sum(jax.grad(exact)(x[0, 0])), rtol=1e-6)


def test_positions_may_have_a_structure():
    f = srmc.models.from_value_and_grad(named)
    x = {"a": jnp.ones(()), "b": jnp.arange(3.0)}
    assert f(x) == -3.0
    assert jax.tree.map(np.shape, jax.grad(f)(x)) == {"a": (), "b": (3,)}


@pytest.mark.parametrize("kernel", ["mala", "nuts"])
def test_a_numpy_density_is_sampled_as_a_jax_one(kernel):
    """The same draws up to rounding, at the same cost."""
    ours = srmc.models.from_value_and_grad(gaussians, vectorized=True)
    theirs = lambda x: -0.5 * jnp.sum(PRECISION.astype(np.float32) * x**2)
    build = (lambda f: srmc.mala(f, 0.1)) if kernel == "mala" else (lambda f: srmc.nuts(f, 0.4))

    def run(density):
        algorithm = build(density)
        states = jax.vmap(algorithm.init)(jnp.ones((2, 2)))

        def step(states, n):
            keys = jax.random.split(jax.random.fold_in(jax.random.key(0), n), 2)
            states, info = jax.vmap(algorithm.step)(keys, states)
            return states, (states.position, info.gradients)

        return jax.jit(lambda s: jax.lax.scan(step, s, jnp.arange(10))[1])(states)

    (x, cost), (same, same_cost) = run(ours), run(theirs)
    np.testing.assert_allclose(x, same, rtol=1e-3, atol=1e-4)
    assert np.array_equal(cost, same_cost)


def test_second_derivatives_are_refused_with_a_way_out():
    f = srmc.models.from_value_and_grad(gaussian)
    with pytest.raises(TypeError, match="no second derivatives"):
        jax.hessian(f)(jnp.ones(2))
    with pytest.raises(TypeError, match="value_and_grad_fn must be a function"):
        srmc.models.from_value_and_grad(None)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda x: -0.5 * float(x @ x), "must return a value and a gradient, got float"),
        (lambda x: (-0.5 * float(x @ x), -x[:1]), "a gradient of shape"),
        (lambda x: (x, -x), "a value of shape"),
    ],
)
def test_what_the_function_returns_is_checked(wrong, words):
    with pytest.raises(jax.errors.JaxRuntimeError, match=words):
        srmc.models.from_value_and_grad(wrong)(jnp.ones(2)).block_until_ready()


class Tensor:
    """What refuses anything of JAX, with the words of PyTorch."""

    def __new__(cls, x):
        raise TypeError(f"sum(): argument 'input' must be Tensor, not {type(x).__name__}")


@pytest.mark.parametrize(
    "density",
    [
        lambda x: stats.norm.logpdf(np.asarray(x)).sum(),
        lambda x: -math.exp(x[0]),
        lambda x: -1.0 if x[0] > 0 else -2.0,
        Tensor,
    ],
)
def test_a_density_that_jax_cannot_trace_points_here(density):
    with pytest.raises(TypeError, match="from_value_and_grad"):
        srmc.sample(density, initial_position=jnp.ones(2), progress=False)
    with pytest.raises(TypeError, match="from_value_and_grad"):
        srmc.mala(density, 0.1).init(jnp.ones(2))


def test_other_errors_of_a_density_stay_what_they_are():
    def density(x):
        raise ValueError("no data")

    with pytest.raises(ValueError, match=r"^no data"):
        srmc.mala(density, 0.1).init(jnp.ones(2))


SHARES = np.array([2.0, 3.0, 4.0])


def test_a_stan_model_is_sampled_on_its_own_scale():
    model = FakeStan(0.5, SHARES)
    result = srmc.sample(model, num_warmup=200, num_samples=200, num_chains=2, progress=False)
    assert result.about["settings"]["model"] == "fake_model"
    assert list(result.draws) == ["mu", "p", "s", "t"]
    summary = result.summary()
    for name, mean in {"mu": 0.5, "s": 1.5, "p[0]": 2 / 9, "t": 2.0}.items():
        assert abs(summary.loc[name, "mean"] - mean) < 6 * summary.loc[name, "error"] + 0.02
    np.testing.assert_allclose(result.draws["t"], result.draws["mu"] + result.draws["s"], rtol=1e-4)
    np.testing.assert_allclose(result.draws["p"].sum(axis=-1), 1, rtol=1e-4)


def test_the_density_of_a_stan_model_is_0_where_stan_fails():
    f = srmc.models.stan_density(FakeStan(0.5, SHARES))
    x = jnp.array([0.5, 0.0, 0.0, 0.0])
    assert f(x) == pytest.approx(-2 - 9 * np.log(3), rel=1e-5)
    np.testing.assert_allclose(jax.grad(f)(x), [0, 1, -1, 0], atol=1e-5)
    assert f(x.at[1].set(60.0)) == -jnp.inf


def test_stan_s_names_are_in_column_major_order():
    layout = Layout(["a", "m.1.1", "m.2.1", "m.1.2", "m.2.2", "m.1.3", "m.2.3"])
    x = jnp.arange(7.0)
    split = layout.split(x)
    assert split["m"].tolist() == [[1, 3, 5], [2, 4, 6]]
    assert np.array_equal(layout.join(split), x)


def test_the_fake_has_bridgestan_s_interface():
    real = pytest.importorskip("bridgestan").StanModel
    for name in [n for n in vars(FakeStan) if not n.startswith("_")]:
        ours, theirs = (inspect.signature(getattr(c, name)).parameters for c in (FakeStan, real))
        assert {*ours} <= {*theirs}

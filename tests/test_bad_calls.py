"""Every bad call is refused by srmc itself, in words that name the argument.

The calls are in `bad_calls`, one per line: the argument, and the call. None may be accepted in
silence, and none may fail further down, in JAX, BlackJAX, NumPy or the library of a plugin.
"""

import functools
import traceback
from pathlib import Path

import blackjax  # noqa: F401, for the calls
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import srmc
from srmc.kernels import SiteDifferences, Space, find_temperatures  # noqa: F401
from srmc.rebalance import rebalanced_error  # noqa: F401
from srmc.rebalance.report import nothing
from srmc.repel import (  # noqa: F401
    Strength,
    affine,
    along,
    combined,
    field,
    scalings,
    shears,
    translations,
)
from srmc.results.kept import Kept
from srmc.sample import tune  # noqa: F401

HOME = Path(srmc.__file__).parent
TABLES = sorted((Path(__file__).parent / "bad_calls").glob("*.txt"))
CALLS = [
    pytest.param(table.stem, *line.split(None, 1), id=f"{table.stem}-{number}")
    for table in TABLES
    for number, line in enumerate(table.read_text().splitlines(), 1)
    if line and not line.startswith("#")
]


def f(x):
    return -0.5 * jnp.sum(x**2)


def s(x):
    return -x


def b(x):
    """A log density on a discrete space."""
    return 0.3 * jnp.sum(x)


def sample(model=f, **options):
    quick = {"num_warmup": 100, "num_samples": 20, "num_chains": 2, "progress": False}
    start = {"initial_position": x} if not isinstance(model, srmc.targets.Target) else {}
    return srmc.sample(model, **quick | start | options)


def step(algorithm, position):
    return algorithm.step(key, algorithm.init(position))


def ais(**options):
    given = {
        "rng_key": jax.random.key(0),
        "logdensity_fn": f,
        "build": lambda f: srmc.mala(f, 0.1, alpha=0.0),
        "sample_base": lambda key: jax.random.normal(key, (2,)),
        "base_logdensity_fn": f,
        "schedule": 3,
        "num_particles": 4,
        "progress": False,
    }
    return srmc.ais(**given | options)


def simulate(**options):
    given = {
        "rng_key": jax.random.key(0),
        "stationary": [0.5, 0.5],
        "proposal": np.full((2, 2), 0.5),
        "features": [[-1.0], [1.0]],
        "values": [[0.0], [1.0]],
        "alpha": 1.0,
        "gain": srmc.gain(),
        "num_steps": 5,
        "num_replicates": 3,
    }
    return srmc.theory.simulate(**given | options)


def tree(**groups):
    """An ArviZ trace with these groups."""
    import xarray

    data = {k: xarray.Dataset({"x": (("chain", "draw", "d"), v)}) for k, v in groups.items()}
    return xarray.DataTree.from_dict(data)


def quick_result():
    """A result without a run."""
    stats = {"alpha": np.zeros((2, 100)), "gradients": np.ones((2, 100))}
    about = {"settings": {"thin": 1, "kernel": "nuts"}, "num_draws": 100}
    return srmc.Result(Kept(stats, draws={"x": draws}, base={"x": draws}), about)


@functools.cache
def libraries():
    """What the calls of the plugins need."""
    pm = pytest.importorskip("pymc")
    numpyro = pytest.importorskip("numpyro")
    from numpyro import distributions as dist

    from srmc.plugins.numpyro import Repelled
    from srmc.plugins.pymc import sample as pymc_sample

    with pm.Model() as pm_model:
        pm.Normal("x")

    def coin():
        numpyro.sample("z", dist.Bernoulli(0.5))

    def regression(y):
        scale = numpyro.sample("scale", dist.HalfNormal())
        numpyro.sample("y", dist.Normal(0.0, scale), obs=y)

    quick = functools.partial(pymc_sample, tune=100, chains=1, progressbar=False)
    known = {"Repelled": Repelled, "pymc_sample": quick, "pm_model": pm_model}
    return known | {"coin": coin, "regression": regression}


x = np.zeros(2, np.float32)
one = np.ones(1, np.float32)
key = jax.random.key(0)
B = srmc.Binary()
T = srmc.theory
state = np.zeros(3, np.float32)
ising = srmc.targets.ising()
draws = np.random.default_rng(0).normal(size=(2, 100, 2)).astype(np.float32)
scores = -draws
g1 = np.ones((2, 100))
trace = tree(posterior=draws)
report = nothing("none")
result = quick_result()


@pytest.mark.parametrize(("table", "argument", "call"), CALLS)
def test_a_bad_call_names_its_argument(table, argument, call, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    known = globals() | (libraries() if table == "plugins" else {})
    with pytest.raises((ValueError, TypeError)) as caught:
        eval(call, known)
    assert argument in str(caught.value), caught.value
    where = Path(traceback.extract_tb(caught.tb)[-1].filename)
    assert HOME in where.parents, (where, caught.value)
    assert not list(tmp_path.iterdir())

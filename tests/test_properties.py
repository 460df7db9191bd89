"""Properties of the public surface, over inputs that hypothesis makes up.

Whatever is given, a call returns what it promises, or raises a ValueError or TypeError of srmc.
"""

import traceback
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import srmc
from srmc import _files as files
from srmc._checks import as_seed, check_count, check_number, printable
from srmc.models.problem import Labels
from srmc.results.kept import Kept

pytest.importorskip("hypothesis")
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

HOME = Path(srmc.__file__).parent
BOUNDED = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
FLOATS = st.sampled_from([np.float16, np.float32, np.float64])
SHAPES = arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5)
ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.complex_numbers(),
    st.text(max_size=5),
    st.binary(max_size=5),
    st.lists(st.integers(), max_size=3),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
    arrays.arrays(arrays.scalar_dtypes(), SHAPES),
)
NUMBERS = arrays.arrays(
    FLOATS,
    SHAPES,
    elements=st.floats(-1e3, 1e3, width=16) | st.just(np.nan) | st.just(np.inf),
)


def refuses(call):
    """What the call returns; None if srmc itself refused it."""
    try:
        return call()
    except (ValueError, TypeError) as error:
        if HOME in Path(traceback.extract_tb(error.__traceback__)[-1].filename).parents:
            return None
        raise


@BOUNDED
@given(ANYTHING, st.sampled_from(("num_warmup", "num_samples", "num_chains", "seed", "thin")))
def test_whole_numbers_of_a_run_are_taken_or_refused(value, name):
    def check():
        known = {"seed": as_seed} if name == "seed" else {}
        return known.get(name, check_count)(name, value)

    refuses(check)


@BOUNDED
@given(ANYTHING, st.booleans())
def test_numbers_are_taken_or_refused(value, scalar):
    refuses(lambda: check_number("x", value, above=0.0, scalar=scalar))


@BOUNDED
@given(ANYTHING)
def test_settings_of_a_run_are_taken_or_refused(value):
    def run(**options):
        return srmc.sample(3, progress=False, **options)  # a model that is refused in the end

    names = ("alpha", "kernel", "step_size", "target_error", "keep", "repellence", "metric")
    for name in (*names, "shared_history", "resume", "checkpoint_seconds", "max_tree_depth"):
        assert refuses(lambda name=name: run(**{name: value})) is None


@BOUNDED
@given(NUMBERS)
def test_metrics_are_finite_or_refuse(x):
    for metric in (srmc.metrics.r_hat, srmc.metrics.batch_means_error, srmc.metrics.bfmi):
        with np.errstate(all="ignore"):
            found = refuses(lambda metric=metric: metric(x))
        assert found is None or np.ndim(found) <= x.ndim


@BOUNDED
@given(NUMBERS, NUMBERS)
def test_weights_are_probabilities_or_refused(draws, scores):
    with np.errstate(all="ignore"):
        weights = refuses(lambda: srmc.reweight(draws, scores))
    if weights is not None:
        assert np.all(np.isfinite(weights))
        assert np.all(weights >= 0)


@settings(BOUNDED, max_examples=15)
@given(
    FLOATS.filter(lambda t: t is not np.float16),
    st.integers(1, 3),
    st.integers(1, 30),
    st.integers(1, 3),
    st.integers(0, 2**32 - 1),
)
@pytest.mark.filterwarnings("ignore")
def test_rebalanced_draws_have_the_shape_and_type_of_what_was_given(
    dtype, chains, count, dim, seed
):
    draws = np.random.default_rng(seed).normal(size=(chains, count, dim)).astype(dtype)
    moved = srmc.rebalance(draws, lambda x: -x, progress=False)
    assert (moved.shape, moved.dtype) == (draws.shape, draws.dtype)
    assert np.all(np.isfinite(moved))


TEXT = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=8)


@settings(BOUNDED, max_examples=20)
@given(
    st.dictionaries(
        TEXT.filter(lambda t: t.isprintable() and t.strip()),
        arrays.arrays(np.float64, st.just((2, 5)) | st.just((2, 5, 2)), elements=st.floats()),
        min_size=1,
        max_size=3,
    )
)
def test_what_is_saved_is_loaded(tmp_path_factory, draws):
    path = tmp_path_factory.mktemp("saved") / "r.nc"
    stats = {"alpha": np.zeros((2, 5))}
    srmc.Result(Kept(stats, draws=draws), {"num_draws": 5}, labels=Labels()).save(path)
    again = srmc.load(path)
    assert again.draws.keys() == draws.keys()
    for name, x in draws.items():
        np.testing.assert_array_equal(again.draws[name], x)


@BOUNDED
@given(st.text())
def test_printable_text_steers_no_terminal(text):
    assert all(c.isprintable() or c in "\n\t" for c in printable(text))


@BOUNDED
@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists, max_leaves=9))
def test_records_come_back(tmp_path_factory, value):
    path = tmp_path_factory.mktemp("record") / "r.json"
    record = {"value": value}
    refuses(lambda: files.write_json(path, record))
    assert repr(files.read_json(path)) == repr(record)


@settings(BOUNDED, max_examples=8)
@given(
    st.recursive(
        arrays.arrays(np.float32, arrays.array_shapes(max_dims=2, max_side=2), elements=st.just(0)),
        lambda inner: (
            st.dictionaries(st.sampled_from("abc"), inner, min_size=1, max_size=2)
            | st.tuples(inner, inner)
        ),
        max_leaves=3,
    )
)
def test_any_pytree_is_a_position(position):
    density = lambda x: -0.5 * sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(x))
    kernel = srmc.mala(density, 0.1)
    state, _ = kernel.step(jax.random.key(0), kernel.init(position, jax.random.key(1)))
    assert jax.tree.structure(state.position) == jax.tree.structure(position)
    assert jax.tree.map(np.shape, state.position) == jax.tree.map(np.shape, position)

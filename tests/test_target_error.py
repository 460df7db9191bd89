"""Runs that go on until their standard errors are small enough."""

import jax.numpy as jnp
import numpy as np
import pytest

import srmc
from srmc.sample.plan import Keep, Plan
from srmc.sample.precision import longest, looks


def skewed(x):
    return jnp.sum(2.0 * x - jnp.exp(x))


RUN = {"initial_position": np.zeros(2, np.float32), "num_warmup": 200, "num_chains": 4, "seed": 3}
RUN |= {"progress": False, "num_samples": 250}


@pytest.fixture(scope="module")
def stopped():
    return srmc.sample(skewed, target_error={"mean": 0.01, "quantiles": 0.025}, **RUN)


def test_the_result_is_that_of_a_run_of_its_length(stopped):
    length = stopped.about["settings"]["num_samples"]
    assert length in (500, 1000, 2000, 4000, 8000)
    assert [look["met"] for look in stopped.about["looks"]] == [False] * (
        len(stopped.about["looks"]) - 1
    ) + [True]
    assert [look["draws"] for look in stopped.about["looks"]][-1] == length
    whole = srmc.sample(skewed, **RUN | {"num_samples": length})
    np.testing.assert_array_equal(whole.base["x"], stopped.base["x"])
    np.testing.assert_array_equal(whole.draws["x"], stopped.draws["x"])
    assert whole.summary().equals(stopped.summary())


def test_its_errors_are_small_enough(stopped):
    summary = stopped.summary()
    assert (summary["error"] <= 0.01 * summary["sd"]).all()
    for name in ("error_5%", "error_50%", "error_95%"):
        assert (summary[name] <= 0.025 * summary["sd"]).all()
    assert not stopped.warnings


def test_it_can_be_stopped_resumed_and_sharpened(stopped, tmp_path):
    """The folder goes on where it was, to the same draws; a smaller error extends them."""
    run = RUN | {"checkpoint": tmp_path / "run", "resume": True}
    first = srmc.sample(skewed, target_error=0.2, **run)
    looks = [look["draws"] for look in stopped.about["looks"]]
    assert first.about["num_draws"] in looks[:-1]
    then = srmc.sample(skewed, target_error={"mean": 0.01, "quantiles": 0.025}, **run)
    np.testing.assert_array_equal(then.draws["x"], stopped.draws["x"])
    assert then.about["looks"] == stopped.about["looks"]


def test_a_run_that_is_long_enough_says_so():
    result = srmc.sample(skewed, target_error=1e-4, max_samples=600, alpha=0, **RUN)
    assert [look["draws"] for look in result.about["looks"]] == [250, 500, 600]
    assert "target_error was not reached with 600 draws per chain" in result.warnings[-1]
    assert "larger max_samples" in result.warnings[-1]


def plan(**changes):
    given = {"kernel": "nuts", "alpha": "auto", "num_warmup": 200, "num_samples": 6400, "seed": 0}
    given |= {"num_chains": 4, "step_size": None, "num_integration_steps": None, "space": None}
    given |= {"shared_history": True, "repellence": None, "keep": Keep()}
    return Plan(**given | changes)


def test_looks_double_up_to_the_last_one():
    assert longest(100, None) == 6400
    assert looks(plan(), 100, dim=2) == (100, 200, 400, 800, 1600, 3200, 6400)
    assert looks(plan(num_samples=500), 100, dim=2) == (100, 200, 400, 500)
    assert looks(plan(num_samples=100), 100, dim=2) == (100,)
    assert looks(plan(), 100, dim=10_000)[-1] == 1600  # more draws do not fit into memory
    assert looks(plan(space=srmc.Binary(), kernel="gwg"), 100, dim=100)[0] == 100


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"target_error": 0.0}, "target_error must be finite and > 0"),
        ({"target_error": {"median": 0.1}}, "must be one of 'mean', 'sd', 'quantiles'"),
        ({"target_error": {}}, "target_error must be a number, or a dict"),
        ({"target_error": 0.1, "max_samples": 100}, "max_samples must be >= 250"),
        ({"max_samples": 100}, "max_samples needs target_error"),
        ({"target_error": 0.1, "keep": "moments"}, "batches of its moments"),
        ({"target_error": 0.1, "alpha": 1.0}, "tuned for num_samples"),
    ],
)
def test_what_cannot_be_is_refused(given, words):
    with pytest.raises(ValueError, match=words):
        srmc.sample(skewed, **RUN | given)

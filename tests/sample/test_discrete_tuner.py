"""Self-tuned repellence on discrete spaces, and `srmc.sample` with it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import srmc
from srmc.sample.tune import Discrete, rule, tune
from srmc_studies.bench import discrete

ISING = discrete.TARGETS["ising-4x4"][0]()
COLD = discrete._ising(4, 0.44, True)


def test_repelled_gwg_beats_plain_gwg():
    """A short form of `srmc bench discrete`."""
    row = discrete.compare(ISING, "gwg", discrete.Size(48, 2000, 8000))
    assert row["errors"]["mean"]["ratio"] < 0.08
    assert row["errors"]["pair"]["ratio"] < 0.4
    assert row["evaluations_per_step"][0] == 1
    assert 1 < row["evaluations_per_step"][1] < 2


def test_a_cold_target_does_no_harm():
    """Near its transition the loop could lock in; it is slow enough, or the guard steps in."""
    row = discrete.compare(COLD, "dlp", discrete.Size(48, 2000, 6000))
    assert row["errors"]["mean"]["ratio"] < 1.1
    assert row["errors"]["pair"]["ratio"] < 1.15


@pytest.mark.parametrize("kernel", ["dlp", "acs", "dlmc", "path_auxiliary"])
def test_the_acceptance_rate_sets_the_step_or_the_length(kernel):
    starts = jnp.zeros((8, 16))
    tuner = Discrete(kernel, COLD.space)
    warm = tuner.adapt(COLD.logdensity_fn, jax.random.key(0), starts, 600)
    algorithm = tuner.build(COLD.logdensity_fn, warm.parameters, alpha=0.0)
    states = jax.vmap(algorithm.init)(warm.positions)
    step = jax.jit(jax.vmap(algorithm.step))
    rates = []
    for n in range(60):
        states, info = step(jax.random.split(jax.random.key(n), 8), states)
        rates.append(np.mean(info.inner_info.acceptance_rate))
    assert abs(np.mean(rates) - 0.574) < 0.08


def test_a_chain_that_does_not_move_leaves_repellence_off():
    frozen = lambda x: 200.0 * jnp.sum(x)
    tuner = Discrete("flip_mh", srmc.Binary())
    sizes = {"num_warmup": 100, "num_samples": 1000}
    tuned = tune(tuner, frozen, jax.random.key(0), jnp.ones((2, 3)), **sizes)
    assert not bool(tuner.is_on(tuned.loop))


@pytest.mark.parametrize("shared", [True, False])
def test_the_front_door_takes_discrete_targets(shared):
    options = {"num_samples": 2000, "shared_history": shared, "progress": False}
    result = srmc.sample(ISING, alpha=rule.DISCRETE_ALPHA, **options)
    assert result.draws["x"].shape == (4, 2000, 16)
    assert set(np.unique(result.draws["x"])) == {0.0, 1.0}
    error = result.draws["x"].mean(axis=(0, 1)) - ISING.moments.mean
    assert np.sqrt(np.mean(error**2)) < 0.05
    assert result.about["settings"]["kernel"] == "gwg"
    assert result.stats["alpha"][:, -1] == pytest.approx(rule.DISCRETE_ALPHA)
    assert 4 * 2000 < result.gradients < 4 * 2000 * 2  # features at some of the steps


def test_a_log_density_with_a_space_and_a_resumed_run(tmp_path):
    def potential(x):
        return jnp.sum(jnp.sin(x[0] @ jnp.ones((3, 3)) * x[1])) + 0.5 * x[0, 1]

    options = {
        "space": srmc.Categorical(3),
        "kernel": "dlp",
        "initial_position": np.array([0, 2]),
        "num_warmup": 100,
        "num_samples": 60,
        "num_chains": 2,
        "progress": False,
    }
    straight = srmc.sample(potential, **options)
    assert straight.draws["x"].shape == (2, 60, 2, 3)
    assert "step_size" in straight.about["measured"]
    srmc.sample(potential, **options, checkpoint=tmp_path / "run")
    again = srmc.sample(potential, **options, checkpoint=tmp_path / "run", resume=True)
    np.testing.assert_array_equal(again.draws["x"], straight.draws["x"])
    assert again.about["settings"]["space"] == "Categorical(3)"


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"kernel": "nuts"}, ValueError, r"kernel on Binary\(\) must be one of 'gwg'"),
        ({"space": srmc.Ordinal(3)}, ValueError, "space must be that of the target"),
        ({"space": "binary"}, TypeError, r"space must be srmc.Binary\(\)"),
        ({"base": True}, ValueError, "base=True needs a continuous kernel"),
        ({"step_size": 0.1}, ValueError, "step_size is for kernel 'dlp'"),
        ({"initial_position": np.full(16, 2)}, ValueError, r"position must be in Binary\(\)"),
        ({"initial_position": [np.zeros(16)]}, ValueError, "a list of 4 states"),
        ({"initial_position": "uniform"}, ValueError, "initial_position must be a state"),
        (
            {"model": lambda x: jnp.sum(x), "kernel": "gwg", "initial_position": np.zeros(2)},
            ValueError,
            "kernel 'gwg' is for discrete spaces; say which with space",
        ),
        (
            {"model": lambda x: jnp.sum(x), "space": srmc.Binary()},
            ValueError,
            "initial_position must be given",
        ),
    ],
)
def test_bad_input_is_named(options, error, words):
    with pytest.raises(error, match=words):
        srmc.sample(**{"model": ISING, "progress": False} | options)


def curved(x):
    """Not linear in each site, with too many sites for the exact feature to be the default."""
    return -0.1 * jnp.sum(x) + 0.3 * jnp.sum(jnp.sin(3 * x))


CURVED = {"space": srmc.Binary(), "initial_position": np.zeros(70, np.float32)}
QUICK = {"num_warmup": 100, "num_samples": 50, "num_chains": 2, "progress": False}


def test_a_feature_that_is_biased_repels_only_if_asked(recwarn):
    """With too few draws to resample them, "auto" would repel the chain as it runs."""
    for alpha in ("auto", 0.0):
        result = srmc.sample(curved, **CURVED, **QUICK, alpha=alpha)
        assert np.max(result.stats["alpha"]) == 0
    assert not [one for one in recwarn if "another distribution" in str(one.message)]
    with pytest.warns(UserWarning, match="feature='gibbs' is exact"):
        srmc.sample(curved, **CURVED, **QUICK, alpha=2.0)


def test_the_feature_is_a_keyword_and_the_rest_stays_tuned(recwarn):
    result = srmc.sample(curved, **CURVED, **QUICK, alpha=2.0, feature="gibbs")
    assert not [one for one in recwarn if "another distribution" in str(one.message)]
    assert np.max(result.stats["alpha"]) == 2.0
    given = {"repellence": {"feature": "gibbs"}}
    same = srmc.sample(curved, **CURVED, **QUICK, alpha=2.0, **given)
    np.testing.assert_array_equal(same.draws["x"], result.draws["x"])
    np.testing.assert_array_equal(same.stats["gain"], result.stats["gain"])
    with pytest.raises(ValueError, match="feature must be one of"):
        srmc.sample(curved, **CURVED, **QUICK, feature="gibs")
    with pytest.raises(ValueError, match="feature is for discrete spaces"):
        srmc.sample(lambda x: -x @ x, initial_position=np.zeros(2, np.float32), feature="gibbs")


@pytest.mark.parametrize(
    ("kernel", "most"),
    [("dlp", rule.DLP_STEPS[1]), ("dlmc", rule.DLMC_STEPS[1]), ("path_auxiliary", 8 / 1.5)],
)
def test_on_a_flat_target_the_step_is_bounded(kernel, most):
    flat = lambda x: 0.0 * jnp.sum(x)
    tuner = Discrete(kernel, srmc.Binary())
    warm = tuner.adapt(flat, jax.random.key(0), jnp.zeros((4, 8)), 400, measures=False)
    (found,) = warm.parameters.values()
    assert 1 < float(found) <= np.float32(most)

"""A run that has failed says so."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import srmc
from srmc.results.kept import Kept
from srmc.results.result import Result
from srmc.results.trouble import troubles

SHORT = {"num_warmup": 300, "num_samples": 300, "progress": False}


def test_divergences_of_a_funnel_are_told():
    with pytest.warns(srmc.RunWarning, match="came after a divergence"):
        result = srmc.sample(srmc.targets.funnel(), coordinates="plain", **SHORT)
    assert any("Reparametrise" in text for text in result.warnings)


def test_chains_in_separate_modes_are_told(tmp_path):
    modes = lambda x: jnp.logaddexp(-0.5 * jnp.sum((x - 20) ** 2), -0.5 * jnp.sum((x + 20) ** 2))
    starts = [np.full(2, 20.0, np.float32), np.full(2, -20.0, np.float32)] * 2
    with pytest.warns(srmc.RunWarning, match="R-hat of the plain chains is up to"):
        result = srmc.sample(modes, initial_position=starts, **SHORT)
    summary = result.summary()
    assert np.all(summary["r_hat_base"] > 1.5)
    assert np.all(summary["ess_base"] < 5)
    for name in ("error", "error_5%", "error_95%"):  # between chains
        assert np.all(summary[name] > 5)
    result.save(tmp_path / "r.nc")
    assert srmc.load(tmp_path / "r.nc").warnings == result.warnings


@pytest.mark.parametrize(
    ("step_size", "told"), [(0.01, "independent draws"), (1e-30, "never moved")]
)
def test_chains_that_crawl_or_never_moved_are_told(step_size, told):
    with pytest.warns(srmc.RunWarning) as found:
        srmc.sample(
            lambda x: -0.5 * jnp.sum(x**2),
            kernel="mh",
            step_size=step_size,
            initial_position=lambda key: jax.random.normal(key, (2,)),
            **SHORT,
        )
    assert any(told in str(one.message) for one in found)


def test_a_sound_run_says_nothing(recwarn):
    result = srmc.sample(
        srmc.targets.gaussian(2), num_warmup=500, num_samples=2000, num_chains=4, progress=False
    )
    assert result.warnings == []
    energy = np.random.default_rng(0).normal(size=(4, 2000)).cumsum(axis=1)
    stats = result.stats | {"energy": np.where(np.arange(4)[:, None] < 2, energy, 1.0)}
    slow = dataclasses.replace(result, kept=result.kept._replace(stats=stats))
    (told,) = troubles(slow)
    assert "the energy changes slowly in chains 0, 1: E-BFMI is 0.00" in told
    assert "Reparametrise" in told


def told(result, words):
    """How many warnings of a result have these words."""
    return sum(words in text for text in troubles(result))


@pytest.fixture
def sound():
    """A run without trouble, of two chains: its statistics can be spoilt one by one."""
    count = {"diverging": False, "is_finite": True, "is_hot": False, "is_stable": True}
    stats = {name: np.full((2, 500), value) for name, value in count.items()}
    stats |= {name: np.ones((2, 500)) for name in ("alpha", "acceptance_rate", "gradients")}
    x = np.random.default_rng(0).normal(size=(2, 500, 3))
    kept = Kept(stats=stats, draws={"x": x}, base={"x": x}, scored={"score": -x})
    # The energy of a sound chain changes as fast as it varies.
    stats["energy"] = 0.5 * np.sum(x**2, axis=2)
    settings = {"kernel": "nuts", "thin": 1}
    return Result(kept, {"settings": settings, "num_draws": 500})


SPOILT = {
    "came after a divergence": {"diverging": True},
    "acceptance was 0 or not finite": {"is_finite": False},
    "reached the largest tree depth, 10": {"gradients": 1023.0},
    "history and kernel blew up": {"is_stable": False},
}


@pytest.mark.parametrize("words", SPOILT)
def test_what_a_step_reports_is_told(sound, words):
    assert troubles(sound) == []
    for name, value in SPOILT[words].items():
        sound.stats[name][:, ::4] = value
    assert told(sound, words) == 1


def test_a_guard_that_gave_in_is_told(sound):
    sound.stats["is_hot"][:, 100:140] = True
    assert troubles(sound) == []  # alpha recovered
    sound.stats["alpha"][:, 100:] = 0.01
    assert told(sound, "the guard lowered alpha at 80 draws, to 0.21 on average") == 1


def test_a_flat_density_is_told(sound):
    sound.kept.scored["score"][:, :, 1] = 0.0
    assert told(sound, "the log density is flat in coordinate 1:") == 1
    sound.kept.scored["score"][:] = 0.0
    assert told(sound, "the log density is flat: its gradient was 0 at every draw") == 1


@pytest.mark.parametrize("accepted", [0.0, 1.0])
def test_chains_that_never_moved_are_told_what_to_do(sound, accepted):
    sound.draws["x"][1] = sound.base["x"][1] = 0.0
    sound.stats["acceptance_rate"][1] = accepted
    words = f"chains 1 never moved, and accepted {accepted:.0%} of their proposals. Use "
    assert told(sound, words + ("larger" if accepted else "smaller")) == 1


def test_chains_that_disagree_are_told(sound):
    sound.draws["x"][1] += 5.0
    assert told(sound, "R-hat of the plain chains is up to") == 1


def test_too_few_draws_are_told(sound):
    few = {"x": sound.draws["x"][:, :60]}
    stats = {name: x[:, :60] for name, x in sound.stats.items()}
    kept = sound.kept._replace(draws=few, base=few, stats=stats)
    short = Result(kept, sound.about | {"num_draws": 60})
    assert told(short, "too few for reliable standard errors") == 1
    one = {"x": sound.draws["x"][:, :1]}
    stats = {name: x[:, :1] for name, x in sound.stats.items()}
    kept = sound.kept._replace(draws=one, base=one, stats=stats)
    alone = Result(kept, sound.about | {"num_draws": 1})
    assert told(alone, "there are fewer than 4 draws per chain, too few") == 1


def test_divergences_are_told_by_what_they_mean(sound):
    sound.stats["diverging"][0, 7] = True
    assert told(sound, "1 of 1,000 draws (0.10%) came after a divergence. They are too few") == 1
    assert told(sound, "Reparametrise") == 0
    sound.stats["diverging"][:, ::50] = True
    assert told(sound, "They do not cluster. Smaller steps") == 1
    sound.stats["diverging"][:] = sound.base["x"][..., 1] < -1.6
    assert told(sound, "They cluster at low values of x[1]") == 1
    assert told(sound, "Reparametrise") == 1


@pytest.mark.parametrize("coordinates", [1, 30, 1000])
def test_sound_chains_are_seldom_said_not_to_mix(sound, coordinates):
    # R-hat of the worst of many coordinates is often above 1.01, although all chains are sound.
    rng = np.random.default_rng(coordinates)
    runs, warned, above = max(3, 900 // coordinates), 0, 0
    for _ in range(runs):
        noise = rng.normal(size=(2, 251, coordinates))
        x = noise[:, 1:] + 0.5 * noise[:, :-1]
        stats = {name: value[:, :250] for name, value in sound.stats.items()}
        kept = sound.kept._replace(draws={"x": x}, base={"x": x}, stats=stats)
        result = Result(kept, sound.about | {"num_draws": 250})
        warned += told(result, "have not mixed")
        above += np.max(srmc.metrics.r_hat(x)) > 1.01
    assert warned <= 0.01 * runs
    assert above > 0.1 * runs

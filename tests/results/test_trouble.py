"""A run that has failed says so."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import srmc
from srmc.results.trouble import troubles

SHORT = {"num_warmup": 300, "num_samples": 300, "progress": False}


def test_divergences_of_a_funnel_are_told():
    with pytest.warns(srmc.RunWarning, match="came after a divergence"):
        result = srmc.sample(srmc.targets.funnel(), **SHORT)
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

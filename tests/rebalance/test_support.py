"""Holes, corners and walls are found, whatever their shape; smooth densities raise no alarm."""

import jax.numpy as jnp
import numpy as np
import pytest

import srmc
import supports
from srmc.rebalance.batched import Batched
from srmc.rebalance.support import has_edge, probe, probe_outwards


@pytest.mark.parametrize("case", supports.CASES)
def test_draws_of_a_support_that_is_not_convex_are_unchanged(case):
    support = supports.CASES[case]
    for seed in range(2):
        x = support.draws(np.random.default_rng(seed), 4, 250).astype(np.float32)
        with pytest.warns(UserWarning, match="the draws are unchanged"):
            out, report = srmc.rebalance(
                x, support.score_fn, logdensity_fn=support.logdensity_fn, report=True
            )
        np.testing.assert_array_equal(out, x)
        assert report.densities < 2.2 * 1000  # one per draw, segments, rounding and bisection


WALL = supports.Support(2, lambda x, xp: xp.where(x[..., 0] < 2, 1.0, 0.0))


@pytest.mark.parametrize("support", [WALL, supports.CASES["slit"]], ids=["wall", "slit"])
@pytest.mark.parametrize("level", [-60.0, -1e10])
def test_a_large_negative_number_is_taken_for_minus_infinity(support, level):
    x = support.draws(np.random.default_rng(0), 4, 250).astype(np.float32)
    logp = support._replace(level=level).logdensity_fn
    with pytest.warns(UserWarning, match="the log density ends"):
        out = srmc.rebalance(x, support.score_fn, logdensity_fn=logp)
    np.testing.assert_array_equal(out, x)


@pytest.mark.parametrize("case", supports.SMOOTH)
def test_smooth_densities_have_no_edge_and_no_jump(case):
    assert supports.alarms(case, range(5)) == (0, 0)


def test_a_density_that_falls_steeply_has_no_wall():
    """The probes beyond the outermost draws are up to 4 million below them."""
    narrow = lambda x: -0.5 * x[0] ** 2 - 0.5e4 * (x[1] - x[0]) ** 2 - jnp.exp(5 * x[2]) + x[2]
    rng = np.random.default_rng(0)
    a, e = rng.normal(size=(2, 1000))
    x = np.stack([a, a + 0.01 * e, np.log(rng.gamma(0.2, size=1000)) / 5], axis=1)
    density = Batched("density", narrow, x[None], ())
    assert not probe_outwards(x, density, rng).failed
    assert not probe(x, density, rng).failed


def test_a_hole_is_found_between_few_draws_and_far_from_0():
    for location, count in ((0.0, 100), (1e4, 1000)):
        x = location + supports.CASES["disc at 0"].draws(np.random.default_rng(0), 1, count)[0]
        x = x.astype(np.float32).astype(float)
        logp = lambda z, at=location: jnp.where(jnp.sum((z - at) ** 2) > 0.25, 0.0, -jnp.inf)
        density = Batched("density", logp, x[None], ())
        assert probe(x, density, np.random.default_rng(0)).failed


@pytest.mark.parametrize("case", ["a third in a corner", "a third in a disc"])
def test_a_jump_that_few_segments_cross_is_found(case):
    """Of segments between any two draws one in fourteen crosses it."""
    assert supports.found(case, range(32)) >= 31


def test_an_edge_does_harm_where_the_density_has_not_vanished():
    ends = lambda power: lambda z: jnp.where(z[0] > 0, power * jnp.log(z[0]), -jnp.inf)
    inside = np.linspace(0.5, 1.5, 100)[:, None]
    for power, hard in ((0.0, True), (3.0, False)):
        density = Batched("density", ends(power), inside[None], ())
        assert has_edge(density, inside, inside - 2, np.arange(100)) == hard
        assert not has_edge(density, inside, inside, np.arange(0))


def test_a_density_that_fails_at_one_place_in_thousands_does_no_harm():
    """NaN in a disc that one of ten thousand steps meets, as of a factorisation that fails."""
    logp = lambda z: jnp.where(jnp.sum((z - 3) ** 2) < 0.02, jnp.nan, -0.5 * jnp.sum(z**2))
    x = np.random.default_rng(0).normal(size=(20_000, 2))
    x = x[np.sum((x - 3) ** 2, axis=1) >= 0.02]
    density = Batched("density", logp, x[None], ())
    found = probe(x, density, np.random.default_rng(1))
    assert not found.failed
    assert "there is density at" in found.text

"""Changes of one site, and what the defaults of the builders spend on the history."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import srmc
from srmc.kernels.discrete.sites import Sites

TARGETS = {
    "ising": lambda: srmc.targets.ising(srmc.targets.lattice(4, 5), 0.3, 0.2),
    "ising, all coupled": lambda: srmc.targets.ising(
        np.transpose(np.triu_indices(5, 1)), np.linspace(-0.5, 0.5, 10), 0.1
    ),
    "potts": lambda: srmc.targets.potts(srmc.targets.lattice(3, 3), 3, 0.7, (0.1, -0.2, 0.3)),
    "rbm": lambda: srmc.targets.rbm(num_visible=6, num_hidden=4, scale=0.8, visible_bias=0.3),
}
KERNELS = {
    "flip_mh": srmc.flip_mh,
    "gibbs": srmc.gibbs,
    "locally_balanced": srmc.locally_balanced,
    "gwg": srmc.gwg,
    "dlp": lambda f, space, **kw: srmc.dlp(f, space, 0.5, **kw),
    "dlmc": lambda f, space, **kw: srmc.dlmc(f, space, 0.5, **kw),
    "path_auxiliary": lambda f, space, **kw: srmc.path_auxiliary(f, space, 4.0, **kw),
}


def path(algorithm, x, num_steps):
    """The positions and the reports of a run, and its last state."""

    def one(state, key):
        state, info = algorithm.step(key, state)
        return state, (state.position, info)

    keys = jax.random.split(jax.random.key(1), num_steps)
    return jax.jit(lambda x: jax.lax.scan(one, algorithm.init(x), keys))(x)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", TARGETS)
def test_changes_of_one_site_are_among_those_of_all(name):
    target = TARGETS[name]()
    space, differences = target.space, target.differences
    x = space.random(jax.random.key(0), jnp.asarray(target.position, float))
    every = Sites(target.logdensity_fn, space, "exact", "gibbs").look(x).guide
    kept = differences.keep(x)
    for site in range(space.num_sites(x)):
        found = differences.at(kept, x, jnp.asarray(site))
        np.testing.assert_allclose(found, every[site], atol=1e-12)
        for value in range(space.num_values):
            y = space.place(x, site, value)
            moved = differences.move(kept, x, jnp.asarray(site), jnp.asarray(value))
            for one, other in zip(*map(jax.tree.leaves, (moved, differences.keep(y))), strict=True):
                np.testing.assert_allclose(one, other, atol=1e-12)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("alpha", [0.0, 2.0])
@pytest.mark.parametrize("kernel", ["flip_mh", "gibbs"])
@pytest.mark.parametrize("name", TARGETS)
def test_draws_are_those_of_evaluated_states(name, kernel, alpha):
    """Whether one site is compared by its own change or by two values of the log density."""
    target = TARGETS[name]()
    x = jnp.asarray(target.position, float)
    everywhere = target.differences.everywhere  # which says nothing of single sites
    given = target.logdensity_fn, target.space
    build = lambda how: KERNELS[kernel](*given, alpha=alpha, history_every=3, differences=how)
    last, (draws, _) = path(build(target.differences), x, 300)
    _, (others, _) = path(build(everywhere), x, 300)
    np.testing.assert_array_equal(draws, others)
    assert len(np.unique(draws, axis=0)) > 5
    local = last.inner_state.local
    assert local.logdensity == pytest.approx(float(target.logdensity_fn(last.position)), abs=1e-10)


def test_what_is_kept_does_not_drift():
    """In single precision, over many flips, by more than rounding once and again adds up to."""
    target = srmc.targets.rbm(num_visible=40, num_hidden=30, scale=0.3)
    algorithm = srmc.flip_mh(
        target.logdensity_fn, target.space, alpha=0.0, differences=target.differences
    )
    last, (_, info) = path(algorithm, target.position, 50_000)
    assert np.mean(info.inner_info.is_accepted) > 0.3
    fresh, local = target.differences.keep(last.position), last.inner_state.local
    np.testing.assert_allclose(local.kept, fresh, atol=1e-4)
    value = float(target.logdensity_fn(last.position))
    assert float(local.logdensity) == pytest.approx(value, abs=1e-2)


@pytest.mark.parametrize("supplied", [True, False])
@pytest.mark.parametrize("kernel", KERNELS)
def test_by_default_the_history_takes_at_most_one_evaluation_per_step(kernel, supplied):
    target = srmc.targets.ising()
    given = {"differences": target.differences} if supplied else {}
    repelled = KERNELS[kernel](target.logdensity_fn, target.space, **given)
    plain = KERNELS[kernel](target.logdensity_fn, target.space, alpha=0.0, **given)
    last, (_, info) = path(repelled, target.position, 64)
    _, (_, before) = path(plain, target.position, 64)
    assert np.mean(info.gradients) <= np.mean(before.gradients) + 1
    assert np.any(last.theta != 0)


def test_the_default_bend_is_by_sites_where_that_drives_the_feature():
    target = srmc.targets.ising()
    build = lambda **options: srmc.gwg(target.logdensity_fn, target.space, alpha=2.0, **options)
    draws = lambda **options: path(build(**options), target.position, 100)[1][0]
    for feature in ("gibbs", "relaxed-gibbs"):
        found, expected = draws(feature=feature), draws(feature=feature, bend="sites")
        np.testing.assert_array_equal(found, expected)
        assert np.any(found != draws(feature=feature, bend="feature"))
    found, expected = draws(feature="stein"), draws(feature="stein", bend="feature")
    np.testing.assert_array_equal(found, expected)

"""SRNUTS under `numpyro.infer.MCMC`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

numpyro = pytest.importorskip("numpyro")

from numpyro import distributions as dist  # noqa: E402
from numpyro.infer import MCMC, NUTS, BarkerMH, HMCGibbs  # noqa: E402

from srmc.plugins.numpyro import SRNUTS, Repelled  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:There are not enough devices")
SIZES = {"num_warmup": 200, "num_samples": 300}


def model(y):
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    s = numpyro.sample("s", dist.Gamma(3.0, 2.0))
    numpyro.deterministic("t", mu + s)
    numpyro.sample("y", dist.Normal(mu, 1), obs=y)


Y = jnp.array([0.3, 1.4, 0.8])


@pytest.mark.parametrize("method", ["sequential", "vectorized"])
def test_a_model_is_sampled(method, capsys):
    mcmc = MCMC(SRNUTS(model), num_chains=2, chain_method=method, progress_bar=False, **SIZES)
    mcmc.run(jax.random.key(0), Y, extra_fields=("z_plain", "alpha", "num_steps", "accept_prob"))
    draws = mcmc.get_samples(group_by_chain=True)
    assert {k: x.shape for k, x in draws.items()} == dict.fromkeys(("mu", "s", "t"), (2, 300))
    np.testing.assert_allclose(draws["t"], draws["mu"] + draws["s"], rtol=1e-6)
    # A plain run of 600 draws is off by 0.02 and 0.035 standard errors.
    assert abs(draws["mu"].mean() - 2.5 / 4) < 0.05
    assert abs(draws["s"].mean() - 1.5) < 0.12
    assert draws["s"].min() > 0
    fields = mcmc.get_extra_fields()
    assert fields["alpha"].max() > 0
    assert fields["num_steps"].min() >= 1
    assert 0.6 < fields["accept_prob"].mean() <= 1
    plain = fields["z_plain"]["mu"].reshape(2, 300)
    assert 0 < np.abs(plain - draws["mu"]).max() < 1
    mcmc.print_summary()
    assert "Number of divergences: 0" in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore")
def test_the_progress_bar_does_not_change_the_draws_and_runs_go_on():
    potential = lambda x: 0.5 * jnp.sum(x**2)
    run = lambda bar: MCMC(SRNUTS(potential_fn=potential), progress_bar=bar, **SIZES)
    first, second = run(True), run(False)
    for mcmc in (first, second):
        mcmc.run(jax.random.key(1), init_params=jnp.ones(2))
    np.testing.assert_allclose(first.get_samples(), second.get_samples(), rtol=1e-5)
    assert np.all(np.abs(first.get_samples().mean(axis=0)) < 0.2)
    second.post_warmup_state = second.last_state
    second.run(second.post_warmup_state.rng_key)
    assert second.last_state.i == 200 + 2 * 300


def test_what_is_given_is_checked():
    with pytest.raises(ValueError, match="one of model and potential_fn"):
        SRNUTS()
    with pytest.raises(ValueError, match="kernel must be one of"):
        SRNUTS(model, kernel="gwg")
    with pytest.raises(ValueError, match="num_warmup must be >= 100"):
        MCMC(SRNUTS(model), num_warmup=50, num_samples=10).run(jax.random.key(0), Y)
    with pytest.raises(ValueError, match="init_params must be given"):
        MCMC(SRNUTS(potential_fn=jnp.sum), **SIZES).run(jax.random.key(0))


def rms_of_scores(draws, shared):
    """Over both coordinates, the mean scores of all chains, or of each, in standard deviations."""
    mu, s = (np.asarray(draws[name]) for name in ("mu", "s"))
    axes = (0, 1) if shared else 1
    means = [(2.5 - 4 * mu).mean(axis=axes) / 2, (3 - 2 * s).mean(axis=axes) / np.sqrt(3)]
    return np.sqrt(np.mean(np.square(means)))


@pytest.mark.parametrize(("kernel", "method"), [(NUTS, "vectorized"), (BarkerMH, "sequential")])
def test_a_kernel_of_numpyro_is_repelled(kernel, method):
    """Its own chain stays as it was, and the draws balance the scores better."""
    run = {"num_chains": 2, "chain_method": method, "progress_bar": False, **SIZES}
    plain = MCMC(kernel(model), **run)
    plain.run(jax.random.key(0), Y)
    mcmc = MCMC(Repelled(kernel(model)), **run)
    mcmc.run(jax.random.key(0), Y, extra_fields=("z_plain", "alpha", "potential_energy"))
    fields = mcmc.get_extra_fields(group_by_chain=True)
    before, after = (m.get_samples(group_by_chain=True) for m in (plain, mcmc))
    np.testing.assert_allclose(fields["z_plain"]["mu"], before["mu"], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(after["t"], after["mu"] + after["s"], rtol=1e-6)
    assert after["s"].min() > 0
    shared = method == "vectorized"
    assert rms_of_scores(after, shared) < 0.8 * rms_of_scores(before, shared)
    assert 0 < np.abs(after["mu"] - before["mu"]).max() < 1


def test_one_chain_of_a_potential_is_repelled_and_goes_on():
    potential = lambda x: 0.5 * jnp.sum(x**2)
    mcmc = MCMC(Repelled(NUTS(potential_fn=potential), alpha=5.0), progress_bar=False, **SIZES)
    mcmc.run(jax.random.key(1), init_params=jnp.ones(2))
    assert np.all(np.abs(mcmc.get_samples().mean(axis=0)) < 0.2)
    mcmc.post_warmup_state = mcmc.last_state
    mcmc.run(mcmc.post_warmup_state.rng_key)
    assert mcmc.last_state.i == 200 + 2 * 300


def test_a_kernel_that_cannot_be_repelled_is_refused():
    for kernel in (model, NUTS, HMCGibbs(NUTS(model), lambda **_: {}, ["mu"])):
        with pytest.raises(TypeError, match="kernel must be a NumPyro kernel"):
            Repelled(kernel)

"""Repelled kernels under `numpyro.infer.MCMC`."""

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


def test_the_former_name_warns():
    with pytest.warns(DeprecationWarning, match="SRNUTS is now Repelled"):
        kernel = SRNUTS(model, num_samples=300)
    assert isinstance(kernel, Repelled)
    assert kernel.model is model


def rms_of_scores(draws, shared):
    """Over both coordinates, the mean scores of all chains, or of each, in standard deviations."""
    mu, s = (np.asarray(draws[name]) for name in ("mu", "s"))
    axes = (0, 1) if shared else 1
    means = [(2.5 - 4 * mu).mean(axis=axes) / 2, (3 - 2 * s).mean(axis=axes) / np.sqrt(3)]
    return np.sqrt(np.mean(np.square(means)))


@pytest.mark.parametrize(("kernel", "method"), [(NUTS, "vectorized"), (BarkerMH, "sequential")])
def test_a_kernel_of_numpyro_is_repelled(kernel, method):
    """Its own chain is unchanged, and the draws balance the scores better."""
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
    assert fields["alpha"].max() > 0
    mcmc.print_summary()


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

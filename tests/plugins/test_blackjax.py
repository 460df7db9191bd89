"""Repelled kernels in the form of BlackJAX's; `test_repel` puts them into its tools."""

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import log_gamma
from srmc.plugins import blackjax as ours

ARGUMENTS = {
    "nuts": (0.35, jnp.ones(2)),
    "hmc": (0.35, jnp.ones(2), 3),
    "dynamic_hmc": (0.35, jnp.ones(2)),
    "mala": (0.1,),
    "barker": (0.8,),
}


def test_every_kernel_is_tried():
    assert {*ARGUMENTS} == {*ours.__all__}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_kernels_have_blackjax_s_form(name):
    """`init` and `build_kernel` do what calling does, and the base chain is BlackJAX's."""
    repelled, plain = getattr(ours, name), getattr(blackjax, name)
    assert isinstance(repelled, blackjax.GenerateSamplingAPI)
    key, x = jax.random.key(0), jnp.array([0.1, 1.2])
    whole, alone = repelled(log_gamma, *ARGUMENTS[name]), plain(log_gamma, *ARGUMENTS[name])
    kernel = repelled.build_kernel()
    start = [algorithm.init(x, key) for algorithm in (whole, alone)]
    parts = repelled.init(x, log_gamma, **({"rng_key": key} if name == "dynamic_hmc" else {}))
    first, _ = whole.step(key, start[0])
    second, _ = kernel(key, parts, log_gamma, *ARGUMENTS[name])
    base, _ = alone.step(key, start[1])
    np.testing.assert_allclose(first.position, second.position, rtol=1e-6)
    np.testing.assert_allclose(first.inner_state.position, base.position, rtol=1e-6)

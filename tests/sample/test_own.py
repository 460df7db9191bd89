"""Kernels that a user brings, tuned and repelled like srmc's own."""

import functools

import blackjax
import numpy as np
import pytest

import srmc
from helpers import MEAN, VARIANCE, log_gamma
from srmc.sample.tune.kernels import OwnKernel, as_kernel

START = {"initial_position": np.zeros(2, np.float32), "num_chains": 4, "progress": False}


@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        (blackjax.nuts, "nuts"),
        (blackjax.hmc, "hmc"),
        (srmc.kernels.plain.ula, "ula"),
        (srmc.nuts, "nuts"),
        (srmc.kernels.plain.gwg, "gwg"),
        ("mala", "mala"),
    ],
)
def test_known_kernels_are_known_by_whatever_they_are_called(kernel, name):
    assert as_kernel(kernel) == name


# One has no metric, one has it, and is given the rest.
FIXED_LENGTH = functools.partial(blackjax.dynamic_hmc, integration_steps_fn=lambda key: np.int32(4))


@pytest.mark.parametrize("kernel", [blackjax.barker, FIXED_LENGTH], ids=["barker", "dynamic_hmc"])
def test_any_algorithm_of_blackjax_is_tuned_and_rebalanced(kernel):
    result = srmc.sample(log_gamma, kernel=kernel, num_warmup=400, num_samples=400, **START)
    assert result.about["settings"]["kernel"] == str(OwnKernel(kernel))
    assert result.is_rebalanced
    assert 0.3 < np.mean(result.stats["acceptance_rate"]) < 0.95
    mean = result.draws["x"].mean(axis=(0, 1))
    np.testing.assert_allclose(mean, MEAN, atol=0.1 * np.sqrt(VARIANCE).max())


def test_an_own_kernel_repels_as_well():
    """A number as alpha repels draws as they are made; the base chain is the plain kernel's."""
    run = functools.partial(
        srmc.sample, log_gamma, kernel=blackjax.barker, num_warmup=100, num_samples=30, **START
    )
    plain, repelled = run(alpha=0), run(alpha=3.0)
    np.testing.assert_array_equal(repelled.base["x"], plain.draws["x"])
    assert np.any(repelled.draws["x"] != plain.draws["x"])


def test_what_warm_up_needs_is_named():
    with pytest.raises(ValueError, match="kernel ghmc needs momentum_inverse_scale, alpha, delta"):
        OwnKernel(blackjax.ghmc)
    with pytest.raises(ValueError, match="kernel must report an acceptance_rate"):
        srmc.sample(
            log_gamma,
            kernel=functools.partial(blackjax.mclmc, L=1.0),
            num_warmup=100,
            num_samples=10,
            **START,
        )

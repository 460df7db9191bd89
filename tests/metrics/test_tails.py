"""Tails that are too heavy for a standard error."""

import numpy as np
import pytest

from srmc.metrics import batch_means_error
from srmc.metrics.tails import plain_error, tail_shape


@pytest.mark.parametrize(("degrees", "shape"), [(1, 1.0), (4, 0.25), (1000, 0.0)])
def test_the_shape_is_that_of_the_distribution(degrees, shape):
    x = np.random.default_rng(0).standard_t(degrees, size=(50, 4000))
    found = tail_shape(np.sort(x, axis=1))
    assert abs(np.median(found) - shape) < 0.12


def test_a_mean_that_does_not_exist_has_no_error():
    x = 1 / np.random.default_rng(0).gamma(1.0, size=(4, 1000, 50))
    assert np.mean(np.isnan(plain_error(x))) > 0.9


def test_intervals_cover_where_there_is_no_variance():
    """Batch means cover 90% for squares of a t distribution with four degrees of freedom."""
    x = np.random.default_rng(0).standard_t(4, size=(4, 1000, 1000)) ** 2
    off = np.abs(x.mean(axis=(0, 1)) - 2)
    error = plain_error(x)
    known = np.isfinite(error)
    assert known.mean() > 0.9
    assert np.mean(off[known] < 1.96 * error[known]) > 0.93
    assert np.mean(off < 1.96 * batch_means_error(x)) < 0.93


def test_light_tails_are_left_alone():
    x = np.random.default_rng(0).normal(size=(4, 1000, 100)) ** 2
    assert np.median(plain_error(x) / batch_means_error(x)) < 1.05


def test_values_that_are_equal_or_few_keep_their_errors():
    x = np.zeros((2, 400, 2))
    x[0, 0] = 1.0
    np.testing.assert_allclose(plain_error(x), batch_means_error(x))
    few = np.random.default_rng(0).normal(size=(1, 10, 3))
    np.testing.assert_allclose(plain_error(few), batch_means_error(few))


def test_the_near_side_of_a_skewed_sample_counts_as_no_tail():
    """Squares of rounded normals have ties near 0, which look like a heavy lower tail."""
    x = np.round(np.random.default_rng(1).normal(size=(4, 500, 300)) * 16) / 16
    assert np.all(np.isfinite(plain_error((x - 0.02) ** 2)))

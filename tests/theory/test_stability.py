import numpy as np
import pytest

from srmc import theory


def radius(gain, alpha, c, *, average=False, moving=False):
    """Spectral radius of x' = c x + (1 - c) alpha theta, theta' = theta - gain (x' + theta)."""
    if moving:
        return abs(1 - gain * (1 + alpha))
    move = np.array([[c, (1 - c) * alpha], [0.0, 1.0]])
    seen = (np.array([1.0, 0.0]) + move[0]) / 2 if average else move[0]
    loop = np.array([move[0], (1 - gain) * move[1] - gain * seen])
    return np.max(np.abs(np.linalg.eigvals(loop)))


@pytest.mark.parametrize("alpha", [0.3, 1.0, 20.0])
@pytest.mark.parametrize("c", [-0.95, -0.3, 0.0, 0.5, 0.9])
@pytest.mark.parametrize("average", [False, True])
def test_bounds_are_where_the_loop_turns_unstable(alpha, c, average):
    options = {"frame": "fixed", "autocorrelation": c, "average": average}
    gain = theory.largest_gain(alpha, **options)
    assert radius(0.999 * gain, alpha, c, average=average) < 1
    assert radius(1.001 * gain, alpha, c, average=average) > 1


def test_the_moving_frame_leaves_the_kernel_out():
    gain = theory.largest_gain(4.0, top_eigenvalue=2.0)
    assert radius(0.999 * gain, 8.0, 0, moving=True) < 1 < radius(1.001 * gain, 8.0, 0, moving=True)
    for kernel in ({"autocorrelation": -0.9}, {"autocorrelation": 0.9, "average": True}):
        assert theory.largest_gain(4.0, top_eigenvalue=2.0, **kernel) == gain


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="autocorrelation must be between -1 and 1"):
        theory.largest_gain(1.0, frame="fixed", autocorrelation=1.0)
    with pytest.raises(ValueError, match="frame must be one of"):
        theory.largest_gain(1.0, frame="fast")
    with pytest.raises(ValueError, match="alpha must be"):
        theory.largest_gain(-1.0)
    with pytest.raises(ValueError, match="top_eigenvalue must be"):
        theory.largest_gain(1.0, top_eigenvalue=0.0)

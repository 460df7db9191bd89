"""Stability bounds for the feedback loop between history and kernel."""

from srmc._checks import check_flag, check_number, check_option


def largest_gain(
    alpha: float,
    *,
    top_eigenvalue: float = 1.0,
    frame: str = "moving",
    autocorrelation: float = 0.0,
    average: bool = False,
) -> float:
    """Return the gain gamma below which the loop is stable; half of it is a safe choice.

    `top_eigenvalue` is the largest eigenvalue lambda of Cov(s, s) A. In the moving frame the loop
    is stable if gamma (1 + alpha lambda) < 2. In the fixed frame the bound also depends on the
    kernel's lag-1 autocorrelation c, which is negative for antithetic kernels:
    gamma (1 + alpha lambda (1 - c) / (1 + c)) < 2, or gamma (alpha lambda / 2 - c / (1 - c)) < 1
    with `average=True`, where the history averages the features at both ends of a transition.

    >>> largest_gain(3.0)
    0.5
    >>> round(largest_gain(3.0, frame="fixed", autocorrelation=-0.9), 3)
    0.034
    """
    check_number("alpha", alpha, at_least=0.0)
    check_number("top_eigenvalue", top_eigenvalue, above=0.0)
    _check_loop(frame, autocorrelation, average)
    alpha_lambda = alpha * top_eigenvalue
    if frame == "moving":
        return 2 / (1 + alpha_lambda)
    c = autocorrelation
    if not average:
        return 2 / (1 + alpha_lambda * (1 - c) / (1 + c))
    growth = alpha_lambda / 2 - c / (1 - c)
    return min(2.0, 1 / growth) if growth > 0 else 2.0


def largest_alpha(
    gain: float,
    *,
    top_eigenvalue: float = 1.0,
    frame: str = "moving",
    autocorrelation: float = 0.0,
    average: bool = False,
) -> float:
    """Return the strength alpha below which a loop with this gain is stable (see `largest_gain`).

    >>> largest_alpha(0.5)
    3.0
    """
    check_number("gain", gain, above=0.0)
    check_number("top_eigenvalue", top_eigenvalue, above=0.0)
    _check_loop(frame, autocorrelation, average)
    c = autocorrelation
    if gain >= 2:
        return 0.0
    if frame == "moving":
        bound = 2 / gain - 1
    elif average:
        bound = 2 / gain + 2 * c / (1 - c)
    else:
        bound = (2 / gain - 1) * (1 + c) / (1 - c)
    return max(0.0, bound / top_eigenvalue)


def _check_loop(frame: str, autocorrelation: float, average: bool) -> None:
    check_option("frame", frame, ("moving", "fixed"))
    check_number("autocorrelation", autocorrelation)
    check_flag("average", average)
    if not -1 < autocorrelation < 1:
        raise ValueError(f"autocorrelation must be between -1 and 1, got {autocorrelation}")

"""How strong a loop of history and kernel may be before it swings ever wider."""

from srmc._checks import check_number, check_option


def largest_gain(
    alpha: float,
    *,
    top_eigenvalue: float = 1.0,
    frame: str = "moving",
    autocorrelation: float = 0.0,
    average: bool = False,
) -> float:
    """The gain gamma up to which the loop is stable; half of it is a safe choice.

    `top_eigenvalue` is that of Cov(s, s) A. In the moving frame gamma (1 + alpha lambda) < 2. In
    the fixed frame the kernel takes part, with its lag-1 autocorrelation c, which is below 0 for
    antithetic kernels: gamma (1 + alpha lambda (1 - c) / (1 + c)) < 2, or, if the history
    averages over the ends of a transition, gamma (alpha lambda / 2 - c / (1 - c)) < 1.

    >>> largest_gain(3.0)
    0.5
    >>> round(largest_gain(3.0, frame="fixed", autocorrelation=-0.9), 3)
    0.034
    """
    check_number("alpha", alpha, at_least=0.0)
    check_number("top_eigenvalue", top_eigenvalue, above=0.0)
    alpha_lambda = alpha * top_eigenvalue
    if _check(frame, autocorrelation) == "moving":
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
    """The strength up to which a loop with this gain is stable; see `largest_gain`."""
    check_number("gain", gain, above=0.0)
    check_number("top_eigenvalue", top_eigenvalue, above=0.0)
    c = autocorrelation
    if gain >= 2:
        return 0.0
    if _check(frame, c) == "moving":
        bound = 2 / gain - 1
    elif average:
        bound = 2 / gain + 2 * c / (1 - c)
    else:
        bound = (2 / gain - 1) * (1 + c) / (1 - c)
    return max(0.0, bound / top_eigenvalue)


def _check(frame, autocorrelation):
    check_option("frame", frame, ("moving", "fixed"))
    if not -1 < autocorrelation < 1:
        raise ValueError(f"autocorrelation must be between -1 and 1, got {autocorrelation}")
    return frame

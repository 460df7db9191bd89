"""The versions of the packages that determine the draws."""

import platform

import blackjax
import jax


def versions() -> dict[str, str]:
    """The versions that a result and a checkpoint carry."""
    from srmc import __version__

    return {
        "srmc": __version__,
        "jax": jax.__version__,
        "blackjax": blackjax.__version__,
        "python": platform.python_version(),
    }

"""Ways to compute the surrogate score; the paper does not say which of them its figures use."""

import srmc
from srmc.repel import Strength, Surrogate
from srmc_studies.paper._problems import RepelOptions

DERIVATIVES: dict[str, Surrogate] = {
    "exact": srmc.tilt(),
    "finite difference, epsilon = alpha": srmc.tilt("finite-difference", eps="alpha"),
    "finite difference, epsilon = 1": srmc.tilt("finite-difference", eps=1.0),
    "shifted": srmc.tilt("shifted"),
}


def derivatives(size: str) -> list[str]:
    """The rules of an experiment; in its quick form one of them, that of the paper's code."""
    return list(DERIVATIVES) if size == "full" else ["shifted"]


def settings(alpha: float | Strength, derivative: str) -> RepelOptions:
    """Algorithm 1 as printed, with the surrogate score by one of the rules."""
    return srmc.paper_settings(alpha) | {"surrogate": DERIVATIVES[derivative]}


def reading(derivative: str) -> str:
    """How a row of the ledger names the rule."""
    return f"derivative rule: {derivative}"

"""The paper's experiments, one module per figure or table; run one with `srmc reproduce NAME`.

An experiment takes `(size, seed, on_progress)`, where size is "quick" or "full", and returns an
`Outcome`: settings, numbers, pictures, and rows of the ledger.
"""

from typing import Protocol

from srmc.paper._ledger import Estimate, Outcome, Row
from srmc.paper._progress import Progress, silent
from srmc.paper.adaptive_alpha import adaptive_alpha
from srmc.paper.cifar_ebm import cifar_parallel, cifar_single
from srmc.paper.claims import claims
from srmc.paper.epsilon import epsilon
from srmc.paper.figure1 import figure1
from srmc.paper.figure2 import figure2
from srmc.paper.gain import gain_epsilon, gain_figure2, gain_rho
from srmc.paper.mixture_cifar import mixture_cifar
from srmc.paper.mnist_ais import mnist_ais
from srmc.paper.mnist_mixing import mnist_mixing
from srmc.paper.rbm import rbm
from srmc.paper.rho import rho
from srmc.paper.variance_laws import variance_laws


class Experiment(Protocol):
    """Runs one experiment of the paper at the given size."""

    def __call__(
        self, size: str = "full", seed: int = 0, on_progress: Progress = silent
    ) -> Outcome: ...


EXPERIMENTS: dict[str, Experiment] = {
    "figure1": figure1,
    "figure2": figure2,
    "rho": rho,
    "epsilon": epsilon,
    "gain-figure2": gain_figure2,
    "gain-rho": gain_rho,
    "gain-epsilon": gain_epsilon,
    "adaptive-alpha": adaptive_alpha,
    "variance-laws": variance_laws,
    "mixture-cifar": mixture_cifar,
    "claims": claims,
    "mnist-mixing": mnist_mixing,
    "mnist-ais": mnist_ais,
    "cifar-single": cifar_single,
    "cifar-parallel": cifar_parallel,
    "rbm": rbm,
}

__all__ = ["EXPERIMENTS", "Estimate", "Experiment", "Outcome", "Row"]

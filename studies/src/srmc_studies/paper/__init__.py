"""The paper's experiments, one module per figure or table; run one with `srmc reproduce NAME`.

An experiment takes `(size, seed, on_progress)`, where size is "quick" or "full", and returns an
`Outcome`: settings, numbers, pictures, and rows of the ledger.
"""

from typing import Protocol

from srmc_studies.paper._ledger import Estimate, Outcome, Row
from srmc_studies.paper._progress import Progress, silent
from srmc_studies.paper.adaptive_alpha import adaptive_alpha, adaptive_gain
from srmc_studies.paper.cifar_ebm import cifar_parallel, cifar_single
from srmc_studies.paper.claims import claims
from srmc_studies.paper.epsilon import epsilon
from srmc_studies.paper.figure1 import figure1
from srmc_studies.paper.figure2 import figure2
from srmc_studies.paper.gain import gain_gaussian, gain_rho
from srmc_studies.paper.mixture_cifar import mixture_cifar
from srmc_studies.paper.mnist_ais import mnist_ais
from srmc_studies.paper.mnist_mixing import mnist_mixing
from srmc_studies.paper.rbm import rbm
from srmc_studies.paper.rho import rho
from srmc_studies.paper.rivals import rivals
from srmc_studies.paper.variance_laws import variance_laws


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
    "gain-gaussian": gain_gaussian,
    "gain-rho": gain_rho,
    "adaptive-alpha": adaptive_alpha,
    "adaptive-gain": adaptive_gain,
    "variance-laws": variance_laws,
    "rivals": rivals,
    "mixture-cifar": mixture_cifar,
    "claims": claims,
    "mnist-mixing": mnist_mixing,
    "mnist-ais": mnist_ais,
    "cifar-single": cifar_single,
    "cifar-parallel": cifar_parallel,
    "rbm": rbm,
}

__all__ = ["EXPERIMENTS", "Estimate", "Experiment", "Outcome", "Row"]

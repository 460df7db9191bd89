"""How each network is trained: its data, its settings, and the usual number of iterations."""

from collections.abc import Callable

import numpy as np

from srmc_studies.paper._progress import Progress, silent
from srmc_studies.paper.ebm import data
from srmc_studies.paper.ebm.binary import binary_energy
from srmc_studies.paper.ebm.classifiers import classifier
from srmc_studies.paper.ebm.continuous import image_energy
from srmc_studies.paper.ebm.training import Task

Recipe = Callable[[int, int, Progress], Task]


def mnist_ebm(iterations: int, seed: int, on_progress: Progress) -> Task:
    """The energy of static binarized MNIST."""
    options = {"rate": 5e-4, "batch": 100, "chains": 500, "steps": 20, "step_size": 0.1}
    train, test = data.static_mnist(on_progress)
    return binary_energy(train, test, iterations, seed, options, "static binarized MNIST")


def mnist_classifier(iterations: int, seed: int, on_progress: Progress) -> Task:
    """A classifier of digits, each binarized anew whenever it is seen."""

    def binarize(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
        return (rng.random(x.shape) < x / 255)[..., None].astype(np.float32)

    options = {"rate": 2e-3, "batch": 128, "pixels": "binarized at random"}
    images = data.mnist(on_progress)
    return classifier("mnist-classifier", images, iterations, seed, options, binarize)


def cifar_ebm(iterations: int, seed: int, on_progress: Progress) -> Task:
    """The energy of CIFAR-10."""
    options = {"rate": 3e-4, "batch": 32, "chains": 1000, "steps": 20, "noise": 0.01, "shrink": 0.1}
    return image_energy(data.cifar(on_progress), iterations, seed, options)


def cifar_classifier(iterations: int, seed: int, on_progress: Progress) -> Task:
    """A classifier of CIFAR-10; images are mirrored and shifted at random for training."""

    def augment(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
        x = x / np.float32(255)
        if len(x) > BATCH:  # the test images
            return x
        x = np.where(rng.random(len(x))[:, None, None, None] < 0.5, x, x[:, :, ::-1])
        return np.roll(x, rng.integers(-3, 4, size=2), axis=(1, 2))

    options = {"rate": 2e-3, "batch": BATCH}
    images = data.cifar(on_progress)
    return classifier("cifar-classifier", images, iterations, seed, options, augment)


BATCH = 128
RECIPES: dict[str, tuple[Recipe, int]] = {
    "mnist-ebm": (mnist_ebm, 3000),
    "mnist-classifier": (mnist_classifier, 2500),
    "cifar-ebm": (cifar_ebm, 2000),
    "cifar-classifier": (cifar_classifier, 2500),
}


def recipe(
    name: str, iterations: int | None = None, seed: int = 0, on_progress: Progress = silent
) -> tuple[Task, int]:
    """The task of this name, and its number of iterations."""
    if name not in RECIPES:
        raise ValueError(f"NAME must be one of {', '.join(RECIPES)}, got {name!r}")
    make, usual = RECIPES[name]
    length = usual if iterations is None else iterations
    return make(length, seed, on_progress), length

"""Images of CIFAR-10, or synthetic images with the same spectrum if the data are not found."""

import numpy as np

from srmc.types import Float
from srmc_studies.paper.ebm.files import found

FILE = "cifar10-subset.npz"
# Statistics of CIFAR-10: the mean of each colour, the correlations between colours, and the power
# at frequencies of 0, 1, 2, ... cycles per image.
_MEAN = np.array([0.494, 0.483, 0.447])
_COLOURS = np.array([[1.0, 0.913, 0.791], [0.913, 1.0, 0.909], [0.791, 0.909, 1.0]])
_POWER = np.array(
    [
        *(19.1, 2.58, 0.664, 0.269, 0.114, 0.0683, 0.0397, 0.0274, 0.0182),
        *(0.0116, 0.00878, 0.00589, 0.00452, 0.00302, 0.00229, 0.00189, 0.00109),
    ]
)


def images(per_class: int, seed: int = 0) -> tuple[Float[np.ndarray, "image 3072"], str]:
    """Return images of each of ten classes, with pixels in [0, 1], and say where they are from."""
    if path := found(FILE):
        with np.load(path) as file:
            x, y = file["x_train"], file["y_train"]
        first = np.concatenate([np.flatnonzero(y == k)[:per_class] for k in range(10)])
        return x[first].reshape(len(first), -1) / 255.0, "CIFAR-10"
    note = (
        f"synthetic images with the spectrum of CIFAR-10; to use the real images, put {FILE}, with "
        "arrays x_train (n, 32, 32, 3) and y_train, into $SRMC_DATA or ~/.cache/srmc"
    )
    return _synthetic(10 * per_class, seed), note


def _synthetic(count: int, seed: int) -> Float[np.ndarray, "image 3072"]:
    """Gaussian fields with the power spectrum and the colours of CIFAR-10, clipped to [0, 1]."""
    rng = np.random.default_rng(seed)
    frequency = 32 * np.fft.fftfreq(32)
    radius = np.hypot(*np.meshgrid(frequency, frequency))
    power = np.exp(np.interp(radius, np.arange(len(_POWER)), np.log(_POWER)))
    noise = rng.standard_normal((count, 32, 32, 3)) @ np.linalg.cholesky(_COLOURS).T
    field = np.fft.ifft2(np.fft.fft2(noise, axes=(1, 2)) * np.sqrt(power)[..., None], axes=(1, 2))
    return np.clip(_MEAN + field.real, 0, 1).reshape(count, -1)

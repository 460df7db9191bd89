"""The networks: an energy of binary images, and convolutions for energies and classifiers."""

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from srmc.types import Array, Float, PRNGKey, PyTree, Scalar

WEIGHTS = Path(__file__).parent / "weights"


class BinaryEnergy(eqx.Module):
    """log pi(x) = b·x + f(x) for x in {0, 1}^784, with b of a Bernoulli base and f a network."""

    base: Float[Array, " pixel"]
    layers: list[eqx.nn.Linear]

    def __init__(self, rng_key: PRNGKey, widths: tuple[int, ...] = (784, 384, 192, 1)):
        self.base = jnp.zeros(widths[0])
        self.layers = _linear(rng_key, widths)

    def base_logdensity(self, x: Float[Array, " pixel"]) -> Scalar:
        """The base, whose pixels are independent, without its normalising constant."""
        return jax.lax.stop_gradient(self.base) @ x

    def __call__(self, x: Float[Array, " pixel"]) -> Scalar:
        return self.base_logdensity(x) + _perceptron(self.layers, x)


class Convolutions(eqx.Module):
    """Convolutions of 4 x 4 pixels that halve an image (row, column, channel), and a linear end.

    They are products of matrices, since XLA's convolutions are slow in loops on a processor.
    """

    layers: list[eqx.nn.Linear]
    ends: list[eqx.nn.Linear]

    def __init__(
        self, rng_key: PRNGKey, side: int, channels: tuple[int, ...], widths: tuple[int, ...]
    ):
        size = side // 2 ** (len(channels) - 1)
        keys = jax.random.split(rng_key, len(channels))
        self.layers = [
            eqx.nn.Linear(16 * a, b, key=key)
            for (a, b), key in zip(itertools.pairwise(channels), keys[1:], strict=True)
        ]
        self.ends = _linear(keys[0], (channels[-1] * size**2, *widths))

    def __call__(self, x: Float[Array, "row column channel"]) -> Float[Array, " out"]:
        for layer in self.layers:
            x = jax.nn.swish(jax.vmap(jax.vmap(layer))(_patches(x)))
        return _perceptron(self.ends, x.reshape(-1))


def _patches(x: Float[Array, "row column channel"]) -> Float[Array, "half half patch"]:
    """The pixels under a 4 x 4 window that moves by two pixels, with a frame of zeros."""
    rows, columns, channels = x.shape
    framed = jnp.pad(x, ((1, 1), (1, 1), (0, 0)))
    pairs = framed.reshape(rows // 2 + 1, 2, columns // 2 + 1, 2, channels).swapaxes(1, 2)
    quads = pairs.reshape(rows // 2 + 1, columns // 2 + 1, 4 * channels)
    corners = (quads[:-1, :-1], quads[:-1, 1:], quads[1:, :-1], quads[1:, 1:])
    return jnp.concatenate(corners, axis=-1)


def _linear(rng_key: PRNGKey, widths: tuple[int, ...]) -> list[eqx.nn.Linear]:
    keys = jax.random.split(rng_key, len(widths) - 1)
    pairs = zip(itertools.pairwise(widths), keys, strict=True)
    return [eqx.nn.Linear(a, b, key=key) for (a, b), key in pairs]


def _perceptron(layers: list[eqx.nn.Linear], x: Array) -> Array:
    for layer in layers[:-1]:
        x = jax.nn.swish(layer(x))
    end = layers[-1](x)
    return end[0] if end.shape == (1,) else end


BUILD: dict[str, Callable[[PRNGKey], Any]] = {
    "mnist-ebm": BinaryEnergy,
    "mnist-classifier": lambda key: Convolutions(key, 28, (1, 32, 64), (128, 10)),
    "cifar-ebm": lambda key: Convolutions(key, 32, (3, 16, 32, 64), (1,)),
    "cifar-classifier": lambda key: Convolutions(key, 32, (3, 32, 64, 128), (64, 10)),
}


def rounded(model: Any) -> Any:
    """The network with the weights that half precision leaves of it."""
    return jax.tree.map(lambda x: x.astype(jnp.float16).astype(jnp.float32), model)


def save(path: Path, name: str, model: PyTree[Array], card: dict[str, object]) -> None:
    """Write the weights in half precision, and the card beside them."""
    path.mkdir(parents=True, exist_ok=True)
    half = jax.tree.map(lambda x: np.asarray(x, np.float16), eqx.filter(model, eqx.is_array))
    eqx.tree_serialise_leaves(path / f"{name}.eqx", half)
    (path / f"{name}.json").write_text(json.dumps(card, indent=1) + "\n")


def load(name: str, path: Path = WEIGHTS) -> Any:
    """The network of this name, with the weights in `path`; those of the package by default."""
    if name not in BUILD:
        raise ValueError(f"name must be one of {', '.join(BUILD)}, got {name!r}")
    file = path / f"{name}.eqx"
    if not file.is_file():
        raise FileNotFoundError(f"{file} is missing; `srmc train {name}` makes it")
    model = eqx.filter_eval_shape(BUILD[name], jax.random.key(0))
    like = jax.tree.map(lambda x: np.zeros(x.shape, np.float16), model)
    half = eqx.tree_deserialise_leaves(file, like)
    return jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), half)


def card(name: str, path: Path = WEIGHTS) -> dict[str, Any]:
    """What the training command wrote about the network of this name."""
    found: dict[str, Any] = json.loads((path / f"{name}.json").read_text())
    return found


def beside_shipped(
    name: str, model: PyTree[Array], made: dict[str, object]
) -> list[tuple[str, str, str]]:
    """What each card says of quality, time and settings, and how far the weights are apart."""
    mine, theirs = (json.loads(json.dumps(c)) for c in (made, card(name)))
    rows = [
        (key, str(value), str(theirs["quality"].get(key, "")))
        for key, value in mine["quality"].items()
    ]
    same = mine["settings"] == theirs["settings"]
    rows += [
        ("processor seconds", str(mine["processor_seconds"]), str(theirs["processor_seconds"])),
        ("settings", "the same" if same else "others", ""),
    ]
    pairs = zip(jax.tree.leaves(rounded(model)), jax.tree.leaves(load(name)), strict=True)
    apart = max(float(jnp.max(jnp.abs(a - b))) for a, b in pairs)
    return [*rows, ("largest difference of a weight", f"{apart:.3g}", "")]

"""The type of a posterior, and the files of posteriordb."""

import dataclasses
import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from srmc.targets import Target
from srmc.types import Array, Float, LogDensity, PRNGKey

Vector: TypeAlias = Float[Array, " d"]
Parameters: TypeAlias = dict[str, Array]  # by the names of the model, on their own scales

HOME = "https://github.com/stan-dev/posteriordb"


@dataclasses.dataclass(frozen=True)
class Posterior:
    """A log density on vectors of unbounded numbers, and what they stand for.

    logdensity_fn
        The log density of the unbounded numbers, so with the log-Jacobian of `constrain`.
    dim
        How many numbers there are.
    constrain, unconstrain
        From unbounded numbers to the model's parameters, and back.
    reference
        Reads the reference draws, unconstrained, (chain, draw, d); None if there are none.
    sample
        Makes an exact draw, given a key; None if there is no exact sampler.
    """

    name: str
    about: str
    logdensity_fn: LogDensity
    dim: int
    constrain: Callable[[Vector], Parameters]
    unconstrain: Callable[[Parameters], Vector]
    reference: Callable[[], Float[np.ndarray, "chain draw d"]] | None = None
    sample: Callable[[PRNGKey], Vector] | None = None


class Database(NamedTuple):
    """The folder of a checkout of posteriordb, or of as much of it as is needed."""

    folder: Path

    @staticmethod
    def at(path: str | os.PathLike[str] | None = None) -> "Database":
        """The given checkout, or that in $SRMC_DATA/posteriordb."""
        if path is None:
            path = Path(os.environ.get("SRMC_DATA", ".")) / "posteriordb"
        return Database(Path(path) / "posterior_database")

    def data(self, name: str) -> dict[str, Any]:
        """The data of a model."""
        found: dict[str, Any] = self._read(Path("data", "data", f"{name}.json.zip"))
        return found

    def draws(self, posterior: Posterior) -> Float[np.ndarray, "chain draw d"]:
        """The reference draws of a posterior, unconstrained."""
        file = Path("reference_posteriors", "draws", "draws", f"{posterior.name}.json.zip")
        chains = self._read(file)
        with jax.enable_x64(True):
            shapes = jax.eval_shape(posterior.constrain, jnp.zeros(posterior.dim))
            named = {k: jnp.asarray(_gather(chains, k, v.shape)) for k, v in shapes.items()}
            return np.asarray(jax.vmap(jax.vmap(posterior.unconstrain))(named))

    def _read(self, file: Path) -> Any:
        if not (self.folder / file).is_file():
            raise FileNotFoundError(
                f"{self.folder / file} is not there; put a checkout of {HOME} into "
                "$SRMC_DATA/posteriordb, or give the path of one"
            )
        with zipfile.ZipFile(self.folder / file) as archive:
            return json.loads(archive.read(archive.namelist()[0]))


def _gather(
    chains: list[dict[str, list[float]]], name: str, shape: tuple[int, ...]
) -> Float[np.ndarray, "chain draw ..."]:
    """Draws of a number `name`, or of a vector whose entries are called `name[1]` and so on."""
    keys = [name] if not shape else [f"{name}[{i + 1}]" for i in range(shape[0])]
    entries = np.array([[chain[key] for key in keys] for chain in chains])
    return np.moveaxis(entries, 1, 2).reshape(len(chains), -1, *shape)


def with_reference(posterior: Posterior, database: Database) -> Posterior:
    """The posterior with its reference draws, which are read when they are asked for."""
    return dataclasses.replace(posterior, reference=lambda: database.draws(posterior))


def of_target(name: str, target: Target) -> Posterior:
    """A target of the library, on vectors."""
    start, unravel = ravel_pytree(target.position)
    sample = target.sample
    as_tree = (lambda x: {"x": x}) if isinstance(target.position, jax.Array) else unravel
    return Posterior(
        name,
        target.about,
        lambda x: target.logdensity_fn(unravel(x)),
        start.size,
        as_tree,
        lambda parameters: ravel_pytree(parameters)[0],
        sample=None if sample is None else lambda key: ravel_pytree(sample(key))[0],
    )

"""A run on disk: its settings, its state and its draws, so that it can be resumed after a kill.

    run.json            the settings, and a probe of the model
    warmup.npz          what warm-up found
    state.npz           the chains after the last complete chunk; the commit of that chunk
    draws.zarr          the draws, in pieces that are written once

With several processes, each has a folder of its own inside.
"""

import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from srmc._types import LogDensity, Position, PyTree
from srmc.store.files import check_writable, read_arrays, read_json, write_arrays, write_json

Arrays = dict[str, np.ndarray]
Groups = Mapping[str, Mapping[str, Any]]  # arrays by group and name; in a file, group/name

IN_MEMORY = 2**30  # bytes of draws up to which a result loads them; more stay on disk


class Checkpoint:
    """A folder that holds a run; with `resume` it may hold one already."""

    def __init__(
        self, folder: str | os.PathLike[str], record: dict[str, Any], resume: bool
    ) -> None:
        self.folder = Path(folder)
        if jax.process_count() > 1:
            self.folder = self.folder / f"process-{jax.process_index()}"
        run = self.folder / "run.json"
        self.resumes = run.exists()
        if self.resumes and not resume:
            raise ValueError(
                f"checkpoint must be a new folder, but {folder} holds a run; "
                "resume=True goes on with it"
            )
        check_writable("checkpoint", self.folder)
        if self.resumes:
            _compare(read_json(run), record, folder)
        else:
            write_json(run, record)

    def save_warmup(self, groups: Groups) -> None:
        """Store the outcome of warm-up."""
        write_arrays(self.folder / "warmup.npz", _joined(groups))

    def load_warmup(self) -> dict[str, Arrays] | None:
        """The outcome of warm-up; None if it was not completed."""
        path = self.folder / "warmup.npz"
        return _grouped(read_arrays(path)) if path.exists() else None

    def save(self, done: int, carry: PyTree[np.ndarray], moments: Arrays) -> None:
        """Commit a chunk: the run now has `done` draws per chain."""
        leaves = {str(n): np.asarray(x) for n, x in enumerate(jax.tree.leaves(carry))}
        arrays = _joined({"carry": leaves, "moments": moments})
        write_arrays(self.folder / "state.npz", arrays | {"done": np.asarray(done)})

    def load(self, like: PyTree[Any]) -> tuple[int, PyTree[np.ndarray], Arrays] | None:
        """The last commit: draws done, the carry (structured as `like`), and moments; or None."""
        path = self.folder / "state.npz"
        if not path.exists():
            return None
        arrays = read_arrays(path)
        done = arrays.pop("done", None)
        groups = _grouped(arrays)
        models, structure = jax.tree.flatten(like)
        leaves = [groups.get("carry", {}).get(str(n)) for n in range(len(models))]
        same = lambda x, m: x is not None and (x.shape, x.dtype) == (m.shape, m.dtype)
        if done is None or not all(map(same, leaves, models)):
            raise ValueError(f"{path} does not hold the state of this run")
        return int(done), jax.tree.unflatten(structure, leaves), groups.get("moments", {})

    def draws(self, num_draws: int, grain: int) -> "Draws":
        """The store of `num_draws` draws, in pieces of `grain` draws."""
        return Draws(self.folder / "draws.zarr", num_draws, grain)


class Draws:
    """Draws and statistics on disk, (chain, draw, ...), by group and name."""

    def __init__(self, path: Path, num_draws: int, grain: int) -> None:
        import zarr

        self._root = zarr.open_group(str(path), mode="a")
        self._num_draws, self._grain = num_draws, grain

    def write(self, first: int, groups: Groups) -> None:
        """Write draws from number `first` on; the arrays are (draw, chain, ...)."""
        for name, given in _joined(groups).items():
            x = np.swapaxes(given, 0, 1)
            if name not in self._root:
                self._root.create_array(
                    name,
                    shape=(len(x), self._num_draws, *x.shape[2:]),
                    chunks=(len(x), self._grain, *(max(1, n) for n in x.shape[2:])),
                    dtype=x.dtype,
                    compressors=None,
                )
            array: Any = self._root[name]
            array[:, first : first + x.shape[1]] = x

    def read(self, done: int) -> dict[str, dict[str, Any]]:
        """The first `done` draws: in memory, or on disk if the run is complete and large."""
        members = dict(sorted(self._root.members(max_depth=None)))
        arrays: dict[str, Any] = {k: a for k, a in members.items() if hasattr(a, "nbytes")}
        fits = sum(a.nbytes for a in arrays.values()) * done <= IN_MEMORY * self._num_draws
        in_memory = fits or done < self._num_draws
        return _grouped({k: a[:, :done] if in_memory else a for k, a in arrays.items()})


def _joined(groups: Groups) -> dict[str, Any]:
    return {
        f"{group}/{name}": x for group, by_name in groups.items() for name, x in by_name.items()
    }


def _grouped(arrays: dict[str, Any]) -> dict[str, dict[str, Any]]:
    out: dict[str, dict[str, Any]] = {}
    for key, x in arrays.items():
        group, _, name = key.partition("/")
        out.setdefault(group, {})[name] = x
    return out


def probe(logdensity_fn: LogDensity, position: Position) -> list[float]:
    """Values of a log density near a position, which distinguish one model from another."""
    flat, unravel = ravel_pytree(position)
    moves = 0.1 * jnp.sin(jnp.arange(3 * flat.size, dtype=flat.dtype)).reshape(3, -1)
    values = jax.vmap(lambda move: logdensity_fn(unravel(flat + move)))(moves)
    return [float(v) for v in values]


def _compare(old: dict[str, Any], new: dict[str, Any], folder: str | os.PathLike[str]) -> None:
    differences = [
        f"{key} was {old['settings'].get(key)!r} and is {value!r}"
        for key, value in new["settings"].items()
        if old["settings"].get(key) != value
    ]
    if not differences and old["shapes"] != new["shapes"]:
        differences = [f"a draw was {old['shapes']} and is {new['shapes']}"]
    if not differences and not np.allclose(old["probe"], new["probe"], 1e-4, equal_nan=True):
        differences = [
            f"the model's log density near the start, or what is kept of a draw, was "
            f"{old['probe']} and is {new['probe']}"
        ]
    if differences:
        raise ValueError(f"checkpoint {folder} belongs to another run: {'; '.join(differences)}")
    if old["versions"] != new["versions"]:
        warnings.warn(
            f"checkpoint {folder} was made with {old['versions']}, now there are "
            f"{new['versions']}; draws to come may differ in the last bits",
            stacklevel=2,
        )

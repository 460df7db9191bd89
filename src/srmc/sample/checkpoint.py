"""A run on disk: its settings, its state and its draws, so that it can be resumed after a kill.

    run.json            the settings, and a probe of the model
    warmup.npz          what warm-up found
    state.npz           the commit: the chains, and the checksums of their draws
    state-before.npz    the commit before it, if there are several processes
    draws.zarr          the draws
    lock, holder.json   held while a process uses the folder, and who that is

With several processes, each has a folder of its own inside. A process that is killed may be one
commit behind the others, which then go back to the one before.
"""

import os
import warnings
from typing import Any, NamedTuple

import jax
import numpy as np

from srmc._files import (
    REMEDY,
    Place,
    as_place,
    check_writable,
    read_arrays,
    read_json,
    write_arrays,
    write_json,
    write_whole,
)
from srmc.sample.identity import compare
from srmc.sample.lock import Lock
from srmc.sample.stored import Arrays, Draws, Groups, grouped, joined
from srmc.types import PyTree

FORMAT = 3
CONTENTS = ("warmup.npz", "state.npz", "state-before.npz", "draws.zarr")


class Commit(NamedTuple):
    """The run after `done` draws per chain."""

    done: int
    carry: PyTree[np.ndarray]  # what the next chunk starts from, on the host
    kept: Arrays  # checksums of the draws, or moments in place of draws


class Checkpoint:
    """A folder that holds a run; with `resume` it may hold one already.

    `fixed` says why the run cannot be continued beyond its length, if so; `lost`, which is set by
    who writes here, that the folder has disappeared.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        record: dict[str, Any],
        resume: bool,
        fixed: str | None = None,
    ) -> None:
        several = jax.process_count() > 1
        place = as_place(folder)
        self.folder = place / f"process-{jax.process_index()}" if several else place
        if (place / ("run.json" if several else "process-0")).exists():
            raise ValueError(
                f"checkpoint {folder} belongs to a run with another number of processes than the "
                f"{jax.process_count()} there are"
            )
        check_writable("checkpoint", self.folder)
        self.lost: str | None = None
        self._lock = Lock(self.folder)
        try:
            self._begin(record, resume, fixed)
        except BaseException:
            self.close()
            raise

    def _begin(self, record: dict[str, Any], resume: bool, fixed: str | None) -> None:
        run = self.folder / "run.json"
        if run.exists() and not resume:
            raise ValueError(
                f"checkpoint must be a new folder, but {self.folder} holds a run; "
                "resume=True goes on with it"
            )
        left = [name for name in CONTENTS if (self.folder / name).exists()]
        if left and not run.exists():
            raise ValueError(
                f"{run} is missing, and nothing else says which run {', '.join(left)} there belong "
                f"to; {REMEDY}"
            )
        for part in self.folder.glob(".*.part.*"):  # by a process that was killed
            part.unlink()
        if run.exists():
            _compare(read_json(run), record, self.folder, fixed)
        write_json(run, {"format": FORMAT} | record)

    def close(self) -> None:
        """Let other processes have the folder."""
        self._lock.release()

    @property
    def is_there(self) -> bool:
        """Whether the folder still holds this run."""
        return (self.folder / "run.json").exists() and self._lock.is_held

    def save_warmup(self, groups: Groups) -> None:
        """Store the outcome of warm-up."""
        write_arrays(self.folder / "warmup.npz", joined(groups))

    def load_warmup(self) -> dict[str, Arrays] | None:
        """The outcome of warm-up; None if it was not completed."""
        path = self.folder / "warmup.npz"
        return grouped(read_arrays(path)) if path.exists() else None

    def save(self, commit: Commit) -> None:
        """Commit draws that are on the disk, or moments."""
        if jax.process_count() > 1 and self._state.exists():
            _copy(self._state, self._before)
        leaves = {str(n): np.asarray(x) for n, x in enumerate(jax.tree.leaves(commit.carry))}
        arrays = joined({"carry": leaves, "kept": commit.kept})
        write_arrays(self._state, arrays | {"done": np.asarray(commit.done)})

    def go_back(self, done: int) -> None:
        """Make the commit of `done` draws the last one, so that it stays when the next is made."""
        if self._before.exists() and int(read_arrays(self._before)["done"]) == done:
            _copy(self._before, self._state)

    def commits(self, like: PyTree[Any]) -> dict[int, Commit]:
        """The stored commits by their number of draws, with carries structured as `like`."""
        found = [_read(path, like) for path in (self._before, self._state) if path.exists()]
        return {commit.done: commit for commit in found}

    def draws(self, num_draws: int) -> Draws:
        """The store of `num_draws` draws."""
        return Draws(self.folder / "draws.zarr", num_draws)

    @property
    def _state(self) -> Place:
        return self.folder / "state.npz"

    @property
    def _before(self) -> Place:
        return self.folder / "state-before.npz"


def _copy(path: Place, other: Place) -> None:
    content = path.read_bytes()
    write_whole(other, lambda aside: aside.write_bytes(content))


def _read(path: Place, like: PyTree[Any]) -> Commit:
    arrays = read_arrays(path)
    done = arrays.pop("done", None)
    groups = grouped(arrays)
    models, structure = jax.tree.flatten(like)
    leaves = [groups.get("carry", {}).get(str(n)) for n in range(len(models))]
    same = lambda x, m: x is not None and (x.shape, x.dtype) == (m.shape, m.dtype)
    if done is None or not all(map(same, leaves, models)):
        raise ValueError(f"{path} does not hold the state of this run; {REMEDY}")
    return Commit(int(done), jax.tree.unflatten(structure, leaves), groups.get("kept", {}))


def _compare(
    old: dict[str, Any], new: dict[str, Any], folder: str | os.PathLike[str], fixed: str | None
) -> None:
    if old.get("format") != FORMAT:
        raise ValueError(
            f"checkpoint {folder} was made by another version of srmc; finish it with that one, or "
            "start the run again in a new folder"
        )
    before, now = old["settings"], new["settings"]
    extends = now["num_samples"] > before["num_samples"] and fixed is None
    differences = [
        f"{key} was {before.get(key)!r} and is {value!r}"
        for key, value in now.items()
        if before.get(key) != value and not (key == "num_samples" and extends)
    ]
    if fixed is not None and now["num_samples"] > before["num_samples"]:
        differences.append(f"it cannot be extended, since {fixed}")
    if not differences and old["shapes"] != new["shapes"]:
        differences = [f"a draw was {old['shapes']} and is {new['shapes']}"]
    if not differences:
        precision = np.finfo(float if now["double_precision"] else np.float32).eps
        differences = compare(old["probe"], new["probe"], float(precision))
    if differences:
        raise ValueError(f"checkpoint {folder} belongs to another run: {'; '.join(differences)}")
    if old["versions"] != new["versions"]:
        warnings.warn(
            f"checkpoint {folder} was made with {old['versions']}, now there are "
            f"{new['versions']}; draws to come may differ in the last bits",
            stacklevel=2,
        )

"""Files that are complete or absent: written aside, flushed, then renamed. Nothing is pickled."""

import contextlib
import io
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

NAMES = "names"  # of all arrays in a file
REMEDY = "put back a copy of it, or start the run again in a new folder"


def write_whole(path: Path, write: Callable[[Path], Any]) -> None:
    """Let `write` make a temporary file beside `path`, then rename it to `path`.

    If the disk fills up, the old file stays and the new one is removed.
    """
    aside = path.with_name(f".{path.name}.{os.getpid()}.part{path.suffix}")
    try:
        write(aside)
        sync(aside)
        os.replace(aside, path)
        sync(path.parent)
    except BaseException:
        with contextlib.suppress(OSError):
            aside.unlink()
        raise


def sync(path: Path) -> None:
    """Wait until a file, or the list of files in a folder, is on the disk."""
    if path.is_dir() and os.name == "nt":
        return  # Windows has no way to wait for a folder
    number = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def write_json(path: Path, record: Any) -> None:
    """Write a JSON file, completely or not at all."""
    write_whole(path, lambda p: p.write_text(json.dumps(record, indent=2) + "\n"))


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write an .npz file, completely or not at all."""

    def write(aside: Path) -> None:
        with open(aside, "wb") as file:
            np.savez(file, **arrays, **{NAMES: np.array(sorted(arrays))})  # type: ignore[arg-type]

    write_whole(path, write)


def read_json(path: Path) -> Any:
    """Read what `write_json` wrote."""
    try:
        return json.loads(path.read_text())
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} is damaged or truncated: {error}; {REMEDY}") from None


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Read what `write_arrays` wrote."""
    try:
        raw = io.BytesIO(path.read_bytes())
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error}; {REMEDY}") from None
    try:
        with np.load(raw, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        # Each array has a checksum, but the list of arrays in a ZIP file has none.
        if sorted(arrays) != sorted([NAMES, *arrays[NAMES]]):
            raise ValueError("arrays are missing")
        return {name: x for name, x in arrays.items() if name != NAMES}
    except Exception as error:  # of many kinds, depending on the byte that is wrong
        raise ValueError(f"{path} is damaged or truncated: {error}; {REMEDY}") from None


def as_path(name: str, path: Any) -> Path:
    """The path of a file or folder, or an error that names it."""
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"{name} must be a path, got {path!r}")
    if not os.fspath(path):
        raise ValueError(f"{name} must be a path, got an empty one")
    return Path(path)


def check_writable(name: str, folder: Path) -> None:
    """Make the folder if necessary, and raise an error if it cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".probe-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        message = f"{name} must be a folder that can be written, got {folder}: {error}"
        raise ValueError(message) from None

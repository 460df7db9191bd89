"""Files that are complete or absent: written aside, flushed, then renamed. Nothing is pickled."""

import contextlib
import hashlib
import io
import json
import os
import secrets
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from srmc._checks import short

NAMES = "names"  # of all arrays in a file
REMEDY = "put back a copy of it, or start the run again in a new folder"
SEAL = b"\n# sha256 of all above: "  # the last line of a sealed file; a comment in TOML
DIGEST = "sha256"  # of the rest of a JSON file


def write_whole(path: Path, write: Callable[[Path], Any]) -> None:
    """Let `write` make a temporary file beside `path`, then rename it to `path`.

    If the disk fills up, the old file stays and the new one is removed. Nobody can have planted a
    link under the temporary name, which is random and must be new.
    """
    aside = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part{path.suffix}")
    try:
        os.close(os.open(aside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
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


def seal(path: Path) -> None:
    """Append a checksum of the file, which readers of NetCDF and TOML pass over."""
    with open(path, "r+b") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        file.seek(0, os.SEEK_END)
        file.write(SEAL + digest.encode() + b"\n")


def check_seal(path: Path, remedy: str) -> None:
    """Raise if a file is not what was sealed; one without a seal is left to its reader."""
    size = len(SEAL) + 65
    with open(path, "rb") as file:
        length = file.seek(0, os.SEEK_END) - size
        if length < 0:
            return
        file.seek(length)
        last = file.read()
        if not last.startswith(SEAL):
            return
        file.seek(0)
        found, left = hashlib.sha256(), length
        while left:
            found.update(piece := file.read(min(left, 2**20)))
            left -= len(piece)
    if last != SEAL + found.hexdigest().encode() + b"\n":
        raise ValueError(f"{path} is damaged: it is not what was saved; {remedy}")


def write_json(path: Path, record: dict[str, Any]) -> None:
    """Write a JSON file with a checksum, completely or not at all."""
    sealed = record | {DIGEST: _digest(record)}
    write_whole(path, lambda p: p.write_text(json.dumps(sealed, indent=2) + "\n"))


def _digest(record: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record).encode()).hexdigest()


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write an .npz file, completely or not at all."""

    def write(aside: Path) -> None:
        with open(aside, "wb") as file:
            np.savez(file, **arrays, **{NAMES: np.array(sorted(arrays))})  # type: ignore[arg-type]

    write_whole(path, write)


def read_json(path: Path) -> dict[str, Any]:
    """Read what `write_json` wrote, now or before there were checksums."""
    try:
        record = json.loads(path.read_text())
        if not isinstance(record, dict):
            raise ValueError("it is no record")
        if record.pop(DIGEST, None) not in (None, _digest(record)):
            raise ValueError("it is not what was saved")
        return record
    except (ValueError, RecursionError) as error:
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
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        pass  # which who uses it will see
    except (OSError, ValueError) as error:  # too long, or with a null character
        raise ValueError(f"{name} must be a path, got {short(path)}: {_reason(error)}") from None
    return Path(path)


def as_file(name: str, path: Any) -> Path:
    """The path of a file to be written, or an error that names it."""
    file = as_path(name, path)
    if not file.parent.is_dir() or file.is_dir():
        raise ValueError(f"{name} must be a file in an existing folder, got {file}")
    return file


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)


def check_writable(name: str, folder: Path) -> None:
    """Make the folder if necessary, and raise an error if it cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        message = f"{name} must be a folder that can be written, got {folder}: {error}"
        raise ValueError(message) from None

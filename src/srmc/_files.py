"""Files that are complete or absent: written aside, flushed, then renamed. Nothing is pickled.

On an object store, given by a URL, a file is written in this machine and then put there as a whole.
"""

import contextlib
import fnmatch
import hashlib
import io
import json
import os
import secrets
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from srmc._checks import short
from srmc._extras import extra

NAMES = "names"  # of all arrays in a file
REMEDY = "put back a copy of it, or start the run again in a new folder"
SEAL = b"\n# sha256 of all above: "  # the last line of a sealed file; a comment in TOML
PROPERTIES = "_NCProperties"  # of a NetCDF file: what wrote it, which a copy does not inherit
SEALED = "checksum=last_line"  # one of them
DIGEST = "sha256"  # of the rest of a JSON file


class Remote(PurePosixPath):
    """A file or folder on a store of fsspec, by its URL, with what is used here of a `Path`."""

    def __str__(self) -> str:
        return super().__str__().replace(":/", "://", 1)

    def exists(self) -> bool:
        """Whether there is such a file or folder."""
        fs, path = self._found()
        return bool(fs.exists(path))

    def is_file(self) -> bool:
        """Whether there is such a file."""
        fs, path = self._found()
        return bool(fs.isfile(path))

    def is_dir(self) -> bool:
        """Whether there is such a folder; an empty one does not exist."""
        fs, path = self._found()
        return bool(fs.isdir(path))

    def glob(self, pattern: str) -> "list[Remote]":
        """The files and folders in this one whose names match."""
        fs, path = self._found()
        found = fs.ls(path, detail=False) if fs.isdir(path) else []
        names = sorted(str(name).rstrip("/").rpartition("/")[2] for name in found)
        return [self / name for name in names if fnmatch.fnmatch(name, pattern)]

    def read_bytes(self) -> bytes:
        """The content of the file."""
        fs, path = self._found()
        return bytes(fs.cat_file(path))

    def read_text(self) -> str:
        """The content of the file as text."""
        return self.read_bytes().decode()

    def put(self, file: Path) -> None:
        """Copy a file of this machine here."""
        fs, path = self._found()
        fs.pipe_file(path, file.read_bytes())

    def unlink(self) -> None:
        """Remove the file."""
        fs, path = self._found()
        fs.rm_file(path)

    def _found(self) -> tuple[Any, str]:
        with extra(str(self), "stores"):
            import fsspec

        fs, path = fsspec.core.url_to_fs(str(self))
        fs.invalidate_cache()  # other machines write there, too
        return fs, path


Place = Path | Remote


def as_place(path: str | os.PathLike[str]) -> Place:
    """The path of a file or folder in this machine, or on a store if it is a URL."""
    return Remote(path) if "://" in os.fspath(path) else Path(path)


@contextlib.contextmanager
def local(path: Place) -> Iterator[Path]:
    """The file in this machine: itself, or a copy for a while."""
    if isinstance(path, Path):
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, path.name)
        copy.write_bytes(path.read_bytes())
        yield copy


def write_whole(path: Place, write: Callable[[Path], Any]) -> None:
    """Let `write` make a temporary file beside `path`, then rename it to `path`.

    If the disk fills up, the old file stays and the new one is removed. Nobody can have planted a
    link under the temporary name, which is random and must be new.
    """
    if isinstance(path, Remote):
        with tempfile.TemporaryDirectory() as folder:
            write(copy := Path(folder, path.name))
            path.put(copy)
        return
    if path.exists() and not path.is_file():  # renaming would replace a device such as /dev/null
        raise ValueError(f"{path} is a device or a folder, and no file that can be replaced")
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


def check_seal(path: Path, remedy: str, shown: Place | None = None) -> bool:
    """Whether a file has a seal, which its reader may require; raise if it does not match.

    It is called `shown`, if that is given.
    """
    size = len(SEAL) + 65
    with open(path, "rb") as file:
        length = file.seek(0, os.SEEK_END) - size
        if length < 0:
            return False
        file.seek(length)
        last = file.read()
        if not last.startswith(SEAL):
            return False
        file.seek(0)
        found, left = hashlib.sha256(), length
        while left:
            found.update(piece := file.read(min(left, 2**20)))
            left -= len(piece)
    if last != SEAL + found.hexdigest().encode() + b"\n":
        raise ValueError(f"{shown or path} is damaged: it is not what was saved; {remedy}")
    return True


def seal_netcdf(path: Path) -> None:
    """Seal a NetCDF file, and note in it that it must have a seal."""
    import h5py

    with h5py.File(path, "r+") as file:
        file.attrs[PROPERTIES] = np.bytes_(f"{_properties(file)},{SEALED}")
    seal(path)


def check_netcdf(path: Path, remedy: str, shown: Place | None = None) -> None:
    """Raise if a NetCDF file is not what was sealed, or has lost its seal."""
    if check_seal(path, remedy, shown):
        return
    with extra(str(shown or path)):
        import h5py

    try:
        with h5py.File(path) as file:
            marked = SEALED in _properties(file)
    except (OSError, RuntimeError, KeyError):  # which the reader will meet again, and name
        return
    if marked:
        raise ValueError(f"{shown or path} is damaged: it has lost its end; {remedy}")


def _properties(file: Any) -> str:
    found = file.attrs.get(PROPERTIES, b"")
    return found.decode("ascii", "replace") if isinstance(found, bytes) else str(found)


def write_json(path: Place, record: dict[str, Any]) -> None:
    """Write a JSON file with a checksum, completely or not at all."""
    sealed = record | {DIGEST: _digest(record)}
    write_whole(path, lambda p: p.write_text(json.dumps(sealed, indent=2) + "\n"))


def _digest(record: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record).encode()).hexdigest()


def write_arrays(path: Place, arrays: Mapping[str, np.ndarray]) -> None:
    """Write an .npz file, completely or not at all."""

    def write(aside: Path) -> None:
        with open(aside, "wb") as file:
            np.savez(file, **arrays, **{NAMES: np.array(sorted(arrays))})  # type: ignore[arg-type]

    write_whole(path, write)


def read_json(path: Place) -> dict[str, Any]:
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


def read_arrays(path: Place) -> dict[str, np.ndarray]:
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


def as_path(name: str, path: Any) -> Place:
    """The path of a file or folder, or an error that names it."""
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"{name} must be a path, got {path!r}")
    if not os.fspath(path):
        raise ValueError(f"{name} must be a path, got an empty one")
    if isinstance(place := as_place(path), Remote):
        try:
            place.exists()
        except (ValueError, ImportError) as error:  # the protocol, or its package, is unknown
            if isinstance(error, ModuleNotFoundError) and error.name == "fsspec":
                raise
            raise ValueError(f"{name} must be a path, got {place}: {error}") from None
        return place
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        pass  # which who uses it will see
    except (OSError, ValueError) as error:  # too long, or with a null character
        raise ValueError(f"{name} must be a path, got {short(path)}: {_reason(error)}") from None
    return place


def as_file(name: str, path: Any) -> Place:
    """The path of a file to be written, or an error that names it."""
    file = as_path(name, path)
    if isinstance(file, Remote):
        return file
    if not file.parent.is_dir() or (file.exists() and not file.is_file()):
        raise ValueError(f"{name} must be a file in an existing folder, got {file}")
    return file


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)


def check_writable(name: str, folder: Place) -> None:
    """Make the folder if necessary, and raise an error if it cannot be written."""
    try:
        if isinstance(folder, Remote):
            return _try_out(folder)
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        message = f"{name} must be a folder that can be written, got {folder}: {error}"
        raise ValueError(message) from None


def _try_out(folder: Remote) -> None:
    with tempfile.TemporaryDirectory() as here:
        (empty := Path(here, "empty")).touch()
        place = folder / f".{secrets.token_hex(8)}"
        place.put(empty)
        place.unlink()

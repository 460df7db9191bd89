"""Where data files are: in $SRMC_DATA, else in the cache, else at the data set's home."""

import hashlib
import os
import tempfile
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from srmc_studies.paper._progress import Progress, silent

BLOCK = 2**18


class Source(NamedTuple):
    """A file at the home of a data set, and its MD5 or SHA-256 checksum in hexadecimal."""

    url: str
    checksum: str

    @property
    def name(self) -> str:
        return self.url.rsplit("/", 1)[1]


def cache() -> Path:
    """The folder into which data are downloaded."""
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "srmc"


def folders() -> list[Path]:
    """The folders that are searched for data: $SRMC_DATA, then the cache folder."""
    given = os.environ.get("SRMC_DATA")
    return [Path(given), cache()] if given else [cache()]


def found(name: str) -> Path | None:
    """The first file of this name in the folders."""
    return next((f / name for f in folders() if (f / name).is_file()), None)


def fetch(
    sources: Sequence[Source], instead: str, on_progress: Progress = silent
) -> dict[str, Path]:
    """Find the files by name, or download them into the cache; `instead` names a file to put there.

    A file is complete and has its checksum, or it is not there.
    """
    paths = {}
    for source in sources:
        try:
            there = found(source.name)
            if there is not None:
                _check(there, source)
            paths[source.name] = there or _download(source, on_progress)
        except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
            names = ", ".join(s.name for s in sources)
            raise FileNotFoundError(
                f"{source.url} cannot be downloaded ({error}); put {instead}, or {names}, into "
                f"{' or '.join(map(str, folders()))}"
                + ("" if os.environ.get("SRMC_DATA") else ", or into a folder named by $SRMC_DATA")
            ) from error
    return paths


def _check(path: Path, source: Source) -> None:
    """Refuse a file that is not the one that its home has."""
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, lambda: _digest(source)).hexdigest()
    if digest != source.checksum:
        raise ValueError(
            f"{path} must have the checksum {source.checksum}, got {digest}: it is damaged or "
            f"another file; remove it, and it is downloaded from {source.url}"
        )


def _digest(source: Source) -> Any:
    return hashlib.new("sha256" if len(source.checksum) == 64 else "md5", usedforsecurity=False)


def _download(source: Source, on_progress: Progress) -> Path:
    folder = cache()
    folder.mkdir(parents=True, exist_ok=True)
    digest = _digest(source)
    handle, name = tempfile.mkstemp(dir=folder, prefix=source.name)
    partial = Path(name)
    try:
        with (
            os.fdopen(handle, "wb") as file,
            urllib.request.urlopen(source.url, timeout=30) as answer,
        ):
            total = int(answer.headers.get("Content-Length") or 0) or None
            while block := answer.read(BLOCK):
                file.write(block)
                digest.update(block)
                on_progress(source.name, file.tell(), total)
        if digest.hexdigest() != source.checksum:
            raise ValueError(
                f"{source.url} must have the checksum {source.checksum}, got {digest.hexdigest()}; "
                "try again, and if the file has changed, put a good one into $SRMC_DATA"
            )
        partial.replace(folder / source.name)
    finally:
        partial.unlink(missing_ok=True)
    return folder / source.name

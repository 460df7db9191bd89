"""Draws on disk, in pieces whose checksums the commit holds."""

import re
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from srmc._extras import extra
from srmc._files import REMEDY, Place, sync

Arrays = dict[str, np.ndarray]
Groups = Mapping[str, Mapping[str, Any]]  # arrays by group and name; in a file, group/name

IN_MEMORY = 2**30  # largest size of draws, in bytes, that a result loads; others stay on disk
PIECE = 2**22  # bytes of a draw's arrays per piece, if these are not more than MOST_PIECES
MOST_PIECES = 1000


class Draws:
    """Draws and statistics on disk, (chain, draw, ...), by group and name.

    A piece is a file with some of the draws of one array. The checksum of a piece covers its draws
    up to the commit, in the order in which they were made, so that the draws that follow in it can
    be written before the next commit. `zarr` replaces a file as a whole. Draws that are not
    `writable` are only read.
    """

    def __init__(self, path: Place, num_draws: int, writable: bool = True) -> None:
        with extra("checkpoint"):
            import zarr

        self._path, self._num_draws = path, num_draws
        try:
            self._root = zarr.open_group(str(path), mode="a" if writable else "r")
        except OSError:
            raise
        except Exception as error:
            raise _damaged(path / "zarr.json") from error
        if writable and isinstance(path, Path):
            for left in path.rglob("*.partial"):  # by a process that was killed
                left.unlink()
        self._arrays: dict[str, Any] = {}
        self._sums: dict[str, list[int]] = {}
        self._touched: set[Place] = set()

    def write(self, first: int, groups: Groups) -> Arrays:
        """Write draws from number `first` on, (draw, chain, ...), and wait for the disk.

        Returns the checksums of all pieces, for the commit that counts on them.
        """
        arrays = joined(groups)
        size = sum(x[:1].nbytes for x in arrays.values())
        grain = max(1, PIECE // max(1, size), self._num_draws // MOST_PIECES)
        for name, given in arrays.items():
            self._array(name, given, grain)[:, first : first + len(given)] = given.swapaxes(0, 1)
            self._add(name, first, given)
        for path in sorted(self._touched, reverse=True):  # files, then the folders they are in
            if isinstance(path, Path) and path.exists():  # a piece of zeros has no file
                sync(path)
        self._touched.clear()
        return {name: np.array(sums, np.uint32) for name, sums in self._sums.items()}

    def restore(self, sums: Arrays, done: int) -> None:
        """Continue after a commit of `done` draws; raise unless the pieces have its checksums."""
        self._sums = {name: [int(s) for s in of_array] for name, of_array in sums.items()}
        for name in self._sums:
            for _ in self._pieces(name, done):
                pass

    def read(self, done: int) -> dict[str, dict[str, Any]]:
        """The first `done` draws: in memory, or on disk if the run is complete and large."""
        arrays = {name: self._open(name) for name in sorted(self._sums)}
        size = sum(a.nbytes // max(1, a.shape[1]) for a in arrays.values()) * done
        found: dict[str, Any] = {}
        for name, array in arrays.items():
            pieces = self._pieces(name, done)
            if size <= IN_MEMORY or done < self._num_draws:
                found[name] = np.concatenate(list(pieces), axis=1)
            else:
                for _ in pieces:
                    pass
                found[name] = array
        return grouped(found)

    def _array(self, name: str, given: np.ndarray, grain: int) -> Any:
        """The array of this name, made if it is new, and long enough."""
        rest = given.shape[2:]
        shape = (given.shape[1], self._num_draws, *rest)
        if name in self._sums:
            array = self._open(name)
            if array.shape[1] < self._num_draws:
                array.resize(shape)
            return array
        self._sums[name] = []
        self._arrays[name] = self._root.create_array(
            _encoded(name),
            shape=shape,
            chunks=(given.shape[1], grain, *(max(1, n) for n in rest)),
            dtype=given.dtype,
            compressors=None,
            chunk_key_encoding={"name": "default", "separator": "."},
            overwrite=True,
        )
        return self._arrays[name]

    def _open(self, name: str) -> Any:
        if name in self._arrays:
            return self._arrays[name]
        try:
            array: Any = self._root[_encoded(name)]
            _, self._arrays[name] = array.chunks[1], array  # a group has none
            return array
        except Exception as error:  # whatever zarr makes of it
            raise _damaged(self._path / _encoded(name) / "zarr.json") from error

    def _add(self, name: str, first: int, given: np.ndarray) -> None:
        """Add draws to the checksums of their pieces, and note the files to be synced."""
        sums, array = self._sums[name], self._open(name)
        grain, end = array.chunks[1], first + len(given)
        while first < end:
            number = first // grain
            until = min(end, (number + 1) * grain)
            if number == len(sums):
                sums.append(_seed(array))
            draws, given = np.split(given, [until - first])
            sums[number] = zlib.crc32(draws.tobytes(), sums[number])
            self._touched.add(self._file(array, number))
            first = until
        folder = self._path / _encoded(name)
        for place in (folder, folder.parent, self._path):
            self._touched |= {place, place / "zarr.json"}

    def _pieces(self, name: str, done: int) -> Iterator[np.ndarray]:
        """The pieces of an array up to `done` draws, checked."""
        array, sums = self._open(name), self._sums[name]
        grain = array.chunks[1]
        for number in range(-(-done // grain)):
            file = self._file(array, number)
            try:
                piece = array[:, number * grain : min(done, (number + 1) * grain)]
                draws = np.ascontiguousarray(piece.swapaxes(0, 1))
                same = zlib.crc32(draws.tobytes(), _seed(array)) == sums[number]
            except Exception as error:  # whatever zarr makes of it
                raise _damaged(file) from error
            if not same:
                raise _damaged(file)
            yield piece

    def _file(self, array: Any, number: int) -> Place:
        key = array.metadata.encode_chunk_key((0, number, *[0] * (array.ndim - 2)))
        return self._path / array.path / key


def joined(groups: Groups) -> dict[str, Any]:
    """The arrays of all groups, as group/name."""
    return {
        f"{group}/{name}": x for group, by_name in groups.items() for name, x in by_name.items()
    }


def grouped(arrays: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The arrays by group and name again."""
    out: dict[str, dict[str, Any]] = {}
    for key, x in arrays.items():
        group, _, name = key.partition("/")
        out.setdefault(group, {})[name] = x
    return out


def _seed(array: Any) -> int:
    """The checksum of no draws, which depends on what a draw is."""
    what = f"{array.dtype} {array.shape[0]} {array.shape[2:]}"
    return zlib.crc32(what.encode())


def _encoded(name: str) -> str:
    """The path of an array, group/name, whatever characters its name has."""
    group, _, name = name.partition("/")
    text = quote(name, safe="[](), ").replace("zarr.json", "zarr%2Ejson")
    return f"{group}/{re.sub('^[._]+', lambda m: ''.join(f'%{ord(c):02X}' for c in m[0]), text)}"


def _damaged(path: Place) -> ValueError:
    state = "damaged" if path.exists() else "missing"
    return ValueError(f"{path} is {state}, or not of this run; {REMEDY}")

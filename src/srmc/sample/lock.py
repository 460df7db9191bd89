"""One process at a time has a checkpoint; `holder.json` names it."""

import contextlib
import datetime
import errno
import os
import platform
import warnings
from pathlib import Path
from typing import Any

from srmc._extras import extra
from srmc._files import Place, Remote, read_json, write_json

# What file systems answer that have no locks.
NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL)


class Lock:
    """A lock on a folder, which the operating system lifts when its holder ends, however it ends.

    The lock is on the file `lock`, which stays. `holder.json` names the holder for others to read;
    it is left behind by a holder that was killed, and says nothing about who holds the lock. An
    object store has no locks; there, a warning names the recorded holder.
    """

    def __init__(self, folder: Place) -> None:
        self._folder = folder
        self._lock: Any = None
        if isinstance(folder, Remote):
            if last := self._holder():
                self._warn(f"is in use, or was left without an end, by {_named(last)}")
        else:
            self._acquire(folder)
        now = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
        self._me = {"host": platform.node(), "process": os.getpid(), "since": now}
        write_json(self._path, self._me)

    def _acquire(self, folder: Path) -> None:
        with extra("checkpoint"):
            import filelock  # which takes a while to import

        self._lock = filelock.FileLock(folder / "lock", timeout=0, thread_local=False)
        try:
            self._lock.acquire()
        except filelock.Timeout:
            raise ValueError(
                f"checkpoint {folder} is in use by {_named(self._holder())}; wait until that ends, "
                "or choose another folder"
            ) from None
        except (NotImplementedError, OSError) as error:
            if isinstance(error, OSError) and error.errno not in NO_LOCKS:
                raise
            self._warn("is on a file system without locks")
        else:
            last = self._holder()
            if last and last.get("host") != platform.node():
                self._warn(f"was left without an end by {_named(last)}")

    def release(self) -> None:
        """Let others have the folder; what another process has written there since stays."""
        with contextlib.suppress(OSError):  # of a folder that has disappeared
            if self.is_held:
                self._path.unlink()
            if self._lock is not None:
                self._lock.release()

    @property
    def is_held(self) -> bool:
        """Whether the folder names this process, and is not another one of the same name."""
        return self._holder() == self._me

    @property
    def _path(self) -> Place:
        return self._folder / "holder.json"

    def _holder(self) -> dict[str, Any]:
        """Who has or had the lock, if that is known."""
        try:
            return read_json(self._path)
        except (OSError, ValueError):
            return {}

    def _warn(self, what: str) -> None:
        warnings.warn(
            f"checkpoint {self._folder} {what}; make sure that no other process uses it, "
            "because two would corrupt each other's draws",
            stacklevel=2,
        )


def _named(holder: dict[str, Any]) -> str:
    if {"host", "process", "since"} <= holder.keys():
        return "process {process} on {host}, since {since}".format(**holder)
    return "another process"

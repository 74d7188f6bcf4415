"""Atomic files: written beside, synced, then renamed into place."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType

from iriai.model.problem import Refused

PRIVATE_FILE_MODE = 0o600
PRIVATE_DIRECTORY_MODE = 0o700
FRESH = ".new"
"""Added to the name of what is not in its place yet; whatever has it is left over."""
FILE_BYTES_MAX = 4 << 20
"""None of our files comes near; a larger one is not ours, and is not read into memory."""

Owner = tuple[int, int]
"""User and group id."""


def read_file(path: Path) -> bytes:
    """What `path` holds.

    Raises:
        Refused: it cannot be read, or is too large to be ours.
    """
    try:
        with path.open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise Refused(
            "unreadable",
            f"{path} cannot be read ({os.strerror(error.errno or 0)})",
            "check its owner and permissions, or restore it from a copy",
        ) from None
    if len(content) > FILE_BYTES_MAX:
        raise Refused(
            "unreadable", f"{path} has more than {FILE_BYTES_MAX} bytes", "restore it from a copy"
        )
    return content


def replace_file(path: Path, content: bytes, owner: Owner | None = None) -> None:
    """As `write_whole`; `owner` defaults to who owned the old file.

    Raises:
        Refused: it cannot be written; the old content stays.
    """
    try:
        if owner is None and path.exists() and os.geteuid() == 0:
            status = path.stat()
            owner = status.st_uid, status.st_gid
        write_whole(path, content, owner)
    except OSError as error:
        raise _unwritable(path, error) from None


def write_whole(path: Path, content: bytes, owner: Owner | None = None) -> None:
    """Make `content` what `path` holds: durable, and at no moment anything between old and new.

    Raises OSError; then the old content stays.
    """
    fresh = path.with_name(path.name + FRESH)
    _write(fresh, content, owner)
    fresh.replace(path)
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Bring the names in a directory to the disk. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class WholeDirectory:
    """A new directory that appears with all its files, or not at all."""

    def __init__(self, path: Path, owner: Owner | None = None) -> None:
        self._path = path
        self._fresh = path.with_name(path.name + FRESH)
        self._owner = owner

    def write(self, name: str, content: bytes) -> None:
        """Put a file into it."""
        try:
            _write(self._fresh / name, content, self._owner)
        except OSError as error:
            raise _unwritable(self._fresh / name, error) from None

    def __enter__(self) -> WholeDirectory:
        if self._path.exists():
            raise Refused(
                "exists-already",
                f"{self._path} exists already",
                "a machine is in one cluster at a time: 'iriai leave' first",
            )
        try:
            self._discard()
            self._fresh.mkdir(mode=PRIVATE_DIRECTORY_MODE, parents=True)
            if self._owner is not None:
                os.chown(self._fresh, *self._owner)
        except OSError as error:
            raise _unwritable(self._fresh, error) from None
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            self._discard()
            return
        try:
            sync_directory(self._fresh)
            self._fresh.rename(self._path)
            sync_directory(self._path.parent)
        except OSError as failure:
            self._discard()
            raise _unwritable(self._path, failure) from None

    def _discard(self) -> None:
        import shutil  # which the launcher does not need

        shutil.rmtree(self._fresh, ignore_errors=True)


def _write(path: Path, content: bytes, owner: Owner | None) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, PRIVATE_FILE_MODE), "wb") as file:
        file.write(content)
        file.flush()
        if owner is not None:
            os.fchown(file.fileno(), *owner)
        os.fsync(file.fileno())


def _unwritable(path: Path, error: OSError) -> Refused:
    return Refused(
        "unwritable",
        f"{path} cannot be written ({os.strerror(error.errno or 0)})",
        "check its owner and permissions and the space on its disk",
    )

"""Atomic files: written beside, synced, then renamed into place."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from iriai.model.problem import Refused

if TYPE_CHECKING:  # a supervisor and a launcher do not load it
    from pathlib import Path

PRIVATE_FILE_MODE = 0o600
PRIVATE_DIRECTORY_MODE = 0o700
FRESH = ".new"
"""Suffix of a file that is not in its place yet; one that stays is left over."""
FILE_BYTES_MAX = 4 << 20
"""None of our files is near it; a larger one is not read into memory."""

Owner = tuple[int, int]
"""User and group id."""


def read_file(path: Path) -> bytes:
    """Return the content of `path`.

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


def read_trusted(path: str | Path, bytes_max: int) -> bytes | None:
    """Return the content of a file that nobody but root and the caller can have written.

    Returns None if there is no such file. Raises OSError where another user could have written it,
    it is no regular file, has more than `bytes_max` bytes, or cannot be read.
    """
    try:
        descriptor = open_trusted(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        content = file.read(bytes_max + 1)
    if len(content) > bytes_max:
        raise OSError(errno.EFBIG, f"it has more than {bytes_max} bytes", str(path))
    return content


def open_trusted(path: str | Path, flags: int) -> int:
    """Open a regular file that nobody but root and the caller can have written.

    Raises OSError where that is not so, and where it cannot be opened.
    """
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    found = os.fstat(descriptor)
    is_ours = found.st_uid in (0, os.geteuid()) and not found.st_mode & 0o022
    if stat.S_ISREG(found.st_mode) and is_ours and found.st_nlink == 1:
        return descriptor
    os.close(descriptor)
    raise PermissionError(errno.EPERM, "another user can have written it", str(path))


def replace_file(path: Path, content: bytes, owner: Owner | None = None) -> None:
    """Write as `write_whole` does; `owner` defaults to the owner of the old file.

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


def write_whole(
    path: str | Path, content: bytes, owner: Owner | None = None, mode: int = PRIVATE_FILE_MODE
) -> None:
    """Replace the content of `path`, durably and atomically.

    Raises OSError; then the old content stays.
    """
    fresh = f"{path}{FRESH}"
    _write(fresh, content, owner, mode)
    os.replace(fresh, path)
    sync_directory(os.path.dirname(path) or ".")


def sync_directory(path: str | Path) -> None:
    """Sync the names in a directory to the disk. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def whole_directory(
    path: Path, owner: Owner | None = None
) -> Iterator[Callable[[str, bytes], None]]:
    """Make a directory that appears with all its files, or not at all.

    Yields a function that writes a file of that name into it.

    Raises:
        Refused: it exists already, or cannot be written; nothing of it stays.
    """
    if path.exists():
        raise Refused(
            "exists-already",
            f"{path} exists already",
            "a machine is in one cluster at a time: 'iriai leave' first",
        )
    import shutil  # which the launcher does not need

    fresh = path.with_name(path.name + FRESH)
    shutil.rmtree(fresh, ignore_errors=True)
    try:
        fresh.mkdir(mode=PRIVATE_DIRECTORY_MODE, parents=True)
        if owner is not None:
            os.chown(fresh, *owner)
        yield lambda name, content: _write(fresh / name, content, owner)
        sync_directory(fresh)
        fresh.rename(path)
        sync_directory(path.parent)
    except BaseException as error:
        shutil.rmtree(fresh, ignore_errors=True)
        if isinstance(error, OSError):
            raise _unwritable(path, error) from None
        raise


def _write(
    path: str | Path, content: bytes, owner: Owner | None, mode: int = PRIVATE_FILE_MODE
) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, PRIVATE_FILE_MODE), "wb") as file:
        file.write(content)
        file.flush()
        if mode != PRIVATE_FILE_MODE:
            os.fchmod(file.fileno(), mode)
        if owner is not None:
            os.fchown(file.fileno(), *owner)
        os.fsync(file.fileno())


def _unwritable(path: Path, error: OSError) -> Refused:
    return Refused(
        "unwritable",
        f"{path} cannot be written ({os.strerror(error.errno or 0)})",
        "check its owner and permissions and the space on its disk",
    )

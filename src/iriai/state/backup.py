"""`iriai backup`: a home as one file, even while its daemon runs.

The file is a tar archive. Members, in this order: `manifest.json`; `state.json`, the directory's
identity; `iriai.toml` and `iriai.rc`, where there are such; `iriai.db`. The manifest holds a digest
of each of the others.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import tarfile
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from iriai import __version__
from iriai.model.bounds import decoded
from iriai.model.paths import DATABASE_NAME
from iriai.model.problem import NotAllowed, NotFound, Problem, Refused
from iriai.state.state_directory import absolute_paths, problem_of, read_identity
from iriai.store.copying import copy_database

FORMAT = 2
"""Raised with every change that an older iriai would misread."""
MANIFEST = "manifest.json"
IDENTITY = "state.json"
CONFIGURATION = "iriai.toml"
RC = "iriai.rc"
DATABASE = DATABASE_NAME
_MEMBERS = (IDENTITY, CONFIGURATION, RC, DATABASE)
_MODE = 0o600
"""Environments and standard input of jobs are in there."""
_SMALL_BYTES_MAX = 16 << 20
"""Of every member but the database."""
_PIECE_BYTES = 1 << 20


class Manifest(msgspec.Struct, frozen=True):
    """The manifest of a backup."""

    format: int
    iriai: str
    """The version that made it."""
    home: str
    schema: int
    """How many migrations its database has had."""
    made_wall_s: float
    next_number: int
    """The first job number that had not been given out."""
    digests: dict[str, str] = {}
    """SHA-256 of each member, in hexadecimal."""


def digest_of_file(path: Path) -> str:
    """Return the SHA-256 of a file's content, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_backup(file: Path, manifest: Manifest, members: Mapping[str, Path]) -> int:
    """Write a backup of `members` to `file` atomically.

    Returns its size in bytes. Raises OSError.
    """
    digests = {name: digest_of_file(path) for name, path in members.items()}
    content = msgspec.json.encode(msgspec.structs.replace(manifest, digests=digests))
    fresh = file.with_name(f"{file.name}.new")
    fresh.unlink(missing_ok=True)
    try:
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _MODE)
        with os.fdopen(descriptor, "wb") as stream:
            with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
                _add(archive, MANIFEST, io.BytesIO(content), len(content), manifest.made_wall_s)
                for name, path in members.items():
                    with path.open("rb") as source:
                        size = os.fstat(source.fileno()).st_size
                        _add(archive, name, source, size, manifest.made_wall_s)
            stream.flush()
            os.fsync(stream.fileno())
        fresh.rename(file)
    finally:
        fresh.unlink(missing_ok=True)
    return file.stat().st_size


def _add(archive: tarfile.TarFile, name: str, source: io.IOBase, size: int, wall_s: float) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode, entry.mtime = size, _MODE, int(wall_s)
    archive.addfile(entry, source)


def read_backup(file: Path, directory: Path) -> Manifest:
    """Unpack the members of a backup into `directory`; returns the manifest.

    Raises:
        Problem: it is missing, unreadable, no backup, damaged, or of another version.
    """
    try:
        with tarfile.open(file, mode="r:") as archive:
            entries = {entry.name: entry for entry in archive.getmembers()}
            manifest = _manifest(_content(archive, entries.get(MANIFEST)), file)
            if set(entries) != {MANIFEST, *manifest.digests}:
                raise _damaged(file, "members are missing")
            for name, digest in manifest.digests.items():
                _unpack(archive, entries[name], directory / name)
                if digest_of_file(directory / name) != digest:
                    raise _damaged(file, f"{name} has changed since it was written")
    except FileNotFoundError as error:
        if error.filename is not None and Path(error.filename) != file:
            raise
        raise NotFound(
            "no-backup", f"there is no {file}", "name a file of 'iriai backup'"
        ) from None
    except PermissionError as error:
        if Path(str(error.filename)) != file:
            raise
        raise NotAllowed(
            "not-your-file", f"{file} is not readable for you", "ask its owner"
        ) from None
    except IsADirectoryError:
        raise _foreign(file) from None
    except (tarfile.TarError, EOFError) as error:
        raise _foreign(file) from error
    return manifest


def _manifest(content: bytes | None, file: Path) -> Manifest:
    if content is None:
        raise _foreign(file)
    try:
        version = decoded(msgspec.json.Decoder(dict[str, object]), content).get("format")
        if isinstance(version, int) and version != FORMAT:
            age = "newer" if version > FORMAT else "older"
            raise Refused(
                f"backup-{age}",
                f"{file} was written by an {age} iriai (format {version}, this one knows {FORMAT})",
                "restore it with the version that wrote it",
            )
        manifest = decoded(msgspec.json.Decoder(Manifest), content)
    except msgspec.MsgspecError as error:
        raise _foreign(file) from error
    if not {IDENTITY, DATABASE} <= set(manifest.digests) <= set(_MEMBERS):
        raise _foreign(file)
    return manifest


def _content(archive: tarfile.TarFile, entry: tarfile.TarInfo | None) -> bytes | None:
    if entry is None or not entry.isreg() or entry.size > _SMALL_BYTES_MAX:
        return None
    source = archive.extractfile(entry)
    return source.read() if source else None


def _unpack(archive: tarfile.TarFile, entry: tarfile.TarInfo, target: Path) -> None:
    """Write the content of one member to `target`, without its owner, mode and name."""
    source = archive.extractfile(entry)
    if source is None:
        raise tarfile.ReadError(f"{entry.name} is not a file")
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _MODE)
    with os.fdopen(descriptor, "wb") as sink:
        while piece := source.read(_PIECE_BYTES):
            sink.write(piece)
        sink.flush()
        os.fsync(sink.fileno())


def _foreign(file: Path) -> Refused:
    return Refused(
        "not-a-backup", f"{file} is not a backup of iriai", "name a file of 'iriai backup'"
    )


def _damaged(file: Path, detail: str) -> Refused:
    return Refused(
        "backup-damaged", f"{file} is damaged ({detail})", "use another backup; nothing was changed"
    )


class Backup(NamedTuple):
    """A written backup."""

    file: str
    home: str
    size_bytes: int
    unfinished_jobs: int
    finished_jobs: int
    made_wall_s: float


def back_up(directory: str, target: Path, *, force: bool) -> Backup:
    """Write a backup of the home in the state directory `directory` to `target`.

    The jobs in it are as of one moment, whatever the daemon does meanwhile.

    Raises:
        Problem: there is no home, it is another user's, or the file cannot be written or exists
            (unless `force`). An existing file is unchanged then.
    """
    paths = absolute_paths(directory)
    file = target.absolute()
    if file.is_dir() or (file.exists() and not force):
        raise Refused("file-exists", f"{file} exists already", "name another file, or use --force")
    if not file.parent.is_dir():
        raise NotFound("no-directory", f"there is no directory {file.parent}", "create it first")
    store = Path(paths.database)
    if not os.access(paths.identity, os.R_OK) and os.path.lexists(paths.identity):
        raise _not_yours(paths.directory)
    try:
        identity = read_identity(paths)
        if identity is None or not store.exists():
            raise NotFound(
                "no-state",
                f"there is no home in {paths.directory}",
                "name its state directory with --state",
            )
    except PermissionError:
        raise _not_yours(paths.directory) from None
    if not os.access(store, os.R_OK | os.W_OK):
        raise _not_yours(paths.directory)
    try:
        with tempfile.TemporaryDirectory(prefix=".iriai-backup-", dir=file.parent) as aside:
            copy = Path(aside) / DATABASE
            made_wall_s = time.time()
            contents = copy_database(store, copy)
            manifest = Manifest(
                FORMAT,
                __version__,
                identity.home,
                contents.schema,
                made_wall_s,
                contents.next_number,
            )
            members = {IDENTITY: Path(paths.identity)}
            if Path(paths.configuration).exists():
                members[CONFIGURATION] = Path(paths.configuration)
            if Path(paths.rc).is_file() and not Path(paths.rc).is_symlink():
                members[RC] = Path(paths.rc)
            members[DATABASE] = copy
            size_bytes = write_backup(file, manifest, members)
    except OSError as error:
        raise _cannot_write(error, file) from None
    return Backup(
        str(file),
        identity.home,
        size_bytes,
        contents.unfinished_jobs,
        contents.finished_jobs,
        made_wall_s,
    )


def _cannot_write(error: OSError, file: Path) -> Problem:
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        what = f"{file} cannot be written ({os.strerror(error.errno)})"
        return NotAllowed("file-not-writable", what, "write it to another place")
    return problem_of(error, str(file.parent))


def _not_yours(directory: str) -> NotAllowed:
    return NotAllowed(
        "not-your-state",
        f"the home in {directory} is not yours",
        "run the command as its owner, or as root",
    )

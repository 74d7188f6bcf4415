"""The file that `iriai backup` writes: a tar archive of a home, with a manifest.

Members, in this order: `manifest.json`; `state.json`, the directory's identity; `iriai.toml`, where
there is one; `iriai.db`. The manifest holds a digest of each of the others.
"""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from collections.abc import Mapping
from pathlib import Path

import msgspec

from iriai.model.bounds import decoded
from iriai.model.paths import DATABASE_NAME
from iriai.model.problem import NotAllowed, NotFound, Refused

FORMAT = 2
"""Raised with every change that an older iriai would misread."""
MANIFEST = "manifest.json"
IDENTITY = "state.json"
CONFIGURATION = "iriai.toml"
DATABASE = DATABASE_NAME
_MEMBERS = (IDENTITY, CONFIGURATION, DATABASE)
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

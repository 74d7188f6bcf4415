"""`iriai backup`: a home as one file, even while its daemon runs."""

from __future__ import annotations

import errno
import os
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from iriai import __version__
from iriai.model.problem import NotAllowed, NotFound, Problem, Refused
from iriai.state.backup_archive import (
    CONFIGURATION,
    DATABASE,
    FORMAT,
    IDENTITY,
    Manifest,
    write_backup,
)
from iriai.state.state_directory import absolute_paths, problem_of, read_identity
from iriai.store.copying import copy_database


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

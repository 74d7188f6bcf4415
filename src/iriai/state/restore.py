"""`iriai restore`: a state directory from a backup, whole or not at all.

A home that comes back from a backup does not know what it did since. So it gives out no number that
it may have given out then: numbers go on behind the highest that could have been reached, by the
time that has passed (`numbers_since`), and its node begins an incarnation that never was.
"""

from __future__ import annotations

import json
import os
import pwd
import shutil
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from iriai.model.paths import StatePaths
from iriai.model.problem import Problem, Refused, UsageProblem
from iriai.state.backup import CONFIGURATION, IDENTITY, RC, Manifest, read_backup
from iriai.state.state_directory import (
    absolute_paths,
    problem_of,
    read_identity,
    write_identity,
)
from iriai.store.copying import Contents, check_copy, start_as_new
from iriai.system.atomic_files import sync_directory
from iriai.system.lock_file import lock_holder
from iriai.system.privileges import (
    DAEMON_USER,
    current_user,
    ensure_daemon_user,
    find_user,
)

SUBMISSIONS_PER_S = 1000
"""More than a home takes for as long as a second after the other (docs/performance.md)."""
NUMBERS_ROUND = 1_000_000
"""Restored homes begin behind a multiple of it, so that people see it, and always leave out so
many."""
NUMBER_MAX = 4_000_000_000
"""What numbers may reach by a restore: half of those that the launcher's journal has room for."""
_PARTS = ("daemon", "supervisor", "launcher")
_HARMLESS = ("lost+found",)


class Restored(NamedTuple):
    """A restored home."""

    state_directory: str
    home: str
    made_wall_s: float
    """When the backup was made."""
    first_number: int
    """Of the next job."""
    unfinished_jobs: int
    finished_jobs: int


def numbers_since(made_wall_s: float, now_wall_s: float) -> int:
    """Return how many job numbers may have been used since a backup was made."""
    return NUMBERS_ROUND + int(SUBMISSIONS_PER_S * max(0.0, now_wall_s - made_wall_s))


def restore(file: Path, directory: str, first_number: int | None = None) -> Restored:
    """Make a state directory from the backup in `file`; `first_number` is the next job's.

    Raises:
        Problem: the backup or the directory cannot be used; nothing was left behind.
    """
    paths = absolute_paths(directory)
    made: list[Path] = []
    try:
        _claim(paths, made)
        manifest, contents = _unpack(file, paths, made)
        number = _first_number(manifest, contents, first_number)
        start_as_new(Path(paths.database), number)
        _settle(paths)
    except BaseException as error:
        _remove(made)
        if isinstance(error, OSError):
            raise problem_of(error, paths.directory) from None
        raise
    return Restored(
        paths.directory,
        manifest.home,
        manifest.made_wall_s,
        number,
        contents.unfinished_jobs,
        contents.finished_jobs,
    )


def _claim(paths: StatePaths, made: list[Path]) -> None:
    """Make the directory, or check that it is empty and unused; raise `Refused`."""
    directory = Path(paths.directory)
    if directory.exists():
        for part in _PARTS:
            if (pid := lock_holder(paths.lock(part))) is not None:
                raise Refused(
                    "state-in-use",
                    f"{directory} is in use by process {pid}",
                    "stop it with 'iriai down --kill', and move the directory away",
                )
        others = [each.name for each in directory.iterdir() if each.name not in _HARMLESS]
        if others:
            raise Refused(
                "not-empty",
                f"{directory} is not empty ('{min(others)}' is in it)",
                "move it away, or name another directory with --state",
            )
    else:
        directory.mkdir(parents=True, mode=0o711)
        made.append(directory)
    store = Path(paths.store)
    store.mkdir(mode=0o700)
    made.append(store)


def _unpack(file: Path, paths: StatePaths, made: list[Path]) -> tuple[Manifest, Contents]:
    store = Path(paths.store)
    manifest = read_backup(file, store)
    try:
        contents = check_copy(Path(paths.database))
    except Problem as problem:
        raise Refused(
            problem.code, f"{file} cannot be restored: {problem.message}", "nothing was changed"
        ) from None
    for name, place in ((CONFIGURATION, paths.configuration), (RC, paths.rc)):
        if (store / name).exists():
            (store / name).chmod(0o600)
            (store / name).rename(place)
            made.append(Path(place))
    return manifest, contents


def _first_number(manifest: Manifest, contents: Contents, wanted: int | None) -> int:
    lowest = max(manifest.next_number, contents.next_number)
    if wanted is not None:
        if not lowest <= wanted <= NUMBER_MAX:
            raise UsageProblem(
                "bad-number",
                f"the next job cannot have the number {wanted}",
                f"numbers up to {lowest - 1} were given out before the backup, and {NUMBER_MAX} is"
                " the highest",
            )
        return wanted
    now_wall_s = time.time()
    if manifest.made_wall_s > now_wall_s:
        raise Refused(
            "clock-wrong",
            "the backup is dated in the future: check this machine's clock",
            "set the clock, or use --first-number with a number larger than any given out since",
        )
    reached = lowest + numbers_since(manifest.made_wall_s, now_wall_s)
    number = -(-reached // NUMBERS_ROUND) * NUMBERS_ROUND + 1
    if number > NUMBER_MAX:
        days = (now_wall_s - manifest.made_wall_s) / 86_400
        raise Refused(
            "backup-old",
            f"the backup is {days:.0f} days old: the job numbers given out since are unknown",
            "use --first-number with a number larger than any of them",
        )
    return number


def _settle(paths: StatePaths) -> None:
    """Set names and owners; write the identity last, which completes the directory."""
    store = Path(paths.store)
    identity = json.loads((store / IDENTITY).read_text())
    identity["daemon_user"] = user = _daemon_user(str(identity.get("daemon_user")))
    (store / IDENTITY).unlink()
    if os.geteuid() == 0:
        owner = pwd.getpwnam(user)
        for path in (store, *store.iterdir()):
            os.chown(path, owner.pw_uid, owner.pw_gid, follow_symlinks=False)
    sync_directory(store)
    write_identity(paths, identity)
    read_identity(paths)


def _daemon_user(before: str) -> str:
    """Return the daemon's user: the one of the backup if it exists here."""
    if os.geteuid() != 0:
        return current_user()
    if before != DAEMON_USER:
        with suppress(Problem):
            return find_user(before).pw_name
    return ensure_daemon_user().pw_name


def _remove(made: list[Path]) -> None:
    """Remove the paths that were made, the latest first."""
    for path in reversed(made):
        with suppress(OSError):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()

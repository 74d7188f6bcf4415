"""The owner profile in the file of a machine: set as it joins a cluster, or proposed."""

from __future__ import annotations

import stat
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from iriai.config.reader import parse_configuration
from iriai.config.sections import OwnerProfile
from iriai.host.checks import of_owner
from iriai.model.paths import StatePaths
from iriai.model.problem import Refused, UsageProblem
from iriai.state.configuration import read_configuration
from iriai.state.state_directory import problem_of
from iriai.system.atomic_files import write_whole

NEW_MODE = 0o644
"""Of a file that was not there: the daemon may be another user."""


def has_owner_section(paths: StatePaths) -> bool:
    """Return whether the file says anything of an owner; raise a `Problem` if it is wrong."""
    read_configuration(paths)
    return "owner" in tomllib.loads(_text(paths))


def proposals(paths: StatePaths, root: str = "/") -> Iterator[str]:
    """Yield which profile may suit what looks like a person's machine, until its file says one.

    `root` is where the files of the system are.
    """
    for finding in of_owner(root):
        if not has_owner_section(paths):
            yield f'{finding.message}: {finding.hint} of {paths.configuration}, or "none"'


def with_profile(paths: StatePaths, profile: str) -> str:
    """Return the text of the file with that profile; raise a `Problem` if it cannot have it."""
    names = get_args(OwnerProfile)
    if profile not in names:
        raise UsageProblem("bad-profile", f"'{profile}' is no profile", f"use {', '.join(names)}")
    if has_owner_section(paths):
        if read_configuration(paths).owner.profile != profile:
            raise Refused(
                "owner-set",
                f"{paths.configuration} has a section [owner] with another profile",
                "change it there, and leave --profile out",
            )
        return _text(paths)
    before = _text(paths).rstrip("\n")
    text = f'{before}\n\n[owner]\nprofile = "{profile}"\n'.lstrip("\n")
    parse_configuration(text, paths.configuration)
    return text


def write_text(paths: StatePaths, text: str) -> None:
    """Replace the file, unless it has that text; raise a `Problem` if that is impossible.

    Whose it is, and who may read it, stays; a new one is as an editor makes it.
    """
    if text == _text(paths):
        return
    path, owner, mode = Path(paths.configuration), None, NEW_MODE
    try:
        if path.exists():
            status = path.stat()
            owner, mode = (status.st_uid, status.st_gid), stat.S_IMODE(status.st_mode)
        write_whole(path, text.encode(), owner, mode)
    except OSError as error:
        raise problem_of(error, paths.configuration) from None


def _text(paths: StatePaths) -> str:
    try:
        return Path(paths.configuration).read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""

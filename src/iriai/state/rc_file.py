"""The rc file: console lines that are run when `iriai up` starts a machine without a cluster.

It is read with the rights of the owner of the state directory, before the daemon drops them.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, NamedTuple

from iriai.model.bounds import CONSOLE_BYTES_MAX
from iriai.model.paths import StatePaths
from iriai.model.problem import NotFound, Problem, Refused
from iriai.system.atomic_files import read_trusted

if TYPE_CHECKING:
    from iriai.config.console_lines import ConsoleLine


class RcFile(NamedTuple):
    """An rc file as it was found."""

    path: str
    lines: tuple[ConsoleLine, ...] = ()
    problem: Problem | None = None
    """Why it was not read."""


def read_rc(paths: StatePaths, given: str) -> RcFile | None:
    """Return the rc file `given`; empty: `iriai.rc` of the state directory, None if there is none.

    A file that cannot be read, or is not to be trusted, is returned with the problem.
    """
    path = given or paths.rc
    try:
        content = read_trusted(path, CONSOLE_BYTES_MAX)
        if content is not None:
            from iriai.config.console_lines import lines_of  # which few starts need

            return RcFile(path, tuple(lines_of(content, path)))
    except OSError as error:
        return RcFile(path, problem=_not_read(path, error))
    except Problem as problem:
        return RcFile(path, problem=problem)
    if not given:
        return None
    return RcFile(path, problem=NotFound("no-rc-file", f"there is no {path}", "check its name"))


def _not_read(path: str, error: OSError) -> Refused:
    why = os.strerror(error.errno or 0)
    if error.errno == errno.ELOOP:
        why = "it is a symbolic link"
    elif error.errno == errno.EPERM:
        why = "others than root and you can have written it, or it is no plain file"
    elif error.errno == errno.EFBIG:
        why = f"it has more than {CONSOLE_BYTES_MAX} bytes"
    return Refused(
        "rc-not-read",
        f"{path} is not run: {why}",
        "it has to be a plain file of yours or root's, that nobody else may write",
    )

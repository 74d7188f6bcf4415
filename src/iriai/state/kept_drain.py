"""A drain or resume that was requested while no daemon ran, kept for the daemon's next start.

A file in the state directory, which its owner alone can write: `asked` or `taken` in the first
line, then the request. The daemon reads it after its socket listens, and the command writes it
before it looks for a listener once more: so at least one of the two sees the other. When the
request is durable in the store, the daemon writes `taken` through the descriptor that it opened
before it dropped its privileges. A later request is another file under the same name, so that one
is never marked by mistake.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from iriai.model.bounds import decoded
from iriai.model.paths import StatePaths
from iriai.model.problem import NotAllowed, NotFound, Refused, UsageProblem
from iriai.state.state_directory import locked_directory, problem_of, read_identity
from iriai.system.atomic_files import open_trusted, write_whole
from iriai.system.passwd_cache import user_words
from iriai.system.privileges import current_user

REASON_LENGTH_MAX = 500
"""Of why a machine is drained: it stands in tables."""
NAME_LENGTH_MAX = 256
"""Of the name of a user: as long as the system permits."""
BYTES_MAX = 8192
"""Of the file: a reason in which every character is escaped, and a name."""
_ASKED, _TAKEN = b"asked\n", b"taken\n"
"""The first line. Of one length, so that one write changes it whole."""
_WALL_MAX_S = 253_402_200_000.0
"""In the year 9999, the last that a date can show."""


class DrainRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is asked of the daemon's next start."""

    reason: Annotated[str, msgspec.Meta(min_length=1, max_length=REASON_LENGTH_MAX)] | None
    """Why the machine is drained; None: it is resumed."""
    by: Annotated[str, msgspec.Meta(min_length=1, max_length=NAME_LENGTH_MAX)]
    """The user who asked."""
    asked_wall_s: Annotated[float, msgspec.Meta(ge=0, le=_WALL_MAX_S)]


@dataclass(frozen=True, slots=True)
class KeptDrain:
    """A request that no daemon has taken yet, with its open file."""

    request: DrainRequest
    descriptor: int

    def take(self) -> None:
        """Mark the request as taken, and close its file: a daemon has carried it out.

        On a disk that fails the mark is lost, and the next start takes the request again.
        """
        with suppress(OSError):
            os.pwrite(self.descriptor, _TAKEN, 0)
            os.fsync(self.descriptor)
        os.close(self.descriptor)


def check_reason(reason: str) -> None:
    """Raise `UsageProblem` if people could not read why a machine is drained."""
    is_text = not any(0xD800 <= ord(letter) < 0xE000 for letter in reason)
    if not is_text or not 0 < len(reason) <= REASON_LENGTH_MAX:
        raise UsageProblem(
            "bad-reason",
            "a drain needs a reason, which people read",
            f"give one with --reason, of at most {REASON_LENGTH_MAX} letters",
        )


def keep_drain(paths: StatePaths, node: str, reason: str | None) -> tuple[str, KeptDrain] | None:
    """Keep a request for the next start of the daemon; `reason` None: resume.

    Returns the machine's name, and what is kept; None if the directory is no state directory.

    Raises:
        NotAllowed: the caller does not own the directory.
        NotFound: it is not the directory of `node`, or that machine runs no tasks.
        Refused: the request cannot be written; what was kept before stays.
    """
    try:
        _check_owner(paths)
        identity = read_identity(paths)
        if identity is None:
            return None
        if node not in ("", identity.home) or not identity.role.has_node:
            raise NotFound(
                "no-such-machine",
                f"no daemon runs for {paths.directory}, and {node or identity.home} is not the "
                "machine whose tasks it starts",
                "run the command on that machine, or start the daemon with 'iriai up'",
            )
        if reason is not None:
            check_reason(reason)
        request = DrainRequest(reason, current_user(), time.time())
        path = Path(paths.drain)
        with locked_directory(paths.directory):
            write_whole(path, _ASKED + msgspec.json.encode(request) + b"\n")
            return identity.home, KeptDrain(request, open_trusted(path, os.O_RDWR))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise problem_of(error, paths.drain) from None


def read_kept_drain(paths: StatePaths) -> KeptDrain | None:
    """Return the request that no daemon has taken yet; None if there is none.

    Raises `Refused` where the file cannot be understood: a machine that may have been drained is
    not started undrained.
    """
    try:
        descriptor = open_trusted(Path(paths.drain), os.O_RDWR)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unreadable(paths, error.strerror or str(error)) from None
    request = None
    try:
        content = os.pread(descriptor, BYTES_MAX + 1, 0)
        if not content.startswith(_TAKEN):
            request = _parse(content)
    except (OSError, ValueError) as error:
        raise _unreadable(paths, str(error)) from None
    finally:
        if request is None:
            os.close(descriptor)
    return None if request is None else KeptDrain(request, descriptor)


def _parse(content: bytes) -> DrainRequest:
    """Return the request in a file that nobody has taken; raise ValueError if there is none."""
    if len(content) > BYTES_MAX:
        raise ValueError(f"it has more than {BYTES_MAX} bytes")
    if not content.startswith(_ASKED):
        raise ValueError("it does not begin with 'asked'")
    return decoded(msgspec.json.Decoder(DrainRequest), content[len(_ASKED) :])


def _check_owner(paths: StatePaths) -> None:
    """Raise `NotAllowed` if the caller does not own the directory; OSError if there is none."""
    owner_uid = Path(paths.directory).stat().st_uid
    if owner_uid == os.geteuid():
        return
    owner = user_words(owner_uid)
    raise NotAllowed(
        "state-of-another",
        f"no daemon runs for {paths.directory}, and without it only its owner, {owner}, may drain "
        "or resume the machine",
        f"run the command as {owner}: the daemon knows who is an operator, and it is away",
    )


def _unreadable(paths: StatePaths, why: str) -> Refused:
    return Refused(
        "drain-unreadable",
        f"{paths.drain} cannot be understood ({why}): whether the machine is drained is unknown",
        "run 'iriai drain' or 'iriai resume', which writes it anew, then 'iriai up'",
    )

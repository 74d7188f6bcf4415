"""`iriai up`: check everything that can be checked, then have supervisor, launcher and daemon run.

Safe to repeat: what runs already is left alone, what is missing is brought back.
"""

from __future__ import annotations

import os
import pwd
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, NoReturn

from iriai.daemon.ending import read_ending
from iriai.daemon.lock_file import lock_holder
from iriai.daemon.machine_facts import measure
from iriai.daemon.settings import read_configuration, settle_directory
from iriai.daemon.state_directory import absolute_paths, check_space, problem_of
from iriai.daemon.supervisor import retry_now, supervisor_command
from iriai.daemon.watched_process import Watched, adopt, spawn
from iriai.identity.peers import peer_of
from iriai.model.paths import StatePaths
from iriai.model.problem import Problem, Unreachable
from iriai.wire.codec import MalformedMessage, decode_reply, request_frame
from iriai.wire.frames import FrameReader, FrameTooLong
from iriai.wire.requests import (
    PROTOCOL_VERSION,
    Answer,
    Failure,
    Hello,
    Request,
    Status,
    StatusReport,
    Welcome,
)

START_WAIT_S = 60.0
"""For a daemon to answer: minutes are not needed even with a hundred thousand jobs to load."""
END_WAIT_S = 60.0
"""For a daemon to end; with its tasks it gives them their grace first."""
_ANSWER_WAIT_S = 10.0
_PAUSE_S = 0.02
_CLOCK_COARSENESS_S = 0.05
"""Files are stamped by a clock that lags behind the one we read by a tick or a few."""


class Standing(NamedTuple):
    """A daemon that answers. Once `up` is done nothing is None."""

    home: str
    state_directory: str
    socket: str
    daemon_pid: int
    launcher_pid: int | None
    """Of the launcher that the daemon is connected to."""
    supervisor_pid: int | None
    started: bool
    """Whether this `up` brought it up, or a part of it; else all was up already."""

    @property
    def is_complete(self) -> bool:
        """Whether nothing is missing."""
        return self.launcher_pid is not None and self.supervisor_pid is not None


class _Checked(NamedTuple):
    """What was found good before anything starts."""

    paths: StatePaths
    daemon_uid: int
    minimum_uid: int


def bring_up(directory: str, user: str | None = None) -> Standing:
    """Bring up the daemon of a state directory, detached; returns when it has a launcher.

    `user` is whom root wants the daemon to run as (None: as before, or `iriai`).

    Raises:
        Problem: why it cannot, from whichever of the processes knew. Nothing is left running that
            was not before, but for a start that is only slow and goes on.
    """
    checked = _check(directory, user)
    paths = checked.paths
    _let_it_end(paths)
    standing = _standing(paths)
    if standing is not None and standing.is_complete:
        return standing
    since_s = time.time()
    child = None
    if not retry_now(paths):
        command = supervisor_command(
            paths, checked.daemon_uid, checked.minimum_uid, foreground=False
        )
        child = spawn(command, paths.log_of("supervisor"))
    return _await_answer(paths, since_s, child)


def stay_up(  # noqa: RET503 - where it does not return it has become the supervisor
    directory: str, user: str | None, announce: Callable[[Standing], None]
) -> Standing:
    """Bring up the daemon and become its supervisor.

    `announce` is called once it answers, in a process of its own that ends right after: it has to
    write out what it says, and so has the caller before.

    Returns only where it was up already. A start that fails ends this process with the problem's
    exit code and its words on standard error.

    Raises:
        Problem: as `bring_up`, before anything started.
    """
    checked = _check(directory, user)
    paths = checked.paths
    _let_it_end(paths)
    standing = _standing(paths)
    if standing is not None and standing.is_complete:
        return standing
    if retry_now(paths):
        return _await_answer(paths, time.time(), None)
    command = supervisor_command(paths, checked.daemon_uid, checked.minimum_uid, foreground=True)
    _announce_later(paths, announce)
    _become(command)


def _become(command: list[str]) -> NoReturn:
    os.execv(command[0], command)  # noqa: S606 - no shell is wanted


def _check(directory: str, user: str | None) -> _Checked:
    paths = absolute_paths(directory)
    configuration = read_configuration(paths)
    identity = settle_directory(paths, configuration, measure(), user)
    # A daemon that runs waits for room, and tells who asks.
    if lock_holder(paths.lock("daemon")) is None:
        check_space(paths)
    uid = pwd.getpwnam(identity.daemon_user).pw_uid if os.geteuid() == 0 else os.geteuid()
    return _Checked(paths, uid, configuration.identity.minimum_uid)


def _let_it_end(paths: StatePaths) -> None:
    """Wait for an `iriai down` that is still under way: what answers now will not for long."""
    deadline_s = time.monotonic() + END_WAIT_S
    for part in ("daemon", "supervisor"):
        while (pid := lock_holder(paths.lock(part))) is not None and _is_ending(paths):
            if time.monotonic() > deadline_s:
                raise Unreachable(
                    "still-ending",
                    f"the {part}, process {pid}, is to end and has not for {END_WAIT_S:.0f} s",
                    "see why with 'iriai status', or end that process",
                )
            time.sleep(_PAUSE_S)


def _is_ending(paths: StatePaths) -> bool:
    endings = [read_ending(paths.end(part)) for part in ("daemon", "supervisor")]
    return any(ending is not None and ending.exit_code == 0 for ending in endings)


def _standing(paths: StatePaths) -> Standing | None:
    """The daemon that answers now, or None.

    Raises:
        Unreachable: something answers that is not the daemon of this directory.
    """
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_ANSWER_WAIT_S)
            connection.connect(paths.daemon_socket)
            _check_listener(paths, connection)
            report = _ask(paths, connection)
    except (FileNotFoundError, ConnectionError):
        return None
    except TimeoutError:
        raise Unreachable(
            "daemon-silent",
            f"what listens on {paths.daemon_socket} has not answered for {_ANSWER_WAIT_S:.0f} s",
            f"see {paths.log_of('daemon')}",
        ) from None
    except OSError as error:
        raise problem_of(error, paths.daemon_socket) from None
    if report is None:
        return None
    return Standing(
        report.home,
        report.state_directory,
        paths.daemon_socket,
        report.daemon_pid,
        report.launcher_pid,
        lock_holder(paths.lock("supervisor")),
        started=False,
    )


def _check_listener(paths: StatePaths, connection: socket.socket) -> None:
    listener = peer_of(connection)
    if listener.uid not in (0, os.geteuid()):
        raise Unreachable(
            "socket-of-another",
            f"{paths.daemon_socket} is not ours: process {listener.pid} of user id {listener.uid} "
            "listens on it",
            "choose another directory with --state, or have that process ended",
        )


def _ask(paths: StatePaths, connection: socket.socket) -> StatusReport | None:
    """What the daemon says of itself; None where it went away without a word."""
    requests = (Request(1, Hello(PROTOCOL_VERSION)), Request(2, Status()))
    connection.sendall(b"".join(map(request_frame, requests)))
    frames = FrameReader()
    while data := connection.recv(65_536):
        try:
            replies = [decode_reply(payload) for payload in frames.feed(data)]
        except (MalformedMessage, FrameTooLong):
            raise _not_ours(paths) from None
        for reply in replies:
            if isinstance(reply, Failure):
                raise Unreachable(reply.code, reply.message, reply.hint)
            if not isinstance(reply, Answer) or not isinstance(reply.body, Welcome | StatusReport):
                raise _not_ours(paths)
            if isinstance(reply.body, StatusReport):
                return reply.body
    return None


def _not_ours(paths: StatePaths) -> Unreachable:
    return Unreachable(
        "socket-not-ours",
        f"what listens on {paths.daemon_socket} is not iriai's daemon",
        "choose another directory with --state, or end that process",
    )


def _await_answer(paths: StatePaths, since_s: float, supervisor: Watched | None) -> Standing:
    """The daemon once it answers; `supervisor` is the process to watch, where it is ours."""
    deadline_s = time.monotonic() + START_WAIT_S
    standing = None
    while time.monotonic() < deadline_s:
        standing = _standing(paths)
        if standing is not None and standing.is_complete:
            return standing._replace(started=True)
        # Our own supervisor has the last word, once it has ended; of another we ask the daemon.
        if supervisor is not None and supervisor.ended():
            if not supervisor.child:  # whoever waits for that one hears from it
                raise Unreachable("supervisor-ended", "the supervisor has ended")
            supervisor.exit_code()
            supervisor = None
        parts = ("supervisor", "daemon") if supervisor is None else ()
        for problem in (_why_not(paths, part, since_s) for part in parts):
            if problem is not None:
                raise problem
        time.sleep(_PAUSE_S)
    what = "the daemon has not answered" if standing is None else "the launcher has not come up"
    raise Unreachable(
        "daemon-silent" if standing is None else "launcher-missing",
        f"{what} for {START_WAIT_S:.0f} s",
        f"see the files in {paths.log}",
    )


def _why_not(paths: StatePaths, part: str, since_s: float) -> Problem | None:
    """The problem that `part` has named since then, if any."""
    with suppress(OSError):
        if Path(paths.end(part)).stat().st_mtime < since_s - _CLOCK_COARSENESS_S:
            return None
    ending = read_ending(paths.end(part))
    return ending.problem() if ending is not None and ending.exit_code != 0 else None


def _announce_later(paths: StatePaths, announce: Callable[[Standing], None]) -> None:
    """Have a process of its own wait for the daemon, since this one is about to be another."""
    supervisor = os.getpid()
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    try:
        # Twice, so that nobody has to bury the one that waits.
        if os.fork() == 0:
            with suppress(Problem):
                announce(_await_answer(paths, time.time(), adopt(supervisor)))
    finally:
        os._exit(0)

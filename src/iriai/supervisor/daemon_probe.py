"""Probes the daemon of a state directory without trusting the answers."""

from __future__ import annotations

import os
import socket
from typing import NamedTuple

from iriai.model.paths import StatePaths
from iriai.model.problem import Unreachable
from iriai.protocol.messages.effects import Part
from iriai.state.role import EVERY_PART
from iriai.state.state_directory import problem_of
from iriai.system.frames import FrameReader, FrameTooLong
from iriai.system.lock_file import lock_holder
from iriai.system.passwd_cache import peer_of
from iriai.wire.codec import MalformedMessage, decode_reply, request_frame
from iriai.wire.envelopes import Answer, Request
from iriai.wire.reports import Status, StatusReport
from iriai.wire.requests import (
    PROTOCOL_VERSION,
    Failure,
    Hello,
    Welcome,
)

_ANSWER_WAIT_S = 10.0
"""A daemon answers between two turns, which take milliseconds."""


class DaemonProbe(NamedTuple):
    """A daemon that answers. After `up`, None stands only for a part that the machine lacks."""

    home: str
    state_directory: str
    socket: str
    daemon_pid: int
    launcher_pid: int | None
    """Of the launcher that the daemon is connected to."""
    supervisor_pid: int | None
    started: bool
    """Whether this `up` started it, or a part of it; else everything ran already."""
    parts: tuple[str, ...] = tuple(EVERY_PART)
    rc: str = ""
    """The rc file that this daemon ran, or began to."""
    rc_problem: str = ""
    """Why not all of it."""

    @property
    def runs_new_tasks(self) -> bool:
        """Whether tasks run here from this `up` on."""
        return self.started and Part.NODE in self.parts

    @property
    def is_complete(self) -> bool:
        """Whether every part of this machine runs."""
        runs_things = Part.NODE in self.parts or Part.HOME in self.parts
        has_launcher = self.launcher_pid is not None or not runs_things
        return has_launcher and self.supervisor_pid is not None


def probe(paths: StatePaths) -> DaemonProbe | None:
    """Return the daemon that answers now, or None.

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
            f"the process that listens on {paths.daemon_socket} has not answered for "
            f"{_ANSWER_WAIT_S:.0f} s",
            f"see {paths.log_of('daemon')}",
        ) from None
    except OSError as error:
        raise problem_of(error, paths.daemon_socket) from None
    if report is None:
        return None
    return DaemonProbe(
        report.home,
        report.state_directory,
        paths.daemon_socket,
        report.daemon_pid,
        report.launcher_pid,
        lock_holder(paths.lock("supervisor")),
        started=False,
        parts=report.parts,
        rc=report.rc,
        rc_problem=report.rc_problem,
    )


def _check_listener(paths: StatePaths, connection: socket.socket) -> None:
    listener = peer_of(connection)
    if listener.uid not in (0, os.geteuid()):
        raise Unreachable(
            "socket-of-another",
            f"{paths.daemon_socket} is not ours: process {listener.pid} of user id {listener.uid} "
            "listens on it",
            "choose another directory with --state, or end that process",
        )


def _ask(paths: StatePaths, connection: socket.socket) -> StatusReport | None:
    """Return the status of the daemon; None if it closed the connection without an answer."""
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
        f"the process that listens on {paths.daemon_socket} is not the daemon of iriai",
        "choose another directory with --state, or end that process",
    )

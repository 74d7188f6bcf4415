"""The connection to a daemon: where daemons listen, reconnection, and waits that survive it."""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from msgspec.structs import astuple, replace

from iriai.client.rpc_channel import ConnectionLost, RpcChannel, Transport
from iriai.model.paths import (
    STATE_VARIABLE,
    SYSTEM_STATE_DIRECTORY,
    StatePaths,
    check_socket_path,
    user_state_directory,
)
from iriai.model.problem import NotAllowed, Unreachable, UsageProblem
from iriai.wire.exchange import IDS_MAX
from iriai.wire.requests import Outcome, OutputPiece, Progress, ReadOutput, Wait, Waited

if TYPE_CHECKING:
    from iriai.wire.steps import ReadStep

RETURN_WAIT_S = 30.0
"""How long a wait tolerates an offline daemon: a restart takes seconds, an upgrade some more."""
RETRY_S = 0.1
"""Pause between attempts to reach an offline daemon."""
_POLL_S = 3600.0
WAIT_S = 10.0
"""How long the home waits for new output; a terminal whose client is gone is closed later."""

OnProgress = Callable[[Progress], None]
OnLost = Callable[[], None]


class JobWait:
    """A wait for jobs and tasks to finish; call `poll` until it returns outcomes.

    Tasks run on while their daemon is offline. So does the wait: it repeats its requests when the
    daemon answers again, and gives up after `RETURN_WAIT_S`. `on_lost` is called when the
    connection is lost.
    """

    def __init__(
        self,
        connection: Connection,
        names: tuple[str, ...],
        on_progress: OnProgress | None,
        on_lost: OnLost | None,
    ) -> None:
        self._connection = connection
        self._names = names
        self._on_progress = on_progress
        self._on_lost = on_lost
        self._numbers: list[int] | None = None
        """Numbers of the requests: one, or several for very many names; None while offline."""
        self._outcomes: list[Outcome] = []
        """Outcomes from the requests that were answered."""
        self._progress: dict[int, Progress] = {}
        """The latest progress of each request."""
        self._give_up_s = 0.0
        self._begin()

    @property
    def is_lost(self) -> bool:
        """Whether the daemon is offline."""
        return self._numbers is None

    def poll(self, timeout_s: float = _POLL_S) -> tuple[Outcome, ...] | None:
        """Return how each job or task ended; None if some have not ended within `timeout_s`.

        May return None earlier. Raises the `Problem` with which the daemon refuses the wait, and
        `Unreachable` if it has been offline for too long.
        """
        if self._numbers is None:
            self._return(timeout_s)
            return None
        try:
            while self._numbers:
                channel = self._connection.channel
                waited = channel.poll(self._numbers[0], Waited, timeout_s)
                if waited is None:
                    return None
                self._outcomes += waited.outcomes
                del self._numbers[0]
        except ConnectionLost:
            self._lose()
            return None
        return tuple(self._outcomes)

    def _begin(self) -> None:
        self._outcomes, self._progress = [], {}
        numbers: list[int] = []
        try:
            for place, names in enumerate(pieces(self._names, IDS_MAX)):
                body = Wait(names, progress=self._on_progress is not None)
                listener = None if self._on_progress is None else partial(self._add_progress, place)
                numbers.append(self._connection.channel.begin(body, on_notice=listener))
        except ConnectionLost:
            self._lose()
        else:
            self._numbers = numbers

    def _add_progress(self, place: int, progress: Progress) -> None:
        """Report the sums over all requests, of which one has new progress."""
        self._progress[place] = progress
        if self._on_progress is not None:
            counts = map(astuple, self._progress.values())
            self._on_progress(Progress(*map(sum, zip(*counts, strict=True))))

    def _lose(self) -> None:
        self._numbers = None
        self._give_up_s = time.monotonic() + RETURN_WAIT_S
        if self._on_lost is not None:
            self._on_lost()

    def _return(self, timeout_s: float) -> None:
        try:
            self._connection.reconnect()
        except Unreachable:
            if time.monotonic() > self._give_up_s:
                raise
            time.sleep(min(RETRY_S, timeout_s))
            return
        self._begin()


class OutputReader:
    """Reads one output of a task of `run`, or of a job step, from its home.

    The home waits where nothing is new.
    """

    def __init__(self, connection: Connection, first: ReadOutput | ReadStep) -> None:
        self._connection = connection
        self._first = first
        self._asked: tuple[RpcChannel, int] | None = None
        """The connection and number of the request that is not answered yet."""

    def poll(self, offset: int) -> OutputPiece | None:
        """Return what follows `offset`; None if nothing has come yet. Raises `ConnectionLost`."""
        channel = self._connection.channel
        if self._asked is None or self._asked[0] is not channel:
            self._asked = channel, channel.begin(replace(self._first, offset=offset, wait_s=WAIT_S))
        piece = channel.poll(self._asked[1], OutputPiece, 0.0)
        if piece is not None:
            self._asked = None
        return piece

    def read(self, offset: int, wait_s: float = 0.0) -> OutputPiece:
        """Return what follows `offset`, at once or after `wait_s`. Raises `ConnectionLost`."""
        return self._connection.channel.ask(replace(self._first, offset=offset, wait_s=wait_s))


def pieces(names: tuple[str, ...], most: int) -> Iterator[tuple[str, ...]]:
    """Split `names` into pieces of about the same size, at most `most`; at least one piece.

    No piece of several has a single name: a problem with the only name of a request fails the whole
    request, which would hide the results of the others.
    """
    count = max(1, -(-len(names) // most))
    bounds = [len(names) * place // count for place in range(count + 1)]
    for first, last in pairwise(bounds):
        yield names[first:last]


CONNECT_WAIT_S = 10.0
"""Time after which a daemon with a full queue of connections is considered unresponsive."""


def candidate_directories(
    option: str | None, environment: Mapping[str, str], uid: int
) -> tuple[str, ...]:
    """Return the state directories in which a client searches for a daemon, the preferred first.

    A directory named by `option` or the environment is the only one: a job must not go to another
    daemon because the named one is down.
    """
    named = option or environment.get(STATE_VARIABLE)
    if named:
        return (_absolute(named),)
    if uid == 0:
        return (SYSTEM_STATE_DIRECTORY,)
    try:
        own = user_state_directory(environment)
    except UsageProblem:  # no home directory, hence no daemon of the user
        return (SYSTEM_STATE_DIRECTORY,)
    return (own, SYSTEM_STATE_DIRECTORY)


def _absolute(path: str) -> str:
    """Return `path` from the root; links stay as they are, and so does `..` behind one."""
    names = os.path.join(os.getcwd(), path).split("/")
    return "/" + "/".join(name for name in names if name not in ("", "."))


def open_connection(directories: tuple[str, ...]) -> tuple[socket.socket, str]:
    """Connect to the first daemon that listens; return the connection and the path of its socket.

    Raises:
        UsageProblem: a path is longer than the system allows.
        NotAllowed: this user may not connect to the socket.
        Unreachable: nobody listens.
    """
    paths = [StatePaths(directory).daemon_socket for directory in directories]
    for path in paths:
        connection = _try(path)
        if connection is not None:
            return connection, path
    raise Unreachable(
        "no-daemon",
        f"no daemon is running: nothing listens on {' or '.join(paths)}",
        "start one with 'iriai up', or name its state directory with --state",
    )


NO_FRONT_END = "no-front-end"
"""Code of the problem that nobody listens at the socket of a front end."""


def open_front_end(path: str) -> tuple[socket.socket, str]:
    """Connect to the socket of a front end; return the connection and `path`.

    Raises the same problems as `open_connection`.
    """
    connection = _try(path)
    if connection is None:
        raise Unreachable(
            NO_FRONT_END,
            f"this is a back end, and its front end is not running: nothing listens on {path}",
            "start it with 'iriai up'; 'iriai status' and 'iriai nodes' show this machine alone",
        )
    return connection, path


def _try(path: str) -> socket.socket | None:
    """Return a connection to the socket at `path`, or None if no process listens."""
    check_socket_path(path)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # A time-out, since connect(2) on a non-blocking socket fails at once if the queue is full.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _timeval(CONNECT_WAIT_S))
        connection.connect(path)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _timeval(0.0))
    except (FileNotFoundError, NotADirectoryError):
        connection.close()
        return None
    except OSError as error:
        connection.close()
        from pathlib import Path

        if isinstance(error, ConnectionRefusedError) and Path(path).is_socket():
            return None
        raise _problem_of(error, path) from None
    return connection


def _timeval(seconds: float) -> bytes:
    """Return a time-out in the form of setsockopt(2); 0 is no limit."""
    whole = int(seconds)
    return struct.pack("@ll", whole, int((seconds - whole) * 1e6))


def _problem_of(error: OSError, path: str) -> NotAllowed | Unreachable:
    if isinstance(error, PermissionError):
        return NotAllowed(
            "not-your-socket",
            f"you may not connect to {path}",
            "it is another user's daemon: start your own with 'iriai up', or name one with --state",
        )
    if isinstance(error, TimeoutError | BlockingIOError):
        return Unreachable(
            "daemon-silent",
            f"the process that listens on {path} has not accepted a connection for "
            f"{CONNECT_WAIT_S:.0f} s",
            "it may be stopped or overloaded: see log/daemon.log in its state directory",
        )
    if isinstance(error, ConnectionRefusedError):
        return Unreachable(
            "not-a-socket", f"{path} is not a socket", "name another directory with --state"
        )
    return Unreachable(
        "no-daemon", f"{path} cannot be reached ({os.strerror(error.errno or 0)})", ""
    )


class Connection:
    """A connection to a daemon that can be made again.

    The constructor connects; it raises the same problems as `Client.connect`.
    """

    def __init__(self, directories: tuple[str, ...], *, follow: bool, token: str = "") -> None:
        """With `follow`, a back end is left for its front end, which accepts jobs.

        With a `token`, connect over the network to the machine that it names.
        """
        self._token = token
        self._directories = directories
        self._follow = follow
        self.channel = self._reach()
        """The current connection's requests and answers."""

    def reconnect(self) -> None:
        """Connect again; answers to earlier requests are not received any more."""
        fresh = self._reach()
        self.channel.close()
        self.channel = fresh

    def _reach(self) -> RpcChannel:
        if self._token:
            from iriai.client.remote import authenticated
            from iriai.model.token_text import TokenKind, parse_token

            return authenticated(parse_token(self._token, TokenKind.USER))
        channel = _open_channel(*open_connection(self._directories))
        front = channel.welcome.front
        if not (self._follow and front):
            return channel
        channel.close()
        return _open_channel(*open_front_end(front))


def _open_channel(connection: socket.socket, path: str) -> RpcChannel:
    try:
        return RpcChannel(Transport(connection, path))
    except BaseException:
        connection.close()
        raise

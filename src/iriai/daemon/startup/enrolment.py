"""A back end becomes a member of its front end's cluster, over a socket of their host.

It does what `iriai token` there and `iriai join` here do; the kernel proves who asks.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from iriai.client.client import Client
from iriai.client.connection import NO_FRONT_END, open_front_end
from iriai.client.remote import ask_to_join
from iriai.identity.certificates.machine_identity import Enrolment
from iriai.identity.enrolment.bootstrap import ALREADY_MEMBER, enter_cluster
from iriai.model.paths import StatePaths, state_directory_of
from iriai.model.problem import NotAllowed, Problem, Refused, Unreachable
from iriai.model.token_text import TokenKind, parse_token
from iriai.state.joining import found
from iriai.state.state_directory import StateIdentity, daemon_owner, problem_of
from iriai.system.passwd_cache import peer_of
from iriai.wire.joining import NOTHING_TO_TAKE_UP, MakeToken, ShowCluster

TOKEN_LIFETIME_S = 60.0
FOUNDED_WAIT_S = 10.0
"""Time for the front end to start again as a member of the cluster that was founded for it."""
POLL_S = 0.1
RETRY_MIN_S = 0.05
"""A front end that was restarted is back within a second or two."""
RETRY_MAX_S = 2.0
"""The longest pause while no front end listens."""
REFUSED_RETRY_S = 10.0
"""Pause after a refusal, which an operator has to resolve."""


def enrol(paths: StatePaths, identity: StateIdentity, owner_uid: int) -> None:
    """Make this machine a member of its front end's cluster, which is founded if there is none.

    Blocks. The front end's daemon must be root's, or the owner's. Raises a `Problem`; then nothing
    was written here.
    """
    _check_listener(identity.front, owner_uid)
    deadline_s = time.monotonic() + FOUNDED_WAIT_S
    while True:
        try:
            if _join(paths, identity):
                return
        except Unreachable:  # it may be starting again, as it does when its cluster is founded
            if time.monotonic() > deadline_s:
                raise
        if time.monotonic() > deadline_s:
            raise Unreachable("front-end-alone", "the front end has not entered its cluster yet")
        time.sleep(POLL_S)


def _check_listener(front: str, owner_uid: int) -> None:

    connection, _ = open_front_end(front)
    try:
        listener = peer_of(connection)
    except OSError as error:
        raise problem_of(error, front) from None
    finally:
        connection.close()
    if listener.uid not in (0, owner_uid):
        raise NotAllowed(
            "foreign-front-end",
            f"the process that listens at {front} has user id {listener.uid}; a front end decides "
            "whose tasks run here, so it must belong to root or to this machine's owner",
        )


def _join(paths: StatePaths, identity: StateIdentity) -> bool:
    """Join; return False if the front end is not in its cluster yet. Raises a `Problem`."""
    with Client.connect(state_directory_of(identity.front), follow=False) as client:
        if not client.ask(ShowCluster()).cluster:
            _found(client)
            return False
        front_end = client.welcome.home
        request = MakeToken(
            "join",
            TOKEN_LIFETIME_S,
            machine=identity.home,
            address=identity.role.front_address,
        )
        token = parse_token(client.ask(request).text, TokenKind.JOIN)
    key_file = Path(f"{paths.directory}/enrolment.key")
    try:
        key_file.touch(mode=0o600)
    except OSError as error:
        raise problem_of(error, paths.directory) from None
    enrolment = Enrolment.resume(identity.home, str(key_file))
    joined = ask_to_join(token, "", identity.home, enrolment.request())
    enter_cluster(paths, enrolment, token, joined, daemon_owner(paths), front_end)
    key_file.unlink(missing_ok=True)
    return True


def _found(client: Client) -> None:
    """Found a cluster of this host for the front end; ignore that another has done so."""
    name = client.welcome.home
    try:
        found(StatePaths(client.welcome.state_directory), name, name, is_host_only=True)
    except Refused as problem:
        if problem.code != ALREADY_MEMBER:  # else another back end was first
            raise
    with suppress(Unreachable):  # it starts again
        try:
            client.reload_identity()
        except Refused as problem:
            if problem.code != NOTHING_TO_TAKE_UP:
                raise


class EnrolmentRetry:
    """Has the daemon of a back end start again once its front end may enrol it."""

    def __init__(self, front: str, problem: Problem, restart: Callable[[], None]) -> None:
        """`problem` is why it was not enrolled at the start."""
        self._front = front
        self._problem = problem
        self._restart = restart
        is_awaited = problem.code == NO_FRONT_END
        self._pause_s = RETRY_MIN_S if is_awaited else REFUSED_RETRY_S
        self._timer = self._look_later()

    def trouble(self) -> str:
        """Return what is wrong, for `status` and `doctor`."""
        where = f"the front end at {self._front}"
        return f"{where} is not linked, so nothing new is started: {self._problem}"

    def close(self) -> None:
        """Look no more."""
        self._timer.cancel()

    def _look_later(self) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(self._pause_s, self._look)

    def _look(self) -> None:
        self._pause_s = min(RETRY_MAX_S, self._pause_s * 1.5)
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        connection.setblocking(False)
        try:
            connection.connect(self._front)
        except OSError:  # nobody listens
            self._timer = self._look_later()
        else:
            self._restart()
        finally:
            connection.close()

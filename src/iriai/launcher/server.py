"""The loop: one socket, one daemon at a time, children, timers and alarms."""

from __future__ import annotations

import errno
import logging
import os
import select
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress

from iriai.launcher.connection import BufferedSocket, PeerProblem
from iriai.launcher.contract.messages import (
    LAUNCHER_VERSION,
    Attach,
    ToLauncher,
    VersionRefused,
)
from iriai.launcher.launcher import Launcher, MessageProblem
from iriai.launcher.system.syscalls import BlockedSignals, BootTimer
from iriai.system.clock import steady_s
from iriai.system.passwd_cache import peer_of

log = logging.getLogger(__name__)

PATH_BYTES_MAX = 107
"""Of a Unix socket's address."""
GATHER_S = 0.004
"""With many tasks, events within this time are one turn: one write of the journal, one message, and
one turn and commit of the daemon serve several tasks. With a longer time, short tasks would run
out."""


def listen(path: str, daemon_uid: int) -> socket.socket:
    """Return a listening socket that only `daemon_uid` and root can connect to.

    The daemon's user creates it: the directory may be the daemon's, and a later change of the owner
    of a name in it could be redirected to another file. Raises OSError.
    """
    fresh = f"{path}.new"
    if len(os.fsencode(fresh)) > PATH_BYTES_MAX:
        longest = PATH_BYTES_MAX - len(".new")
        raise OSError(errno.ENAMETOOLONG, f"the socket's path is over {longest} bytes: {path}")
    own_uid = os.geteuid()
    result = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o177)
    try:
        os.seteuid(daemon_uid)
        try:
            _bind(result, fresh)
        except PermissionError:
            os.seteuid(own_uid)  # the directory is not the daemon's, who cannot interfere
            _bind(result, fresh)
            os.chown(fresh, daemon_uid, -1, follow_symlinks=False)
        result.setblocking(False)
        result.listen()
        os.rename(fresh, path)  # the name appears once it accepts connections
    finally:
        os.seteuid(own_uid)
        os.umask(mask)
    return result


def _bind(unbound: socket.socket, path: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)
    unbound.bind(path)


class Server:
    """Connects the launcher to the outside."""

    def __init__(self, daemon_uid: int) -> None:
        """No other thread may have been started yet (see `BlockedSignals`)."""
        self._allowed_uids = (0, daemon_uid)
        self._epoll = select.epoll()
        self._handlers: dict[int, Callable[[], None]] = {}
        self._timer = BootTimer()
        self._connection: BufferedSocket | None = None
        self._is_attached = False
        self._launcher: Launcher
        """Set by `serve`; nothing is handled before."""
        self._reported_s = 0.0
        self._signals = BlockedSignals(signal.SIGCHLD, signal.SIGTERM, signal.SIGINT)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # of a terminal that tasks outlive
        self.call_when_readable(self._signals.fd, self._handle_signals)
        self.call_when_readable(self._timer.fd, self._timer.acknowledge)

    def serve(self, launcher: Launcher, listening: socket.socket) -> None:
        """Run until the launcher has been shut down."""
        self._launcher = launcher
        self._listening = listening
        self.call_when_readable(listening.fileno(), self._accept)
        launcher.children_ended = True
        while not launcher.is_finished:
            self._timer.set(launcher.next_s())
            self._poll(0 if launcher.has_work else None)
            self._gather(launcher)
            self._report()
            self._reported_s = steady_s()
        self._disconnect()
        listening.close()

    def _poll(self, timeout_s: float | None) -> None:
        """Handle what has arrived; with None, wait until something arrives."""
        for fd, _ in self._epoll.poll(timeout_s):
            handler = self._handlers.get(fd)
            if handler is None:
                continue
            try:
                handler()
            except Exception as error:  # noqa: BLE001 - it costs this event, or the connection
                words = self._launcher.defects.record("handling an event", error, "closed it")
                if self._connection is not None and self._connection.fd == fd:
                    self._disconnect(words)

    def _gather(self, launcher: Launcher) -> None:
        """With many tasks, wait a little since the last turn, so that more arrives."""
        if not launcher.is_crowded:
            return
        rest_s = self._reported_s + GATHER_S - steady_s()
        if rest_s > 0:
            time.sleep(rest_s)
            self._poll(0)

    def _report(self) -> None:
        messages = self._launcher.turn()
        connection = self._connection
        if connection is None:
            return
        try:
            if self._is_attached and (messages or connection.is_waiting):
                connection.send(messages)
        except PeerProblem as problem:
            self._disconnect(str(problem))
            return
        self._wait_for_writing(connection)

    _waits_for_writing = False

    def _wait_for_writing(self, connection: BufferedSocket) -> None:
        if connection.is_waiting != self._waits_for_writing:
            self._waits_for_writing = connection.is_waiting
            wanted = select.EPOLLOUT if connection.is_waiting else 0
            self._epoll.modify(connection.fd, select.EPOLLIN | wanted)

    def _accept(self) -> None:
        try:
            accepted, _ = self._listening.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        except OSError as error:  # no descriptor is left, for now
            log.warning("a connection cannot be accepted: %s", error.strerror)
            return
        pid, uid, _ = peer_of(accepted)
        if uid not in self._allowed_uids:
            log.warning("refused a connection of process %d, user id %d", pid, uid)
            accepted.close()
            return
        if self._connection is not None:
            self._disconnect("a newer connection replaces it")
        self._connection = BufferedSocket(accepted)
        self._is_attached = False
        self.call_when_readable(self._connection.fd, self._receive)
        log.info("process %d of user id %d connected", pid, uid)

    def _receive(self) -> None:
        connection = self._connection
        if connection is None:
            return
        try:
            for message in connection.receive():
                self._handle(connection, message)
        except (PeerProblem, MessageProblem) as problem:
            self._disconnect(str(problem))

    def _handle(self, connection: BufferedSocket, message: ToLauncher) -> None:
        if self._is_attached:
            try:
                self._launcher.handle(message)
            except MessageProblem:
                raise
            except Exception as error:  # noqa: BLE001 - it costs this message alone
                self._launcher.defects.record(f"handling {type(message).__name__}", error)
        elif isinstance(message, Attach):
            if message.version != LAUNCHER_VERSION:
                connection.send([VersionRefused(LAUNCHER_VERSION)])
                raise PeerProblem(
                    f"the daemon uses version {message.version} of the launcher's protocol, "
                    f"this launcher version {LAUNCHER_VERSION}"
                )
            connection.send(self._launcher.attach(message))
            self._is_attached = True
        else:
            raise PeerProblem("the first message was not Attach")

    def _handle_signals(self) -> None:
        numbers = self._signals.read()
        self._launcher.children_ended = True
        if signal.SIGTERM in numbers or signal.SIGINT in numbers:
            self._launcher.shut_down()

    def _disconnect(self, reason: str = "") -> None:
        if self._connection is not None:
            if reason:
                log.warning("connection closed: %s", reason)
            del self._handlers[self._connection.fd]
            self._connection.close()
            self._connection = None
            self._is_attached = self._waits_for_writing = False

    def call_no_more(self, fd: int) -> None:
        """End what `call_when_readable` began, before `fd` is closed."""
        with suppress(FileNotFoundError):
            self._epoll.unregister(fd)
        self._handlers.pop(fd, None)

    def call_when_readable(self, fd: int, handler: Callable[[], None]) -> None:
        """Call `handler` whenever `fd` is readable."""
        with suppress(FileExistsError):
            self._epoll.register(fd, select.EPOLLIN)
        self._handlers[fd] = handler

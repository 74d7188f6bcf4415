"""The back end's side of its link: dials the front end, again after each break.

Without a link tasks go on, and the node's messages are lost: it repeats what matters on `LinkUp`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable

from iriai import __version__
from iriai.daemon.loop.engine import Engine
from iriai.daemon.loop.routes import Outgoing, StreamMessage
from iriai.daemon.net.link import LinkOwner, MachineLink
from iriai.daemon.payloads.remote_payloads import RemotePayloads
from iriai.daemon.startup.settings import DaemonSettings
from iriai.daemon.transport.socket_stream import FramedStream
from iriai.jobs.payloads import PayloadStore
from iriai.links.session import LOCAL, LinkSession, Texts
from iriai.protocol.messages.effects import Delivered, LinkDown, LinkUp, Part, Send
from iriai.protocol.messages.scheduling import Message
from iriai.system.clock import now as read_clocks
from iriai.system.passwd_cache import peer_of
from iriai.wire.codec import MalformedMessage, decode_reply, request_frame
from iriai.wire.links import Bid, OutOfPlace
from iriai.wire.machines import Link, Linked, LinkRow, MemberRow
from iriai.wire.parts import PARTS_VERSION
from iriai.wire.requests import (
    PROTOCOL_VERSION,
    Answer,
    Failure,
    Hello,
    Reply,
    Request,
    RequestBody,
    Welcome,
)

log = logging.getLogger(__name__)

RETRY_MIN_S = 0.05
"""A front end that was restarted is back within a second or two."""
RETRY_MAX_S = 2.0
"""The longest pause while no front end listens."""
REFUSED_RETRY_S = 10.0
"""Pause after a refusal, which an operator has to resolve."""


OF_A_BACK_END = frozenset({Part.NODE, Part.SUCCESSION})
"""The parts of a back end that a front end may send messages to."""
FOREIGN = "the process that listens there is not a daemon of iriai"


class LocalUplink(LinkOwner):
    """The back end's link to its front end."""

    def __init__(
        self,
        settings: DaemonSettings,
        engine: Engine,
        payloads: PayloadStore,
        texts: RemotePayloads,
        on_bid: Callable[[MachineLink, Bid], None],
    ) -> None:
        """`on_bid` takes each request of an operator of the front end."""
        engine.routes.take(Outgoing, lambda outgoing: self.send(outgoing.sends))
        self._front = ""
        """The name of the front end; empty: it has not answered yet."""
        self._on_bid = on_bid
        self._settings = settings
        self._engine = engine
        self._payloads = payloads
        self._texts = texts
        self._loop = asyncio.get_running_loop()
        self._dialer: FramedStream | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._link: MachineLink | None = None
        self._pause_s = RETRY_MIN_S
        self._problem = "it has not answered yet"
        self._since_wall_s = read_clocks("uplink").wall_s
        self._is_closing = False

    # --- for the daemon --------------------------------------------------------------------------

    def send(self, sends: list[Send]) -> None:
        """Send the node's messages; without a link they are lost."""
        if self._link is not None:
            self._link.send(sends)

    def rows(self) -> tuple[LinkRow, ...]:
        """Return the state of the link, for people."""
        since_s = max(0.0, read_clocks("uplink").wall_s - self._since_wall_s)
        words = f"for {since_s:.0f} s"
        if self._link is not None:
            return (LinkRow(self._front, True, f"up {words}"),)
        return (LinkRow(self._front, False, f"{words}: {self._problem}"),)

    def members(self) -> tuple[MemberRow, ...]:
        """Return none: only a cluster over a network has members."""
        return ()

    def trouble(self) -> list[str]:
        """Return what is wrong with the link, for `status` and `doctor`."""
        if self._link is not None:
            return []
        where = f"the front end at {self._settings.role.front}"
        return [f"{where} is not linked, so nothing new is started: {self._problem}"]

    def close(self) -> None:
        """End the link."""
        self._is_closing = True
        if self._link is not None:
            self._link.close("the back end ends")
        if self._dialer is not None:
            self._dialer.close("the back end ends")

    # --- dialling --------------------------------------------------------------------------------

    def connect(self) -> None:
        """Dial now, and again after each failure."""
        if self._is_closing:
            return
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        connection.setblocking(False)
        try:
            connection.connect(self._settings.role.front)
            listener = peer_of(connection)
        except OSError as error:
            connection.close()
            self._failed(f"nothing listens there ({os.strerror(error.errno or 0)})")
            return
        if listener.uid not in (0, self._settings.owner_uid):
            connection.close()
            self._refused(
                f"the process that listens there has user id {listener.uid}; a front end "
                "decides whose tasks run here, so it must belong to root or to this machine's "
                "owner"
            )
            return
        self._dialer = FramedStream(connection, self._frames, self._closed)
        silence_s = self._settings.configuration.cluster.silence_s
        self._deadline = self._loop.call_later(
            silence_s, self._dialer.close, f"it has not answered for {silence_s:.0f} s"
        )
        self._ask(1, Hello(PROTOCOL_VERSION))

    def _ask(self, number: int, body: RequestBody) -> None:
        if self._dialer is not None:
            self._dialer.write(request_frame(Request(number, body)))

    def _frames(self, frames: list[bytes]) -> None:
        for position, payload in enumerate(frames):
            stream = self._dialer
            if stream is None:
                if self._link is not None:  # frames that arrived with `Linked`
                    self._link.receive(frames[position:])
                return
            try:
                self._answered(decode_reply(payload))
            except MalformedMessage:
                stream.close(FOREIGN)

    def _answered(self, reply: Reply) -> None:
        """Go one step on; `Link` follows `Welcome`, so that no dead connection becomes a link."""
        match reply:
            case Answer(_, Welcome()):
                settings = self._settings
                self._ask(2, Link(settings.home, settings.token, PARTS_VERSION, __version__))
            case Answer(_, Linked() as linked):
                self._linked(linked)
            case Failure():
                stream, self._dialer = self._dialer, None
                self._stop_waiting()
                if stream is not None:
                    stream.close("it refused")
                words = f"{reply.message}; {reply.hint}" if reply.hint else reply.message
                self._refused(words)
            case _ if self._dialer is not None:
                self._dialer.close(FOREIGN)

    def _linked(self, linked: Linked) -> None:
        stream, self._dialer = self._dialer, None
        if stream is None:
            return
        self._stop_waiting()
        self._front = linked.name
        self._pause_s = RETRY_MIN_S
        self._since_wall_s = read_clocks("uplink").wall_s
        profile = LOCAL._replace(silence_s=self._settings.configuration.cluster.silence_s)
        session = LinkSession(linked.name, read_clocks("uplink").steady_s, profile=profile)
        self._link = MachineLink(stream, session, self, self._payloads)
        log.info("linked with the front end %s", linked.name)
        self._texts.forget(linked.name)  # this front end sends what it relies on again
        self._engine.machine.follow(linked.name)
        self._link_changed(LinkUp(linked.name))

    def _link_changed(self, event: LinkUp | LinkDown) -> None:
        self._engine.event(event)
        self._engine.routes.tell(event)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _closed(self, reason: str) -> None:
        """Handle the end of a connection that is no link yet."""
        self._stop_waiting()
        if self._dialer is not None:
            self._dialer = None
            self._failed(reason)

    def _failed(self, problem: str) -> None:
        """Dial again soon: the front end may be restarting."""
        self._again(problem, self._pause_s)
        self._pause_s = min(RETRY_MAX_S, self._pause_s * 1.5)

    def _refused(self, problem: str) -> None:
        self._again(problem, REFUSED_RETRY_S)

    def _again(self, problem: str, pause_s: float) -> None:
        if problem != self._problem:
            log.warning("no link with %s: %s", self._settings.role.front, problem)
        self._problem = problem
        if not self._is_closing:
            self._loop.call_later(pause_s, self.connect)

    # --- events of the link ----------------------------------------------------------------------

    def delivered(self, link: MachineLink, part: Part, message: Message) -> None:
        """Handle a message of the front end's home or broker."""
        if part is Part.STREAMS:
            self._engine.routes.tell(StreamMessage(link.machine, message))
            return
        if part not in OF_A_BACK_END:
            raise OutOfPlace(f"a back end has no {part}")
        self._engine.event(Delivered(link.machine, part, message))

    def texts(self, link: MachineLink, texts: Texts, *, forget: bool) -> None:
        """Keep environments and scripts of tasks that follow."""
        self._texts.receive(link.machine, texts, forget=forget)

    def bid(self, link: MachineLink, bid: Bid) -> None:
        """Pass on a request of an operator of the front end."""
        self._on_bid(link, bid)

    def link_over(self, link: MachineLink, reason: str) -> None:
        """Notify the node, and dial again."""
        if self._link is not link:
            return
        self._link = None
        self._since_wall_s = read_clocks("uplink").wall_s
        self._link_changed(LinkDown(link.machine))
        self._failed(reason)

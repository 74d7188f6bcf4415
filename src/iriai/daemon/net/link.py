"""One link to another machine: the connection under a `LinkSession`, and its timer.

A silent link is closed: its unsent messages are lost, and both ends are notified.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

import msgspec

from iriai.daemon.transport.socket_stream import ignore
from iriai.jobs.payloads import PayloadStore
from iriai.links.session import LinkSession, PartMessages, Texts, TextsReceived
from iriai.model.instant import Instant
from iriai.protocol.messages.effects import Part, Send
from iriai.protocol.messages.scheduling import Message
from iriai.system.clock import now as read_clocks
from iriai.system.internal_errors import FAULTS
from iriai.wire.links import Bye, CircuitFrame, LinkFrame, OutOfPlace, Ping, Pong

if TYPE_CHECKING:
    from iriai.daemon.transport.tls_stream import FrameStream

log = logging.getLogger(__name__)

UNSENT_BYTES_MAX = 64 << 20
"""Unsent bytes for a machine that does not read; when it returns, everything is sent again."""
LAST_WORD_S = 2.0
"""Time for the other machine to read why its link is closed, and to close it."""


class LinkOwner(Protocol):
    """The owner of a link, which receives its messages."""

    def delivered(self, link: MachineLink, part: Part, message: Message) -> None:
        """Handle a message for a part of this machine."""

    def texts(self, link: MachineLink, texts: Texts, *, forget: bool) -> None:
        """Keep environments and scripts of the other machine by their digests.

        `forget`: the other machine relies on none that came before.
        """

    def circuit(self, link: MachineLink, frame: CircuitFrame) -> None:
        """Handle a frame of a circuit through the other machine, or through this one."""

    def bye(self, link: MachineLink, reason: str) -> None:
        """Handle the last frame of the other machine on this link."""

    def link_over(self, link: MachineLink, reason: str) -> None:
        """Handle the end of the link, after everything that had arrived."""


class MachineLink:
    """A link to another machine."""

    def __init__(
        self,
        stream: FrameStream,
        session: LinkSession,
        owner: LinkOwner,
        payloads: PayloadStore,
    ) -> None:
        self.machine = session.machine
        """The other end."""
        self.began_wall_s = read_clocks("link").wall_s
        self.session = session
        self._owner = owner
        self._payloads = payloads
        self._stream = stream
        self._loop = asyncio.get_running_loop()
        self._is_over = False
        self._timer = self._loop.call_later(session.keepalive.ping_s, self._tick)
        stream.unsent_bytes_max = UNSENT_BYTES_MAX
        stream.redirect(self.receive, self._closed)
        self._ping()

    @property
    def is_closed(self) -> bool:
        """Whether the link is closed."""
        return self._is_over or self._stream.is_closed

    def send(self, sends: Iterable[Send]) -> None:
        """Send these messages, in order, in as few frames as their sizes allow."""
        for frame in self.session.frames(sends, self._payloads.get, _steady_s()):
            self._stream.write(frame)

    def send_frame(self, content: LinkFrame) -> None:
        """Send one frame."""
        self._stream.write(self.session.frame(content, _steady_s()))

    def close(self, reason: str) -> None:
        """Handle everything that has arrived, then end the link."""
        self._stream.read_out()
        self._stream.close(reason)

    def end(self, reason: str) -> None:
        """End the link at once: the other machine sends nothing more."""
        self._stream.close(reason)

    def break_off(self, reason: str) -> None:
        """End the link because of the other machine, and send it the reason."""
        log.warning("the link with %s is closed: %s", self.machine, reason)
        self.send_frame(Bye(reason))
        # Closing while something is unread would reset the connection, and the reason be lost.
        self._stream.redirect(ignore, ignore)
        self._loop.call_later(LAST_WORD_S, self._stream.close, reason)
        self._closed(reason)

    # --- in --------------------------------------------------------------------------------------

    def receive(self, frames: list[bytes]) -> None:
        """Handle frames of the other machine."""
        now = read_clocks("link")
        for payload in frames:
            if self.is_closed:
                return
            try:
                self._receive_frame(payload, now)
            except (msgspec.MsgspecError, OutOfPlace) as error:
                self.session.blame(is_at_fault=True)
                self.break_off(f"it violates the protocol: {error}")
            except Exception as error:  # noqa: BLE001 - see system.internal_errors
                self.break_off(FAULTS.note(f"the link with {self.machine}", error))

    def _receive_frame(self, payload: bytes, now: Instant) -> None:
        owner = self._owner
        for event in self.session.receive(payload, now):
            match event:
                case PartMessages(messages):
                    for message, part in messages:
                        owner.delivered(self, part, message)
                case TextsReceived(texts, forget):
                    owner.texts(self, texts, forget=forget)
                case Pong():
                    self.send_frame(event)
                case Bye():
                    owner.bye(self, event.reason)
                case _:
                    owner.circuit(self, event)

    # --- keepalive -------------------------------------------------------------------------------

    def _tick(self) -> None:
        try:
            self._poll()
        except Exception as error:  # noqa: BLE001 - see system.internal_errors
            self._stream.close(FAULTS.note(f"the link with {self.machine}", error))

    def _poll(self) -> None:
        now_s, keepalive = _steady_s(), self.session.keepalive
        pause_s = self.session.poll(now_s)
        if keepalive.is_silent(now_s):
            # This process may have been stopped, with its messages waiting to be read.
            self._stream.read_out()
            keepalive.forgive(pause_s, now_s)
        if self.is_closed:
            return
        if keepalive.is_silent(now_s):
            self._stream.close(f"it has not answered for {keepalive.silence_s:.0f} s")
            return
        self._timer = self._loop.call_later(keepalive.ping_s, self._tick)
        if keepalive.is_ping_due(now_s) or self.session.is_clock_due(now_s):
            self._ping()

    def _ping(self) -> None:
        self.send_frame(Ping(_steady_s()))

    def _closed(self, reason: str) -> None:
        self._is_over = True
        self._timer.cancel()
        self.session.blame(is_at_fault=self._stream.is_at_fault)
        self.session.close()
        self._owner.link_over(self, reason)


def _steady_s() -> float:
    return read_clocks("link").steady_s

"""One link to another machine: frames out in a batch per turn, frames in, keepalive.

It begins when both ends have agreed on it, over any connection and whoever dialled. A silent link
is closed: its unsent messages are lost, both ends are notified, and the next link starts afresh, so
that neither end acts on old messages.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec

from iriai.daemon.net.keepalive import Keepalive
from iriai.daemon.payloads.chunking import PayloadChunks, pieces
from iriai.daemon.payloads.payload_store import PassedDescriptors, PayloadStore
from iriai.daemon.transport.socket_stream import (
    DESCRIPTORS_MAX,
    close_descriptors,
    ignore,
    unbounded,
)
from iriai.model.instant import SILENCE_S
from iriai.protocol.clock_offset import ClockOffset
from iriai.protocol.delivery.authorization import is_answer
from iriai.protocol.messages.effects import Part, Send
from iriai.protocol.messages.scheduling import Message, Run
from iriai.system.clock import now as read_clocks
from iriai.system.internal_errors import FAULTS
from iriai.wire.links import (
    BATCH_BYTES_MAX,
    NETWORK_BATCH_BYTES_MAX,
    PIECE_BYTES,
    Batch,
    Bid,
    Bye,
    Carry,
    CarryOver,
    CircuitFrame,
    Credit,
    LinkFrame,
    Obeyed,
    OutOfPlace,
    Piece,
    Ping,
    Pong,
    link_frame,
)
from iriai.wire.links import decode_link_frame as decode
from iriai.wire.parts import Envelope, pack, unpack

if TYPE_CHECKING:
    from iriai.daemon.transport.tls_stream import FrameStream

log = logging.getLogger(__name__)

UNSENT_BYTES_MAX = 64 << 20
"""Unsent bytes for a machine that does not read; when it returns, everything is sent again."""
TEXTS_BYTES_MAX = 32 << 20
"""Of environments and scripts that the other end is relied on to have kept."""
MESSAGES_PER_S_MAX = 20_000
"""Messages accepted from a machine over a network: ten times what the busiest front end sends. More
is a flood, which would leave this machine no time for others."""
LAST_WORD_S = 2.0
"""Time for the other machine to read why its link is closed, and to close it."""
_BURST_S = 5.0
"""A burst after a pause may be so many seconds' worth of messages."""


Texts = tuple[tuple[str, bytes], ...]
"""Environments, scripts and inputs by their digests."""


class LinkProfile(NamedTuple):
    """Properties of a link that depend on the path between its ends."""

    is_network: bool
    """Whether frames cost and the other end is not trusted: see docs/spec/005."""
    batch_bytes_max: int
    silence_s: float = SILENCE_S
    """Time without an answer after which the other end is offline (`[cluster] silence_s`)."""


NO_QUESTIONS = (Pong, CarryOver, Carry, Credit)
"""Frames that need no answer on this link: `Pong` is an answer, and the ends of a circuit answer
each other."""

LOCAL = LinkProfile(is_network=False, batch_bytes_max=BATCH_BYTES_MAX)
NETWORK = LinkProfile(is_network=True, batch_bytes_max=NETWORK_BATCH_BYTES_MAX)


class LinkOwner(Protocol):
    """The owner of a link, which receives its messages; by default, as over a Unix socket."""

    def delivered(self, link: MachineLink, part: Part, message: Message) -> None:
        """Handle a message for a part of this machine."""

    def bid(self, link: MachineLink, bid: Bid) -> None:
        """Handle a request of an operator of the other machine."""
        raise OutOfPlace("an operator's request goes to the machine itself")

    def obeyed(self, link: MachineLink, answer: Obeyed) -> None:
        """Handle the answer to a request of an operator; nothing was requested."""
        return

    def texts(self, link: MachineLink, texts: Texts, *, forget: bool) -> None:
        """Keep environments and scripts of the other machine by their digests.

        `forget`: the other machine relies on none that came before.
        """
        return

    def circuit(self, link: MachineLink, frame: CircuitFrame) -> None:
        """Handle a frame of a circuit through the other machine, or through this one."""
        raise OutOfPlace("nothing is relayed over a Unix socket")

    def bye(self, link: MachineLink, reason: str) -> None:
        """Handle the last frame of the other machine on this link."""
        raise OutOfPlace("a Unix socket has no closing message")

    def link_over(self, link: MachineLink, reason: str) -> None:
        """Handle the end of the link, after everything that had arrived."""


@dataclass(slots=True)
class _Gathered:
    """A batch while it is collected."""

    envelopes: list[Envelope] = field(default_factory=list)
    texts: dict[str, bytes] = field(default_factory=dict)
    passed: list[tuple[int, int]] = field(default_factory=list)
    descriptors: list[int] = field(default_factory=list)
    forget: bool = False
    is_answer: bool = True
    """Whether all messages are answers, and need none."""
    size_bytes: int = 0

    def is_full(self, bytes_max: int) -> bool:
        """Whether the next message goes into another frame."""
        return self.size_bytes > bytes_max or len(self.descriptors) >= DESCRIPTORS_MAX

    def batch(self) -> Batch:
        """Return the frame's content."""
        texts = tuple(self.texts.items())
        return Batch(tuple(self.envelopes), texts, self.forget, tuple(self.passed))


class MachineLink:
    """A link to another machine."""

    def __init__(
        self,
        stream: FrameStream,
        machine: str,
        owner: LinkOwner,
        payloads: PayloadStore,
        descriptors: PassedDescriptors,
        profile: LinkProfile = LOCAL,
        hold: Callable[[int], str] = unbounded,
    ) -> None:
        """`hold` gets the bytes of incomplete texts; it returns why they are too many, if so."""
        self.machine = machine
        """The other end."""
        self.began_wall_s = read_clocks("link").wall_s
        self.offset = ClockOffset()
        """Of the other machine's clock against ours."""
        self.is_flooded = False
        """Whether the other machine exceeded `MESSAGES_PER_S_MAX`."""
        self._is_at_fault = False
        self.sent_bytes = 0
        self.received_bytes = 0
        self._profile = profile
        self._owner = owner
        self._payloads = payloads
        self._descriptors = descriptors
        self._known_texts: dict[str, None] = {}
        self._known_bytes = 0
        self._pieces = PayloadChunks()
        self._hold = hold
        self._stream = stream
        self._loop = asyncio.get_running_loop()
        self._began_s = self._used_s = _steady_s()
        self._keepalive = Keepalive(
            self._began_s, is_network=profile.is_network, silence_s=profile.silence_s
        )
        self._budget = MESSAGES_PER_S_MAX * _BURST_S
        self._is_over = False
        self._timer = self._loop.call_later(self._keepalive.ping_s, self._tick)
        stream.unsent_bytes_max = UNSENT_BYTES_MAX
        stream.redirect(self.receive, self._closed)
        if profile.is_network:
            self._ping()

    @property
    def is_closed(self) -> bool:
        """Whether the link is closed."""
        return self._is_over or self._stream.is_closed

    @property
    def silent_s(self) -> float:
        """Seconds since anything was received."""
        return _steady_s() - self._keepalive.received_s

    @property
    def lived_s(self) -> float:
        """Seconds since the link began."""
        return _steady_s() - self._began_s

    @property
    def idle_s(self) -> float:
        """Seconds without a message in either direction."""
        return _steady_s() - self._used_s

    def send(self, sends: list[Send]) -> None:
        """Send these messages, in order, in as few frames as their sizes allow."""
        self._used_s = _steady_s()
        for gathered in self._batches(sends):
            if self._profile.is_network:
                self._send_long_texts(gathered)
            frame, descriptors = link_frame(gathered.batch()), gathered.descriptors
            self._write(frame, descriptors, is_answer=gathered.is_answer)

    def send_frame(self, content: LinkFrame) -> None:
        """Send one frame."""
        if isinstance(content, Carry):
            self._used_s = _steady_s()
        self._write(link_frame(content), [], is_answer=isinstance(content, NO_QUESTIONS))

    def read_out(self) -> None:
        """Handle everything that has arrived."""
        self._stream.read_out()

    def close(self, reason: str) -> None:
        """Handle everything that has arrived, then end the link."""
        self.read_out()
        self._stream.close(reason)

    def end(self, reason: str) -> None:
        """End the link at once: the other machine sends nothing more."""
        self._stream.close(reason)

    # --- out -------------------------------------------------------------------------------------

    def _write(self, data: bytes, descriptors: list[int], *, is_answer: bool = False) -> None:
        self.sent_bytes += len(data)
        self._keepalive.sent(_steady_s(), is_answer=is_answer)
        self._stream.write(data, descriptors)

    def _send_long_texts(self, gathered: _Gathered) -> None:
        """Send the texts that are too long for a batch in pieces before it."""
        for digest in [d for d, text in gathered.texts.items() if len(text) > PIECE_BYTES]:
            for piece in pieces(digest, gathered.texts.pop(digest)):
                self._write(link_frame(piece), [])

    def _batches(self, sends: list[Send]) -> Iterator[_Gathered]:
        gathered = _Gathered()
        for send in sends:
            envelope = pack(send.part, send.message)
            if isinstance(send.message, Run):
                self._add_needs(send.message, gathered)
            gathered.envelopes.append(envelope)
            gathered.is_answer &= is_answer(send.message)
            gathered.size_bytes += len(envelope.body)
            if gathered.is_full(self._profile.batch_bytes_max):
                yield gathered
                gathered = _Gathered()
        if gathered.envelopes:
            yield gathered

    def _add_needs(self, run: Run, gathered: _Gathered) -> None:
        """Add the texts and descriptors of a task that the other end does not have."""
        if self._known_bytes > TEXTS_BYTES_MAX:
            gathered.forget = True
            self._known_texts = dict.fromkeys(gathered.texts)
            self._known_bytes = 0
        spec = run.spec
        for digest in (spec.environment, spec.script, spec.stdin):
            if digest and digest not in self._known_texts:
                content = gathered.texts[digest] = self._payloads.get(digest)
                self._known_texts[digest] = None
                self._known_bytes += len(content)
                gathered.size_bytes += len(content)
        if spec.descriptors:
            copies = self._descriptors.copy(run.attempt.number)
            gathered.passed.append((run.attempt.number, len(copies)))
            gathered.descriptors += copies

    # --- in --------------------------------------------------------------------------------------

    @property
    def is_at_fault(self) -> bool:
        """Whether the link was closed because of what the other machine sent."""
        return self._is_at_fault or self._stream.is_at_fault

    def receive(self, frames: list[bytes]) -> None:
        """Handle frames of the other machine."""
        self._keepalive.received(_steady_s())
        for payload in frames:
            if self.is_closed:
                return
            self.received_bytes += len(payload)
            try:
                content = decode(payload)
                if isinstance(content, Batch):
                    self._batch(content)
                else:
                    self._handle(content)
            except (msgspec.MsgspecError, OutOfPlace) as error:
                self._is_at_fault = True
                self.break_off(f"it violates the protocol: {error}")
                return
            except Exception as error:  # noqa: BLE001 - see system.internal_errors
                self.break_off(FAULTS.note(f"the link with {self.machine}", error))
                return

    def break_off(self, reason: str) -> None:
        """End the link because of the other machine, and send it the reason."""
        log.warning("the link with %s is closed: %s", self.machine, reason)
        if not self._profile.is_network:
            self._stream.close(reason)
            return
        self.send_frame(Bye(reason))
        # Closing while something is unread would reset the connection, and the reason be lost.
        self._stream.redirect(ignore, ignore)
        self._loop.call_later(LAST_WORD_S, self._stream.close, reason)
        self._closed(reason)

    def _batch(self, batch: Batch) -> None:
        self._used_s = self._keepalive.received_s
        self._spend(len(batch.messages))
        # Over a network none are passed: a frame that lists any would take those of other jobs.
        for number, count in () if self._profile.is_network else batch.passed:
            received = self._stream.descriptors[:count]
            del self._stream.descriptors[:count]
            if len(received) == count:
                self._descriptors.keep(number, received)
            else:
                close_descriptors(received)
        if batch.texts or batch.forget:
            self._owner.texts(self, batch.texts, forget=batch.forget)
        for envelope in batch.messages:
            message = unpack(envelope)  # which knows the part, or raises
            self._owner.delivered(self, Part(envelope.part), message)

    def _handle(self, content: LinkFrame) -> None:
        self._spend(1)
        match content:
            case Ping():
                self.send_frame(Pong(content.steady_s, read_clocks("link").wall_s))
            case Pong():
                now = read_clocks("link")
                self.offset.add(content.steady_s, now.steady_s, now.wall_s, content.wall_s)
            case Bid():
                self._owner.bid(self, content)
            case Obeyed():
                self._owner.obeyed(self, content)
            case Piece():
                text = self._pieces.add(content)
                why_not = self._hold(self._pieces.unfinished_bytes)
                if why_not:
                    raise OutOfPlace(why_not)
                if text is not None:
                    self._owner.texts(self, ((content.digest, text),), forget=False)
            case Bye():
                self._owner.bye(self, content.reason)
            case Carry() | Credit() | CarryOver():
                self._used_s = self._keepalive.received_s
                self._owner.circuit(self, content)

    def _spend(self, messages: int) -> None:
        """Count received messages; raise `OutOfPlace` if they are a flood."""
        self._budget -= messages
        if self._budget < 0 and self._profile.is_network:
            self.is_flooded = True
            raise OutOfPlace(f"a flood: more than {MESSAGES_PER_S_MAX} messages a second")

    # --- keepalive -------------------------------------------------------------------------------

    def _tick(self) -> None:
        try:
            self._poll()
        except Exception as error:  # noqa: BLE001 - see system.internal_errors
            self._stream.close(FAULTS.note(f"the link with {self.machine}", error))

    def _poll(self) -> None:
        now_s = _steady_s()
        keepalive, own_pause_s = self._keepalive, self._keepalive.polled(now_s)
        more = MESSAGES_PER_S_MAX * own_pause_s
        self._budget = min(MESSAGES_PER_S_MAX * _BURST_S, self._budget + more)
        if keepalive.is_silent(now_s):
            # This process may have been stopped, with its messages waiting to be read.
            self.read_out()
            if own_pause_s > 2 * keepalive.ping_s:
                keepalive.give_time(2 * keepalive.ping_s, now_s)
        if self.is_closed:
            return
        if keepalive.is_silent(now_s):
            self._stream.close(f"it has not answered for {keepalive.silence_s:.0f} s")
            return
        self._timer = self._loop.call_later(self._keepalive.ping_s, self._tick)
        if keepalive.is_ping_due(now_s):
            self._ping()

    def _ping(self) -> None:
        self.send_frame(Ping(_steady_s()))

    def _closed(self, reason: str) -> None:
        self._is_over = True
        self._timer.cancel()
        self._pieces = PayloadChunks()
        self._hold(0)
        self._owner.link_over(self, reason)


def _steady_s() -> float:
    return read_clocks("link").steady_s

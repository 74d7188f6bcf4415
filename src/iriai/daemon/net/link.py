"""One link to another machine: frames out in a batch per turn, frames in, keepalive.

It begins when both ends have agreed that a connection is one. It knows nothing of what kind the
connection is, nor who dialled. A link that fell silent is closed: what waited in it is lost, both
sides are told so, and the next one begins afresh, so that nobody acts on what is seconds old.
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
"""What waits for a machine that does not read; it is told everything again when it comes back."""
TEXTS_BYTES_MAX = 32 << 20
"""Of environments and scripts that the other end is trusted to have kept."""
MESSAGES_PER_S_MAX = 20_000
"""That another machine may send over a network: ten times what the busiest front end has to say.
More is a flood, which would leave this machine no time for others."""
LAST_WORD_S = 2.0
"""For another machine to read why its link is closed, and to close it."""
_BURST_S = 5.0
"""What comes after a pause may come faster than that."""


Texts = tuple[tuple[str, bytes], ...]
"""Environments, scripts and inputs by their digests."""


class LinkProfile(NamedTuple):
    """Properties of a link that depend on the path between its ends."""

    is_network: bool
    """Whether each ping costs, and the other end may be anybody's: see docs/spec/005."""
    batch_bytes_max: int
    silence_s: float = SILENCE_S
    """After which the other end is taken for away (`[cluster] silence_s`)."""


NO_QUESTIONS = (Pong, CarryOver, Carry, Credit)
"""Frames to which no answer is due on this link: `Pong` is one, and the ends of a circuit ask each
other."""

LOCAL = LinkProfile(is_network=False, batch_bytes_max=BATCH_BYTES_MAX)
NETWORK = LinkProfile(is_network=True, batch_bytes_max=NETWORK_BATCH_BYTES_MAX)


class LinkOwner(Protocol):
    """The owner of a link, which receives its messages."""

    def delivered(self, link: MachineLink, part: Part, message: Message) -> None:
        """A message from a part of the other machine."""

    def bid(self, link: MachineLink, bid: Bid) -> None:
        """An operator of the other machine asks something."""

    def obeyed(self, link: MachineLink, answer: Obeyed) -> None:
        """What was asked of the other machine is done, or is not."""

    def texts(self, link: MachineLink, texts: Texts, *, forget: bool) -> None:
        """Environments and scripts by their digests."""

    def circuit(self, link: MachineLink, frame: CircuitFrame) -> None:
        """Something of a circuit through the other machine, or through this one."""

    def bye(self, link: MachineLink, reason: str) -> None:
        """The other machine says nothing more on this link."""

    def link_over(self, link: MachineLink, reason: str) -> None:
        """The link is closed; everything that had arrived was told before."""


@dataclass(slots=True)
class _Gathered:
    """A batch while it is put together."""

    envelopes: list[Envelope] = field(default_factory=list)
    texts: dict[str, bytes] = field(default_factory=dict)
    passed: list[tuple[int, int]] = field(default_factory=list)
    descriptors: list[int] = field(default_factory=list)
    forget: bool = False
    is_answer: bool = True
    """Whether all of it answers something, and asks nothing."""
    size_bytes: int = 0

    def is_full(self, bytes_max: int) -> bool:
        """Whether what follows goes into another frame."""
        return self.size_bytes > bytes_max or len(self.descriptors) >= DESCRIPTORS_MAX

    def batch(self) -> Batch:
        """What was gathered."""
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
        manner: LinkProfile = LOCAL,
    ) -> None:
        self.machine = machine
        """Whom it leads to."""
        self.began_wall_s = read_clocks("link").wall_s
        self.offset = ClockOffset()
        """Of the other machine's clock."""
        self.is_flooded = False
        """Whether the other machine sent more than it may."""
        self._is_at_fault = False
        self.sent_bytes = 0
        self.received_bytes = 0
        self._manner = manner
        self._owner = owner
        self._payloads = payloads
        self._descriptors = descriptors
        self._known_texts: dict[str, None] = {}
        self._known_bytes = 0
        self._pieces = PayloadChunks()
        self.hold: Callable[[int], str] = unbounded
        """Told how much of a text is there whose rest is to come; says why not so much."""
        self._stream = stream
        self._loop = asyncio.get_running_loop()
        self._began_s = self._used_s = _steady_s()
        self._keepalive = Keepalive(
            self._began_s, is_network=manner.is_network, silence_s=manner.silence_s
        )
        self._budget = MESSAGES_PER_S_MAX * _BURST_S
        self._is_over = False
        self._timer = self._loop.call_later(self._keepalive.ping_s, self._tick)
        stream.unsent_bytes_max = UNSENT_BYTES_MAX
        stream.redirect(self.receive, self._closed)
        if manner.is_network:
            self._ping()

    @property
    def is_closed(self) -> bool:
        """Whether it is over."""
        return self._is_over or self._stream.is_closed

    @property
    def silent_s(self) -> float:
        """Since anything came."""
        return _steady_s() - self._keepalive.received_s

    @property
    def lived_s(self) -> float:
        """Since it began."""
        return _steady_s() - self._began_s

    @property
    def idle_s(self) -> float:
        """How long no message has gone either way."""
        return _steady_s() - self._used_s

    def send(self, sends: list[Send]) -> None:
        """Send these messages, in order, in as few frames as their sizes allow."""
        self._used_s = _steady_s()
        for gathered in self._batches(sends):
            if self._manner.is_network:
                self._send_long_texts(gathered)
            frame, descriptors = link_frame(gathered.batch()), gathered.descriptors
            self._write(frame, descriptors, is_answer=gathered.is_answer)

    def send_frame(self, content: LinkFrame) -> None:
        """Send one frame."""
        if isinstance(content, Carry):
            self._used_s = _steady_s()
        self._write(link_frame(content), [], is_answer=isinstance(content, NO_QUESTIONS))

    def read_out(self) -> None:
        """Take in everything that has arrived."""
        self._stream.read_out()

    def close(self, reason: str) -> None:
        """End the link, once all that has arrived was taken in."""
        self.read_out()
        self._stream.close(reason)

    def end(self, reason: str) -> None:
        """End the link at once: the other machine has said its last word."""
        self._stream.close(reason)

    # --- out -------------------------------------------------------------------------------------

    def _write(self, data: bytes, descriptors: list[int], *, is_answer: bool = False) -> None:
        self.sent_bytes += len(data)
        self._keepalive.sent(_steady_s(), is_answer=is_answer)
        self._stream.write(data, descriptors)

    def _send_long_texts(self, gathered: _Gathered) -> None:
        """What does not fit into a frame goes before it."""
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
            if gathered.is_full(self._manner.batch_bytes_max):
                yield gathered
                gathered = _Gathered()
        if gathered.envelopes:
            yield gathered

    def _add_needs(self, run: Run, gathered: _Gathered) -> None:
        """What a task needs beside its spec, and the other end does not have."""
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
        """Whether the link is over for what the other machine sent."""
        return self._is_at_fault or self._stream.is_at_fault

    def receive(self, frames: list[bytes]) -> None:
        """What the other machine has sent."""
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
        """End the link for what the other machine did, and let it know."""
        log.warning("the link with %s is closed: %s", self.machine, reason)
        if not self._manner.is_network:
            self._stream.close(reason)
            return
        self.send_frame(Bye(reason))
        # Closing while something is unread would reset the connection, and the word be lost.
        self._stream.redirect(ignore, ignore)
        self._loop.call_later(LAST_WORD_S, self._stream.close, reason)
        self._closed(reason)

    def _batch(self, batch: Batch) -> None:
        self._used_s = self._keepalive.received_s
        self._spend(len(batch.messages))
        # Over a network none can be passed: whoever says so means those of other jobs.
        for number, count in () if self._manner.is_network else batch.passed:
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
                why_not = self.hold(self._pieces.unfinished_bytes)
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
        """Count what came; raises `OutOfPlace` where it is a flood."""
        self._budget -= messages
        if self._budget < 0 and self._manner.is_network:
            self.is_flooded = True
            raise OutOfPlace(f"a flood: more than {MESSAGES_PER_S_MAX} messages a second")

    # --- is the other there? ---------------------------------------------------------------------

    def _tick(self) -> None:
        try:
            self._poll()
        except Exception as error:  # noqa: BLE001 - see system.internal_errors
            self._stream.close(FAULTS.note(f"the link with {self.machine}", error))

    def _poll(self) -> None:
        now_s = _steady_s()
        hearing, own_pause_s = self._keepalive, self._keepalive.looked(now_s)
        more = MESSAGES_PER_S_MAX * own_pause_s
        self._budget = min(MESSAGES_PER_S_MAX * _BURST_S, self._budget + more)
        if hearing.is_silent(now_s):
            # It may be ourselves who were stopped, with all it said waiting to be read.
            self.read_out()
            if own_pause_s > 2 * hearing.ping_s:
                hearing.give_time(2 * hearing.ping_s, now_s)
        if self.is_closed:
            return
        if hearing.is_silent(now_s):
            self._stream.close(f"it has not answered for {hearing.silence_s:.0f} s")
            return
        self._timer = self._loop.call_later(self._keepalive.ping_s, self._tick)
        if hearing.is_ping_due(now_s):
            self._ping()

    def _ping(self) -> None:
        self.send_frame(Ping(_steady_s()))

    def _closed(self, reason: str) -> None:
        self._is_over = True
        self._timer.cancel()
        self._pieces = PayloadChunks()
        self.hold(0)
        self._owner.link_over(self, reason)


def _steady_s() -> float:
    return read_clocks("link").steady_s

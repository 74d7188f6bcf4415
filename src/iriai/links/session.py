"""One link: messages to frames and back, keepalive, floods, and what went over it.

It begins when both ends have agreed on it. A link that ends loses its unsent messages, and the next
one starts afresh, so that neither end acts on old messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from iriai.links.keepalive import Keepalive
from iriai.links.text_pieces import PayloadChunks, pieces
from iriai.model.instant import SILENCE_S, Instant
from iriai.protocol.clock_offset import ClockOffset, Estimate
from iriai.protocol.delivery.authorization import is_answer
from iriai.protocol.messages.effects import Part, Send
from iriai.protocol.messages.scheduling import Message, Run
from iriai.wire.links import (
    BATCH_BYTES_MAX,
    PIECE_BYTES,
    Batch,
    Bye,
    Carry,
    CarryOver,
    CircuitFrame,
    Credit,
    LinkFrame,
    OutOfPlace,
    Piece,
    Ping,
    Pong,
    decode_link_frame,
    link_frame,
)
from iriai.wire.parts import Envelope, pack, unpack

TEXTS_BYTES_MAX = 32 << 20
"""Of environments and scripts that the other end is relied on to have kept."""
MESSAGES_PER_S_MAX = 20_000
"""Messages accepted from a machine: ten times what the busiest front end sends. More
is a flood, which would leave this machine no time for others."""
_BURST_S = 5.0
"""A burst after a pause may be so many seconds' worth of messages."""
NO_QUESTIONS = (Pong, CarryOver, Carry, Credit)
"""Frames that need no answer on this link: `Pong` is an answer, and the ends of a circuit answer
each other."""

Texts = tuple[tuple[str, bytes], ...]
"""Environments, scripts and inputs by their digests."""


def unbounded(_: int) -> str:
    """Allow any number of bytes of incomplete texts: a `hold` without a limit."""
    return ""


class PartMessages(NamedTuple):
    """Messages for parts of this machine, in order."""

    messages: list[tuple[Message, Part]]


class TextsReceived(NamedTuple):
    """Texts of tasks that follow; `forget`: the other end relies on none that came before."""

    texts: Texts
    forget: bool


LinkEvent = PartMessages | TextsReceived | Pong | Bye | CircuitFrame
"""What a frame brings; a `Pong` is to be sent."""


TextOf = Callable[[str], bytes]
"""Returns a text that a task needs, by its digest."""


@dataclass(slots=True)
class _Gathered:
    """A batch while it is collected."""

    envelopes: list[Envelope] = field(default_factory=list)
    texts: dict[str, bytes] = field(default_factory=dict)
    forget: bool = False
    is_answer: bool = True
    """Whether all messages are answers, and need none."""
    size_bytes: int = 0


CLOCK_AGE_S = 10.0
"""An answer about a clock that is older is asked for again: clocks with drifts of 50 ppm differ
by half a millisecond more by then."""


class LinkSession:
    """The state of one link, from its handshake until its connection is closed."""

    def __init__(
        self,
        machine: str,
        now_s: float,
        *,
        is_direct: bool = True,
        is_ours: bool = False,
        instance: str = "",
        certificate: bytes = b"",
        silence_s: float = SILENCE_S,
        hold: Callable[[int], str] = unbounded,
    ) -> None:
        """`silence_s`: time without an answer after which the other end is offline.

        `hold` gets the bytes of incomplete texts; it returns why they are too many, if so.
        """
        self.machine = machine
        """The other end."""
        self.is_direct = is_direct
        """Whether no relay lies between."""
        self.is_ours = is_ours
        """Whether this machine dialled: then it closes the link when it is idle."""
        self.instance = instance
        """The run of the other machine's daemon."""
        self.certificate = certificate
        """The other machine's, in DER."""
        self.keepalive = Keepalive(now_s, silence_s)
        self.began_s = self.used_s = now_s
        """`used_s`: when a message was sent or received last. On the steady clock."""
        self.sent_bytes = self.received_bytes = 0
        self.offset = ClockOffset()
        """Of the other machine's clock against ours."""
        self._is_clock_wanted = False
        """Whether somebody has asked for that since the last question."""
        self.is_flooded = False
        """Whether the other machine exceeded `MESSAGES_PER_S_MAX`."""
        self.is_at_fault = False
        """Whether the link was closed because of what the other machine sent."""
        self._known_texts: dict[str, None] = {}
        self._known_bytes = 0
        self._pieces = PayloadChunks()
        self._hold = hold
        self._budget = MESSAGES_PER_S_MAX * _BURST_S

    # --- the other machine's clock ---------------------------------------------------------------

    def clock(self) -> Estimate | None:
        """Return the other machine's wall clock minus this one's; None: it is not known yet.

        Whoever asks has the other machine asked again, if its last answer is old.
        """
        self._is_clock_wanted = True
        return self.offset.best()

    def is_clock_due(self, now_s: float) -> bool:
        """Return whether the other machine is to be asked for its clock: somebody wants it."""
        is_due = self._is_clock_wanted and now_s - self.offset.answered_s >= CLOCK_AGE_S
        if is_due:
            self._is_clock_wanted = False
        return is_due

    # --- out -------------------------------------------------------------------------------------

    def frame(self, content: LinkFrame, now_s: float, *, is_answer: bool = False) -> bytes:
        """Return a frame that is sent now; `is_answer`: a `Batch` that needs none itself."""
        if isinstance(content, Carry):
            self.used_s = now_s
        data = link_frame(content)
        self.sent_bytes += len(data)
        self.keepalive.sent(now_s, is_answer=is_answer or isinstance(content, NO_QUESTIONS))
        return data

    def frames(self, sends: Iterable[Send], text_of: TextOf, now_s: float) -> Iterator[bytes]:
        """Yield frames with these messages, in order, as few as their sizes allow."""
        self.used_s = now_s
        for gathered in self._batches(sends, text_of):
            long = [each for each, text in gathered.texts.items() if len(text) > PIECE_BYTES]
            for digest in long:
                for piece in pieces(digest, gathered.texts.pop(digest)):
                    yield self.frame(piece, now_s)
            texts = tuple(gathered.texts.items())
            batch = Batch(tuple(gathered.envelopes), texts, gathered.forget)
            yield self.frame(batch, now_s, is_answer=gathered.is_answer)

    def _batches(self, sends: Iterable[Send], text_of: TextOf) -> Iterator[_Gathered]:
        gathered = _Gathered()
        for send in sends:
            envelope = pack(send.part, send.message)
            if isinstance(send.message, Run):
                self._add_needs(send.message, gathered, text_of)
            gathered.envelopes.append(envelope)
            gathered.is_answer &= is_answer(send.message)
            gathered.size_bytes += len(envelope.body)
            if gathered.size_bytes > BATCH_BYTES_MAX:
                yield gathered
                gathered = _Gathered()
        if gathered.envelopes:
            yield gathered

    def _add_needs(self, run: Run, gathered: _Gathered, text_of: TextOf) -> None:
        """Add the texts of a task that the other end does not have."""
        if self._known_bytes > TEXTS_BYTES_MAX:
            gathered.forget = True
            self._known_texts = dict.fromkeys(gathered.texts)
            self._known_bytes = 0
        spec = run.spec
        for digest in (spec.environment, spec.script, spec.stdin):
            if digest and digest not in self._known_texts:
                content = gathered.texts[digest] = text_of(digest)
                self._known_texts[digest] = None
                self._known_bytes += len(content)
                gathered.size_bytes += len(content)

    # --- in --------------------------------------------------------------------------------------

    def receive(self, payload: bytes, now: Instant) -> Iterator[LinkEvent]:
        """Yield what a frame of the other machine brings.

        Raises:
            msgspec.MsgspecError: it is no frame of a link, or holds no message of a part.
            OutOfPlace: it may not be sent on this link now.
        """
        self.received_bytes += len(payload)
        self.keepalive.received(now.steady_s)
        content = decode_link_frame(payload)
        self._spend(len(content.messages) if isinstance(content, Batch) else 1)
        match content:
            case Batch():
                self.used_s = now.steady_s
                if content.texts or content.forget:
                    yield TextsReceived(content.texts, content.forget)
                # `unpack` knows the part, or raises.
                yield PartMessages([(unpack(e), Part(e.part)) for e in content.messages])
            case Ping():
                yield Pong(content.steady_s, now.wall_s)
            case Pong():
                self.offset.add(content.steady_s, now.steady_s, now.wall_s, content.wall_s)
            case Piece():
                text = self._pieces.add(content)
                if why_not := self._hold(self._pieces.unfinished_bytes):
                    raise OutOfPlace(why_not)
                if text is not None:
                    yield TextsReceived(((content.digest, text),), forget=False)
            case Carry() | Credit() | CarryOver():
                self.used_s = now.steady_s
                yield content
            case _:
                yield content

    def _spend(self, messages: int) -> None:
        """Count received messages; raise `OutOfPlace` if they are a flood."""
        self._budget -= messages
        if self._budget < 0:
            self.is_flooded = True
            raise OutOfPlace(f"a flood: more than {MESSAGES_PER_S_MAX} messages a second")

    # --- time ------------------------------------------------------------------------------------

    def poll(self, now_s: float) -> float:
        """Return the seconds since the last poll, in which more messages came to be allowed."""
        pause_s = self.keepalive.polled(now_s)
        more = MESSAGES_PER_S_MAX * pause_s
        self._budget = min(MESSAGES_PER_S_MAX * _BURST_S, self._budget + more)
        return pause_s

    def blame(self, *, is_at_fault: bool) -> None:
        """Note whether the link ends because of what the other machine sent."""
        self.is_at_fault |= is_at_fault

    def close(self) -> None:
        """Give back what incomplete texts hold."""
        self._pieces = PayloadChunks()
        self._hold(0)

"""One link with another machine: frames out, a batch for each turn; frames in; is the other there?

It begins when both ends have agreed that a connection is one. It knows nothing of what kind the
connection is, nor who dialled. A link that fell silent is closed: what waited in it is lost, both
sides are told so, and the next one begins afresh, so that nobody acts on what is seconds old.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from iriai.daemon.clock import now as read_clocks
from iriai.daemon.descriptors import Descriptors
from iriai.daemon.payloads import Payloads
from iriai.daemon.stream import DESCRIPTORS_MAX, Stream, close_descriptor
from iriai.protocol.effects import Part, Send
from iriai.protocol.messages import Message, Run
from iriai.wire.links import BATCH_BYTES_MAX, Batch, Bid, LinkFrame, Obeyed, Ping, Pong, link_frame
from iriai.wire.links import decode_link_frame as decode
from iriai.wire.parts import Envelope, pack, unpack

log = logging.getLogger(__name__)

PING_S = 1.0
"""Between two pings: a machine that is gone is noticed within a few of them."""
SILENCE_S = 5.0
"""A machine that has said nothing for so long is taken for away. Longer, and more work waits for a
machine that is stopped; shorter, and a busy one is taken for away."""
UNSENT_BYTES_MAX = 64 << 20
"""What waits for a machine that does not read; it is told everything again when it comes back."""
TEXTS_BYTES_MAX = 32 << 20
"""Of environments and scripts that the other end is trusted to have kept."""


class Owner(Protocol):
    """Who has the link, and hears what comes in."""

    def delivered(self, link: MachineLink, part: Part, message: Message) -> None:
        """A message from a part of the other machine."""

    def bid(self, link: MachineLink, bid: Bid) -> None:
        """An operator of the other machine asks something."""

    def obeyed(self, link: MachineLink, answer: Obeyed) -> None:
        """What was asked of the other machine is done, or is not."""

    def texts(self, texts: tuple[tuple[str, bytes], ...], *, forget: bool) -> None:
        """Environments and scripts by their digests."""

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
    size_bytes: int = 0

    @property
    def is_full(self) -> bool:
        """Whether what follows goes into another frame."""
        return self.size_bytes > BATCH_BYTES_MAX or len(self.descriptors) >= DESCRIPTORS_MAX

    def batch(self) -> Batch:
        """What was gathered."""
        texts = tuple(self.texts.items())
        return Batch(tuple(self.envelopes), texts, self.forget, tuple(self.passed))


class MachineLink:
    """See the module."""

    def __init__(
        self,
        stream: Stream,
        machine: str,
        owner: Owner,
        payloads: Payloads,
        descriptors: Descriptors,
    ) -> None:
        self.machine = machine
        """Whom it leads to."""
        self.began_wall_s = read_clocks("link").wall_s
        self._owner = owner
        self._payloads = payloads
        self._descriptors = descriptors
        self._known_texts: dict[str, None] = {}
        self._known_bytes = 0
        self._stream = stream
        self._loop = asyncio.get_running_loop()
        self._heard_s = self._ticked_s = _steady_s()
        self._timer = self._loop.call_later(PING_S, self._tick)
        stream.unsent_bytes_max = UNSENT_BYTES_MAX
        stream.redirect(self.take, self._closed)

    def send(self, sends: list[Send]) -> None:
        """Send these messages, in order, in as few frames as their sizes allow."""
        for gathered in self._batches(sends):
            self._stream.write(link_frame(gathered.batch()), gathered.descriptors)

    def say(self, content: LinkFrame) -> None:
        """Send one frame."""
        self._stream.write(link_frame(content))

    def read_out(self) -> None:
        """Take in everything that has arrived."""
        self._stream.read_out()

    def close(self, reason: str) -> None:
        """End the link, once all that has arrived was taken in."""
        self.read_out()
        self._stream.close(reason)

    # --- out -------------------------------------------------------------------------------------

    def _batches(self, sends: list[Send]) -> Iterator[_Gathered]:
        gathered = _Gathered()
        for send in sends:
            envelope = pack(send.part, send.message)
            if isinstance(send.message, Run):
                self._add_needs(send.message, gathered)
            gathered.envelopes.append(envelope)
            gathered.size_bytes += len(envelope.body)
            if gathered.is_full:
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

    def take(self, frames: list[bytes]) -> None:
        """What the other machine has sent."""
        self._heard_s = _steady_s()
        for payload in frames:
            try:
                content = decode(payload)
                if isinstance(content, Batch):
                    self._batch(content)
                else:
                    self._take(content)
            except (msgspec.MsgspecError, AssertionError) as error:
                self._stream.close(f"it does not keep to the protocol: {error}")
                return

    def _batch(self, batch: Batch) -> None:
        for number, count in batch.passed:
            received = self._stream.descriptors[:count]
            del self._stream.descriptors[:count]
            if len(received) == count:
                self._descriptors.keep(number, received)
            else:
                for descriptor in received:
                    close_descriptor(descriptor)
        if batch.texts or batch.forget:
            self._owner.texts(batch.texts, forget=batch.forget)
        for envelope in batch.messages:
            message = unpack(envelope)  # which knows the part, or raises
            self._owner.delivered(self, Part(envelope.part), message)

    def _take(self, content: LinkFrame) -> None:
        match content:
            case Ping():
                self.say(Pong())
            case Bid():
                self._owner.bid(self, content)
            case Obeyed():
                self._owner.obeyed(self, content)

    # --- is the other there? ---------------------------------------------------------------------

    def _tick(self) -> None:
        now_s = _steady_s()
        own_pause_s = now_s - self._ticked_s
        self._ticked_s = now_s
        if now_s - self._heard_s > SILENCE_S:
            # It may be ourselves who were stopped, with all it said waiting to be read.
            self.read_out()
            if own_pause_s > 2 * PING_S:
                self._heard_s = max(self._heard_s, now_s - SILENCE_S + 2 * PING_S)
        if self._stream.is_closed:
            return
        if now_s - self._heard_s > SILENCE_S:
            self._stream.close(f"it has not answered for {SILENCE_S:.0f} s")
            return
        self._timer = self._loop.call_later(PING_S, self._tick)
        self.say(Ping())

    def _closed(self, reason: str) -> None:
        self._timer.cancel()
        self._owner.link_over(self, reason)


def _steady_s() -> float:
    return read_clocks("link").steady_s

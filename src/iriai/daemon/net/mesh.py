"""Drives the links of this machine with others of its cluster, over the network (docs/spec/005)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import partial
from random import Random
from typing import NamedTuple

from iriai import __version__
from iriai.daemon.net.acceptor import Acceptor, AnonymousArrived
from iriai.daemon.net.credentials import Credentials
from iriai.daemon.net.dialer import dial_address
from iriai.daemon.net.handshake import Handshake, greet
from iriai.daemon.net.link import LinkOwner, MachineLink
from iriai.daemon.transport.socket_stream import UNSENT_BYTES_MAX, ignore
from iriai.jobs.payloads import PayloadStore
from iriai.links import effects
from iriai.links.address_book import AddressBook
from iriai.links.attempt import UNREACHED, NotReached
from iriai.links.circuits import CircuitEnd, Received
from iriai.links.core import LinkCore, OwnCard
from iriai.links.greeting import ClientGreeting
from iriai.links.relay import FrameTo
from iriai.links.session import LinkSession, Texts
from iriai.machine.events import MachineEvent
from iriai.model.instant import SILENCE_S, Instant
from iriai.model.problem import Problem
from iriai.protocol.messages.effects import Delivered, LinkDown, LinkUp, Part, Send
from iriai.protocol.messages.scheduling import Message
from iriai.system.clock import now as read_clocks
from iriai.system.internal_errors import FAULTS
from iriai.wire.greetings import Rejected
from iriai.wire.links import Carry, CarryOver, CircuitFrame
from iriai.wire.parts import tag_of

log = logging.getLogger(__name__)

POLL_S = 1.0
"""Between two searches for links that are idle or missing, and messages held too long."""


class Listener(NamedTuple):
    """The receiver of incoming messages."""

    event: Callable[[MachineEvent], None]
    """`Delivered`, `LinkUp`, `LinkDown`."""
    takes: Callable[[str, Part, Message], bool]
    """Whether a machine may send this message to a part of this machine."""
    texts: Callable[[str, Texts, bool], None]
    """Texts of a machine, and whether it relies on none that came before."""
    locate: Callable[[str], None]
    """Asks where a machine of another cluster is."""


class Mesh(LinkOwner):
    """The connections of this machine with the others of its cluster."""

    def __init__(
        self,
        credentials: Credentials,
        book: AddressBook,
        listener: Listener,
        payloads: PayloadStore,
        rng: Random,
        *,
        is_outward_only: bool = False,
        silence_s: float = SILENCE_S,
        on_anonymous: Callable[[AnonymousArrived], None] | None = None,
    ) -> None:
        """`silence_s`: time without an answer after which the other end of a link is offline."""
        own = OwnCard(credentials.name, credentials.instance, __version__)
        self.core = LinkCore(own, book, rng, is_outward_only=is_outward_only)
        self.instance = credentials.instance
        self._credentials = credentials
        self._listener = listener
        self._payloads = payloads
        self._silence_s = silence_s
        self._links: dict[LinkSession, MachineLink] = {}
        self._dialling: dict[str, asyncio.Task[None]] = {}
        self._circuits: dict[CircuitEnd, CircuitStream] = {}
        self.acceptor = Acceptor(
            credentials,
            book,
            self.core,
            self._linked,
            self._answer_failed,
            on_anonymous,
        )
        self._loop = asyncio.get_running_loop()
        self._polling: asyncio.TimerHandle | None = None
        self._is_closing = False

    # --- for the daemon --------------------------------------------------------------------------

    def begin(self) -> None:
        """Start to make and supervise links."""
        self._polling = self._loop.call_later(POLL_S, self.begin)
        self._poll()

    def send(self, sends: list[Send]) -> None:
        """Send messages to other machines; make a link where there is none."""
        self.perform(self.core.send(sends, _now()))

    def block(self, machine: str, reason: str, for_s: float) -> None:
        """End the link with a machine that did harm, and refuse it for a while."""
        self.perform(self.core.block(machine, reason, for_s, _now()))

    def members_changed(self, machines: Iterable[str]) -> None:
        """Dial those of the machines at once whose next attempt is due later."""
        self.perform(self.core.members_changed(machines, _now()))

    def trust_changed(self) -> None:
        """Close the links whose certificate is no longer valid, such as of an ejected machine."""
        for session, link in list(self._links.items()):
            try:
                self._credentials.check_peer(session.certificate)
            except Problem as problem:
                noted = self.core.note(session.machine, problem.code, str(problem), _now())
                self.perform(noted)
                link.break_off(str(problem))

    def close(self) -> None:
        """End all links."""
        self._is_closing = True
        self.acceptor.close()
        if self._polling is not None:
            self._polling.cancel()
        self.perform(self.core.close())

    # --- orders of the core ----------------------------------------------------------------------

    def perform(self, orders: Iterable[effects.LinkEffect]) -> None:
        """Carry out what the core orders."""
        for order in orders:
            if isinstance(order, effects.OnLink):
                if link := self._links.get(order.link):
                    _act(link, order)
            else:
                self._perform_one(order)

    def _perform_one(self, order: effects.LinkEffect) -> None:
        match order:
            case FrameTo(machine, frame):
                if session := self.core.direct.get(machine):
                    self._links[session].send_frame(frame)
            case Received(end, frame):
                self._circuit_received(end, frame)
            case effects.Dial():
                task = self._loop.create_task(self._dial(order))
                self._dialling[order.machine] = task
                task.add_done_callback(_raise)
            case effects.Seek(machine):
                self._listener.locate(machine)
            case effects.AbortDial(machine):
                if dialling := self._dialling.pop(machine, None):
                    dialling.cancel()
            case effects.TextsLost(machine):
                self._listener.texts(machine, (), True)
            case effects.PollIn(delay_s):
                self._loop.call_later(delay_s, self._poll)
            case effects.Report(words, is_warning):
                log.log(logging.WARNING if is_warning else logging.INFO, "%s", words)
            case LinkUp() | LinkDown():
                self._listener.event(order)

    def _poll(self) -> None:
        if not self._is_closing:
            self.perform(self.core.poll(_now()))

    # --- dialling --------------------------------------------------------------------------------

    async def _dial(self, order: effects.Dial) -> None:
        """Make a link with a machine at an address, or through a relay."""
        machine, address, relay = order
        greeting = ClientGreeting(self.core, machine, is_direct=not relay)
        missed: NotReached | None = None
        try:
            if relay:
                end = self.core.open_circuit(relay, machine)
                circuit = self._circuits[end] = CircuitStream(end, self)
                handshake = await greet(circuit, self._credentials, greeting)
            else:
                handshake = await dial_address(address, self._credentials, greeting)
        except NotReached as error:
            missed = error
        except Exception as error:  # noqa: BLE001 - see system.internal_errors
            words = FAULTS.note(f"a dialled connection with {machine}", error)
            missed = NotReached(UNREACHED, words)
        del self._dialling[machine]
        if missed is None:
            self._linked(handshake, address)
        else:
            self.perform(self.core.missed(machine, missed, _now()))

    # --- links begin -----------------------------------------------------------------------------

    def _answer_failed(self, who: str, machine: str, refusal: Rejected) -> None:
        self.perform(self.core.answer_failed(who, machine, refusal, _now()))

    def _linked(self, handshake: Handshake, address: str = "") -> None:
        """Make a link of an agreed connection."""
        stream, greeting, now = handshake.stream, handshake.greeting, _now()
        if self._is_closing:
            stream.close("the daemon ends")
            return
        stream.bound(partial(self.core.hold, (greeting.machine, stream)))
        hold = partial(self.core.hold, (greeting.machine, greeting))
        session = greeting.session(now.steady_s, handshake.certificate, self._silence_s, hold)
        link = MachineLink(stream, session, self, self._payloads)
        self._links[session] = link
        self.perform(self.core.linked(session, address, now))
        if link.is_closed:  # it ended with its first frame
            self.link_over(link, "it closed the connection")
        elif handshake.rest:
            link.receive(handshake.rest)

    # --- circuits --------------------------------------------------------------------------------

    def _circuit_received(self, end: CircuitEnd, frame: Carry | CarryOver) -> None:
        circuit = self._circuits.get(end)
        if circuit is None:
            circuit = self._circuits[end] = CircuitStream(end, self)
            self.acceptor.answer_circuit(circuit, end)
        if isinstance(frame, CarryOver):
            del self._circuits[end]
        circuit.receive(frame)

    # --- events of links -------------------------------------------------------------------------

    def delivered(self, link: MachineLink, part: Part, message: Message) -> None:
        """Pass on a message if its sender may send it."""
        if self._listener.takes(link.machine, part, message):
            self._listener.event(Delivered(link.machine, part, message))
        else:
            words = f"it may not send {tag_of(message)} to our {part}"
            self.perform(self.core.note(link.machine, "not-its-own", words, _now()))

    def texts(self, link: MachineLink, texts: Texts, *, forget: bool) -> None:
        """Pass on environments and scripts of tasks that follow."""
        self._listener.texts(link.machine, texts, forget)

    def circuit(self, link: MachineLink, frame: CircuitFrame) -> None:
        """Pass on a frame of a circuit."""
        self.perform(self.core.circuits.receive(link.machine, frame, self.core.direct))

    def bye(self, link: MachineLink, reason: str) -> None:
        """End the link, or answer that this machine ends it too."""
        self.perform(self.core.bye(link.session, reason, _now()))

    def link_over(self, link: MachineLink, reason: str) -> None:
        """Note the end of the link."""
        self._links.pop(link.session, None)
        self.perform(self.core.link_over(link.session, reason, _now()))


class CircuitStream:
    """A connection through a relay: the `ByteStream` of a circuit that ends on this machine."""

    def __init__(self, end: CircuitEnd, mesh: Mesh) -> None:
        self.unsent_bytes_max = UNSENT_BYTES_MAX
        self._end = end
        self._mesh = mesh
        self._on_data: Callable[[bytes], None] = ignore
        self._on_close: Callable[[str], None] = ignore
        self.is_closed = False

    def listen(self, on_data: Callable[[bytes], None], on_close: Callable[[str], None]) -> None:
        """Replace both listeners."""
        self._on_data = on_data
        self._on_close = on_close

    def write(self, data: bytes) -> None:
        """Send `data` as far as there is credit, the rest later."""
        if self.is_closed:
            return
        self._mesh.perform(self._mesh.core.circuits.send(self._end, data))
        if len(self._end.unsent) > self.unsent_bytes_max:
            self.close("it does not read the answers")

    def read_out(self) -> None:
        """Do nothing: data arrives with the frames of the link to the relay."""

    def close(self, reason: str) -> None:
        """End the circuit, and notify the other end."""
        self._mesh.perform(self._mesh.core.circuits.close(self._end, reason))

    def receive(self, frame: Carry | CarryOver) -> None:
        """Handle a frame of the circuit; the last one is a `CarryOver` of either end."""
        if isinstance(frame, CarryOver):
            self.is_closed = True
            self._on_close(frame.reason)
            return
        try:
            self._on_data(frame.content)
        except Exception as error:  # noqa: BLE001 - the relay has no part in it
            self.close(FAULTS.note("a circuit", error))


def _act(link: MachineLink, order: effects.OnLink) -> None:
    match order:
        case effects.Transmit(_, sends):
            link.send(sends)
        case effects.TransmitFrame(_, content):
            link.send_frame(content)
        case effects.CloseLink(_, reason, reads_out, is_told):
            (link.break_off if is_told else link.close if reads_out else link.end)(reason)


def _raise(task: asyncio.Task[None]) -> None:
    """Raise an internal error of the task, which ends the daemon."""
    if not task.cancelled():
        task.result()


def _now() -> Instant:
    return read_clocks("mesh")

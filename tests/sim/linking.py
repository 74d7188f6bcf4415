"""Link cores of several machines in virtual time: their connections, circuits, and what fails.

Bytes travel as they do between daemons, frames of handshakes and links in them, through relays too;
instead of TLS each end first sends its name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from random import Random

from iriai.links import effects
from iriai.links.address_book import AddressBook
from iriai.links.attempt import UNPROVED, UNREACHED, NotReached
from iriai.links.circuits import CircuitEnd, Received
from iriai.links.core import HANDSHAKE_S, LinkCore, OwnCard
from iriai.links.greeting import ClientGreeting, GreetingStep, ServerGreeting
from iriai.links.relay import FrameTo
from iriai.links.session import LinkSession, PartMessages
from iriai.model.instant import Instant
from iriai.protocol.messages.effects import LinkDown, LinkUp, Part, Send
from iriai.protocol.messages.gossip import Probe
from iriai.protocol.messages.members import Member, MemberState
from iriai.sim.world.event_queue import EventQueue
from iriai.system.frames import FrameReader, FrameTooLong, frame
from iriai.wire.greetings import Rejected, decode_greeting, greeting_frame
from iriai.wire.links import Bye, Carry, CarryOver, Credit, LinkFrame, Ping, Pong

POLL_S = 1.0
HELLO = b"tls "
"""What stands for a handshake of TLS; a connection that begins otherwise fails."""

NO_TEXTS: dict[str, bytes] = {}
"""No message needs any."""


class End:
    """One end of a connection, over a network or through a relay."""

    def __init__(
        self, machine: LinkedMachine, greeting: ClientGreeting | ServerGreeting, address: str = ""
    ) -> None:
        self.machine = machine
        self.greeting = greeting
        self.address = address
        self.circuit: CircuitEnd | None = None
        """The circuit that carries it; None: there is a connection with `far`."""
        self.far: End | None = None
        self.session: LinkSession | None = None
        self.is_closed = False
        self.is_cut_off = False
        """Whether nothing of it arrives any more."""
        self._is_secure = False
        self._has_ended = False
        """Whether the handshake has ended, with a link or without."""
        self._frames = FrameReader()

    def begin(self) -> None:
        self.write(frame(HELLO + self.machine.name.encode()))
        self.machine.world.agenda.after(HANDSHAKE_S, self._check_deadline)

    def _check_deadline(self) -> None:
        if self.session is None:
            self.close("it has not completed the handshake")

    def write(self, data: bytes) -> None:
        if self.is_closed:
            return
        if self.circuit is not None:
            self.machine.perform(self.machine.core.circuits.send(self.circuit, data))
        elif self.far is not None:
            self.machine.world.carry(self, partial(self.far.receive, data))

    def close(self, reason: str) -> None:
        if self.is_closed:
            return
        if self.circuit is not None:
            self.machine.perform(self.machine.core.circuits.close(self.circuit, reason))
        elif self.far is not None:
            self.machine.world.carry(self, partial(self.far.ended, "it closed the connection"))
            self.ended(reason)

    def ended(self, reason: str) -> None:
        """The connection is over."""
        if self.is_closed:
            return
        self.is_closed = True
        if self.session is not None:
            self.machine.link_over(self.session, reason)
        else:
            self._fail(Rejected(UNPROVED, reason))

    def receive(self, data: bytes) -> None:
        try:
            payloads = self._frames.feed(data)
        except FrameTooLong:
            self.close("TLS failed")
            return
        for payload in payloads:
            if self.is_closed:
                return
            if not self._is_secure:
                if not payload.startswith(HELLO):
                    self.close("TLS failed")
                    return
                self._is_secure = True
                self._go_on(self.greeting.secure(payload.removeprefix(HELLO).decode()))
            elif self.session is not None:
                self.machine.receive(self.session, payload)
            else:
                step = self.greeting.receive(decode_greeting(payload), self.machine.world.now)
                self._go_on(step)

    def _go_on(self, step: GreetingStep) -> None:
        if step.answer is not None:
            self.write(greeting_frame(step.answer))
        if step.is_link:
            self._has_ended = True
            self.machine.linked(self)
        elif step.failure is not None:
            closes = step.answer is None
            self._fail(step.failure)
            if closes:
                self.close(step.failure.message)

    def _fail(self, why: Rejected) -> None:
        if not self._has_ended:
            self._has_ended = True
            self.machine.failed(self, why)


class LinkedMachine:
    """One machine: its core, and what was sent, received and reported there."""

    def __init__(
        self, world: LinkWorld, name: str, addresses: tuple[str, ...], *, is_outward_only: bool
    ) -> None:
        self.world = world
        self.name = name
        self.addresses = addresses
        self.is_outward_only = is_outward_only
        self.runs = 0
        """How often it was started."""
        self.started_s = 0.0
        self.sent: list[tuple[str, int, float]] = []
        """Receiver, number and moment of each message of this run."""
        self.received: list[tuple[str, int, int]] = []
        """Sender, its run, and the number of each message that this run got."""
        self.told: list[tuple[float, LinkUp | LinkDown]] = []
        self.best: dict[str, str] = {}
        """Where each machine was reached last."""
        self.start()

    def start(self) -> None:
        """Start, without anything that it knew."""
        self.runs += 1
        self.started_s = self.world.now_s
        self.sent, self.received, self.told, self.best = [], [], [], {}
        self.ends: dict[LinkSession, End] = {}
        self.circuits: dict[CircuitEnd, End] = {}
        self.dials: dict[str, tuple[object, End | None]] = {}
        self.book = AddressBook(self.name)
        self.core = LinkCore(
            OwnCard(self.name, f"{self.name}-{self.runs}", "1"),
            self.book,
            Random(f"{self.world.seed}/{self.name}/{self.runs}"),
            is_outward_only=self.is_outward_only,
        )
        self._poll(self.core)

    @property
    def member(self) -> Member:
        told = () if self.is_outward_only else self.addresses
        is_outward_only = self.is_outward_only
        return Member(self.name, 1, MemberState.ALIVE, "lab", told, is_outward_only=is_outward_only)

    def send(self, other: str) -> None:
        """Send the next message to another machine."""
        number = len(self.sent)
        self.sent.append((other, number, self.world.now_s))
        message = Probe((self.runs << 32) + number)
        self.perform(self.core.send([Send(other, Part.MEMBERSHIP, message)], self.world.now))

    def _poll(self, core: LinkCore) -> None:
        if core is self.core:
            self.world.agenda.after(POLL_S, partial(self._poll, core))
            self.perform(core.poll(self.world.now))
            for session, end in list(self.ends.items()):
                self._poll_link(session, end)

    def _poll_link(self, session: LinkSession, end: End) -> None:
        session.poll(self.world.now_s)
        if session.keepalive.is_silent(self.world.now_s):
            end.close("it has not answered")
        elif session.keepalive.is_ping_due(self.world.now_s):
            self._write_frame(session, Ping(self.world.now_s))

    def _poll_once(self, core: LinkCore) -> None:
        if core is self.core:
            self.perform(core.poll(self.world.now))

    # --- orders ----------------------------------------------------------------------------------

    def perform(self, orders: Iterable[effects.LinkEffect]) -> None:
        core = self.core
        for order in orders:
            if core is self.core:
                self._perform(order)

    def _perform(self, order: effects.LinkEffect) -> None:
        match order:
            case effects.Transmit(link, sends):
                for data in link.frames(sends, NO_TEXTS.__getitem__, self.world.now_s):
                    self._write(link, data)
            case effects.TransmitFrame(link, content):
                self._write_frame(link, content)
            case effects.CloseLink(link, reason, _, is_told):
                if is_told:
                    self._write_frame(link, Bye(reason))
                if link in self.ends:
                    self.ends[link].close(reason)
            case FrameTo(machine, content):
                if machine in self.core.direct:
                    self._write_frame(self.core.direct[machine], content)
            case Received(end, received):
                self._circuit_received(end, received)
            case effects.Dial():
                self._dial(order)
            case effects.AbortDial(machine):
                _, dialled = self.dials.pop(machine, (None, None))
                if dialled is not None:
                    dialled.close("it is no longer wanted")
            case effects.PollIn(delay_s):
                self.world.agenda.after(delay_s, partial(self._poll_once, self.core))
            case LinkUp() | LinkDown():
                was_up = isinstance(self._last_told(order.machine), LinkUp)
                assert was_up or isinstance(order, LinkUp), "a link went down that was not up"
                self.told.append((self.world.now_s, order))

    def _last_told(self, machine: str) -> LinkUp | LinkDown | None:
        told = [event for _, event in self.told if event.machine == machine]
        return told[-1] if told else None

    def _write(self, link: LinkSession, data: bytes) -> None:
        if link in self.ends:
            self.ends[link].write(data)

    def _write_frame(self, link: LinkSession, content: LinkFrame) -> None:
        self._write(link, link.frame(content, self.world.now_s))

    def _dial(self, order: effects.Dial) -> None:
        machine, address, relay = order
        token = object()
        self.dials[machine] = (token, None)
        attempt = self.core.peers[machine].attempt
        assert attempt is not None
        if relay:
            assert relay in self.core.direct, "a circuit through a machine without a link"
            assert relay not in (self.name, machine), "a circuit that leads back"
        elif len(attempt.ways) == len(self.book.addresses(machine)) - 1:
            best = self.best.get(machine)
            told = self.world.machines[machine].addresses
            assert best not in told or best == address, f"{address} is tried before {best}"
        self.world.agenda.after(self.world.delay_s, partial(self._connect, order, token))

    def _connect(self, order: effects.Dial, token: object) -> None:
        if self.dials.get(order.machine, (None, None))[0] is not token:
            return
        core = self.core
        greeting = ClientGreeting(core, order.machine, is_direct=not order.relay)
        end = End(self, greeting, order.address)
        try:
            if order.relay:
                end.circuit = core.open_circuit(order.relay, order.machine)
                self.circuits[end.circuit] = end
            else:
                end.far = self.world.accept(self, order.address)
                end.far.far = end
        except NotReached as missed:
            del self.dials[order.machine]
            self.perform(core.missed(order.machine, missed, self.world.now))
            return
        self.dials[order.machine] = (token, end)
        end.begin()
        if end.far is not None:
            end.far.begin()

    def answering(self, *, is_direct: bool) -> End:
        """An end that was dialled."""
        return End(self, ServerGreeting(self.core, is_direct=is_direct))

    # --- events ----------------------------------------------------------------------------------

    def linked(self, end: End) -> None:
        name, greeting = end.greeting.machine, end.greeting
        if greeting.is_ours:
            del self.dials[name]
        if end.address:
            self.best[name] = end.address
        session = greeting.session(self.world.now_s)
        end.session = session
        self.ends[session] = end
        self.perform(self.core.linked(session, end.address, self.world.now))

    def failed(self, end: End, why: Rejected) -> None:
        machine = end.greeting.machine
        if isinstance(end.greeting, ServerGreeting):
            self.perform(self.core.answer_failed("somebody", machine, why, self.world.now))
            return
        for name, (_, dialled) in list(self.dials.items()):
            if dialled is end:
                del self.dials[name]
                missed = NotReached(why.code, why.message, is_refusal=bool(machine))
                self.perform(self.core.missed(name, missed, self.world.now))

    def link_over(self, session: LinkSession, reason: str) -> None:
        if self.ends.pop(session, None) is not None:
            self.perform(self.core.link_over(session, reason, self.world.now))

    def receive(self, session: LinkSession, payload: bytes) -> None:
        for event in session.receive(payload, self.world.now):
            match event:
                case PartMessages(messages):
                    for message, _ in messages:
                        number = message.number
                        self.received.append((session.machine, number >> 32, number & 0xFFFFFFFF))
                case Pong():
                    self._write_frame(session, event)
                case Bye(reason):
                    self.perform(self.core.bye(session, reason, self.world.now))
                case Carry() | CarryOver() | Credit():
                    direct = self.core.direct
                    self.perform(self.core.circuits.receive(session.machine, event, direct))
                case _:
                    raise AssertionError(f"{event} was not sent")

    def _circuit_received(self, circuit: CircuitEnd, content: Carry | CarryOver) -> None:
        end = self.circuits.get(circuit)
        if end is None:
            end = self.circuits[circuit] = self.answering(is_direct=False)
            end.circuit = circuit
            end.begin()
        if isinstance(content, CarryOver):
            del self.circuits[circuit]
            end.ended(content.reason)
        else:
            end.receive(content.content)


class LinkWorld:
    """Machines, the addresses at which they are, and the connections between them."""

    def __init__(self, seed: int, delay_s: float = 0.01) -> None:
        self.seed = seed
        self.delay_s = delay_s
        self.agenda = EventQueue()
        self.machines: dict[str, LinkedMachine] = {}
        self.at: dict[str, str] = {}
        """Which machine is at an address."""
        self.cut: set[frozenset[str]] = set()
        """Pairs of machines between which nothing arrives."""
        self.ends: list[End] = []

    @property
    def now_s(self) -> float:
        return self.agenda.now_s

    @property
    def now(self) -> Instant:
        return Instant(self.now_s, self.now_s)

    def add(self, name: str, *addresses: str, is_outward_only: bool = False) -> LinkedMachine:
        """Add a machine that tells these addresses; those that nobody has yet are its own."""
        machine = LinkedMachine(self, name, addresses, is_outward_only=is_outward_only)
        self.machines[name] = machine
        for address in addresses:
            self.at.setdefault(address, name)
        return machine

    def meet(self) -> None:
        """Let all know the addresses of all, as membership would."""
        members = [each.member for each in self.machines.values()]
        for machine in self.machines.values():
            machine.book.update(members)
            names = [each.name for each in members if each.name != machine.name]
            machine.perform(machine.core.members_changed(names, self.now))

    def accept(self, dialling: LinkedMachine, address: str) -> End:
        """Return the far end of a new connection; raises `NotReached`."""
        name = self.at.get(address, "")
        if not name or frozenset((name, dialling.name)) in self.cut:
            raise NotReached(UNREACHED, f"no answer from {address}")
        end = self.machines[name].answering(is_direct=True)
        self.ends.append(end)
        return end

    def carry(self, end: End, arrive: Callable[[], None]) -> None:
        """Let something of an end arrive at the other one, unless the two are cut off."""
        if end.far is not None and frozenset((end.machine.name, end.far.machine.name)) in self.cut:
            end.is_cut_off = True
        if not end.is_cut_off:
            self.agenda.after(self.delay_s, arrive)

    def break_connections(self, one: str, other: str) -> None:
        """Break the connections between two machines; what is on its way is lost."""
        for end in self.ends:
            far = end.far
            if far is not None and {end.machine.name, far.machine.name} == {one, other}:
                end.ended("it broke")
                far.ended("it broke")

    def restart(self, name: str) -> None:
        """Start a machine again."""
        machine = self.machines[name]
        for end in self.ends:
            for own, far in ((end, end.far), (end.far, end)):
                if own is not None and far is not None and own.machine is machine:
                    own.is_closed = True
                    self.carry(own, partial(far.ended, "it closed the connection"))
        machine.start()
        self.meet()

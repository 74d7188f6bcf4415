"""Entrances that decode messages, fed without a socket: frames, and what cores do with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from random import Random
from typing import Any

import msgspec

from iriai.config.reader import Configuration
from iriai.config.sections import JobSection, ReservationsSection
from iriai.launcher.contract.messages import ToLauncher
from iriai.machine.core import Machine
from iriai.model.bounds import decoded
from iriai.model.ids import Account, ReservationId
from iriai.model.policy_terms import JobAction
from iriai.model.problem import Problem
from iriai.model.records import Record
from iriai.model.reservation import ReservationTerms
from iriai.model.resources import Resources
from iriai.protocol.delivery.authorization import is_authorized
from iriai.protocol.messages.effects import Delivered, Part, Send
from iriai.protocol.messages.scheduling import End
from iriai.sim.world.machine_model import SimulatedMachine
from iriai.system.frames import FrameReader, FrameTooLong
from iriai.wire.codec import decode_request
from iriai.wire.envelopes import Request
from iriai.wire.greetings import GreetingFrame, decode_greeting
from iriai.wire.links import LinkFrame, decode_link_frame
from iriai.wire.parts import KINDS, Envelope, pack, unpack
from tests.fuzz.entrance import Entrance
from tests.fuzz.mutation import encoded, mutated_bytes, mutated_tree, with_hostile_number
from tests.fuzz.reserving import plausible
from tests.fuzz.values import value_of
from tests.support.virtual import VirtualMachine

PERMISSIVE = Configuration(
    jobs=JobSection(policy_may=tuple(JobAction)), reservations=ReservationsSection(policy="above")
)
"""What a policy proposes is done; bookings of any home have room, whatever runs."""
SENDER = "take"
"""A member that keeps no rule."""
MESSAGES_A_MACHINE = 2_000
"""Then a new one is made: what hostile messages leave behind is bounded by that."""

_launcher: msgspec.msgpack.Decoder[ToLauncher] = msgspec.msgpack.Decoder(ToLauncher)


def hostile(kind: Any, trees: float = 0.6, raw: float = 0.15) -> Callable[[Random], bytes]:
    """Makes encoded values of `kind`: honest ones, parts of changed `trees`, and of `raw` bytes."""

    def make(rng: Random) -> bytes:
        tree = value_of(kind, rng)
        choice = rng.random()
        if choice < trees:
            tree = mutated_tree(tree, rng)
        content = encoded(tree)
        return mutated_bytes(content, rng) if choice > 1 - raw else content

    return make


def refusing(read: Callable[[bytes], object]) -> Callable[[bytes], None]:
    """Feeds `read`, which may refuse as decoders and problems do."""

    def feed(content: bytes) -> None:
        with suppress(msgspec.MsgspecError, Problem):
            read(content)

    return feed


def _framed(content: bytes) -> None:
    """A stream of frames, cut anywhere."""
    reader = FrameReader(1 << 16)
    middle = len(content) // 2
    with suppress(FrameTooLong):
        reader.feed(content[:middle])
        reader.feed(content[middle:])


def _streams(rng: Random) -> bytes:
    pieces = [rng.randbytes(rng.choice((0, 1, 100))) for _ in range(rng.randint(0, 4))]
    content = b"".join(len(each).to_bytes(4, "big") + each for each in pieces)
    return mutated_bytes(content, rng)


def _link_frame(content: bytes) -> None:
    frame = decode_link_frame(content)
    for envelope in getattr(frame, "messages", ()):
        unpack(envelope)


_KINDS = [
    (part, tag, kind)
    for part in ("node", "home", "broker", "succession")
    for tag, kind in KINDS[part].items()
]


def envelopes(rng: Random) -> bytes:
    """One message of a member to a part, often about things that are there."""
    if rng.random() < 0.3:
        part, tag, tree = plausible(rng)
        choice = 2.0 * rng.random()
    else:
        part, tag, kind = rng.choice(_KINDS)
        tree, choice = value_of(kind, rng), rng.random()
    if choice < 0.3:
        tree = with_hostile_number(tree, rng)
    elif choice < 0.7:
        tree = mutated_tree(tree, rng)
    body = encoded(tree)
    if rng.random() < 0.05:
        body = mutated_bytes(body, rng)
    return encoded([part, tag, body])


class Cores:
    """Node, home and broker of a machine with some work, to which a member says things."""

    def __init__(self) -> None:
        import_module("iriai.classad.column_evaluator")  # else the first requirement waits for it
        self._left = 0
        self._begin()

    def _begin(self) -> None:
        self._left = MESSAGES_A_MACHINE
        self._machine = VirtualMachine(6, is_checked=False, configuration=PERMISSIVE)
        self._machine.simulated.on_send = self._said  # to machines that are not there
        # Ends of any kind are said in our own name as well: see `take`.
        self._machine.simulated.liars = frozenset({SENDER, "ume"})
        self._write = self._machine.simulated.commits.write
        self._machine.simulated.commits.write = self._checked  # type: ignore[method-assign]
        wall_s = self._machine.now.wall_s
        account = Account("lab", "ann")
        for start_s in (0.0, 600.0):
            terms = ReservationTerms(
                account, "ann", wall_s + start_s, wall_s + 1e6, 1, Resources(1), users=("bob",)
            )
            self._machine.machine.home.reservations.ask(terms, self._machine.now)
            self._machine.wait(10.0)
        for tasks in (1, 3, 20):
            self._machine.submit(tasks=tasks, run_s=1e6)

    @property
    def kept(self) -> list[ReservationId]:
        """Of which reservations the node keeps bookings."""
        return list(self._machine.machine.node.bookings.kept)

    @staticmethod
    def _said(_machine: SimulatedMachine, send: Send) -> None:
        """Whatever is said to others has to be what they can read."""
        try:
            unpack(pack(send.part, send.message))
        except msgspec.MsgspecError as error:
            raise AssertionError(f"{send.message} would be sent: {error}") from error

    def _checked(self, records: Sequence[Record], is_urgent: bool, now_s: float) -> None:
        """Whatever is stored has to be what can be read again, and what columns hold."""
        for record in records:
            try:
                msgspec.msgpack.decode(msgspec.msgpack.encode(record), type=type(record))
            except msgspec.MsgspecError as error:
                raise AssertionError(f"{record} would be stored: {error}") from error
        self._write(records, is_urgent, now_s)

    def take(self, content: bytes) -> None:
        """Deliver what can be read and may be said; the parts must hold afterwards."""
        self._left -= 1
        if self._left < 0:
            self._begin()
        part, kind, body = msgspec.msgpack.decode(content)
        message = unpack(Envelope(part, kind, msgspec.Raw(body)))
        virtual = self._machine
        # An end counts from where the task runs, which is here: as if that were another machine.
        is_of_task = isinstance(message, End) and message.result.machine == "ume"
        sender = "ume" if is_of_task else SENDER
        if not is_authorized(sender, "ume", message):
            return
        try:
            machine: Machine = virtual.machine
            machine.handle(Delivered(sender, Part(part), message), virtual.now)
            virtual.turn()
        except BaseException:
            self._left = 0
            raise


def entrances() -> list[Entrance]:
    """All of them."""
    cores = Cores()
    return [
        Entrance("E1", "frames", _streams, _framed, ("iriai.system.frames",)),
        Entrance(
            "E2",
            "requests",
            hostile(Request),
            refusing(decode_request),
            ("iriai.wire.codec", "iriai.model.bounds"),
        ),
        Entrance(
            "E3",
            "launcher messages",
            hostile(ToLauncher),
            refusing(lambda content: decoded(_launcher, content)),
            ("iriai.model.bounds",),
        ),
        Entrance(
            "E5",
            "greetings",
            hostile(GreetingFrame),
            refusing(decode_greeting),
            ("iriai.wire.greetings",),
        ),
        Entrance(
            "E6",
            "link frames",
            hostile(LinkFrame),
            refusing(_link_frame),
            ("iriai.wire.links", "iriai.wire.parts"),
        ),
        Entrance(
            "E7",
            "messages to cores",
            envelopes,
            refusing(cores.take),
            ("iriai.machine.core", "iriai.node.core", "iriai.home.core", "iriai.broker.core"),
        ),
    ]

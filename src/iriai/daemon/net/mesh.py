"""The links of this machine with others of its cluster, over the network (docs/spec/005).

Whoever has something to say to a machine has a link made, which stays for a while. Of two machines
that dial each other at once one yields, so that there is one link for each pair.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from random import Random
from typing import NamedTuple

from iriai.daemon.net.acceptor import PLACE_NEEDED, Acceptor
from iriai.daemon.net.address_book import AddressBook
from iriai.daemon.net.circuit import Circuit
from iriai.daemon.net.circuits import Circuits
from iriai.daemon.net.credentials import Credentials
from iriai.daemon.net.dialer import (
    RELAYS_TRIED,
    UNREACHED,
    NotReached,
    dial_address,
    first_reached,
    greet,
)
from iriai.daemon.net.handshake import Established, ServerHandshake
from iriai.daemon.net.link import NETWORK, MachineLink, Texts
from iriai.daemon.net.peer_connection import HELD_S, PeerConnection
from iriai.daemon.net.violations import Violations
from iriai.daemon.payloads.payload_store import PassedDescriptors, PayloadStore
from iriai.daemon.transport.tls_stream import HANDSHAKE_S
from iriai.machine.core import MachineEvent
from iriai.model.instant import SILENCE_S
from iriai.model.problem import Problem
from iriai.policy.service.shared_quota import SharedQuota
from iriai.policy.service.token_bucket import Rate, TokenBuckets
from iriai.policy.service.unauthenticated import Bounds, UnauthenticatedConnections
from iriai.protocol.clock_offset import Estimate
from iriai.protocol.messages.effects import Delivered, LinkDown, LinkUp, Part, Send
from iriai.protocol.messages.scheduling import Message
from iriai.system.clock import now as read_clocks
from iriai.system.internal_errors import FAULTS
from iriai.wire.greetings import TOO_MANY, YIELD, Rejected
from iriai.wire.links import IDLE_S, Bid, Bye, CircuitFrame, Obeyed, OutOfPlace
from iriai.wire.parts import tag_of

log = logging.getLogger(__name__)

LOOK_S = 1.0
"""Between two looks at what is idle, held too long, or missing."""
LINKS_MAX = 600
"""More than a cluster of 500 needs, below the usual limit of 1,024 descriptors of a process."""
RELAYS_KEPT = 2
"""Links that an outward-only machine keeps open: one may go, and it is still reached."""
UNFINISHED_BYTES_MAX = 256 << 20
"""Of frames and texts of all links whose rest has not come: those of thirty at once at their
longest; beyond that no link may have more than an equal share."""
RELAYED = Bounds(in_all=128, of_source=32)
"""Circuits whose opener has not proved who it is, by the relay that they came through."""
RATE_OF_RELAY = Rate(per_s=20.0, burst=200.0)
"""Circuits that may be opened to us through one relay: each takes a handshake."""
FLOOD_S = 60.0
"""How long a machine that sent more than may be is not linked again."""


class LinkState(NamedTuple):
    """The state of the link with another machine, for people and programs."""

    machine: str
    is_up: bool
    is_direct: bool
    problem: str
    since_wall_s: float
    sent_bytes: int
    received_bytes: int
    offset: Estimate | None


class Listener(NamedTuple):
    """The receiver of incoming messages."""

    event: Callable[[MachineEvent], None]
    """`Delivered`, `LinkUp`, `LinkDown`."""
    takes: Callable[[str, Part, Message], bool]
    """Whether a machine may say this to a part of ours."""
    texts: Callable[[str, Texts, bool], None]
    """Texts of a machine, and whether it counts on none that came before."""


class Mesh:
    """The links of this machine with the others of its cluster."""

    def __init__(
        self,
        passport: Credentials,
        book: AddressBook,
        listener: Listener,
        payloads: PayloadStore,
        rng: Random,
        *,
        is_outward_only: bool = False,
        silence_s: float = SILENCE_S,
    ) -> None:
        """`silence_s`: after which the other end of a link is taken for away."""
        self.violations = Violations()
        self._credentials = passport
        self._book = book
        self._listener = listener
        self._payloads = payloads
        self._rng = rng
        self._is_outward_only = is_outward_only
        self._link_profile = NETWORK._replace(silence_s=silence_s)
        self._peers: dict[str, PeerConnection] = {}
        self._parting: dict[MachineLink, PeerConnection] = {}
        """Links that are over for us, until the other end has said so too."""
        self._shunned_until_s: dict[str, float] = {}
        self._unfinished = SharedQuota(UNFINISHED_BYTES_MAX)
        self._relayed: UnauthenticatedConnections[ServerHandshake] = UnauthenticatedConnections(
            RELAYED, lambda each: each.stream.has_spoken
        )
        self._of_relay: TokenBuckets[str] = TokenBuckets(RATE_OF_RELAY)
        self.circuits = Circuits(passport.name, self._direct_link, self._circuit_opened)
        self.acceptor = Acceptor(
            passport, self.violations, self._decide, self._linked, self._answer_failed, book.is_at
        )
        self._loop = asyncio.get_running_loop()
        self._looking: asyncio.TimerHandle | None = None
        self._is_closing = False

    # --- for the daemon --------------------------------------------------------------------------

    def begin(self) -> None:
        """Look for others, and after the links, from here on."""
        self._poll()

    def send(self, sends: list[Send]) -> None:
        """What the cores say to other machines; a link is made where there is none."""
        by_machine: dict[str, list[Send]] = {}
        for send in sends:
            by_machine.setdefault(send.machine, []).append(send)
        for machine, ours in by_machine.items():
            neighbour = self._peers.get(machine)
            if neighbour is not None and neighbour.link is not None:
                neighbour.link.send(ours)
            elif neighbour is not None or self._book.is_known(machine):
                neighbour = self._peer(machine)
                neighbour.hold(ours, _steady_s())
                self._dial(neighbour)

    @property
    def instance(self) -> str:
        """Of this machine."""
        return self._credentials.instance

    def is_up(self, machine: str) -> bool:
        """Whether there is a link now."""
        neighbour = self._peers.get(machine)
        return neighbour is not None and neighbour.link is not None

    def block(self, machine: str, reason: str, for_s: float) -> None:
        """End the link with a machine that did harm, and have none with it for a while."""
        now_s = _steady_s()
        self._shunned_until_s[machine] = now_s + for_s
        self.violations.note(machine, "shunned", reason, now_s)
        neighbour = self._peers.get(machine)
        if neighbour is not None and neighbour.link is not None:
            neighbour.link.break_off(reason)

    def last_contact_ago_s(self, machine: str) -> float | None:
        """Since anything came over the link with a machine; None: there is none now."""
        neighbour = self._peers.get(machine)
        link = neighbour.link if neighbour is not None else None
        return None if link is None else link.silent_s

    def states(self) -> list[LinkState]:
        """How it stands with each machine that there was anything to say to, by name."""
        return [
            LinkState(
                name,
                each.link is not None or each.is_up,
                each.is_direct,
                each.problem,
                each.since_wall_s,
                *each.totals_bytes,
                each.link.offset.best() if each.link else None,
            )
            for name, each in sorted(self._peers.items())
        ]

    def members_changed(self, machines: Iterable[str]) -> None:
        """Something new is known of these: whoever is waited for may be there again."""
        for machine in machines:
            neighbour = self._peers.get(machine)
            if neighbour is not None and neighbour.retry is not None:
                neighbour.retry.cancel()
                self._retry(neighbour)

    def trust_changed(self) -> None:
        """Someone was ejected, perhaps: close links with those who are not believed any more."""
        for neighbour in list(self._peers.values()):
            if neighbour.link is None:
                continue
            try:
                self._credentials.check_peer(neighbour.certificate)
            except Problem as problem:
                self.violations.note(neighbour.name, problem.code, str(problem), _steady_s())
                neighbour.link.break_off(str(problem))

    def close(self) -> None:
        """End all links."""
        self._is_closing = True
        self.acceptor.close()
        if self._looking is not None:
            self._looking.cancel()
        for neighbour in self._peers.values():
            if neighbour.dialling is not None:
                neighbour.dialling.cancel()
        for answered in list(self._relayed):
            answered.close("the daemon ends")
        for neighbour in self._peers.values():
            if neighbour.retry is not None:
                neighbour.retry.cancel()
            if neighbour.link is not None:
                neighbour.link.close("the daemon ends")
        for link in list(self._parting):
            link.close("the daemon ends")

    # --- dialling --------------------------------------------------------------------------------

    def _peer(self, machine: str) -> PeerConnection:
        found = self._peers.get(machine)
        if found is None:
            found = PeerConnection(machine, since_wall_s=read_clocks("mesh").wall_s)
            self._peers[machine] = found
        return found

    def _dial(self, neighbour: PeerConnection) -> None:
        """Have a link made, unless that is under way or to be tried again soon."""
        is_idle = neighbour.dialling is None and neighbour.retry is None
        is_answered = neighbour.answered_until_s > _steady_s()
        if self._is_closing or neighbour.link is not None or not is_idle or is_answered:
            return
        neighbour.dialling = self._loop.create_task(self._reach(neighbour))
        neighbour.dialling.add_done_callback(_raise)

    async def _reach(self, neighbour: PeerConnection) -> None:
        try:
            greeted = await first_reached(self._ways(neighbour.name))
        except NotReached as missed:
            neighbour.dialling = None
            self._missed(neighbour, missed)
        except Exception as error:  # noqa: BLE001 - see system.internal_errors
            neighbour.dialling = None
            words = FAULTS.note(f"a dialled connection with {neighbour.name}", error)
            self._missed(neighbour, NotReached(UNREACHED, words))
        else:
            neighbour.dialling = None
            self._linked(greeted)

    def _ways(self, machine: str) -> list[Callable[[], Awaitable[Established]]]:
        wanted = self._is_wanted
        if not self._book.is_outward_only(machine):
            return [
                partial(dial_address, address, machine, self._credentials, wanted)
                for address in self._book.addresses(machine)
            ]
        relays = [each for each in self._book.relays(machine) if each != self._credentials.name]
        return [partial(self._through, relay, machine) for relay in relays[:RELAYS_TRIED]]

    async def _through(self, relay: str, machine: str) -> Established:
        """A link through a relay, to which there is a link or one is made first."""
        link = self._direct_link(relay)
        if link is None:
            neighbour = self._peer(relay)
            self._dial(neighbour)
            if neighbour.dialling is not None:
                await asyncio.wait([neighbour.dialling])
            link = self._direct_link(relay)
        if link is None:
            raise NotReached(UNREACHED, f"{relay}, which could relay to it, is not reachable")
        circuit = self.circuits.open(relay, link, machine)
        try:
            return await greet(
                circuit, machine, self._credentials, self._is_wanted, is_direct=False
            )
        except NotReached as missed:
            if missed.code == "unproved":  # the relay has no link with it, or lost it
                raise NotReached(UNREACHED, f"through {relay}: {missed.message}") from None
            raise

    def _missed(self, neighbour: PeerConnection, missed: NotReached) -> None:
        if missed.code != YIELD and missed.message != neighbour.problem:
            log.warning("no link with %s: %s", neighbour.name, missed.message)
            neighbour.problem = missed.message
        if neighbour.is_needed and not self._is_closing:
            pause_s = neighbour.next_pause_s(self._rng)
            neighbour.retry = self._loop.call_later(pause_s, self._retry, neighbour)

    def _retry(self, neighbour: PeerConnection) -> None:
        neighbour.retry = None
        if neighbour.is_needed:
            self._dial(neighbour)

    def _is_wanted(self, machine: str) -> bool:
        """Whether a link that we dialled is still wanted, now that it could begin."""
        if self._is_blocked(machine):
            return False
        neighbour = self._peers.get(machine)
        if neighbour is None:
            return True
        is_answered = neighbour.answered_until_s > _steady_s()
        return not is_answered and (neighbour.link is None or not neighbour.is_direct)

    def _is_blocked(self, machine: str) -> bool:
        return self._shunned_until_s.get(machine, 0.0) > _steady_s()

    # --- links begin -----------------------------------------------------------------------------

    def _decide(self, machine: str, is_direct: bool) -> Rejected | None:
        """Why a machine that dialled us may not have its link; None: it may."""
        if self._is_blocked(machine):
            words = f"{machine} sent too much, or invalid messages, less than {FLOOD_S:.0f} s ago"
            return Rejected("shunned", words)
        if sum(each.link is not None for each in self._peers.values()) >= LINKS_MAX:
            return Rejected(TOO_MANY, f"{self._credentials.name} has {LINKS_MAX} links already")
        neighbour = self._peer(machine)
        if neighbour.link is not None and neighbour.is_direct and not is_direct:
            return Rejected(YIELD, "there is a link without a relay")
        ours = (not self._book.is_outward_only(machine), machine)
        if neighbour.dialling is not None and ours > (is_direct, self._credentials.name):
            return Rejected(YIELD, f"{self._credentials.name} is dialling {machine} itself")
        neighbour.answered_until_s = _steady_s() + HANDSHAKE_S
        return None

    def _answer_failed(self, machine: str) -> None:
        """One that dialled us did not begin the link, though it might have."""
        neighbour = self._peers.get(machine)
        if neighbour is not None:
            neighbour.answered_until_s = 0.0
            if neighbour.is_needed:
                self._dial(neighbour)

    def _circuit_opened(self, circuit: Circuit, relay: str) -> None:
        """Someone opened a circuit to us, through a member that can make up whom it is for."""
        now_s = _steady_s()
        goes, why = self._relayed.who_goes(relay, now_s)
        if not why and not self._of_relay.consume(relay, now_s):
            why = f"more than {RATE_OF_RELAY.per_s:.0f} circuits a second"
        if why:
            self.violations.note(relay, "too-many-circuits", f"through it: {why}", now_s)
            circuit.close(why)
            return
        for each in goes:
            each.close(PLACE_NEEDED)

        def failed(machine: str, code: str, message: str) -> None:
            self._answer_failed(machine)
            if code != YIELD:
                who = machine or f"an unauthenticated peer that calls itself {circuit.key.opener}"
                self.violations.note(who, code, message, _steady_s())

        answered = ServerHandshake(
            circuit,
            self._credentials,
            is_direct=False,
            decide=self._decide,
            on_anonymous=None,
            on_done=self._linked,
            on_failed=failed,
        )
        self._relayed.enter(answered, relay, now_s)
        answered.stream.on_admitted = lambda: self._relayed.leave(answered)

    def _linked(self, greeted: Established) -> None:
        """A connection became a link."""
        neighbour = self._peer(greeted.machine)
        if neighbour.link is not None:
            neighbour.is_lossy = True
            neighbour.link.close("a new connection of the same machine replaces it")
        if self._is_closing:
            greeted.stream.close("the daemon ends")
            return
        greeted.stream.bound(partial(self._hold, (greeted.machine, greeted.stream)))
        link = MachineLink(
            greeted.stream,
            greeted.machine,
            self,
            self._payloads,
            PassedDescriptors(),
            self._link_profile,
        )
        link.hold = partial(self._hold, (greeted.machine, link))
        self._adopt_link(neighbour, greeted, link)
        log.info("%s is linked%s", neighbour.name, "" if greeted.is_direct else " through a relay")
        if neighbour.is_lossy:
            neighbour.is_lossy = False
            neighbour.is_up = True
            self._listener.event(LinkUp(neighbour.name))
        held = neighbour.release()
        if held:
            link.send(held)
        if greeted.rest:
            link.receive(greeted.rest)

    def _hold(self, who: tuple[str, object], held_bytes: int) -> str:
        """Why a link may not have so much under way; empty: it may."""
        if self._unfinished.hold(who, held_bytes):
            return ""
        self._unfinished.hold(who, 0)
        return f"{held_bytes} bytes of incomplete frames or texts are more than its share"

    def _adopt_link(
        self, neighbour: PeerConnection, greeted: Established, link: MachineLink
    ) -> None:
        """What is known of a neighbour from here on."""
        if neighbour.dialling is not None:
            neighbour.dialling.cancel()
            neighbour.dialling = None
        if neighbour.retry is not None:
            neighbour.retry.cancel()
            neighbour.retry = None
        neighbour.is_lossy |= neighbour.instance != greeted.instance
        neighbour.link = link
        neighbour.is_direct, neighbour.is_ours = greeted.is_direct, greeted.is_dialled
        neighbour.certificate, neighbour.instance = greeted.certificate, greeted.instance
        neighbour.is_wanted = False
        neighbour.answered_until_s = 0.0
        neighbour.problem = ""
        neighbour.since_wall_s = read_clocks("mesh").wall_s

    def _direct_link(self, machine: str) -> MachineLink | None:
        neighbour = self._peers.get(machine)
        return neighbour.link if neighbour is not None and neighbour.is_direct else None

    # --- what links tell -------------------------------------------------------------------------

    def delivered(self, link: MachineLink, part: Part, message: Message) -> None:
        """A message of another machine."""
        if self._listener.takes(link.machine, part, message):
            self._listener.event(Delivered(link.machine, part, message))
        else:
            words = f"it may not send {tag_of(message)} to our {part}"
            self.violations.note(link.machine, "not-its-own", words, _steady_s())

    def texts(self, link: MachineLink, texts: Texts, *, forget: bool) -> None:
        """Environments and scripts of tasks that follow."""
        self._listener.texts(link.machine, texts, forget)

    def bid(self, link: MachineLink, bid: Bid) -> None:
        """Operators of other machines have nothing to say here."""
        raise OutOfPlace("an operator's request goes to the machine itself")

    def obeyed(self, link: MachineLink, answer: Obeyed) -> None:
        """Nothing was asked."""

    def circuit(self, link: MachineLink, frame: CircuitFrame) -> None:
        """Something of a circuit."""
        self.circuits.receive(link, frame)

    def bye(self, link: MachineLink, reason: str) -> None:
        """The other machine says nothing more on this link."""
        neighbour = self._parting.get(link)
        if reason:
            link.end(f"{link.machine} closed it: {reason}")
        elif neighbour is not None:  # the answer to ours: everything has arrived
            neighbour.is_lossy = False
            link.end("it is not needed")
        else:
            neighbour = self._peers[link.machine]
            if neighbour.link is link:
                self._part(neighbour, link)
            link.send_frame(Bye())

    def link_over(self, link: MachineLink, reason: str) -> None:
        """A link is closed."""
        neighbour = self._parting.pop(link, None)
        if neighbour is not None:
            neighbour.count(link)
            return
        neighbour = self._peers[link.machine]
        if neighbour.link is not link:
            return
        neighbour.count(link)
        neighbour.link = None
        neighbour.problem, neighbour.since_wall_s = reason, read_clocks("mesh").wall_s
        neighbour.is_lossy = neighbour.is_wanted = True
        log.warning("the link with %s is over: %s", link.machine, reason)
        self._listener.texts(link.machine, (), True)  # the next link begins without any
        if link.is_flooded:
            self._shunned_until_s[link.machine] = _steady_s() + FLOOD_S
            self.violations.note(link.machine, "flood", reason, _steady_s())
        elif link.is_at_fault:
            self.violations.note(link.machine, "protocol", reason, _steady_s())
        self._down(neighbour)
        if neighbour.is_direct:
            self.circuits.link_over(link.machine, reason)
        if not self._is_closing:
            neighbour.retry = self._loop.call_later(
                neighbour.next_pause_s(self._rng), self._retry, neighbour
            )

    def _down(self, neighbour: PeerConnection) -> None:
        if neighbour.is_up:
            neighbour.is_up = False
            self._listener.event(LinkDown(neighbour.name))

    # --- now and then ----------------------------------------------------------------------------

    def _poll(self) -> None:
        """What is idle, held too long, missing or forgotten."""
        self._looking = self._loop.call_later(LOOK_S, self._poll)
        now_s = _steady_s()
        kept = self._keep_relays() if self._is_outward_only else []
        for neighbour in list(self._peers.values()):
            link = neighbour.link
            if link is None:
                self._poll_unlinked(neighbour, now_s)
            elif neighbour.is_ours and link.idle_s > IDLE_S and neighbour.name not in kept:
                link.send_frame(Bye())
                self._part(neighbour, link)
        self._shunned_until_s = {m: s for m, s in self._shunned_until_s.items() if s > now_s}

    def _poll_unlinked(self, neighbour: PeerConnection, now_s: float) -> None:
        """One without a link."""
        if neighbour.held and now_s > neighbour.held_until_s:
            lost = len(neighbour.release())
            neighbour.is_lossy = True
            log.info("%d messages to %s are lost: no link in %.0f s", lost, neighbour.name, HELD_S)
            self._down(neighbour)
        if not self._book.is_member(neighbour.name):
            neighbour.is_wanted = False
            if not neighbour.held and neighbour.dialling is None:
                if neighbour.retry is not None:
                    neighbour.retry.cancel()
                del self._peers[neighbour.name]

    def _part(self, neighbour: PeerConnection, link: MachineLink) -> None:
        """This link is over for us; nothing is lost if the other end says so too."""
        neighbour.link = None
        neighbour.problem, neighbour.since_wall_s = "not needed", read_clocks("mesh").wall_s
        self._parting[link] = neighbour
        if neighbour.is_ours:
            neighbour.is_lossy = True  # until the answer has come
        if neighbour.is_direct:
            self.circuits.link_over(link.machine, "the link is not needed")

    def _keep_relays(self) -> list[str]:
        """The relays that lead here: links with them are made, and kept."""
        kept: list[str] = []
        for name in self._book.relays(self._credentials.name)[:RELAYS_TRIED]:
            neighbour = self._peer(name)
            if neighbour.link is None:
                neighbour.is_wanted = True
                self._dial(neighbour)
            if not self._is_missed(name):
                kept.append(name)
            if len(kept) == RELAYS_KEPT:
                break
        return kept

    def _is_missed(self, machine: str) -> bool:
        """Whether a machine could not be reached when it was tried last."""
        neighbour = self._peers.get(machine)
        return neighbour is not None and neighbour.link is None and neighbour.retry is not None


def _raise(task: asyncio.Task[None]) -> None:
    """An error of ours ends the daemon, as everywhere."""
    if not task.cancelled():
        task.result()


def _steady_s() -> float:
    return read_clocks("mesh").steady_s

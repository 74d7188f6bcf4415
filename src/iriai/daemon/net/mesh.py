"""The links of this machine with others of its cluster, over the network (docs/spec/005).

A link is made when there is a message for a machine, and stays for a while. Of two machines that
dial each other at once one yields, so that there is one link for each pair.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from random import Random
from typing import NamedTuple

from iriai.daemon.net.acceptor import PLACE_NEEDED, Acceptor, AnonymousArrived
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
from iriai.daemon.net.handshake import UNPROVED, Established, ServerHandshake
from iriai.daemon.net.link import NETWORK, LinkOwner, MachineLink, Texts
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
from iriai.wire.links import IDLE_S, Bye, CircuitFrame
from iriai.wire.parts import tag_of

log = logging.getLogger(__name__)

POLL_S = 1.0
"""Between two searches for links that are idle or missing, and messages held too long."""
LINKS_MAX = 600
"""More than a cluster of 500 needs, below the usual limit of 1,024 descriptors of a process."""
RELAYS_KEPT = 2
"""Links that an outward-only machine keeps open: if one breaks, it is still reached."""
UNFINISHED_BYTES_MAX = 256 << 20
"""Of incomplete frames and texts of all links: enough for thirty of the largest; beyond it no link
may have more than an equal share."""
RELAYED = Bounds(in_all=128, of_source=32)
"""Circuits whose opener has not authenticated, by their relay."""
RATE_OF_RELAY = Rate(per_s=20.0, burst=200.0)
"""Incoming circuits through one relay: each takes a handshake."""
FLOOD_S = 60.0
"""How long a machine that flooded a link is refused."""


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
    """Whether a machine may send this message to a part of this machine."""
    texts: Callable[[str, Texts, bool], None]
    """Texts of a machine, and whether it relies on none that came before."""


class Mesh(LinkOwner):
    """The links of this machine with the others of its cluster."""

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
        self.violations = Violations()
        self._credentials = credentials
        self._book = book
        self._listener = listener
        self._payloads = payloads
        self._rng = rng
        self._is_outward_only = is_outward_only
        self._link_profile = NETWORK._replace(silence_s=silence_s)
        self._peers: dict[str, PeerConnection] = {}
        self._parting: dict[MachineLink, PeerConnection] = {}
        """Links that this machine closes, until the other end has answered."""
        self._blocked_until_s: dict[str, float] = {}
        self._unfinished = SharedQuota(UNFINISHED_BYTES_MAX)
        self._relayed: UnauthenticatedConnections[ServerHandshake] = UnauthenticatedConnections(
            RELAYED, lambda each: each.stream.has_spoken
        )
        self._of_relay: TokenBuckets[str] = TokenBuckets(RATE_OF_RELAY)
        self.circuits = Circuits(credentials.name, self._direct_link, self._circuit_opened)
        self.acceptor = Acceptor(
            credentials,
            self.violations,
            self._decide,
            self._linked,
            self._answer_failed,
            book.is_at,
            on_anonymous,
        )
        self._loop = asyncio.get_running_loop()
        self._polling: asyncio.TimerHandle | None = None
        self._is_closing = False

    # --- for the daemon --------------------------------------------------------------------------

    def begin(self) -> None:
        """Start to make and supervise links."""
        self._poll()

    def send(self, sends: list[Send]) -> None:
        """Send messages to other machines; make a link where there is none."""
        by_machine: dict[str, list[Send]] = {}
        for send in sends:
            by_machine.setdefault(send.machine, []).append(send)
        for machine, ours in by_machine.items():
            peer = self._peers.get(machine)
            if peer is not None and peer.link is not None:
                peer.link.send(ours)
            elif peer is not None or self._book.is_known(machine):
                peer = self._peer(machine)
                peer.hold(ours, _steady_s())
                self._dial(peer)

    @property
    def instance(self) -> str:
        """This machine's instance."""
        return self._credentials.instance

    def is_up(self, machine: str) -> bool:
        """Whether there is a link with a machine."""
        peer = self._peers.get(machine)
        return peer is not None and peer.link is not None

    def block(self, machine: str, reason: str, for_s: float) -> None:
        """End the link with a machine that did harm, and refuse it for a while."""
        now_s = _steady_s()
        self._blocked_until_s[machine] = now_s + for_s
        self.violations.note(machine, "shunned", reason, now_s)
        peer = self._peers.get(machine)
        if peer is not None and peer.link is not None:
            peer.link.break_off(reason)

    def last_contact_ago_s(self, machine: str) -> float | None:
        """Return the seconds since a machine sent anything over its link; None: it has none."""
        peer = self._peers.get(machine)
        link = peer.link if peer is not None else None
        return None if link is None else link.silent_s

    def states(self) -> list[LinkState]:
        """Return the state of the link with each machine that messages were sent to, by name."""
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
        """Dial those of the machines at once whose next attempt is due later."""
        for machine in machines:
            peer = self._peers.get(machine)
            if peer is not None and peer.retry is not None:
                peer.retry.cancel()
                self._retry(peer)

    def trust_changed(self) -> None:
        """Close the links whose certificate is no longer valid, such as of an ejected machine."""
        for peer in list(self._peers.values()):
            if peer.link is None:
                continue
            try:
                self._credentials.check_peer(peer.certificate)
            except Problem as problem:
                self.violations.note(peer.name, problem.code, str(problem), _steady_s())
                peer.link.break_off(str(problem))

    def close(self) -> None:
        """End all links."""
        self._is_closing = True
        self.acceptor.close()
        if self._polling is not None:
            self._polling.cancel()
        for peer in self._peers.values():
            if peer.dialling is not None:
                peer.dialling.cancel()
        for answered in list(self._relayed):
            answered.close("the daemon ends")
        for peer in self._peers.values():
            if peer.retry is not None:
                peer.retry.cancel()
            if peer.link is not None:
                peer.link.close("the daemon ends")
        for link in list(self._parting):
            link.close("the daemon ends")

    # --- dialling --------------------------------------------------------------------------------

    def _peer(self, machine: str) -> PeerConnection:
        found = self._peers.get(machine)
        if found is None:
            found = PeerConnection(machine, since_wall_s=read_clocks("mesh").wall_s)
            self._peers[machine] = found
        return found

    def _dial(self, peer: PeerConnection) -> None:
        """Start to make a link, unless an attempt is running or due later."""
        is_idle = peer.dialling is None and peer.retry is None
        is_answered = peer.answered_until_s > _steady_s()
        if self._is_closing or peer.link is not None or not is_idle or is_answered:
            return
        peer.dialling = self._loop.create_task(self._reach(peer))
        peer.dialling.add_done_callback(_raise)

    async def _reach(self, peer: PeerConnection) -> None:
        try:
            greeted = await first_reached(self._ways(peer.name))
        except NotReached as missed:
            peer.dialling = None
            self._missed(peer, missed)
        except Exception as error:  # noqa: BLE001 - see system.internal_errors
            peer.dialling = None
            words = FAULTS.note(f"a dialled connection with {peer.name}", error)
            self._missed(peer, NotReached(UNREACHED, words))
        else:
            peer.dialling = None
            self._linked(greeted)

    def _ways(self, machine: str) -> list[Callable[[], Awaitable[Established]]]:
        if not self._book.is_outward_only(machine):
            return [
                partial(self._dial_at, address, machine)
                for address in self._book.addresses(machine)
            ]
        relays = [each for each in self._book.relays(machine) if each != self._credentials.name]
        return [partial(self._through, relay, machine) for relay in relays[:RELAYS_TRIED]]

    async def _dial_at(self, address: str, machine: str) -> Established:
        established = await dial_address(address, machine, self._credentials, self._is_wanted)
        self._book.reached(machine, address)
        return established

    async def _through(self, relay: str, machine: str) -> Established:
        """Make a link through a relay, after a link with the relay if there is none."""
        link = self._direct_link(relay)
        if link is None:
            peer = self._peer(relay)
            self._dial(peer)
            if peer.dialling is not None:
                await asyncio.wait([peer.dialling])
            link = self._direct_link(relay)
        if link is None:
            raise NotReached(UNREACHED, f"{relay}, which could relay to it, is not reachable")
        circuit = self.circuits.open(relay, link, machine)
        try:
            return await greet(
                circuit, machine, self._credentials, self._is_wanted, is_direct=False
            )
        except NotReached as missed:
            if missed.code == UNPROVED:  # the relay has no link with it, or lost it
                raise NotReached(UNREACHED, f"through {relay}: {missed.message}") from None
            raise

    def _missed(self, peer: PeerConnection, missed: NotReached) -> None:
        if missed.code != YIELD and missed.message != peer.problem:
            log.warning("no link with %s: %s", peer.name, missed.message)
            peer.problem = missed.message
        if peer.is_needed and not self._is_closing:
            pause_s = peer.next_pause_s(self._rng)
            peer.retry = self._loop.call_later(pause_s, self._retry, peer)

    def _retry(self, peer: PeerConnection) -> None:
        peer.retry = None
        if peer.is_needed:
            self._dial(peer)

    def _is_wanted(self, machine: str) -> bool:
        """Whether a dialled link is still wanted when it could begin."""
        if self._is_blocked(machine):
            return False
        peer = self._peers.get(machine)
        if peer is None:
            return True
        is_answered = peer.answered_until_s > _steady_s()
        return not is_answered and (peer.link is None or not peer.is_direct)

    def _is_blocked(self, machine: str) -> bool:
        return self._blocked_until_s.get(machine, 0.0) > _steady_s()

    # --- links begin -----------------------------------------------------------------------------

    def _decide(self, machine: str, is_direct: bool) -> Rejected | None:
        """Return why a machine that dialled may not link; None: it may."""
        if self._is_blocked(machine):
            words = f"{machine} sent too much, or invalid messages, less than {FLOOD_S:.0f} s ago"
            return Rejected("shunned", words)
        if sum(each.link is not None for each in self._peers.values()) >= LINKS_MAX:
            return Rejected(TOO_MANY, f"{self._credentials.name} has {LINKS_MAX} links already")
        peer = self._peer(machine)
        if peer.link is not None and peer.is_direct and not is_direct:
            return Rejected(YIELD, "there is a link without a relay")
        ours = (not self._book.is_outward_only(machine), machine)
        if peer.dialling is not None and ours > (is_direct, self._credentials.name):
            return Rejected(YIELD, f"{self._credentials.name} is dialling {machine} itself")
        peer.answered_until_s = _steady_s() + HANDSHAKE_S
        return None

    def _answer_failed(self, machine: str) -> None:
        """Dial a machine whose own attempt failed, if a link is needed."""
        peer = self._peers.get(machine)
        if peer is not None:
            peer.answered_until_s = 0.0
            if peer.is_needed:
                self._dial(peer)

    def _circuit_opened(self, circuit: Circuit, relay: str) -> None:
        """Answer an incoming circuit; the relay may have made up the name of its opener."""
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

        handshake = ServerHandshake(
            circuit,
            self._credentials,
            is_direct=False,
            decide=self._decide,
            on_anonymous=None,
            on_done=self._linked,
            on_failed=failed,
            on_admitted=self._relayed.leave,
        )
        self._relayed.enter(handshake, relay, now_s)

    def _linked(self, greeted: Established) -> None:
        """Make a link of an agreed connection."""
        peer = self._peer(greeted.machine)
        if peer.link is not None:
            peer.is_lossy = True
            peer.link.close("a new connection of the same machine replaces it")
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
            partial(self._hold, (greeted.machine, object())),
        )
        self._adopt_link(peer, greeted, link)
        log.info("%s is linked%s", peer.name, "" if greeted.is_direct else " through a relay")
        if peer.is_lossy:
            peer.is_lossy = False
            peer.is_up = True
            self._listener.event(LinkUp(peer.name))
        held = peer.release()
        if held:
            link.send(held)
        if greeted.rest:
            link.receive(greeted.rest)

    def _hold(self, who: tuple[str, object], held_bytes: int) -> str:
        """Return why a link may not have so many incomplete bytes; empty: it may."""
        if self._unfinished.hold(who, held_bytes):
            return ""
        self._unfinished.hold(who, 0)
        return f"{held_bytes} bytes of incomplete frames or texts are more than its share"

    def _adopt_link(self, peer: PeerConnection, greeted: Established, link: MachineLink) -> None:
        """Record a new link with a peer, and stop dialling."""
        if peer.dialling is not None:
            peer.dialling.cancel()
            peer.dialling = None
        if peer.retry is not None:
            peer.retry.cancel()
            peer.retry = None
        peer.is_lossy |= peer.instance != greeted.instance
        peer.link = link
        peer.is_direct, peer.is_ours = greeted.is_direct, greeted.is_dialled
        peer.certificate, peer.instance = greeted.certificate, greeted.instance
        peer.is_wanted = False
        peer.answered_until_s = 0.0
        peer.problem = ""
        peer.since_wall_s = read_clocks("mesh").wall_s

    def _direct_link(self, machine: str) -> MachineLink | None:
        peer = self._peers.get(machine)
        return peer.link if peer is not None and peer.is_direct else None

    # --- events of links -------------------------------------------------------------------------

    def delivered(self, link: MachineLink, part: Part, message: Message) -> None:
        """Pass on a message if its sender may send it."""
        if self._listener.takes(link.machine, part, message):
            self._listener.event(Delivered(link.machine, part, message))
        else:
            words = f"it may not send {tag_of(message)} to our {part}"
            self.violations.note(link.machine, "not-its-own", words, _steady_s())

    def texts(self, link: MachineLink, texts: Texts, *, forget: bool) -> None:
        """Pass on environments and scripts of tasks that follow."""
        self._listener.texts(link.machine, texts, forget)

    def circuit(self, link: MachineLink, frame: CircuitFrame) -> None:
        """Pass on a frame of a circuit."""
        self.circuits.receive(link, frame)

    def bye(self, link: MachineLink, reason: str) -> None:
        """End the link, or answer that this machine ends it too."""
        peer = self._parting.get(link)
        if reason:
            link.end(f"{link.machine} closed it: {reason}")
        elif peer is not None:  # the answer to ours: everything has arrived
            peer.is_lossy = False
            link.end("it is not needed")
        else:
            peer = self._peers[link.machine]
            if peer.link is link:
                self._part(peer, link)
            link.send_frame(Bye())

    def link_over(self, link: MachineLink, reason: str) -> None:
        """Record the end of a link, and dial again."""
        peer = self._parting.pop(link, None)
        if peer is not None:
            peer.count(link)
            return
        peer = self._peers[link.machine]
        if peer.link is not link:
            return
        peer.count(link)
        peer.link = None
        peer.problem, peer.since_wall_s = reason, read_clocks("mesh").wall_s
        peer.is_lossy = peer.is_wanted = True
        log.warning("the link with %s is over: %s", link.machine, reason)
        self._listener.texts(link.machine, (), True)  # the next link begins without any
        if link.is_flooded:
            self._blocked_until_s[link.machine] = _steady_s() + FLOOD_S
            self.violations.note(link.machine, "flood", reason, _steady_s())
        elif link.is_at_fault:
            self.violations.note(link.machine, "protocol", reason, _steady_s())
        self._down(peer)
        if peer.is_direct:
            self.circuits.link_over(link.machine, reason)
        if not self._is_closing:
            peer.retry = self._loop.call_later(peer.next_pause_s(self._rng), self._retry, peer)

    def _down(self, peer: PeerConnection) -> None:
        if peer.is_up:
            peer.is_up = False
            self._listener.event(LinkDown(peer.name))

    # --- supervision -----------------------------------------------------------------------------

    def _poll(self) -> None:
        """Close idle links, make missing ones, drop messages held too long; repeat."""
        self._polling = self._loop.call_later(POLL_S, self._poll)
        now_s = _steady_s()
        kept = self._keep_relays() if self._is_outward_only else []
        for peer in list(self._peers.values()):
            link = peer.link
            if link is None:
                self._poll_unlinked(peer, now_s)
            elif peer.is_ours and link.idle_s > IDLE_S and peer.name not in kept:
                link.send_frame(Bye())
                self._part(peer, link)
        self._blocked_until_s = {m: s for m, s in self._blocked_until_s.items() if s > now_s}

    def _poll_unlinked(self, peer: PeerConnection, now_s: float) -> None:
        """Drop messages held too long, and forget a machine that is no member."""
        if peer.held and now_s > peer.held_until_s:
            lost = len(peer.release())
            peer.is_lossy = True
            log.info("%d messages to %s are lost: no link in %.0f s", lost, peer.name, HELD_S)
            self._down(peer)
        if not self._book.is_member(peer.name):
            peer.is_wanted = False
            if not peer.held and peer.dialling is None:
                if peer.retry is not None:
                    peer.retry.cancel()
                del self._peers[peer.name]

    def _part(self, peer: PeerConnection, link: MachineLink) -> None:
        """Close a link; nothing is lost if the other end agrees."""
        peer.link = None
        peer.problem, peer.since_wall_s = "not needed", read_clocks("mesh").wall_s
        self._parting[link] = peer
        if peer.is_ours:
            peer.is_lossy = True  # until the answer has come
        if peer.is_direct:
            self.circuits.link_over(link.machine, "the link is not needed")

    def _keep_relays(self) -> list[str]:
        """Return the relays to this machine that are kept linked; dial the missing ones."""
        kept: list[str] = []
        for name in self._book.relays(self._credentials.name)[:RELAYS_TRIED]:
            peer = self._peer(name)
            if peer.link is None:
                peer.is_wanted = True
                self._dial(peer)
            if not self._is_missed(name):
                kept.append(name)
            if len(kept) == RELAYS_KEPT:
                break
        return kept

    def _is_missed(self, machine: str) -> bool:
        """Whether the last attempt to reach a machine failed."""
        peer = self._peers.get(machine)
        return peer is not None and peer.link is None and peer.retry is not None


def _raise(task: asyncio.Task[None]) -> None:
    """Raise an internal error of the task, which ends the daemon."""
    if not task.cancelled():
        task.result()


def _steady_s() -> float:
    return read_clocks("mesh").steady_s

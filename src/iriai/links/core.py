"""The links of one machine with others of its cluster: whom to dial and how, which link stays.

In: messages to send, results of dialling, events of links, the time. Out: orders for the driver
(`links.effects`). A link is made when there is a message for a machine, and stays for a while. Of
two machines that dial each other at once one yields, so that there is one link for each pair
(docs/spec/005).
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import NamedTuple

from iriai.links import effects
from iriai.links.address_book import AddressBook
from iriai.links.attempt import UNREACHED, Attempt, NotReached
from iriai.links.circuits import CircuitEnd, Circuits
from iriai.links.limits import LINKS_MAX
from iriai.links.peer_connection import HELD_S, PeerConnection
from iriai.links.session import LinkSession
from iriai.links.violations import Violations
from iriai.model.instant import Instant
from iriai.policy.service.shared_quota import SharedQuota
from iriai.protocol.clock_offset import Estimate
from iriai.protocol.messages.effects import LinkDown, LinkUp, Send
from iriai.wire.greetings import TOO_MANY, YIELD, Rejected
from iriai.wire.links import IDLE_S, Bye
from iriai.wire.machines import LinkRow

HANDSHAKE_S = 10.0
"""From the connection until both ends have agreed what it is for. A slow line and a busy machine
take a second; longer, and a flood of connections that say nothing holds more of them."""
RELAYS_KEPT = 2
"""Links that an outward-only machine keeps open: if one breaks, it is still reached."""
RELAYS_TRIED = 8
"""Members tried as relays to an outward-only machine; the two that it uses are among the first
unless views of the membership differ by more."""
UNFINISHED_BYTES_MAX = 256 << 20
"""Of incomplete frames and texts of all links: enough for thirty of the largest; beyond it no link
may have more than an equal share."""
EARLY_S = 0.005
"""Timers have this resolution: an attempt that is due within it is made."""
FLOOD_S = 60.0
"""How long a machine that flooded a link is refused."""
YIELDED_S = 1.0
"""The longest pause after a machine that dials this one itself refused: it may dial an address at
which this one is no longer."""


ON_HOST_PAUSE_S = 2.0
"""The longest pause before a machine of this host is dialled again: it costs nobody else."""


class OwnCard(NamedTuple):
    """What this machine says of itself."""

    name: str
    instance: str
    version: str
    """Of iriai."""


class LinkCore:
    """The links of one machine; each entrance returns the orders that follow."""

    def __init__(
        self, own: OwnCard, book: AddressBook, rng: Random, *, is_outward_only: bool = False
    ) -> None:
        self.own = own
        self.name = own.name
        self.peers: dict[str, PeerConnection] = {}
        self.direct: dict[str, LinkSession] = {}
        """Links without a relay, by machine."""
        self.parting: dict[LinkSession, PeerConnection] = {}
        """Links that this machine closes, until the other end has answered."""
        self.circuits = Circuits(own.name, rng)
        self.violations = Violations()
        self.unfinished = SharedQuota(UNFINISHED_BYTES_MAX)
        self._book = book
        self._rng = rng
        self._is_outward_only = is_outward_only
        self._blocked_until_s: dict[str, float] = {}
        self._effects: list[effects.LinkEffect] = []
        self._is_closing = False

    def _drain(self) -> list[effects.LinkEffect]:
        effects, self._effects = self._effects, []
        return effects

    # --- for the daemon --------------------------------------------------------------------------

    def send(self, sends: Iterable[Send], now: Instant) -> list[effects.LinkEffect]:
        """Send messages to other machines; make a link where there is none."""
        by_machine: dict[str, list[Send]] = {}
        for send in sends:
            by_machine.setdefault(send.machine, []).append(send)
        for machine, ours in by_machine.items():
            peer = self.peers.get(machine)
            if peer is not None and peer.link is not None:
                self._effects.append(effects.Transmit(peer.link, ours))
            elif peer is not None or self._book.may_reach(machine):
                peer = self._peer(machine, now)
                peer.hold(ours, now.steady_s)
                self._dial(peer, now)
        return self._drain()

    def block(
        self, machine: str, reason: str, for_s: float, now: Instant
    ) -> list[effects.LinkEffect]:
        """End the link with a machine that did harm, and refuse it for a while."""
        self._blocked_until_s[machine] = now.steady_s + for_s
        self._note(machine, "shunned", reason, now)
        peer = self.peers.get(machine)
        if peer is not None and peer.link is not None:
            self._effects.append(effects.CloseLink(peer.link, reason, is_told=True))
        return self._drain()

    def note(self, who: str, code: str, message: str, now: Instant) -> list[effects.LinkEffect]:
        """Count a violation."""
        self._note(who, code, message, now)
        return self._drain()

    def rows(self, now_wall_s: float) -> tuple[LinkRow, ...]:
        """Return the state of the link with each machine that messages were sent to, by name."""
        rows = []
        for name, each in sorted(self.peers.items()):
            since = f"for {max(0.0, now_wall_s - each.since_wall_s):.0f} s"
            words = f"{since}: {each.problem}" if each.problem else f"up {since}"
            offset = each.link.offset.best() if each.link else None
            rows.append(
                LinkRow(
                    name,
                    each.link is not None or each.is_up,
                    words,
                    "network" if each.is_direct else "relay",
                    *each.totals_bytes,
                    *(offset or (None, 0.0)),
                )
            )
        return tuple(rows)

    def clock_of(self, machine: str) -> Estimate | None:
        """Return the wall clock of a machine minus this one's; None: it is not linked."""
        peer = self.peers.get(machine)
        return None if peer is None or peer.link is None else peer.link.clock()

    def last_contact_s(self, machine: str) -> float | None:
        """Return when a machine sent anything, on the steady clock; None: it has no link."""
        peer = self.peers.get(machine)
        return peer.link.keepalive.received_s if peer is not None and peer.link else None

    def members_changed(self, machines: Iterable[str], now: Instant) -> list[effects.LinkEffect]:
        """Dial those of the machines at once whose next attempt is due later."""
        for machine in machines:
            peer = self.peers.get(machine)
            if peer is not None and peer.retry_at_s is not None:
                self._retry(peer, now)
        return self._drain()

    def close(self) -> list[effects.LinkEffect]:
        """End all attempts and links."""
        self._is_closing = True
        for peer in self.peers.values():
            self._abort(peer)
        links = [each.link for each in self.peers.values() if each.link is not None]
        for link in (*links, *self.parting):
            self._effects.append(effects.CloseLink(link, "the daemon ends", reads_out=True))
        return self._drain()

    # --- dialling --------------------------------------------------------------------------------

    def _peer(self, machine: str, now: Instant) -> PeerConnection:
        if machine not in self.peers:
            self.peers[machine] = PeerConnection(machine, since_wall_s=now.wall_s)
        return self.peers[machine]

    def _dial(self, peer: PeerConnection, now: Instant) -> None:
        """Begin an attempt, unless one is running or due later."""
        is_idle = peer.attempt is None and peer.retry_at_s is None
        is_answered = peer.answered_until_s > now.steady_s
        if self._is_closing or peer.link is not None or not is_idle or is_answered:
            return
        is_direct = not self._book.is_outward_only(peer.name)
        if is_direct:
            ways = list(self._book.addresses(peer.name))
        else:
            relays = (each for each in self._book.relays(peer.name) if each != self.name)
            ways = [*relays][:RELAYS_TRIED]
        peer.attempt = Attempt(ways, is_direct)
        self._next_way(peer, peer.attempt, now)

    def _next_way(self, peer: PeerConnection, attempt: Attempt, now: Instant) -> None:
        if not attempt.next_way():
            self._fail(peer, attempt.outcome, now)
        elif attempt.is_direct:
            self._effects.append(effects.Dial(peer.name, attempt.way))
        elif attempt.way in self.direct:
            self._effects.append(effects.Dial(peer.name, "", attempt.way))
        else:
            attempt.is_waiting = True
            relay = self._peer(attempt.way, now)
            self._dial(relay, now)
            if relay.attempt is None:
                self._relay_settled(relay.name, now)

    def _relay_settled(self, relay: str, now: Instant) -> None:
        """Go on with the attempts that waited for a link with a relay, or for its failure."""
        for peer in list(self.peers.values()):
            attempt = peer.attempt
            if attempt is None or not attempt.is_waiting or attempt.way != relay:
                continue
            attempt.is_waiting = False
            if relay in self.direct:
                self._effects.append(effects.Dial(peer.name, "", relay))
                continue
            attempt.fail(NotReached(UNREACHED, _unreachable(relay)))
            self._next_way(peer, attempt, now)

    def missed(self, machine: str, missed: NotReached, now: Instant) -> list[effects.LinkEffect]:
        """Go on with an attempt whose way led nowhere."""
        peer = self.peers.get(machine)
        if peer is not None and peer.attempt is not None:
            peer.attempt.fail(missed)
            self._next_way(peer, peer.attempt, now)
        return self._drain()

    def _fail(self, peer: PeerConnection, missed: NotReached, now: Instant) -> None:
        """End an attempt; the next one follows after a pause if a link is needed."""
        peer.attempt = None
        if missed.code == YIELD:
            peer.pause_s = min(peer.pause_s, YIELDED_S)
        if missed.code != YIELD and missed.message != peer.problem:
            self._effects.append(effects.Report(f"no link with {peer.name}: {missed.message}"))
            peer.problem = missed.message
        if peer.is_needed:
            self._retry_later(peer, now)
            if self._book.is_elsewhere(peer.name):
                self._effects.append(effects.Seek(peer.name))
        self._relay_settled(peer.name, now)

    def _retry_later(self, peer: PeerConnection, now: Instant) -> None:
        if not self._is_closing:
            pause_s = peer.next_pause_s(self._rng)
            if self._book.is_on_host(peer.name):
                pause_s = min(pause_s, ON_HOST_PAUSE_S)
            peer.retry_at_s = now.steady_s + pause_s
            self._effects.append(effects.PollIn(pause_s))

    def _retry(self, peer: PeerConnection, now: Instant) -> None:
        peer.retry_at_s = None
        if peer.is_needed:
            self._dial(peer, now)

    def _abort(self, peer: PeerConnection) -> None:
        """Neither dial a machine nor do so later."""
        if peer.attempt is not None:
            self._effects.append(effects.AbortDial(peer.name))
        peer.attempt = peer.retry_at_s = None

    def is_wanted(self, machine: str, now: Instant) -> bool:
        """Whether a dialled link is still wanted when it could begin."""
        if self._is_blocked(machine, now):
            return False
        peer = self.peers.get(machine)
        if peer is None:
            return True
        is_answered = peer.answered_until_s > now.steady_s
        return not is_answered and (peer.link is None or not peer.link.is_direct)

    def _is_blocked(self, machine: str, now: Instant) -> bool:
        return self._blocked_until_s.get(machine, 0.0) > now.steady_s

    # --- links begin -----------------------------------------------------------------------------

    def decide(self, machine: str, now: Instant, *, is_direct: bool) -> Rejected | None:
        """Return why a machine that dialled may not link; None: it may."""
        if self._is_blocked(machine, now):
            words = f"{machine} sent too much, or invalid messages, less than {FLOOD_S:.0f} s ago"
            return Rejected("shunned", words)
        if sum(each.link is not None for each in self.peers.values()) >= LINKS_MAX:
            return Rejected(TOO_MANY, f"{self.name} has {LINKS_MAX} links already")
        peer = self._peer(machine, now)
        if peer.link is not None and peer.link.is_direct and not is_direct:
            return Rejected(YIELD, "there is a link without a relay")
        ours = (not self._book.is_outward_only(machine), machine)
        if peer.attempt is not None and ours > (is_direct, self.name):
            return Rejected(YIELD, f"{self.name} is dialling {machine} itself")
        peer.answered_until_s = now.steady_s + HANDSHAKE_S
        return None

    def answer_failed(
        self, who: str, machine: str, refusal: Rejected, now: Instant
    ) -> list[effects.LinkEffect]:
        """Note that a connection from another machine became no link; dial it if one is needed.

        `machine` is empty if it did not authenticate; `who` is a word for it then.
        """
        peer = self.peers.get(machine)
        if peer is not None:
            peer.answered_until_s = 0.0
            if peer.is_needed:
                self._dial(peer, now)
        if refusal.code != YIELD:
            self._note(machine or who, refusal.code, refusal.message, now)
        return self._drain()

    def linked(self, link: LinkSession, address: str, now: Instant) -> list[effects.LinkEffect]:
        """Note a new link. `address`: where this machine reached the other; empty: it did not."""
        peer = self._peer(link.machine, now)
        if address:
            self._book.reached(peer.name, address)
        before = peer.link
        if before is not None:
            words = "a new connection of the same machine replaces it"
            self._effects.append(effects.CloseLink(before, words, reads_out=True))
            self._lose(peer, before, words, now)
        self._abort(peer)
        peer.begin(link, now.wall_s)
        self.direct.pop(peer.name, None)
        if link.is_direct:
            self.direct[peer.name] = link
        words = f"{peer.name} is linked{'' if link.is_direct else ' through a relay'}"
        self._effects.append(effects.Report(words, is_warning=False))
        if peer.is_lossy:
            peer.is_lossy, peer.is_up = False, True
            self._effects.append(LinkUp(peer.name))
        if held := peer.release():
            self._effects.append(effects.Transmit(link, held))
        self._relay_settled(peer.name, now)
        return self._drain()

    def hold(self, who: tuple[str, object], held_bytes: int) -> str:
        """Return why a link may not have so many incomplete bytes; empty: it may."""
        if self.unfinished.hold(who, held_bytes):
            return ""
        self.unfinished.hold(who, 0)
        return f"{held_bytes} bytes of incomplete frames or texts are more than its share"

    # --- events of links -------------------------------------------------------------------------

    def open_circuit(self, relay: str, machine: str) -> CircuitEnd:
        """Return a new circuit to a machine; raises `NotReached` if the relay's link is over."""
        if relay not in self.direct:
            raise NotReached(UNREACHED, _unreachable(relay))
        return self.circuits.open(relay, machine)

    def bye(self, link: LinkSession, reason: str, now: Instant) -> list[effects.LinkEffect]:
        """End a link, or answer that this machine ends it too."""
        peer = self.parting.get(link)
        if reason:
            self._effects.append(effects.CloseLink(link, f"{link.machine} closed it: {reason}"))
        elif peer is not None:  # the answer to ours: everything has arrived
            peer.is_lossy = False
            self._effects.append(effects.CloseLink(link, "it is not needed"))
        else:
            self._part(self._peer(link.machine, now), link, now)
        return self._drain()

    def link_over(self, link: LinkSession, reason: str, now: Instant) -> list[effects.LinkEffect]:
        """Note the end of a link, and dial again."""
        peer = self.parting.pop(link, None)
        if peer is not None:
            peer.count(link, now.steady_s)
            return []
        peer = self.peers.get(link.machine)
        if peer is not None and peer.link is link:
            self._lose(peer, link, reason, now)
            self._retry_later(peer, now)
        return self._drain()

    def _lose(self, peer: PeerConnection, link: LinkSession, reason: str, now: Instant) -> None:
        """Note that messages of a link may be lost, and what it violated."""
        peer.count(link, now.steady_s)
        peer.link = None
        peer.problem, peer.since_wall_s = reason, now.wall_s
        peer.is_lossy = peer.is_wanted = True
        self._effects += (
            effects.Report(f"the link with {link.machine} is over: {reason}"),
            effects.TextsLost(link.machine),
        )
        if link.is_flooded:
            self._blocked_until_s[link.machine] = now.steady_s + FLOOD_S
            self._note(link.machine, "flood", reason, now)
        elif link.is_at_fault:
            self._note(link.machine, "protocol", reason, now)
        self._down(peer)
        self._close_circuits(peer, reason)

    def _close_circuits(self, peer: PeerConnection, reason: str) -> None:
        """Close the circuits of a machine whose link is no longer used."""
        if self.direct.pop(peer.name, None) is not None:
            self._effects += self.circuits.link_over(peer.name, reason)

    def _down(self, peer: PeerConnection) -> None:
        if peer.is_up:
            peer.is_up = False
            self._effects.append(LinkDown(peer.name))

    def _note(self, who: str, code: str, message: str, now: Instant) -> None:
        if words := self.violations.note(who, code, message, now.steady_s):
            self._effects.append(effects.Report(words))

    # --- supervision -----------------------------------------------------------------------------

    def poll(self, now: Instant) -> list[effects.LinkEffect]:
        """Make due attempts, close idle links, keep relays, drop messages held too long."""
        kept = self._keep_relays(now) if self._is_outward_only else []
        for peer in self.peers.values():
            link = peer.link
            if link is None or not link.is_ours or now.steady_s - link.used_s <= IDLE_S:
                continue
            if peer.name not in kept and not self.circuits.are_through(peer.name):
                self._part(peer, link, now)
        for peer in list(self.peers.values()):
            if peer.link is None:
                self._poll_unlinked(peer, now)
        self._blocked_until_s = {
            machine: until_s
            for machine, until_s in self._blocked_until_s.items()
            if until_s > now.steady_s
        }
        return self._drain()

    def _poll_unlinked(self, peer: PeerConnection, now: Instant) -> None:
        """Dial if that is due, drop messages held too long, forget a machine that is no member."""
        if peer.retry_at_s is not None and now.steady_s >= peer.retry_at_s - EARLY_S:
            self._retry(peer, now)
        if peer.held and now.steady_s > peer.held_until_s:
            lost = len(peer.release())
            peer.is_lossy = True
            words = f"{lost} messages to {peer.name} are lost: no link in {HELD_S:.0f} s"
            self._effects.append(effects.Report(words, is_warning=False))
            self._down(peer)
        if not self._book.is_member(peer.name):
            peer.is_wanted = False
            if not peer.held and peer.attempt is None:
                del self.peers[peer.name]

    def _part(self, peer: PeerConnection, link: LinkSession, now: Instant) -> None:
        """Close a link with `Bye`; nothing is lost if the other end agrees."""
        if peer.link is link:
            peer.link = None
            peer.problem, peer.since_wall_s = "not needed", now.wall_s
            self.parting[link] = peer
            peer.is_lossy |= link.is_ours  # until the answer has come
            self._close_circuits(peer, "the link is not needed")
        self._effects.append(effects.TransmitFrame(link, Bye()))

    def _keep_relays(self, now: Instant) -> list[str]:
        """Return the relays to this machine that are kept linked; dial the missing ones."""
        kept: list[str] = []
        for name in self._book.relays(self.name)[:RELAYS_TRIED]:
            peer = self._peer(name, now)
            if peer.link is None:
                peer.is_wanted = True
                self._dial(peer, now)
            if peer.link is not None or peer.retry_at_s is None:
                kept.append(name)
            if len(kept) == RELAYS_KEPT:
                break
        return kept


def _unreachable(relay: str) -> str:
    return f"{relay}, which could relay to it, is not reachable"

"""Several machines with bookings around a lone broker; they grant by the rules, computed anew."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from msgspec.structs import replace

from iriai.model.ids import Account, AttemptId, ReservationId
from iriai.model.reservation import ReservationTerms
from iriai.model.resources import NOTHING, Resources
from iriai.policy.placement.calendar import END_SLACK_S
from iriai.protocol.messages.effects import Part, Wake, WakeAt
from iriai.protocol.messages.reservations import BookedTime, NodesOffered, SeekNodes
from iriai.protocol.messages.scheduling import Idle, Match, Promise, Running, Want
from tests.broker.many_machines import ManyMachines, Node
from tests.support.told import WALL_S, told

STAY_S = 60.0
"""For how long an evictable task runs at least."""

REFRESH_S = 50.0
"""Machines are heard of so often at least."""


@dataclass
class NodeBooking:
    """What a machine keeps, on the steady clock."""

    start_s: float
    end_s: float
    resources: Resources
    is_open: bool = False


class BookedNodes(ManyMachines):
    """Tasks end when they have to; whoever has to leave for a booking does."""

    def __init__(self, *capacities: Resources, **section) -> None:
        super().__init__(*capacities, **section)
        self.bookings: dict[str, dict[ReservationId, NodeBooking]] = {
            name: {} for name in self.nodes
        }
        self.ends_s: dict[AttemptId, float] = {}
        self.alarm_s = inf
        self.promised_s: dict[int, float] = {}
        """The latest start that each job was promised."""
        self.offered: list[NodesOffered] = []
        self._known: dict[str, list[tuple[ReservationId, Resources | None]]] = {}
        """What the broker knows of bookings."""
        self.reservations = 0

    # --- what is told ----------------------------------------------------------------------------

    def tell(self, *messages) -> None:
        inbox = list(messages)
        while inbox:
            said = told(self.broker.turn(*inbox))
            for message in said.home:
                if isinstance(message, Match):
                    self.promised_s.pop(message.job.number, None)  # it is for the next task then
                if isinstance(message, Promise):
                    self._promised(message)
            self.offered += [each for each in said.home if isinstance(each, NodesOffered)]
            found = [message for message in said.home if isinstance(message, Match)]
            inbox = self._begin(found)
            for each in said.others:
                if isinstance(each, WakeAt):
                    self.alarm_s = each.steady_s
            if self.alarm_s <= self.broker.now_s:
                self.alarm_s = inf
                inbox.append(Wake(Part.BROKER))

    def _promised(self, promise: Promise) -> None:
        number, before_s = promise.job.number, self.promised_s.get(promise.job.number)
        if promise.start_in_s is None:
            assert before_s is None or not self.waiting[number], f"{promise} was taken back"
            return
        start_s = self.broker.now_s + promise.start_in_s
        assert before_s is None or start_s <= before_s + 1e-6, f"{promise}: it was {before_s}"
        self.promised_s[number] = start_s

    def idle(self, node: Node, *, whole: bool = False, **fields) -> Idle:
        bookings, known = self._told(node), self._known.get(node.name, [])
        left = [(each.reservation, each.left) for each in bookings]
        self._known[node.name] = left
        told_ = {"bookings": bookings} if whole or left != known else {}
        return super().idle(node, whole=whole, **(told_ | fields))

    def _told(self, node: Node) -> tuple[BookedTime, ...]:
        now_s = self.broker.now_s
        return tuple(
            BookedTime(
                reservation,
                each.resources,
                each.start_s - now_s,
                each.end_s - now_s,
                self.left_in(node, reservation) if each.is_open else None,
            )
            for reservation, each in self.bookings[node.name].items()
        )

    # --- what is granted -------------------------------------------------------------------------

    def left_in(self, node: Node, reservation: ReservationId) -> Resources:
        left = self.bookings[node.name][reservation].resources
        for running in node.running.values():
            if running.reservation == reservation:
                left = left.minus(running.resources)
        return left

    def room_s(self, node: Node, resources: Resources) -> float:
        """For how long there is room from now on."""
        now_s, bookings = self.broker.now_s, self.bookings[node.name].values()
        starts_s = [each.start_s for each in bookings if not each.is_open]
        for at_s in sorted({now_s, *starts_s}):
            used = resources
            for each in bookings:
                if each.is_open if at_s == now_s else each.start_s <= at_s < each.end_s:
                    used = used.plus(each.resources)
            for attempt, running in node.running.items():
                if running.reservation is None and self.ends_s[attempt] > at_s:
                    used = used.plus(running.resources)
            if not used.fits_in(node.capacity):
                return at_s - now_s
        return inf

    def _claim(self, node: Node, wanted: Want, match: Match) -> Running:
        resources = node.capacity if wanted.exclusive else wanted.resources
        now_s, stay_s = self.broker.now_s, inf
        if wanted.limit_s is not None:
            stay_s = wanted.limit_s + wanted.grace_s + END_SLACK_S
        if wanted.reservation is not None:
            booking = self.bookings[node.name].get(wanted.reservation)
            assert booking is not None, f"{match}: it is not there"
            assert booking.is_open, f"{match}: it is not open"
            assert resources.fits_in(self.left_in(node, wanted.reservation)), f"{match}: no room"
            stay_s = min(stay_s, booking.end_s - now_s)
        else:
            room_s = self.room_s(node, resources)
            if room_s < stay_s:
                assert wanted.is_evictable, f"{match} has {room_s} s"
                assert room_s >= STAY_S + wanted.grace_s + END_SLACK_S, f"{match} has {room_s} s"
                stay_s = room_s - END_SLACK_S
        running = super()._claim(_Roomy(node), wanted, match)
        ends_in_s = None if stay_s == inf else stay_s
        running = replace(running, ends_in_s=ends_in_s, reservation=wanted.reservation)
        node.running[running.attempt] = running
        self.ends_s[running.attempt] = now_s + stay_s
        return running

    # --- what happens ----------------------------------------------------------------------------

    def book(self, ahead_s: float, length_s: float, nodes: int, cpus: int | None) -> None:
        """Have machines offered, and book them."""
        self.reservations += 1
        of, now_s = ReservationId("ume", self.reservations), self.broker.now_s
        start_wall_s = WALL_S + now_s + ahead_s
        terms = ReservationTerms(
            Account("lab", "ann"),
            "ann",
            start_wall_s,
            start_wall_s + length_s,
            nodes,
            None if cpus is None else Resources(cpus),
        )
        self.offered.clear()
        self.tell(SeekNodes(of, 1, terms))
        [offer] = self.offered
        reports = []
        for name in offer.machines:
            node = self.nodes[name]
            resources = node.capacity if cpus is None else Resources(cpus)
            start_s = now_s + ahead_s
            self.bookings[name][of] = NodeBooking(start_s, start_s + length_s, resources)
            self._check_bookings(node)
            reports.append(self.idle(node))
        self.tell(*reports)

    def _check_bookings(self, node: Node) -> None:
        """Raise if claims and bookings exceed what there is at any time."""
        bookings = self.bookings[node.name].values()
        for at_s in [each.start_s for each in bookings if not each.is_open]:
            used = NOTHING
            for each in bookings:
                if each.start_s <= at_s < each.end_s:
                    used = used.plus(each.resources)
            for attempt, running in node.running.items():
                if running.reservation is None and self.ends_s[attempt] > at_s:
                    used = used.plus(running.resources)
            assert used.fits_in(node.capacity), f"{node.name} is overbooked at {at_s}"

    def give_back(self, node: Node, reservation: ReservationId) -> None:
        """Nobody needs a booking any more."""
        self._close(node, reservation)

    def _close(self, node: Node, reservation: ReservationId) -> None:
        del self.bookings[node.name][reservation]
        over = [each for each in node.running.values() if each.reservation == reservation]
        for running in over:
            del node.running[running.attempt]
        fresh = self.broker.capabilities(len(over))
        ended = tuple(running.attempt for running in over)
        self.tell(self.idle(node, ended=ended, capabilities=fresh))

    def advance(self, seconds: float) -> None:
        """Let time pass: tasks end at their ends, bookings open and close."""
        until_s = self.broker.now_s + seconds
        while True:
            moments = [self.ends_s[each] for node in self.nodes.values() for each in node.running]
            for bookings in self.bookings.values():
                moments += [
                    each.end_s if each.is_open else each.start_s for each in bookings.values()
                ]
            next_s = min((*moments, self.alarm_s, self.broker.now_s + REFRESH_S))
            if next_s > until_s:
                break
            self.broker.now_s = max(self.broker.now_s, next_s)
            self._settle()
            self.tell(*[self.idle(node) for node in self.nodes.values()])
        self.broker.now_s = until_s
        self.wake()

    def _settle(self) -> None:
        now_s = self.broker.now_s
        for node in self.nodes.values():
            for attempt in [each for each in node.running if self.ends_s[each] <= now_s]:
                self.end(node, attempt)
            for reservation, each in list(self.bookings[node.name].items()):
                if each.end_s <= now_s:
                    self._close(node, reservation)
                elif not each.is_open and each.start_s <= now_s:
                    each.is_open = True
                    self.tell(self.idle(node))


class _Roomy:
    """A machine as the usual check sees it: room was checked before."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def __getattr__(self, name: str):
        return self._node.capacity if name == "free" else getattr(self._node, name)

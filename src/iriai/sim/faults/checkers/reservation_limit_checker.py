"""What is checked of limits of reservations: (n) of docs/spec/017, section 11, counted anew."""

from __future__ import annotations

from typing import NamedTuple

from iriai.machine.core import Machine
from iriai.machine.outbox import Turn
from iriai.model.claim import Phase
from iriai.model.ids import Account, ReservationId
from iriai.model.instant import Instant
from iriai.model.records import BookingStored
from iriai.model.reservation import Booking, ReservationTerms
from iriai.model.resources import NOTHING, Resources
from iriai.protocol.messages.effects import Send
from iriai.protocol.messages.reservations import NodesOffered
from iriai.sim.world.machine_model import SimulatedMachine
from iriai.sim.world.world import World

JUST_OFFERED_S = 5.0
"""Offers of the same broker within that time count as if they were booked."""
ROUNDING = 1e-6


class _SeenOffer(NamedTuple):
    account: Account
    node_s: float
    at_s: float


class ReservationLimitChecker:
    """Judges what owners let be reserved at nodes, and shares of accounts at brokers."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._offered: dict[str, tuple[Machine, dict[ReservationId, _SeenOffer]]] = {}
        """By machine of a broker, its core and what it has offered."""

    def check(self, machine: SimulatedMachine, turn: Turn, now: Instant) -> None:
        """Check a machine after a turn."""
        for record in turn.records:
            if type(record) is BookingStored and record.booking.phase is Phase.HELD:
                self._check_reservable(machine, record.booking)
        for effect in turn.outward:
            if type(effect) is Send and type(effect.message) is NodesOffered:
                self._check_offered(machine, effect.message, now)

    # --- what owners let be reserved -------------------------------------------------------------

    def _check_reservable(self, machine: SimulatedMachine, booking: Booking) -> None:
        """Check that a new booking is for who may, and within the part of its machine."""
        section, name = machine.plan.configuration.machine, machine.plan.name
        names, by = (booking.user, booking.account.group), section.reservable_by
        assert "all" in by or any(each in by for each in names), f"{names} reserve {name}"
        if section.reservable >= 1.0:
            return
        kept = [each.booking for each in machine.core.node.bookings.kept.values()]
        capacity = machine.core.node.calendar.capacity
        for moment_s in (booking.start_wall_s, *(each.start_wall_s for each in kept)):
            if not booking.start_wall_s <= moment_s < booking.end_wall_s:
                continue
            there = [each for each in kept if each.start_wall_s <= moment_s < each.end_wall_s]
            taken = NOTHING
            for each in there:
                taken = taken.plus(each.resources or capacity)
            most = int(capacity.cpus * section.reservable)
            assert taken.cpus <= most, f"{taken.cpus} cpus of {name} are reserved, not {most}"

    # --- shares ----------------------------------------------------------------------------------

    def _check_offered(self, machine: SimulatedMachine, offer: NodesOffered, now: Instant) -> None:
        """Check that an account has no more ahead, as its broker knows, than its share can be."""
        asked = self._world.machines[offer.reservation.home].store.reservations
        reservation = asked.get(offer.reservation.number)
        rules = machine.plan.configuration.reservations
        if not (offer.machines and rules.share_limit and reservation):
            return
        if reservation.version != offer.version:
            return  # of terms that may have been others
        terms = reservation.terms
        node_s = self._asked_s(machine, offer, terms)
        had_s = self._known_s(machine, offer.reservation, terms.account, now)
        core, offers = self._offered.get(machine.plan.name, (None, {}))
        if core is not machine.core:
            offers = {}
        state = machine.core.broker.state
        views = state.machines.values()
        booked = {each.reservation for view in views for each in view.calendar.bookings}
        for named, seen in offers.items():
            is_new = now.steady_s - seen.at_s < JUST_OFFERED_S and named not in booked
            if is_new and named != offer.reservation and seen.account == terms.account:
                had_s += seen.node_s
        offers[offer.reservation] = _SeenOffer(terms.account, node_s, now.steady_s)
        self._offered[machine.plan.name] = machine.core, offers
        most_s = self._most_s(machine, terms.account, now)
        assert had_s + node_s <= most_s * (1.0 + ROUNDING), (
            f"{terms.account} has {had_s:.0f} node s, gets {node_s:.0f}, and may have {most_s:.0f}"
        )

    def _asked_s(
        self, machine: SimulatedMachine, offer: NodesOffered, terms: ReservationTerms
    ) -> float:
        views = machine.core.broker.state.machines
        capacities = [views[name].calendar.capacity for name in offer.machines]
        return sum(_part(terms.resources or each, each) for each in capacities) * terms.length_s

    def _known_s(
        self, machine: SimulatedMachine, but: ReservationId, account: Account, now: Instant
    ) -> float:
        """Return what its broker knows to be booked by an account from now on."""
        return sum(
            _part(each.resources, view.calendar.capacity)
            * max(0.0, each.end_s - max(each.start_s, now.steady_s))
            for view in machine.core.broker.state.machines.values()
            for each in view.calendar.bookings
            if each.account == account and each.reservation != but
        )

    def _most_s(self, machine: SimulatedMachine, account: Account, now: Instant) -> float:
        """Return what the share of an account can be at most, by those that surely count."""
        state, configuration = machine.core.broker.state, machine.plan.configuration
        spans = [each for view in state.machines.values() for each in view.calendar.bookings]
        active = [account, *state.queues.accounts, *(each.account for each in spans)]
        active += [each for each in state.usage if state.usage.usage_s(each, now.wall_s) > 0.0]
        accounts = [each for each in dict.fromkeys(active) if each is not None]
        has_groups = bool(configuration.groups)
        members = [each for each in accounts if not has_groups or each.group == account.group]
        rights = sum(configuration.right_of_user(*each) for each in members)
        share = configuration.right_of_user(*account) / rights
        if has_groups:
            groups = dict.fromkeys(each.group for each in accounts)
            share *= configuration.right_of_group(account.group)
            share /= sum(map(configuration.right_of_group, groups))
        return share * len(state.machines) * configuration.reservations.horizon_s


def _part(resources: Resources, capacity: Resources) -> float:
    pairs = [(resources.cpus, capacity.cpus), (resources.memory_bytes, capacity.memory_bytes)]
    return max(taken / had for taken, had in pairs if had)

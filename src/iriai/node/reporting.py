"""What a node sends its broker at the end of a turn: its offer, and what was counted."""

from __future__ import annotations

from iriai.model.ids import AttemptId
from iriai.model.instant import Instant
from iriai.model.records import LedgerRow
from iriai.node.bookings import NodeBookings
from iriai.node.claims import Claims
from iriai.node.metering import Meter, UsageCounters
from iriai.node.offer_builder import Availability, OfferBuilder
from iriai.node.suspending.cycle import NodeCycle
from iriai.protocol.messages.effects import Effect, Part, Persist, Send
from iriai.protocol.messages.reservations import BookedTime
from iriai.protocol.messages.scheduling import Running


class Reporting:
    """Sends what is due."""

    def __init__(
        self,
        report: OfferBuilder,
        claims: Claims,
        availability: Availability,
        meter: Meter,
        ledger: UsageCounters,
        cycle: NodeCycle,
        bookings: NodeBookings,
        effects: list[Effect],
    ) -> None:
        """What is to be sent is appended to `effects`."""
        self._report = report
        self._claims = claims
        self._availability = availability
        self._meter = meter
        self._ledger = ledger
        self._cycle = cycle
        self._bookings = bookings
        self._effects = effects

    def send(self, now: Instant) -> None:
        """Send what changed since the last call."""
        changed = self._ledger.drain_changed()
        if changed:  # Not urgent: if it is lost, its slices are counted again.
            self._effects += [Persist(row, urgent=False) for row in changed]
        if self._report.is_whole:
            self._send_offer(now)  # first: brokers refuse counters of machines of unknown size
            self._send_counters(self._ledger.rows())
        elif changed or self._report.charges:
            self._send_counters(changed)
        if self._report.is_due:
            self._send_offer(now)

    def _send_counters(self, rows: tuple[LedgerRow, ...]) -> None:
        counted = self._report.counted(rows)
        if counted.rows or counted.charged:
            self._effects.append(Send("", Part.BROKER, counted))

    def _send_offer(self, now: Instant) -> None:
        def describe(attempt: AttemptId) -> Running | None:
            held = self._claims.by_attempt.get(attempt)
            return None if held is None or held.end is not None else held.as_running(now)

        def booked(is_whole: bool) -> tuple[BookedTime, ...] | None:
            return self._bookings.told(now, is_whole=is_whole)

        calendar = self._claims.calendar
        preemptible_cpus = self._cycle.offered_cpus if self._cycle.queues.modes else 0
        idle = self._report.idle(
            calendar.capacity,
            calendar.free,
            self._claims,
            describe,
            list(self._claims.waiting),
            self._availability.reason(),
            self._meter.charging,
            now.steady_s,
            booked,
            other_cpus=preemptible_cpus + (self._bookings.left_cpus if calendar.bookings else 0),
        )
        self._effects.append(Send("", Part.BROKER, idle))

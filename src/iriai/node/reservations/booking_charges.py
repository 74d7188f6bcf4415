"""What an open booking costs that nobody uses (docs/spec/017, section 8).

Moments are on the steady clock.
"""

from __future__ import annotations

from iriai.model.ids import AttemptId
from iriai.model.instant import Instant
from iriai.model.reservation import LENGTH_MAX_S
from iriai.model.resources import Resources
from iriai.node.metering import SLICE_S, Meter, Stretch
from iriai.node.reservations.kept_booking import KeptBooking
from iriai.node.settings import NodeSettings
from iriai.policy.placement.calendar import Calendar


class BookingCharges:
    """Charges bookings while they are open, and those that were no-shows beyond that."""

    def __init__(self, settings: NodeSettings, calendar: Calendar[AttemptId], meter: Meter) -> None:
        self._calendar, self._meter = calendar, meter
        self._factor, self._least_part = settings.unused_factor, settings.no_show_charge
        longest_s = settings.no_show_charge * LENGTH_MAX_S
        self._ahead_max_s = min(longest_s, settings.fading.counting_s)
        """Of the whole machine. Homes say what was a no-show: one that lies charges accounts of
        others no more than that, beside the time that passes."""
        self._ahead_s = 0.0
        """Of that, what was charged and has not passed yet."""
        self._ahead_as_of_s = 0.0

    def meter(self, kept: KeptBooking, now: Instant) -> float:
        """Charge an open booking if what is not used changed, or a slice is over; return the next.

        After a restart charges begin anew: nothing is charged for the time between.
        """
        unused = self._calendar.left_in(kept.reservation)
        if kept.charged_to_s is None:
            kept.charged_to_s = now.steady_s
            kept.offpeak_mark_s = self._meter.offpeak_so_far_s(now.steady_s)
        elif unused != kept.unused or now.steady_s >= kept.charged_to_s + SLICE_S:
            self.charge(kept, now)
        kept.unused = unused
        return kept.charged_to_s + SLICE_S

    def charge(self, kept: KeptBooking, now: Instant) -> None:
        """Charge what nobody has used of a booking since it was last charged, until its end."""
        if kept.charged_to_s is None:
            return
        offpeak_s = self._meter.offpeak_so_far_s(now.steady_s)
        until_s = max(kept.charged_to_s, min(now.steady_s, kept.end_s))
        stretch = Stretch(until_s - kept.charged_to_s, offpeak_s - kept.offpeak_mark_s)
        kept.charged_to_s, kept.offpeak_mark_s = until_s, offpeak_s
        self._meter.charge_unused(kept.booking.account, kept.unused, self._factor, stretch, now)

    def charge_no_show(self, kept: KeptBooking, now: Instant) -> None:
        """Charge what is missing at the part that an open booking costs which nobody used."""
        if kept.charged_to_s is None:
            return
        least_s = self._least_part * (kept.end_s - kept.start_s)
        missing_s = self._granted_s(least_s - (now.steady_s - kept.start_s), kept.resources, now)
        if missing_s > 0.0:
            stretch, account = Stretch(missing_s, 0.0), kept.booking.account
            self._meter.charge_unused(account, kept.resources, self._factor, stretch, now)

    def _granted_s(self, missing_s: float, resources: Resources, now: Instant) -> float:
        """Return how much of it may be charged at once."""
        passed_s = now.steady_s - self._ahead_as_of_s
        self._ahead_s = max(0.0, self._ahead_s - passed_s)
        self._ahead_as_of_s = now.steady_s
        part = resources.part_of(self._calendar.capacity)
        if missing_s <= 0.0 or part <= 0.0:
            return 0.0
        granted_s = min(missing_s, (self._ahead_max_s - self._ahead_s) / part)
        self._ahead_s += granted_s * part
        return granted_s

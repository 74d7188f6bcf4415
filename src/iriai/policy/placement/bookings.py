"""Bookings in a machine's calendar: what they take from now on, and what fits beside them.

docs/spec/017, section 3, has the rules. A calendar without bookings has nothing of this.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from itertools import accumulate, chain
from math import inf
from typing import Generic, NamedTuple, TypeVar

from iriai.model.ids import Account, ReservationId
from iriai.model.resources import NOTHING, Resources

Key = TypeVar("Key", bound=Hashable)
ClaimEnd = tuple[float, int, Key, Resources]
"""Of a claim: its end, its order of arrival, its key, and what it holds."""


class BookedSpan(NamedTuple):
    """A booking on the steady clock of whoever asks."""

    reservation: ReservationId
    start_s: float
    end_s: float
    resources: Resources
    is_open: bool = False
    """Whether it has its resources: they are taken from what is free now, whatever its times."""
    account: Account | None = None
    """Whose it is; None: nobody's, or it is not known."""
    is_beside: bool = False
    """Whether it is what a later version takes beyond the booking: no claim is inside, and it does
    not open."""

    @property
    def from_s(self) -> float:
        """Return from when on it takes its resources; minus infinity if it is open."""
        return -inf if self.is_open else self.start_s


class HeldSpan(NamedTuple):
    """A time in which a claim holds its resources beside all bookings."""

    from_s: float
    to_s: float
    resources: Resources


class RoomProfile:
    """What is free beside claims and bookings, as steps of time: [times[n], times[n + 1]).

    The first step begins before all times. Nothing counts after its end, whether it is there still
    or not.
    """

    def __init__(
        self, capacity: Resources, held: Iterable[HeldSpan], spans: Iterable[BookedSpan]
    ) -> None:
        changes: dict[float, Resources] = {-inf: capacity}
        booked: dict[float, int] = {}
        for from_s, to_s, resources in held:
            _take(changes, from_s, to_s, resources)
        for span in spans:
            if span.from_s < span.end_s:
                _take(changes, span.from_s, span.end_s, span.resources)
                if not span.is_open:
                    booked[span.start_s] = booked.get(span.start_s, 0) + 1
                    booked[span.end_s] = booked.get(span.end_s, 0) - 1
        self.times = sorted(changes)
        self.rooms = list(accumulate((changes[time_s] for time_s in self.times), Resources.plus))
        counts = accumulate(booked.get(time_s, 0) for time_s in self.times)
        self._is_booked = [count > 0 for count in counts]
        """Whether a booking covers the step that is not open."""

    def lacks_from_s(self, resources: Resources, from_s: float) -> float:
        """Return the first moment from `from_s` on at which they do not fit beside a booking.

        Open bookings do not count, for what they have is not free. Infinity: there is none.
        """
        for place in range(self._place(from_s), len(self.times)):
            if self._is_booked[place] and not resources.fits_in(self.rooms[place]):
                return max(self.times[place], from_s)
        return inf

    def is_room(self, resources: Resources, start_s: float, end_s: float) -> bool:
        """Return whether they fit all the time."""
        first = self._place(start_s)
        for place in range(first, len(self.times)):
            if place > first and self.times[place] >= end_s:
                return True
            if not resources.fits_in(self.rooms[place]):
                return False
        return True

    def run_from(
        self, resources: Resources, length_s: float, from_s: float, before_s: float = inf
    ) -> tuple[float, float] | None:
        """Return the first moment from `from_s` on from which they fit for so long, and until when.

        None: there is none, or it is later than `before_s`.
        """
        times, rooms, fits_in = self.times, self.rooms, resources.fits_in
        place, count = bisect_right(times, from_s) - 1, len(times)
        while place < count:
            if not fits_in(rooms[place]):
                place += 1
                continue
            start_s = max(times[place], from_s)
            if start_s > before_s and start_s > from_s:
                return None
            place += 1
            while place < count and fits_in(rooms[place]):
                place += 1
            until_s = times[place] if place < count else inf
            if start_s + length_s <= until_s:
                return start_s, until_s
        return None

    def times_in(self, start_s: float, end_s: float) -> list[float]:
        """Return the times at which steps begin, from `start_s` on until `end_s`."""
        return self.times[bisect_left(self.times, start_s) : bisect_left(self.times, end_s)]

    def room_at(self, moment_s: float) -> Resources:
        """Return what is free at one moment; amounts may be negative."""
        return self.rooms[self._place(moment_s)]

    def least(self, start_s: float, end_s: float) -> Resources:
        """Return the least that is free of each resource in that time."""
        first = self._place(start_s)
        room = self.rooms[first]
        for place in range(first + 1, bisect_left(self.times, end_s)):
            room = lesser(room, self.rooms[place])
        return room

    def within(self, other: RoomProfile) -> RoomProfile:
        """Return what is free by both at each moment."""
        both = RoomProfile(NOTHING, (), ())
        both.times = sorted({*self.times, *other.times})
        both.rooms = [lesser(self.room_at(each), other.room_at(each)) for each in both.times]
        both._is_booked = [self._is_booked[self._place(each)] for each in both.times]
        return both

    def kept_away(self, held: Iterable[HeldSpan], away_s: float) -> RoomProfile:
        """Return what is free for what counts as beside each of `held` if it is as near as that.

        They are counted already. Just before one begins, and just after it ends, no more is free
        than beside it.
        """
        edges = [(each.from_s, each.to_s) for each in held if each.from_s < each.to_s]
        apart = RoomProfile(NOTHING, (), ())
        more = chain.from_iterable((from_s - away_s, to_s + away_s) for from_s, to_s in edges)
        apart.times = sorted({*self.times, *more})
        apart.rooms = [self.room_at(each) for each in apart.times]
        apart._is_booked = [self._is_booked[self._place(each)] for each in apart.times]
        for from_s, to_s in edges:
            apart._lessen(from_s - away_s, from_s, self.room_at(from_s))
            apart._lessen(to_s, to_s + away_s, self.rooms[bisect_left(self.times, to_s) - 1])
        return apart

    def _lessen(self, start_s: float, end_s: float, most: Resources) -> None:
        for place in range(bisect_left(self.times, start_s), bisect_left(self.times, end_s)):
            self.rooms[place] = lesser(self.rooms[place], most)

    def _place(self, moment_s: float) -> int:
        return bisect_right(self.times, moment_s) - 1


def _take(
    changes: dict[float, Resources], from_s: float, to_s: float, resources: Resources
) -> None:
    changes[from_s] = changes.get(from_s, NOTHING).minus(resources)
    changes[to_s] = changes.get(to_s, NOTHING).plus(resources)


class Bookings(Generic[Key]):
    """The bookings of one calendar, and the claims inside them."""

    def __init__(self) -> None:
        self.spans: tuple[BookedSpan, ...] = ()
        """By their starts."""
        self.kept = NOTHING
        """What open bookings keep free for claims inside."""
        self._by_reservation: dict[ReservationId, BookedSpan] = {}
        self._beside: list[BookedSpan] = []
        """What later versions take beyond these."""
        self._inside: dict[Key, ReservationId] = {}
        self._used: dict[ReservationId, Resources] = {}
        """By the claims inside."""
        self._left: dict[ReservationId, Resources] = {}
        """Of each that is open, what no claim inside uses."""
        self._profile: RoomProfile | None = None
        """None: not computed since a change."""
        self._alone: tuple[Resources, RoomProfile] | None = None
        """What is free of a capacity beside bookings alone; None: not computed since they changed.
        """

    def __bool__(self) -> bool:
        return bool(self.spans) or bool(self._inside)

    def set_spans(self, spans: Iterable[BookedSpan]) -> None:
        """Let these be all bookings. There is one for a reservation: the last one counts.

        And what later versions take beyond it.
        """
        every = [*spans]
        self._by_reservation = {span.reservation: span for span in every if not span.is_beside}
        self._beside = [span for span in every if span.is_beside]
        together = (*self._by_reservation.values(), *self._beside)
        self.spans = tuple(sorted(together, key=lambda span: (span.start_s, span.reservation)))
        self._left.clear()
        self._alone = None
        self.kept = NOTHING
        for span in self.spans:
            if span.is_open:
                self._count_left(span.reservation)
        self.forget_profile()

    def enter(self, key: Key, reservation: ReservationId, resources: Resources) -> None:
        """Note that a claim of `resources` is inside a booking, which may not be here."""
        self._inside[key] = reservation
        self._used[reservation] = self._used.get(reservation, NOTHING).plus(resources)
        self._count_left(reservation)

    def leave(self, key: Key, resources: Resources) -> None:
        """Note that a claim of `resources` is gone, or beside all bookings."""
        reservation = self._inside.pop(key, None)
        if reservation is None:
            return
        used = self._used.pop(reservation).minus(resources)
        if used != NOTHING or reservation in self._inside.values():
            self._used[reservation] = used
        self._count_left(reservation)

    def has(self, reservation: ReservationId) -> bool:
        """Return whether there is a booking of a reservation."""
        return reservation in self._by_reservation

    def inside(self, key: Key) -> ReservationId | None:
        """Return in which booking a claim is; None: in none."""
        return self._inside.get(key)

    def used_in(self, reservation: ReservationId) -> Resources:
        """Return what claims inside a booking use."""
        return self._used.get(reservation, NOTHING)

    def left_in(self, reservation: ReservationId) -> Resources:
        """Return what no claim inside an open booking uses."""
        return self._left.get(reservation, NOTHING)

    def forget_profile(self) -> None:
        """Let the profile be computed anew: something changed."""
        self._profile = None

    def profile(
        self,
        capacity: Resources,
        ends: Iterable[ClaimEnd[Key]],
        beside: Iterable[HeldSpan] = (),
        without: ReservationId | None = None,
    ) -> RoomProfile:
        """Return what is free from now on; `ends` are of all claims, those ahead included.

        `beside`: what is held beside claims and bookings; `without`: the reservation whose booking
        and the claims in it do not count.
        """
        more = tuple(beside)
        if without is not None and without in self._by_reservation:
            others = (end for end in ends if self._inside.get(end[2]) != without)
            spans = [span for span in self.spans if span.reservation != without]
            held = self._held(others, self._by_reservation)
            return RoomProfile(capacity, chain(held, more), spans)
        if more:
            claims = self._held(ends, self._by_reservation)
            return RoomProfile(capacity, chain(claims, more), self.spans)
        if self._profile is None:
            held = self._held(ends, self._by_reservation)
            self._profile = RoomProfile(capacity, held, self.spans)
        return self._profile

    def beside_bookings(
        self, capacity: Resources, without: ReservationId | None = None
    ) -> RoomProfile:
        """Return what is free if there are no claims, nor a booking of `without`."""
        if without is not None:
            others = (span for span in self.spans if span.reservation != without)
            return RoomProfile(capacity, (), others)
        if self._alone is None or self._alone[0] != capacity:
            self._alone = (capacity, RoomProfile(capacity, (), self.spans))
        return self._alone[1]

    def with_span(self, span: BookedSpan) -> Bookings[Key]:
        """Return the same with one booking more, to look at: claims inside do not change there."""
        changed: Bookings[Key] = Bookings()
        changed._inside, changed._used = self._inside, self._used
        changed.set_spans([*self.spans, span])
        return changed

    def in_the_way(
        self,
        capacity: Resources,
        ends: Iterable[ClaimEnd[Key]],
        start: BookedSpan,
        granted: Callable[[Key], float] | None = None,
    ) -> list[Key]:
        """Return the claims that have to end for `start`, the one that was granted last first.

        A claim keeps its place where it has room beside all bookings and the claims that were
        granted before it. `start` takes the place of the booking of its reservation, unless it is
        beside that.
        """
        spans: Mapping[ReservationId, BookedSpan] = self._by_reservation
        if start.is_beside or spans.get(start.reservation) == start:
            booked = self.beside_bookings(capacity)
        else:
            spans = {**spans, start.reservation: start}
            booked = RoomProfile(capacity, (), (*spans.values(), *self._beside))
        claims = sorted(
            (0.0 if granted is None else granted(key), sequence, key, end_s, resources)
            for end_s, sequence, key, resources in ends
            if end_s > start.from_s
        )
        if not claims:
            return []
        pieces = [list(self._pieces(key, end_s, spans)) for _, _, key, end_s, _ in claims]
        within = booked.times_in(start.from_s, start.end_s)
        times = {start.from_s, *within, *chain.from_iterable(chain.from_iterable(pieces))}
        steps = sorted(time_s for time_s in times if start.from_s <= time_s < start.end_s)
        rooms = [positive(booked.room_at(each)) for each in steps]
        found = []
        for (_, _, key, _, resources), held in zip(claims, pieces, strict=True):
            covered = [
                place
                for from_s, to_s in held
                for place in range(bisect_left(steps, from_s), bisect_left(steps, to_s))
            ]
            if all(resources.fits_in(rooms[place]) for place in covered):
                for place in covered:
                    rooms[place] = rooms[place].minus(resources)
            else:
                found.append(key)
        return found[::-1]

    def check(
        self,
        capacity: Resources,
        ends: Iterable[ClaimEnd[Key]],
        granted: Collection[Key],
    ) -> None:
        """Raise where what is noted of the claims inside is not so, or bookings lack room (j).

        `granted`: the claims that have begun. What has to end for a booking does not count.
        """
        claims = [end for end in ends if end[2] in granted]
        used: dict[ReservationId, Resources] = {}
        for _, _, key, resources in claims:
            if key in self._inside:
                reservation = self._inside[key]
                used[reservation] = used.get(reservation, NOTHING).plus(resources)
        assert all(key in granted for key in self._inside), "inside without a claim"
        assert used == self._used, f"inside bookings: {self._used}, not {used}"
        kept = NOTHING
        for span in self.spans:
            if span.is_open:
                kept = kept.plus(
                    positive(span.resources.minus(used.get(span.reservation, NOTHING)))
                )
        assert kept == self.kept, f"open bookings keep {self.kept}, not {kept}"
        gone = {key for span in self.spans for key in self.in_the_way(capacity, claims, span)}
        stays = [claim for claim in claims if claim[2] not in gone]
        room = RoomProfile(capacity, self._held(stays, self._by_reservation), self.spans)
        alone = self.beside_bookings(capacity)
        for span in self.spans:
            for time_s in (span.from_s, *room.times):
                if span.from_s <= time_s < span.end_s:
                    least = lesser(alone.room_at(time_s), NOTHING)
                    beside = room.room_at(time_s).minus(least)
                    assert beside == positive(beside), f"{span} lacks room at {time_s}"

    def _count_left(self, reservation: ReservationId) -> None:
        """Update what an open booking keeps."""
        self.forget_profile()
        before = self._left.pop(reservation, NOTHING)
        span = self._by_reservation.get(reservation)
        if span is not None and span.is_open:
            used = self._used.get(reservation, NOTHING)
            self._left[reservation] = positive(span.resources.minus(used))
        self.kept = self.kept.minus(before).plus(self.left_in(reservation))

    def _held(
        self, ends: Iterable[ClaimEnd[Key]], spans: Mapping[ReservationId, BookedSpan]
    ) -> Iterator[HeldSpan]:
        for end_s, _, key, resources in ends:
            for from_s, to_s in self._pieces(key, end_s, spans):
                yield HeldSpan(from_s, to_s, resources)

    def _pieces(
        self, key: Key, end_s: float, spans: Mapping[ReservationId, BookedSpan]
    ) -> Iterator[tuple[float, float]]:
        """Yield the times in which a claim counts: those in which its booking does not cover it."""
        span = spans.get(self._inside[key]) if key in self._inside else None
        if span is None or span.from_s >= span.end_s:
            yield -inf, end_s
            return
        if not span.is_open:
            yield -inf, min(span.start_s, end_s)
        if end_s > span.end_s:
            yield span.end_s, end_s


def positive(resources: Resources) -> Resources:
    """Return the same with nothing below zero."""
    return Resources(
        max(resources.cpus, 0),
        max(resources.memory_bytes, 0),
        max(resources.gpus, 0),
        tuple(each for each in resources.named if each[1] > 0),
    )


def lesser(one: Resources, other: Resources) -> Resources:
    """Return the smaller amount of each resource."""
    named: tuple[tuple[str, int], ...] = ()
    if one.named or other.named:
        first, second = dict(one.named), dict(other.named)
        amounts = ((n, min(first.get(n, 0), second.get(n, 0))) for n in sorted(first | second))
        named = tuple(each for each in amounts if each[1])
    return Resources(
        min(one.cpus, other.cpus),
        min(one.memory_bytes, other.memory_bytes),
        min(one.gpus, other.gpus),
        named,
    )

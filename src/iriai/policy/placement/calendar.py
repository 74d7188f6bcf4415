"""A machine's calendar: what is free now, and when something would fit.

The node decides with its own calendar; a broker keeps a copy of each, which may be stale.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from copy import copy
from math import inf
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from iriai.config.sections import JobSection
from iriai.model.reason import Reason, Rule
from iriai.model.resources import NOTHING, Resources

if TYPE_CHECKING:
    from iriai.model.ids import ReservationId
    from iriai.policy.placement.bookings import BookedSpan, Bookings, HeldSpan, RoomProfile

ROUNDING_CPUS = 1e-6
"""Shares are quotients: a limit that should be a whole number of cpus may come out just below."""


SAME_END_S = 1.0
"""Two ends of a claim are the same if they are no further apart: each is a span from when a message
was sent. Longer: what is planned behind it may be late by as much; shorter: it is planned anew for
every report."""


class CpuLimit(NamedTuple):
    """The running cap of an account that asks for more CPUs.

    It has the numbers that it was decided by, so that a refusal can be shown.
    """

    allowed: bool
    asked_cpus: int
    running_cpus: int
    """Of the account's tasks that run, or were matched and are about to."""
    limit_cpus: float
    """The most that the account may run; infinite without a cap."""

    def reason(self) -> Reason:
        """The refusal as data; only for one that is not allowed."""
        return Reason(
            Rule.RUNNING_CAP,
            needed=f"{self.asked_cpus} more {'cpu' if self.asked_cpus == 1 else 'cpus'}",
            had=f"the account runs {self.running_cpus} of at most {self.limit_cpus:.4g} "
            "by the cap for each account",
        )


def is_below(asked_cpus: int, running_cpus: int, limit_cpus: float) -> bool:
    """Return whether `asked_cpus` more are within a limit that may have been rounded."""
    return running_cpus + asked_cpus <= limit_cpus + ROUNDING_CPUS


def within_running_cap(asked_cpus: int, running_cpus: int, cap_cpus: int | None) -> CpuLimit:
    """Return whether an account may start `asked_cpus` more under the running cap; None: no cap.

    A task larger than the cap never starts; its home refuses it at submission, by this function
    with nothing running.
    """
    limit = float("inf") if cap_cpus is None else float(cap_cpus)
    return CpuLimit(running_cpus + asked_cpus <= limit, asked_cpus, running_cpus, limit)


Key = TypeVar("Key", bound=Hashable)
_Claim = tuple[Resources, float, int]
"""What it holds, its end, and its order of arrival: the last two find it among the ends."""

OPEN_END_S = 366 * 86400.0
"""A claim without a limit counts as ending this long after it began: late enough that nobody
plans with it, finite so that times can be compared. A start promised beyond it is no promise."""

END_SLACK_S = JobSection().end_slack_s
"""Added to each claim with a limit unless the configuration says otherwise; its reason is there."""

USER_SUSPEND_MAX_S = JobSection().user_suspend_max_s
"""How long a user may keep a task suspended, unless the configuration says otherwise."""

AHEAD_WAIT_S = 10.0
"""A claim that waits for others to end is given back when it has waited so long: they take twice as
long as was thought, and there may be room elsewhere."""


def longest_stay_s(
    limit_s: float | None, grace_s: float, slack_s: float = END_SLACK_S, *, parts: int = 1
) -> float | None:
    """Return the longest time that a claim holds its resources; None: without end.

    `parts`: it runs for one of so many parts of that time, in its time slices.
    """
    return None if limit_s is None else limit_s * parts + grace_s + slack_s


class Slot(NamedTuple):
    """The time when something fits, and what is left beside it then."""

    start_s: float
    spare: Resources


class Calendar(Generic[Key]):
    """Claims with their ends, and bookings, on the steady clock of whoever asks."""

    def __init__(self, capacity: Resources) -> None:
        self.capacity = capacity
        self.free = capacity
        """The resources that no claim holds now, and no open booking keeps."""
        self.bookings: tuple[BookedSpan, ...] = ()
        """By their starts."""
        self._booked: Bookings[Key] | None = None
        """None: there are no bookings, and nothing is inside one."""
        self._claims: dict[Key, _Claim] = {}
        self._ahead: dict[Key, _Claim] = {}
        """Claims that hold nothing yet: they begin when others end, and count for what comes
        after."""
        self._owed = NOTHING
        """What those will hold."""
        self._ends: list[tuple[float, int, Key, Resources]] = []
        """End, order of arrival (so that keys are never compared), key, what it holds; sorted."""
        self._sequence = 0

    def __contains__(self, key: Key) -> bool:
        return key in self._claims

    def __len__(self) -> int:
        return len(self._claims)

    def __iter__(self) -> Iterator[Key]:
        return iter(self._claims)

    def add(
        self,
        key: Key,
        resources: Resources,
        now_s: float,
        stay_s: float | None,
        inside: ReservationId | None = None,
    ) -> None:
        """Claim `resources` from now, for `stay_s` (None: open). The caller has checked `free`.

        `inside`: they are taken from the booking of that reservation; the caller has checked
        `left_in`.
        """
        self._claims[key] = self._claim(key, resources, now_s, stay_s)
        self.free = self.free.minus(resources)
        if inside is not None:
            self._enter(key, inside, resources)

    def remove(self, key: Key) -> bool:
        """Release the claim of `key`; return False if it has none."""
        claim = self._claims.pop(key, None)
        if claim is None:
            return False
        self._drop_end(claim)
        self.free = self.free.plus(claim[0])
        if self._booked is not None:
            self._leave(key, claim[0])
        return True

    def change(self, key: Key, resources: Resources, now_s: float, stay_s: float | None) -> None:
        """Let a claim hold `resources`, from now for `stay_s`. The caller has checked `free`."""
        inside = self.inside(key)
        self.remove(key)
        self.add(key, resources, now_s, stay_s, inside)

    def resize(self, key: Key, resources: Resources) -> None:
        """Let a claim hold `resources`, until its end as before. The caller has checked `free`."""
        before, end_s, sequence = self._claims[key]
        place = bisect_left(self._ends, (end_s, sequence))
        self._ends[place] = (end_s, sequence, key, resources)
        self._claims[key] = (resources, end_s, sequence)
        self.free = self.free.plus(before).minus(resources)
        if self._booked is not None:
            self._booked.forget_profile()
            inside = self._booked.inside(key)
            if inside is not None:
                self._leave(key, before)
                self._enter(key, inside, resources)

    def set_capacity(self, capacity: Resources) -> None:
        """Let the machine have another capacity; the claims stay."""
        if capacity != self.capacity:
            self.free = self.free.plus(capacity).minus(self.capacity)
            self.capacity = capacity
            if self._booked is not None:
                self._booked.forget_profile()

    def held_by(self, key: Key) -> Resources:
        """Return what a claim holds."""
        return self._claims[key][0]

    def end_s(self, key: Key) -> float:
        """Return when a claim ends."""
        return self._claims[key][1]

    def is_held(self, key: Key, resources: Resources, now_s: float, stay_s: float | None) -> bool:
        """Return whether a claim holds just `resources`, and for about so long."""
        held, end_s, _ = self._claims[key]
        left_s = end_s - now_s
        is_open = left_s > OPEN_END_S / 2
        ends_then = is_open if stay_s is None else abs(left_s - stay_s) <= SAME_END_S
        return ends_then and held == resources

    def pass_on(self, key: Key, to: Key, now_s: float, stay_s: float | None) -> None:
        """Let `to` hold what `key` holds, from now and for `stay_s`."""
        claim = self._claims.pop(key)
        resources, end_s, sequence = claim
        if end_s == now_s + (OPEN_END_S if stay_s is None else stay_s):
            self._ends[bisect_left(self._ends, claim[1:])] = (end_s, sequence, to, resources)
            self._claims[to] = claim
        else:
            self._drop_end(claim)
            self._claims[to] = self._claim(to, resources, now_s, stay_s)
        if self._booked is not None:
            inside = self._booked.inside(key)
            if inside is not None:
                self._leave(key, resources)
                self._enter(to, inside, resources)

    @property
    def ahead(self) -> Collection[Key]:
        """Return the claims that hold nothing yet."""
        return self._ahead

    def add_ahead(self, key: Key, resources: Resources, now_s: float, stay_s: float | None) -> None:
        """Claim `resources` for later, as soon as others end; over at most `stay_s` from now."""
        self._ahead[key] = self._claim(key, resources, now_s, stay_s)
        self._owed = self._owed.plus(resources)

    def remove_ahead(self, key: Key) -> bool:
        """Remove a claim ahead, granted or not; return False if `key` has none."""
        claim = self._ahead.pop(key, None)
        if claim is None:
            return False
        self._drop_end(claim)
        self._owed = self._owed.minus(claim[0])
        return True

    def _claim(self, key: Key, resources: Resources, now_s: float, stay_s: float | None) -> _Claim:
        if key in self._claims:
            raise ValueError(f"{key} is claimed already")
        self._sequence += 1
        end_s = now_s + (OPEN_END_S if stay_s is None else stay_s)
        insort(self._ends, (end_s, self._sequence, key, resources))
        if self._booked is not None:
            self._booked.forget_profile()
        return (resources, end_s, self._sequence)

    def _drop_end(self, claim: _Claim) -> None:
        del self._ends[bisect_left(self._ends, claim[1:])]
        if self._booked is not None:
            self._booked.forget_profile()

    # --- bookings --------------------------------------------------------------------------------

    def set_bookings(self, spans: Sequence[BookedSpan]) -> None:
        """Let these be all bookings; an open one takes from `free` what no claim inside uses."""
        if spans or self._booked is not None:
            booked = self._booked = self._bookings()
            kept = booked.kept
            booked.set_spans(spans)
            self.bookings = booked.spans
            self._keep_instead_of(booked, kept)

    def leave(self, key: Key) -> None:
        """Let a claim inside a booking be an ordinary one."""
        if self._booked is not None:
            self._leave(key, self._claims[key][0])

    def inside(self, key: Key) -> ReservationId | None:
        """Return in whose booking a claim is; None: in none."""
        return None if self._booked is None else self._booked.inside(key)

    def has_booking(self, reservation: ReservationId) -> bool:
        """Return whether there is a booking of a reservation."""
        return self._booked is not None and self._booked.has(reservation)

    def used_in(self, reservation: ReservationId) -> Resources:
        """Return what claims inside a booking use."""
        return NOTHING if self._booked is None else self._booked.used_in(reservation)

    def left_in(self, reservation: ReservationId) -> Resources:
        """Return what of an open booking no claim inside uses; nothing if it is not open."""
        return NOTHING if self._booked is None else self._booked.left_in(reservation)

    def fits(self, resources: Resources, now_s: float, stay_s: float | None) -> bool:
        """Return whether they are free now, and beside all bookings for `stay_s`; None: for ever.

        The caller looks at `left_in` instead for what is inside a booking.
        """
        if self._booked is None or not resources.fits_in(self.free):
            return resources.fits_in(self.free)
        end_s = inf if stay_s is None else now_s + stay_s
        return self._profile().lacks_from_s(resources, now_s) >= end_s

    def fitting_s(self, resources: Resources, now_s: float) -> float:
        """Return for how long `resources` are free from now on; 0.0: they are not free now."""
        if not resources.fits_in(self.free):
            return 0.0
        if self._booked is None:
            return inf
        return self._profile().lacks_from_s(resources, now_s) - now_s

    def is_bookable(
        self,
        resources: Resources,
        start_s: float,
        end_s: float,
        instead_of: ReservationId | None = None,
    ) -> bool:
        """Return whether they are free all that time if every claim ends at its end.

        `instead_of`: the reservation whose booking, with the claims inside, does not count.
        """
        if instead_of is not None:
            return self.profile(without=instead_of).is_room(resources, start_s, end_s)
        if self._booked is None:
            slot = self.earliest(resources, start_s, start_s)
            return slot is not None and slot.start_s <= start_s
        return self._profile().is_room(resources, start_s, end_s)

    def has_room_for(self, spans: Iterable[BookedSpan]) -> bool:
        """Return whether bookings that it has are within the capacity, if there are no claims."""
        alone = self.beside_bookings()
        return all(NOTHING.fits_in(alone.least(span.from_s, span.end_s)) for span in spans)

    def in_the_way(
        self, start: BookedSpan, granted: Callable[[Key], float] | None = None
    ) -> list[Key]:
        """Return the claims that have to end for `start`, the one that was granted last first.

        No more than needed: a claim stays if it has room beside all bookings and the claims that
        were granted before it. `granted` says when a claim was granted; without it, it was when it
        was added or changed last. Of an open booking also claims past their ends are in the way.
        """
        ends = (end for end in self._ends if end[2] in self._claims)
        return self._bookings().in_the_way(self.capacity, ends, start, granted)

    def profile(
        self, beside: Iterable[HeldSpan] = (), without: ReservationId | None = None
    ) -> RoomProfile:
        """Return what is free from now on if every claim ends at its end.

        `beside`: what is held there beside claims and bookings; `without`: the reservation whose
        booking, with the claims inside, does not count.
        """
        return self._bookings().profile(self.capacity, self._ends, beside, without)

    def beside_bookings(self, without: ReservationId | None = None) -> RoomProfile:
        """Return what bookings alone leave, but that of `without`, whatever is claimed."""
        return self._bookings().beside_bookings(self.capacity, without)

    def with_booking(self, span: BookedSpan) -> Calendar[Key]:
        """Return a calendar to look at, with one booking more that is not open."""
        changed = copy(self)
        changed.show(self._bookings().with_span(span))
        return changed

    def show(self, booked: Bookings[Key]) -> None:
        """Have these bookings instead, none of which opens or is over: to look at."""
        self._booked, self.bookings = booked, booked.spans

    def _bookings(self) -> Bookings[Key]:
        """Return the bookings, or none, which are not kept."""
        if self._booked is not None:
            return self._booked
        from iriai.policy.placement.bookings import Bookings

        return Bookings()

    def _profile(self) -> RoomProfile:
        return self._bookings().profile(self.capacity, self._ends)

    def _enter(self, key: Key, inside: ReservationId, resources: Resources) -> None:
        booked = self._booked = self._bookings()
        kept = booked.kept
        booked.enter(key, inside, resources)
        self._keep_instead_of(booked, kept)

    def _leave(self, key: Key, resources: Resources) -> None:
        booked = self._bookings()
        kept = booked.kept
        booked.leave(key, resources)
        self._keep_instead_of(booked, kept)

    def _keep_instead_of(self, booked: Bookings[Key], before: Resources) -> None:
        """Let open bookings keep what they keep now; claims inside take from it."""
        if booked.kept != before:
            self.free = self.free.plus(before).minus(booked.kept)
        if not booked:
            self._booked = None

    # --- planning --------------------------------------------------------------------------------

    @property
    def first_claim_end_s(self) -> float:
        """Return when the first claim ends; minus infinity if there is none."""
        return self._ends[0][0] if self._ends else -inf

    @property
    def first_end_s(self) -> float:
        """Return when the first claim or booking ends; minus infinity if there is none."""
        if not self.bookings:
            return self._ends[0][0] if self._ends else -inf
        booked_s = min(span.end_s for span in self.bookings)
        return min(self._ends[0][0], booked_s) if self._ends else booked_s

    def earliest(
        self,
        resources: Resources,
        now_s: float,
        before_s: float = inf,
        stay_s: float | None = None,
    ) -> Slot | None:
        """Return the first moment at which `resources` fit if every claim ends at its end.

        A claim past its end counts as ending now. None: the whole machine is too small, or it is
        later than `before_s`. `spare` also counts every other claim that ends at that same moment.
        What claims ahead will hold is not free until they end. With bookings they fit for
        `stay_s` (None: for ever), and `spare` is the least that is left in that time.
        """
        if self.bookings:
            profile, length_s = self._profile(), inf if stay_s is None else stay_s
            run = profile.run_from(resources, length_s, now_s, before_s)
            if run is None:
                return None
            least = profile.least(run[0], run[0] + length_s)
            return Slot(run[0], least.minus(resources))
        free = self.free_later
        start_s, fits = now_s, resources.fits_in(free)
        need_cpus, need_memory, need_gpus = resources.cpus, resources.memory_bytes, resources.gpus
        cpus, memory, gpus = free.cpus, free.memory_bytes, free.gpus
        named = dict(free.named) if free.named else {}
        # Plain sums, for a broker plans with hundreds of claims within a turn.
        for end_s, _, _, claim in self._ends:
            if fits:
                if end_s > start_s:
                    break
            elif end_s > before_s:
                return None
            cpus += claim.cpus
            memory += claim.memory_bytes
            gpus += claim.gpus
            if claim.named:
                for name, amount in claim.named:
                    named[name] = named.get(name, 0) + amount
            if not fits and cpus >= need_cpus and memory >= need_memory and gpus >= need_gpus:
                fits = not resources.named or resources.fits_in(
                    Resources(cpus, memory, gpus, tuple(named.items()))
                )
                if fits and end_s > start_s:
                    start_s = end_s
        if not fits:
            return None
        room = Resources(cpus, memory, gpus, tuple(sorted(named.items())) if named else ())
        return Slot(start_s, room.minus(resources))

    @property
    def free_later(self) -> Resources:
        """Return what is free once the claims ahead have what they wait for."""
        return self.free.minus(self._owed) if self._ahead else self.free

    def ends(self) -> Iterator[tuple[Resources, float]]:
        """Yield what each claim holds, those ahead included, with its end, in their order."""
        for end_s, _, _, resources in self._ends:
            yield resources, end_s

    def in_order(self) -> Iterator[tuple[Key, Resources, float]]:
        """Yield the claims with their resources and ends, in the order of the ends."""
        for end_s, _, key, resources in self._ends:
            if key in self._claims:
                yield key, resources, end_s

    def check(self) -> None:
        """Raise where granted claims exceed the capacity (invariant (a)).

        With bookings also where what has to end for them would leave too little (j).
        """
        held = NOTHING
        for resources, _, _ in self._claims.values():
            held = held.plus(resources)
        kept = NOTHING if self._booked is None else self._booked.kept
        assert held.plus(kept).plus(self.free) == self.capacity, "free and claimed do not add up"
        assert held.fits_in(self.capacity), f"claims {held} exceed {self.capacity}"
        if self._booked is not None:
            self._booked.check(self.capacity, self._ends, self._claims)
        owed = NOTHING
        for resources, _, _ in self._ahead.values():
            owed = owed.plus(resources)
        assert owed == self._owed, "claims ahead do not add up"
        assert len(self._ends) == len(self._claims) + len(self._ahead)

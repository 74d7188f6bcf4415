"""What may fill in beside a reserved head, and what it leaves."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from iriai.model.ids import JobId
from iriai.model.resources import NOTHING, Resources
from iriai.policy.placement.backfill import ReservedHead
from iriai.policy.placement.calendar import Calendar


def head(start_s: float, spare: Resources = NOTHING) -> ReservedHead:
    return ReservedHead(JobId("ume", 1), "ume", Resources(4), start_s, spare)


def test_what_ends_before_the_head_starts_may_fill():
    assert head(100.0).tolerates(Resources(1), 40.0, 60.0)


def test_what_ends_later_may_not():
    assert not head(100.0).tolerates(Resources(1), 41.0, 60.0)


def test_unless_the_head_leaves_room_for_it():
    assert head(100.0, spare=Resources(2)).tolerates(Resources(2), 500.0, 60.0)
    assert not head(100.0, spare=Resources(2)).tolerates(Resources(3), 500.0, 60.0)


def test_what_has_no_limit_only_fills_what_the_head_leaves():
    assert not head(1e12).tolerates(Resources(1), None, 60.0)
    assert head(100.0, spare=Resources(1)).tolerates(Resources(1), None, 60.0)


def test_what_outlasts_the_start_uses_up_what_is_spare():
    reserved = head(100.0, spare=Resources(2))
    reserved.filled(Resources(1), 500.0, 60.0)
    assert reserved.spare == Resources(1)
    reserved.filled(Resources(1), 40.0, 60.0)
    assert reserved.spare == Resources(1)


stays = st.floats(1, 100)
running = st.lists(st.tuples(st.integers(1, 3), stays), min_size=1, max_size=4)
fills = st.lists(st.tuples(st.integers(1, 4), st.one_of(st.none(), stays)), max_size=10)


@given(running=running, asked=st.integers(1, 8), fills=fills)
def test_no_fill_that_is_tolerated_delays_the_head(running, asked, fills):
    calendar: Calendar[int] = Calendar(Resources(8))
    for key, (cpus, stay_s) in enumerate(running):
        if cpus <= calendar.free.cpus:
            calendar.add(key, Resources(cpus), 0.0, stay_s)
    slot = calendar.earliest(Resources(asked), 0.0)
    assert slot is not None
    reserved = ReservedHead(JobId("ume", 1), "ume", Resources(asked), *slot)
    for key, (cpus, stay_s) in enumerate(fills, start=100):
        resources = Resources(cpus)
        fits = resources.fits_in(calendar.free)
        if fits and reserved.tolerates(resources, stay_s, 0.0):
            calendar.add(key, resources, 0.0, stay_s)
            reserved.filled(resources, stay_s, 0.0)
    later = calendar.earliest(Resources(asked), 0.0)
    assert later is not None
    if slot.start_s > 0:  # a head that fits now is not a head
        assert later.start_s <= slot.start_s

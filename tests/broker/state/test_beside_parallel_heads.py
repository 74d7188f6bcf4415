"""What may start beside a parallel task for which places are kept: as much as leaves it those."""

from __future__ import annotations

from iriai.model.ranks import RankShape
from iriai.model.resources import Resources
from tests.broker.lone_broker import as_running, want
from tests.broker.wide_matches import CPUS, WideMatches, wide
from tests.support.told import job

LONG_S, SHORT_S = 1000.0, 100.0


def busy(*cpus: int) -> WideMatches:
    """So many cpus of each machine are busy for a while."""
    wides = WideMatches(machines=0, order="fifo")
    for number, each in enumerate(cpus):
        claim = as_running(want(90 + number, cpus=each), ends_in_s=SHORT_S)
        began = (claim,) if each else ()
        wides.tell(wides.idle(f"m{number}", CPUS, whole=True, began=began))
    return wides


def test_as_many_ranks_as_leave_a_head_its_places():
    """Six of eight cpus are the head's when the first task ends, so the other two may be taken."""
    wides = busy(3, 0)
    assert not wides.submit(6, number=1, limit_s=LONG_S)
    assert wides.state.heads.by_job
    [match] = wides.tell(wide(1, number=2, shape=RankShape(1, 5), limit_s=LONG_S))
    assert sum(seat.ranks for seat in match.seats) == 2


def test_ranks_go_where_the_head_loses_no_place():
    """Its ranks take three cpus of each machine, and what is left of one is nobody's."""
    wides = busy(2, 2, 0)
    three = Resources(3)
    head = want(1, resources=three, shape=RankShape(3, 3), limit_s=LONG_S)
    assert not wides.tell(head)
    assert list(wides.state.heads.by_job) == [job(1)]
    [match] = wides.submit(3, number=2, limit_s=LONG_S)
    assert sorted((seat.machine, seat.ranks) for seat in match.seats) == [
        ("m0", 1),
        ("m1", 1),
        ("m2", 1),
    ]
    assert not wides.submit(1, number=3, limit_s=LONG_S)


def test_whole_machines_are_kept_for_a_head_that_takes_them():
    """Else it would be promised a start at which they are not empty."""
    wides = busy(1, 1, 0)
    assert not wides.submit(9, number=1, exclusive=True, limit_s=LONG_S)
    [head] = wides.state.heads.by_job.values()
    assert head.start_s >= SHORT_S
    assert not wides.tell(want(2, limit_s=LONG_S))
    assert wides.tell(want(3, limit_s=SHORT_S / 2))

"""What one broker promised to a parallel task, the next one keeps."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from iriai.model.ids import JobId
from iriai.protocol.messages.candidates import BrokerCandidate
from iriai.protocol.messages.effects import LinkDown
from iriai.protocol.messages.scheduling import Want
from tests.broker.lone_broker import as_running, matched, promises, want
from tests.broker.wide_matches import CPUS, WideMatches, wide
from tests.support.told import attempt, instant, job, told

PROMISED_S = 30.0


def promised(ranks: int, number: int = 1, **fields: object) -> Want:
    return wide(ranks, number, limit_s=10.0, promised_in_s=PROMISED_S, **fields)


def busy(number: int, ends_in_s: float) -> dict[str, object]:
    claim = as_running(want(number, "zoe", cpus=3), attempt_id=attempt(number), ends_in_s=ends_in_s)
    return {"began": (claim,)}


def new_broker(**options: object) -> WideMatches:
    return WideMatches(machines=0, **options)


def report(cluster: WideMatches, ends_in_s: float = PROMISED_S):
    reports = [cluster.idle(f"m{n}", 1, whole=True, **busy(90 + n, ends_in_s)) for n in range(2)]
    return cluster.broker.tell(*reports)


def test_another_broker_keeps_the_places():
    cluster = new_broker(order="fifo")
    rival = wide(2, 2, user="bob", limit_s=1000.0, waited_s=1e6)
    cluster.tell(rival, promised(8))
    said = report(cluster)
    assert matched(said) == []  # the rival would take places for longer
    assert promises(said) == []  # the home knows
    assert {job: head.start_s for job, head in cluster.state.heads.by_job.items()} == {
        job(1): PROMISED_S
    }
    cluster.broker.now_s = PROMISED_S
    over = [cluster.idle(f"m{n}", 3, ended=(attempt(90 + n),)) for n in range(2)]
    assert matched(cluster.broker.tell(*over))[0] == job(1)


def test_what_counts_in_a_higher_queue_starts_before_places_are_kept():
    cluster = new_broker(order="fifo")
    higher = wide(2, 2, user="bob", limit_s=1000.0)
    cluster.tell(higher, promised(8, queue=1))
    assert matched(report(cluster)) == [job(2)]


def test_of_two_promises_the_earlier_is_kept_first():
    cluster = new_broker()
    later = replace(promised(8, 2), promised_in_s=PROMISED_S + 20.0)
    cluster.tell(later, promised(8))
    report(cluster)
    assert list(cluster.state.heads.by_job) == [job(1)]


def test_what_is_free_by_then_starts_at_once():
    cluster = new_broker()
    cluster.tell(promised(8))
    [match] = cluster.tell(*[cluster.idle(f"m{n}", CPUS, whole=True) for n in range(2)])
    assert sum(seat.ranks for seat in match.seats) == 8
    assert not cluster.state.heads.promised


@pytest.mark.parametrize("options", [{"cap_cpus": 4}, {}])
def test_a_promise_that_cannot_be_kept_is_taken_back(options):
    cluster = new_broker(**options)
    cluster.tell(promised(8 if options else 9))
    assert promises(report(cluster)) == [(1, None)]
    assert not cluster.state.heads.by_job


def test_a_promise_to_a_job_whose_home_went_away_keeps_nothing():
    cluster = new_broker()
    cluster.broker.broker.begin([BrokerCandidate("kaki"), BrokerCandidate("m0")], 1.0, instant(0.0))
    cluster.tell(replace(promised(8), job=JobId("kaki", 2)))
    assert cluster.state.heads.promised
    cluster.tell(LinkDown("kaki"))
    assert not cluster.state.heads.promised


def test_a_want_that_comes_again_changes_no_place():
    cluster = new_broker()
    cluster.tell(promised(8))
    report(cluster)
    head = cluster.state.heads.by_job[job(1)]
    said = told(cluster.broker.turn(replace(promised(8), promised_in_s=5.0, stamp=2)))
    assert promises(said) == []
    assert cluster.state.heads.by_job[job(1)].start_s == head.start_s
    assert not cluster.state.heads.promised

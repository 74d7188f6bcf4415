"""A pool that runs as many tasks as it may starts no further one; `why` says so."""

from __future__ import annotations

from iriai.config.reader import Configuration
from iriai.config.sections import PoolSection
from iriai.model.ad import POOL, machine_ad
from iriai.model.ranks import RankShape
from iriai.model.reason import Rule
from iriai.model.resources import Resources
from iriai.protocol.messages.effects import LinkDown
from iriai.protocol.messages.scheduling import Match
from tests.broker.lone_broker import LoneBroker, as_running, matches, want
from tests.support.told import HOME, attempt, instant, job

BLADE, DESK = machine_ad({POOL: "blade"}), machine_ad({POOL: "desk"})


def numbers(matches: list[Match]) -> list[int]:
    return [each.job.number for each in matches]


def blades(most: int | None, **fields) -> LoneBroker:
    """Two machines of four cpus in one pool."""
    pools = {"blade": PoolSection(jobs_max=most)}
    broker = LoneBroker(pools=pools, **fields)
    for name in (HOME, "momo"):
        broker.tell(broker.idle(machine=name, ad=BLADE))
    return broker


def over(broker: LoneBroker, number: int, machine: str = HOME):
    """A task of that job has ended."""
    capabilities = broker.capabilities(1)
    return broker.tell(
        broker.idle(
            machine=machine, whole=False, capabilities=capabilities, ended=(attempt(number),)
        )
    )


def granted(broker: LoneBroker, said) -> None:
    """What was matched runs."""
    for match in matches(said):
        seat = match.seats[0]
        running = as_running(want(match.job.number), capability=seat.capability)
        broker.tell(
            broker.idle(
                0, machine=seat.machine, whole=False, began=(running,), spent=(seat.capability,)
            )
        )


def test_no_more_tasks_start_than_may():
    broker = blades(3)
    said = broker.tell(*(want(number) for number in range(1, 7)))
    assert len(matches(said)) == 3
    granted(broker, said)
    waiting = next(number for number in range(1, 7) if number not in numbers(matches(said)))
    reasons = broker.broker.explain(job(waiting), instant(broker.now_s))
    assert {each.rule for each in reasons} == {Rule.POOL_FULL}
    assert reasons[0].had == "3 run in pool blade, where at most 3 tasks may"


def test_when_one_ends_the_next_starts():
    broker = blades(2)
    said = broker.tell(*(want(number) for number in range(1, 5)))
    granted(broker, said)
    ended = matches(said)[0]
    assert len(matches(over(broker, ended.job.number, ended.seats[0].machine))) == 1


def test_when_one_that_was_sent_ahead_is_given_back_another_starts_elsewhere_in_the_pool():
    broker = blades(1)
    ahead = as_running(want(7))
    report = {"machine": HOME, "whole": False, "capabilities": broker.capabilities(1)}
    broker.tell(broker.idle(0, waiting=(ahead,), **report))
    assert matches(broker.tell(want(1))) == []
    report["capabilities"] = ()
    assert numbers(matches(broker.tell(broker.idle(0, ended=(ahead.attempt,), **report)))) == [1]


def test_another_pool_has_room():
    broker = blades(1)
    broker.tell(broker.idle(machine="tuf", ad=DESK))
    said = matches(broker.tell(*(want(number) for number in range(1, 9))))
    machines = [match.seats[0].machine for match in said]
    assert (len(machines), machines.count("tuf")) == (5, 4)


def test_a_task_with_several_seats_counts_once():
    broker = blades(2)
    said = broker.tell(want(1, shape=RankShape(6, 6)))
    assert [len(match.seats) for match in matches(said)] == [2]
    assert broker.broker.state.slots.running("blade") == 1
    assert numbers(matches(broker.tell(want(2), want(3)))) in ([2], [3])


def test_a_bound_of_nothing_starts_nothing_and_keeps_no_place():
    broker = blades(0)
    assert matches(broker.tell(want(1), want(2, cpus=4))) == []
    assert broker.broker.state.reserved == {}
    reasons = broker.broker.explain(job(1), instant(broker.now_s))
    assert reasons[0].had == "0 run in pool blade, where no task may"


def test_a_bound_may_change():
    broker = blades(1)
    said = broker.tell(*(want(number) for number in range(1, 5)))
    granted(broker, said)
    pools = {"blade": PoolSection(jobs_max=3)}
    broker.broker.configured(Configuration(pools=pools))
    assert len(matches(broker.wake())) == 2
    broker.broker.configured(Configuration())
    assert len(matches(broker.wake())) == 1


def test_what_runs_on_a_machine_that_is_away_does_not_count():
    broker = blades(1)
    said = broker.tell(want(1), want(2))
    granted(broker, said)
    gone = matches(said)[0].seats[0].machine
    other = matches(broker.tell(LinkDown(gone)))
    assert [match.seats[0].machine == gone for match in other] == [False]


def test_no_task_is_sent_ahead_to_a_full_pool():
    broker = blades(8)
    said = broker.tell(want(1, count=8))
    assert len(matches(said)) == 8
    assert matches(broker.tell(want(2))) == []
    assert broker.broker.state.slots.running("blade") == 8


def test_a_cluster_without_bounds_counts_nothing():
    broker = blades(None)
    broker.tell(want(1, count=8))
    assert not broker.broker.state.slots.bounds
    assert broker.broker.state.slots.running("blade") == 0
    assert Resources(4).fits_in(broker.broker.state.machines[HOME].calendar.capacity)

"""Several machines hold an attempt, then its home decides, they confirm, and it starts: or none."""

from __future__ import annotations

import pytest

from iriai.model.claim import HOLD_S, Phase
from iriai.model.ids import AttemptId
from iriai.model.ranks import RankShape, SeatPlace
from iriai.model.reason import Reason, Rule
from iriai.model.records import Attempted, AttemptResult, Decided, Ended, SeatEnded
from iriai.model.state import EndCause, TaskState
from iriai.model.submission import Layout
from iriai.model.usage import Usage
from iriai.protocol.messages.effects import LinkUp, Part, Wake
from iriai.protocol.messages.scheduling import (
    Accepted,
    Acknowledge,
    Begun,
    Capability,
    Decline,
    End,
    Match,
    Refusal,
    Renew,
    Run,
    SeatOffer,
    Stop,
)
from tests.home.lone_home import LoneHome, changes, wants
from tests.support.told import HOME, WALL_S, Told, attempt, job, only

FOUR = RankShape(4, 4)
AKI, BUNA, YAMA = "aki", "buna", "yama"
PLACES = (SeatPlace(YAMA, 2), SeatPlace(AKI, 1), SeatPlace(BUNA, 1))
SEATS = {0: YAMA, 2: AKI, 3: BUNA}
"""The first rank of each seat, and its machine."""


def capability(machine: str) -> Capability:
    return Capability(1, 1, 1, sum(map(ord, machine)))


def match(number: int = 1, places=PLACES) -> Match:
    offers = tuple(SeatOffer(each.machine, capability(each.machine), each.ranks) for each in places)
    return Match(job(number), offers, 10.0)


def wake(home: LoneHome) -> Told:
    return home.tell(Wake(Part.HOME))


def all_answer(phase: Phase, seats=SEATS, of: AttemptId | None = None, port: int = 0) -> list:
    of = of or attempt(1)
    return [
        Accepted(of.seat(rank), machine, phase=phase, port=0 if rank else port)
        for rank, machine in seats.items()
    ]


def runs(said: Told) -> list[tuple[int, Phase]]:
    """First rank and phase of each order to a node."""
    return [(each.attempt.rank, each.phase) for each in said.node if isinstance(each, Run)]


def stops(said: Told) -> list[int]:
    return [each.attempt.rank for each in said.node if isinstance(each, Stop)]


def seat_end(
    rank: int, cause=EndCause.COMPLETED, code: int | None = 0, *, ran_s: float = 5.0, of=None
) -> End:
    times = (WALL_S, WALL_S + ran_s, ran_s)
    seat = (of or attempt(1)).seat(rank)
    used = Usage(2.0, 100, 10, 1)
    return End(AttemptResult(seat, SEATS[rank], cause, code, None, used, *times, 3.0, "why"))


def matched(**changes) -> LoneHome:
    home = LoneHome()
    home.submit(shape=FOUR, **changes)
    home.tell(match())
    return home


def confirmed(**changes) -> LoneHome:
    home = matched(**changes)
    home.tell(*all_answer(Phase.HELD))
    return home


def started(**changes) -> LoneHome:
    home = confirmed(**changes)
    home.tell(*all_answer(Phase.CONFIRMED, port=5000))
    home.tell(*[Begun(attempt(1).seat(rank), at, WALL_S) for rank, at in SEATS.items()])
    return home


def test_all_machines_hold_their_seats_before_any_confirms():
    home = LoneHome()
    home.submit(shape=FOUR)
    said = home.tell(match())
    assert changes(said) == [Attempted(((0, 1),), YAMA, PLACES)]
    held = [(2, Phase.HELD), (3, Phase.HELD), (0, Phase.HELD)]
    assert runs(said) == held, "not in the order of the machines' names"
    assert [run.capability for run in said.node] == [capability(m) for m in (AKI, BUNA, YAMA)]
    assert [run.ranks for run in said.node] == [1, 1, 2]
    *first, last = all_answer(Phase.HELD)
    assert home.tell(*first).node == []
    said = home.tell(last)
    assert changes(said) == [Decided(((0, 1),))]
    assert runs(said) == [(rank, Phase.CONFIRMED) for rank in SEATS]


def test_nothing_starts_before_the_last_has_confirmed():
    home = confirmed()
    *first, last = all_answer(Phase.CONFIRMED, port=5000)
    assert home.tell(*first).node == []
    said = home.tell(last)
    assert runs(said) == [(rank, Phase.STARTED) for rank in SEATS]
    assert {(run.seats, run.port) for run in said.node} == {(PLACES, 5000)}


def test_the_task_runs_as_soon_as_one_seat_does():
    home = confirmed()
    home.tell(*all_answer(Phase.CONFIRMED))
    home.tell(Begun(attempt(1).seat(3), BUNA, WALL_S))
    assert home.home.jobs[1].tasks[0].state is TaskState.RUNNING
    assert home.home.started_wall_s(attempt(1)) == WALL_S


def test_it_has_completed_when_all_seats_have():
    home = started()
    said = home.tell(seat_end(0), seat_end(2))
    assert [type(each) for each in changes(said)] == [SeatEnded]
    assert said.node == [Acknowledge(attempt(1).seat(rank)) for rank in (0, 2)]
    said = home.tell(seat_end(3, ran_s=9.0))
    ended = only(changes(said), Ended)
    assert ended.tasks == ((0, 1, EndCause.COMPLETED, 0, None),)
    row = only(said.records, AttemptResult)
    assert row.attempt == attempt(1)
    assert row.usage == Usage(6.0, 300, 30, 3)
    assert (row.elapsed_s, row.charge_s, row.machine) == (9.0, 9.0, YAMA)
    assert home.home.jobs == {}


def test_the_first_failure_ends_the_others_and_stands_for_all():
    home = started()
    said = home.tell(seat_end(2, EndCause.FAILED, 7))
    assert stops(said) == [0, 3]
    said = home.tell(seat_end(0, EndCause.CANCELLED, None))
    assert stops(said) == []
    said = home.tell(seat_end(3, EndCause.FAILED, 9))
    assert only(changes(said), Ended).tasks == ((0, 1, EndCause.FAILED, 7, None),)


def test_kept_going_the_worst_end_stands_for_all():
    home = started(keep_going=True)
    assert stops(home.tell(seat_end(2, EndCause.FAILED, 7))) == []
    home.tell(seat_end(0))
    said = home.tell(seat_end(3, EndCause.FAILED, 9))
    assert only(changes(said), Ended).tasks == ((0, 1, EndCause.FAILED, 9, None),)


def test_the_end_of_the_first_command_ends_the_rest():
    home = started(layout=Layout.FIRST)
    assert stops(home.tell(seat_end(0))) == [2, 3]
    said = home.tell(*[seat_end(rank, EndCause.CANCELLED, None) for rank in (2, 3)])
    assert only(changes(said), Ended).tasks == ((0, 1, EndCause.COMPLETED, 0, None),)


def test_a_refusal_frees_all_and_the_task_waits_again():
    home = matched()
    home.tell(*all_answer(Phase.HELD, {0: YAMA, 2: AKI}))
    busy = Reason(Rule.MACHINE_BUSY, "1 cpu", "0 cpus free", BUNA)
    said = home.tell(Refusal(attempt(1).seat(3), busy))
    assert stops(said) == [0, 2, 3]
    assert only(changes(said), Ended).refusals == (busy,)
    assert wants(said) == [(1, 1)]
    assert runs(home.tell(match())) == [(2, Phase.HELD), (3, Phase.HELD), (0, Phase.HELD)]
    late = home.tell(*all_answer(Phase.HELD))
    assert stops(late) == [0, 2, 3], "an answer of the attempt before counts for nothing"
    assert runs(late) == []


@pytest.mark.parametrize("answers", [[], [0, 2]])
def test_what_is_not_held_in_time_is_freed(answers):
    home = matched()
    home.tell(*all_answer(Phase.HELD, {rank: SEATS[rank] for rank in answers}))
    home.now_s += HOLD_S * 0.91
    said = wake(home)
    assert stops(said) == [0, 2, 3]
    [reason] = only(changes(said), Ended).refusals
    assert reason.rule is Rule.SEATS_NOT_HELD
    assert BUNA in reason.had
    assert wants(said) == [(1, 1)]


def test_a_home_does_not_decide_when_its_own_count_is_over():
    home = matched()
    home.now_s += HOLD_S * 0.91
    said = home.tell(*all_answer(Phase.HELD))
    assert runs(said) == []


def test_a_machine_that_confirms_no_longer_frees_all():
    home = confirmed()
    home.tell(*all_answer(Phase.CONFIRMED, {0: YAMA, 2: AKI}))
    expired = Reason(Rule.HOLD_EXPIRED, "to be confirmed", "it is not held", BUNA)
    said = home.tell(Refusal(attempt(1).seat(3), expired))
    assert stops(said) == [0, 2, 3]
    assert wants(said) == [(1, 1)]


def test_a_cancelled_task_is_not_decided():
    home = matched()
    said = home.do(lambda core: core.cancel(1, (), "ann"))
    assert stops(said) == [0, 2, 3]
    said = home.tell(*all_answer(Phase.HELD))
    assert runs(said) == []
    said = home.tell(seat_end(0, EndCause.CANCELLED, None, ran_s=0.0))
    assert home.home.jobs == {}


def test_a_running_task_that_is_cancelled_ends_with_its_last_seat():
    home = started()
    assert stops(home.do(lambda core: core.cancel(1, (), "ann"))) == [0, 2, 3]
    home.tell(seat_end(0, EndCause.CANCELLED, None), seat_end(2, EndCause.CANCELLED, None))
    said = home.tell(seat_end(3, EndCause.CANCELLED, None))
    assert only(changes(said), Ended).tasks[0][2] is EndCause.CANCELLED
    assert home.home.jobs == {}


def test_what_was_not_decided_before_a_restart_is_freed():
    home = matched()
    home.tell(*all_answer(Phase.HELD, {0: YAMA, 2: AKI}))
    again = LoneHome(home.store, home.now_s)
    assert stops(again.first) == [0, 2, 3]
    assert runs(again.first) == []
    assert wants(again.first) == [(1, 1)]


def test_what_was_decided_before_a_restart_goes_on():
    home = confirmed()
    home.tell(*all_answer(Phase.CONFIRMED, {2: AKI}))
    again = LoneHome(home.store, home.now_s)
    said = again.tell(*[LinkUp(machine) for machine in (YAMA, AKI, BUNA)])
    assert runs(said) == [(rank, Phase.CONFIRMED) for rank in SEATS]
    assert {run.capability for run in said.node} == {None}
    assert again.tell(*all_answer(Phase.CONFIRMED, {0: YAMA, 2: AKI}, port=5000)).node == []
    said = again.tell(*all_answer(Phase.CONFIRMED, {3: BUNA}))
    assert runs(said) == [(rank, Phase.STARTED) for rank in SEATS]
    assert {run.port for run in said.node} == {5000}


def test_after_a_restart_a_seat_that_runs_shows_that_all_may_start():
    home = confirmed()
    home.tell(*all_answer(Phase.CONFIRMED, port=5000))  # the start was sent; one never got it
    again = LoneHome(home.store, home.now_s)
    again.tell(*all_answer(Phase.CONFIRMED, {3: BUNA}))
    again.tell(Begun(attempt(1).seat(2), AKI, WALL_S))
    said = again.tell(*all_answer(Phase.STARTED, {0: YAMA}, port=5000))
    assert (3, Phase.STARTED) in runs(said)
    assert {run.port for run in said.node} == {5000}


def test_seats_that_ended_before_a_restart_count():
    home = started()
    home.tell(seat_end(0), seat_end(2))
    again = LoneHome(home.store, home.now_s)
    said = again.tell(LinkUp(BUNA), LinkUp(YAMA))
    assert runs(said) == [(3, Phase.STARTED)], "others have run: so all had confirmed"
    said = again.tell(seat_end(3))
    assert only(said.records, AttemptResult).usage == Usage(6.0, 300, 30, 3)
    assert again.home.jobs == {}


def test_a_machine_that_is_silent_for_its_lease_loses_its_seat_and_the_others_end():
    home = started(lease_s=60.0, max_restarts=3)
    home.now_s += 50.0
    home.tell(Renew(YAMA, home.now_s), Renew(AKI, home.now_s))
    home.now_s += 40.0
    said = wake(home)
    assert stops(said) == [0, 2]
    said = home.tell(*[seat_end(rank, EndCause.CANCELLED, None) for rank in (0, 2)])
    assert only(changes(said), Ended).tasks[0][2] is EndCause.LOST
    assert wants(said) == [(1, 1)]


def test_a_seat_that_was_not_told_to_confirm_is_told_again():
    home = confirmed()
    said = home.tell(*all_answer(Phase.HELD, {2: AKI}))
    assert runs(said) == [(2, Phase.CONFIRMED)]


def test_a_match_that_comes_twice_binds_one_task():
    home = LoneHome()
    home.submit(shape=FOUR, array=((0, 3, 1),), is_array=True)
    home.tell(match())
    assert runs(home.tell(match())) == []


@pytest.mark.parametrize(
    "places",
    [
        PLACES[:2],
        (*PLACES, SeatPlace("kiri", 1)),
        (SeatPlace(YAMA, 2), SeatPlace(YAMA, 2)),
    ],
)
def test_seats_that_the_task_cannot_have_are_declined(places):
    home = LoneHome()
    home.submit(shape=FOUR)
    wrong = match(places=places)
    said = home.tell(wrong)
    assert said.broker == [Decline(job(1), wrong.seats)]
    assert said.node == []


def test_a_task_of_one_rank_takes_one_seat():
    home = LoneHome()
    home.submit()
    assert home.tell(match()).node == []


def test_on_one_machine_it_is_held_confirmed_and_started_at_once():
    home = LoneHome()
    home.submit(shape=FOUR)
    said = home.tell(match(places=(SeatPlace(AKI, 4),)))
    [run] = said.node
    assert (run.phase, run.ranks, run.seats) == (Phase.STARTED, 4, ())
    home.tell(Begun(attempt(1), AKI, WALL_S))
    result = AttemptResult(
        attempt(1), AKI, EndCause.COMPLETED, 0, None, Usage(), WALL_S, WALL_S + 1, 1.0, 4.0
    )
    said = home.tell(End(result))
    assert only(said.records, AttemptResult).charge_s == 4.0
    assert home.home.jobs == {}


def test_a_machine_speaks_of_its_own_seat_alone():
    home = matched()
    said = home.tell(Accepted(attempt(1).seat(2), BUNA, phase=Phase.HELD))
    assert said.node == []
    home.tell(*all_answer(Phase.HELD, {0: YAMA, 3: BUNA}))
    assert not home.home.jobs[1].tasks[0].is_decided


def test_a_seat_that_no_attempt_has_is_stopped():
    home = started()
    said = home.tell(Begun(attempt(1).seat(1), AKI, WALL_S))
    assert said.node == [Stop(attempt(1).seat(1), EndCause.LOST, 0.0)]


def test_the_home_is_woken_when_its_count_is_over():
    home = LoneHome()
    home.submit(shape=FOUR)
    said = home.tell(match())
    assert [each.steady_s for each in said.others] == [HOLD_S * 0.9]
    assert HOME not in SEATS.values()

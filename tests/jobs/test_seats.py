"""`iriai show --ranks`: each machine of an attempt, from the first question to the last end."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from iriai.jobs.history import JobHistory
from iriai.jobs.queries import JobQueries
from iriai.jobs.seats import SEATS_SHOWN_MAX
from iriai.model.claim import Phase
from iriai.model.ids import AttemptId
from iriai.model.ranks import RankShape, SeatPlace
from iriai.model.reason import Reason, Rule
from iriai.model.records import Attempted, SeatEnded
from iriai.model.state import EndCause
from iriai.protocol.messages.effects import Wake
from iriai.protocol.messages.scheduling import Accepted, Begun, Refusal
from iriai.store import Store
from iriai.wire.requests import AttemptRow
from tests.home.lone_home import LoneHome, end
from tests.home.lone_home import match as match_one
from tests.home.test_parallel_attempts import (
    AKI,
    BUNA,
    FOUR,
    SEATS,
    YAMA,
    all_answer,
    match,
    seat_end,
)
from tests.store.records import accepted, event, finished, result
from tests.support.told import HOME, WALL_S, attempt

RANKS = [(0, 2, YAMA), (2, 1, AKI), (3, 1, BUNA)]


class Shown:
    """A home, its store, and what a client is told of its only job."""

    def __init__(self, path: Path, **job: object) -> None:
        self.store = Store.open(path / "iriai.db")
        self.home = LoneHome()
        past = JobHistory(HOME, "/spool", self.store, lambda forget: forget())
        self.queries = JobQueries(self.home.home, past, "/spool")
        self._note(self.home.submit(**{"shape": FOUR, "output": "%j.%r.out"} | job))

    def tell(self, *messages: object) -> None:
        self._note(self.home.tell(*messages))

    def _note(self, said) -> None:
        self.store.write(said.records)

    def start(self) -> None:
        self.tell(match())
        self.tell(*all_answer(Phase.HELD))
        self.tell(*all_answer(Phase.CONFIRMED, port=5000))
        self.tell(*[Begun(attempt(1).seat(rank), at, WALL_S) for rank, at in SEATS.items()])

    def detail(self, name: str = "ume-1", *, ranks: bool = True):
        return self.queries.detail(self.queries.one(name, None), [], {}, ranks=ranks)

    @property
    def seats(self) -> tuple[AttemptRow, ...]:
        return self.detail().seats

    @property
    def states(self) -> list[str]:
        return [each.cause or each.state for each in self.seats]


@pytest.fixture
def shown(tmp_path: Path):
    scene = Shown(tmp_path)
    yield scene
    scene.store.close()


def places(seats) -> list[tuple[int, int, str]]:
    return [(each.rank, each.ranks, each.machine) for each in seats]


def test_each_machine_is_told_with_its_ranks_and_how_far_it_is(shown):
    assert shown.seats == ()  # none has a place
    shown.tell(match())
    assert places(shown.seats) == RANKS
    assert shown.states == ["asked"] * 3
    held = all_answer(Phase.HELD)
    shown.tell(held[1])
    assert shown.states == ["asked", "held", "asked"]
    shown.tell(held[0], held[2])
    shown.tell(all_answer(Phase.CONFIRMED)[2])
    assert shown.states == ["held", "held", "confirmed"]
    shown.tell(*all_answer(Phase.CONFIRMED, port=5000))
    shown.tell(*all_answer(Phase.STARTED))
    assert shown.states == ["started"] * 3


def test_the_attempt_says_how_many_ranks_and_machines_it_has(shown):
    shown.start()
    [row] = shown.detail(ranks=False).attempts
    assert (row.machine, row.ranks, row.seats) == (YAMA, 4, 3)
    shown.tell(*[seat_end(rank) for rank in SEATS])
    [row] = shown.detail(ranks=False).attempts
    assert (row.machine, row.ranks, row.seats, row.cause) == (YAMA, 4, 3, "completed")


def test_nobody_is_told_seats_who_did_not_ask(shown):
    shown.start()
    assert shown.detail(ranks=False).seats == ()


def test_what_a_seat_used_is_told_when_it_ends_and_the_others_run_on(shown):
    shown.start()
    shown.tell(seat_end(2))
    first, ended, last = shown.seats
    assert (ended.rank, ended.ranks, ended.machine, ended.cause) == (2, 1, AKI, "completed")
    assert (ended.cpu_s, ended.memory_peak_bytes, ended.elapsed_s, ended.charge_s) == (
        2.0,
        100,
        5.0,
        3.0,
    )
    assert (first.cause, first.started_wall_s, first.ended_wall_s) == ("", WALL_S, None)
    assert last.machine == BUNA


def test_after_the_end_each_seat_has_its_own(shown):
    shown.start()
    shown.tell(seat_end(3, EndCause.FAILED, 7))
    shown.tell(seat_end(0, EndCause.CANCELLED, None), seat_end(2, EndCause.CANCELLED, None))
    assert places(shown.seats) == RANKS
    assert shown.states == ["cancelled", "cancelled", "failed"]
    assert shown.seats[2].exit_code == 7
    [whole] = shown.detail().attempts
    assert (whole.cause, whole.exit_code, whole.charge_s) == ("failed", 7, 9.0)


def test_files_of_a_seat_are_those_of_its_first_rank(shown):
    shown.start()
    assert [each.output for each in shown.seats] == [f"/ume-1.{rank}.out" for rank in SEATS]


def test_a_refused_attempt_leaves_no_seat_and_the_next_has_others(shown):
    shown.tell(match())
    reason = Reason(Rule.MACHINE_BUSY, "1 cpu", "0 free", AKI)
    shown.tell(Refusal(attempt(1).seat(2), reason))
    assert shown.seats == ()
    again = (SeatPlace(BUNA, 3), SeatPlace(AKI, 1))
    shown.home.now_s += 60.0
    shown.tell(Wake(HOME))
    shown.tell(match(places=again))
    assert places(shown.seats) == [(0, 3, BUNA), (3, 1, AKI)]
    assert {each.attempt for each in shown.seats} == {2}


def test_several_ranks_on_one_machine_are_one_seat(tmp_path):
    scene = Shown(tmp_path)
    scene.tell(match(places=(SeatPlace(YAMA, 4),)))
    assert places(scene.seats) == [(0, 4, YAMA)]
    scene.tell(Begun(attempt(1), YAMA, WALL_S), seat_end(0))
    assert places(scene.seats) == [(0, 4, YAMA)]
    assert scene.states == ["completed"]
    scene.store.close()


def test_a_job_of_one_rank_has_one(tmp_path):
    scene = Shown(tmp_path, shape=RankShape())
    scene.tell(match_one())
    assert places(scene.seats) == [(0, 1, HOME)]
    scene.tell(Accepted(attempt(1), HOME), Begun(attempt(1), HOME, WALL_S), end(attempt(1)))
    assert places(scene.seats) == [(0, 1, HOME)]
    assert scene.states == ["completed"]
    scene.store.close()


def test_seats_of_one_task_are_told_alone(tmp_path):
    scene = Shown(tmp_path, array=((0, 1, 1),), is_array=True)
    two = (SeatPlace("kiri", 3), SeatPlace("momi", 1))
    scene.tell(match(places=two))
    scene.tell(match())
    assert places(scene.detail("ume-1.0").seats) == [(0, 3, "kiri"), (3, 1, "momi")]
    assert places(scene.detail("ume-1.1").seats) == RANKS
    assert len(scene.seats) == 5
    scene.store.close()


# --- what older events do not tell any more ------------------------------------------------------


def test_without_its_events_the_seats_of_an_attempt_have_their_ranks(tmp_path):
    store = Store.open(tmp_path / "iriai.db")
    ends = [result(1, machine=f"m{n}") for n in range(2)]
    named = [AttemptId(HOME, 1, 0, 1, rank) for rank in (0, 3)]
    seats = tuple(
        (replace(each, attempt=name), ranks)
        for each, name, ranks in zip(ends, named, (3, 2), strict=True)
    )
    store.write(
        [accepted(1, shape=RankShape(4, 9)), event(1, 2, SeatEnded(seats)), result(1), finished(1)]
    )
    queries = JobQueries(LoneHome().home, JobHistory(HOME, "/s", store, lambda f: f()), "/s")
    detail = queries.detail(queries.one("ume-1", None), [], {}, ranks=True)
    assert [(each.rank, each.ranks, each.machine) for each in detail.seats] == [
        (0, 3, "m0"),
        (3, 2, "m1"),
    ]
    assert [(each.ranks, each.seats) for each in detail.attempts] == [(0, 1)]
    store.close()


def test_an_answer_has_no_more_seats_than_one_attempt_may_have(tmp_path):
    store = Store.open(tmp_path / "iriai.db")
    many = tuple(SeatPlace(f"m{n}", 1) for n in range(SEATS_SHOWN_MAX - 1))
    shape = RankShape(len(many), len(many))
    tries = tuple((0, number) for number in (1, 2))
    store.write(
        [accepted(1, shape=shape), event(1, 2, Attempted(tries, "m0", many)), finished(1)]
        + [result(1, attempt=number, cause=EndCause.LOST) for number in (1, 2)]
    )
    queries = JobQueries(LoneHome().home, JobHistory(HOME, "/s", store, lambda f: f()), "/s")
    detail = queries.detail(queries.one("ume-1", None), [], {}, ranks=True)
    assert len(detail.seats) == SEATS_SHOWN_MAX
    assert detail.seats[0].attempt == 2
    store.close()

"""What `iriai show` says of tasks that have not started, and `iriai jobs` of very many."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import msgspec
import pytest
from msgspec.structs import replace

from iriai.home.core import Home
from iriai.jobs.queries import ROWS_AT_ONCE, JobQueries
from iriai.machine.core import Machine
from iriai.model.ids import Account, AttemptId, JobId
from iriai.model.job import JobSpec
from iriai.model.problem import NotAllowed, NotFound
from iriai.model.ranks import RankShape
from iriai.model.submission import Binding, Interaction, Layout
from iriai.protocol.messages.effects import Delivered, Part
from iriai.protocol.messages.scheduling import Accepted, Begun, Capability, Match, SeatOffer
from iriai.wire.requests import Jobs
from tests.support.told import instant

SPEC = JobSpec(Account("lab", "ann"), "ann", "x", ("true",), "/")
JOB, ATTEMPT = JobId("ume", 1), AttemptId("ume", 1, 0, 1)


class Scene:
    """A home with one job, whose task is given to the machine b1."""

    def __init__(self) -> None:
        self.machine = Machine("ume", None, Home("ume", 1, ()), None, broker_at="b")
        self.machine.submit(SPEC, (), instant(0.0))
        self.tell(Match(JOB, (SeatOffer("b1", Capability(1, 1, 0, 0)),), 10.0))

    def tell(self, message) -> None:
        self.machine.handle(Delivered("b1", Part.HOME, message), instant(1.0))
        self.machine.end_turn(instant(1.0))

    def message(self) -> str:
        """What is said of its only attempt."""
        past = SimpleNamespace(attempts=lambda *_: [])
        answers = JobQueries(self.machine.home, past, "/spool")
        detail = answers.detail(answers.one(str(JOB), None), [], {})
        [attempt] = detail.attempts
        return attempt.message


def test_a_task_that_was_handed_out_ahead_is_shown_with_what_it_waits_for():
    scene = Scene()
    scene.tell(Accepted(ATTEMPT, "b1", is_ahead=True))
    assert scene.message() == "it was prefetched by b1: it starts after what runs there"
    scene.tell(Begun(ATTEMPT, "b1", 1_800_000_001.0))
    assert scene.message() == ""


def test_one_that_has_its_place_is_not():
    scene = Scene()
    scene.tell(Accepted(ATTEMPT, "b1"))
    assert scene.message() == ""


def test_a_job_that_never_was_is_not_found_by_operators_either():
    def spec(number: int) -> JobSpec:
        raise NotFound("no-such-job", f"there is no job ume-{number}")

    answers = JobQueries(Scene().machine.home, SimpleNamespace(spec=spec), "/spool")
    answers.require(1, "ann")
    answers.require(1, None)
    with pytest.raises(NotAllowed):
        answers.require(1, "bob")
    with pytest.raises(NotFound):
        answers.require(2, None)


@pytest.mark.parametrize("jobs", [0, 1, ROWS_AT_ONCE, 2 * ROWS_AT_ONCE + 1])
def test_a_listing_has_each_job_once(jobs: int):
    assert [each for rows in listing(home_with(jobs)) for each in rows] == list(range(1, jobs + 1))


def test_a_listing_misses_none_while_others_end():
    home = home_with(2 * ROWS_AT_ONCE)
    rows = listing(home)
    first = next(rows)
    del home.jobs[1], home.jobs[ROWS_AT_ONCE]
    later = [each for some in rows for each in some]
    assert first + later == list(range(1, 2 * ROWS_AT_ONCE + 1))


def home_with(jobs: int) -> Home:
    home = Home("ume", 1, ())
    for _ in range(jobs):
        home.submit(SPEC, (), instant(0.0))
    return home


def listing(home: Home) -> Iterator[list[int]]:
    """Yield the numbers of the jobs in each part of a listing."""
    for rows in JobQueries(home, SimpleNamespace(), "/spool").listing(Jobs(), "ann"):
        yield [int(msgspec.msgpack.decode(row)[0].partition("-")[2]) for row in rows]


def test_a_parallel_job_is_shown_with_its_ranks():
    spec = replace(SPEC, shape=RankShape(8, 8, nodes=2), bind=Binding.NONE)
    machine = Machine("ume", None, Home("ume", 1, ()), None, broker_at="b")
    machine.submit(spec, (), instant(0.0))
    answers = JobQueries(machine.home, SimpleNamespace(attempts=lambda *_: []), "/spool")
    detail = answers.detail(answers.one(str(JOB), None), [], {})
    assert detail.row.ranks == "8"
    assert detail.parallel is not None
    assert (detail.parallel.nodes, detail.parallel.bind) == (2, Binding.NONE)


@pytest.mark.parametrize(("layout", "count"), [(Layout.RANKS, 3), (Layout.FIRST, 1)])
def test_each_rank_of_a_command_that_is_watched_has_output_of_its_own(layout: Layout, count: int):
    shape, interaction = RankShape(3, 3), Interaction.STREAM
    spec = replace(SPEC, shape=shape, layout=layout, interaction=interaction)
    machine = Machine("ume", None, Home("ume", 1, ()), None, broker_at="b")
    machine.submit(spec, (), instant(0.0))
    match = Match(JOB, (SeatOffer("b1", Capability(1, 1, 0, 0), 3),), 10.0)
    machine.handle(Delivered("b1", Part.HOME, match), instant(1.0))
    machine.end_turn(instant(1.0))
    past = SimpleNamespace(last_places=lambda *_: ({}, None))
    answers = JobQueries(machine.home, past, "/spool")
    files, _ = answers.log_files(answers.one(str(JOB), None), -1)
    assert [each.rank for each in files] == list(range(count))
    assert {(each.ranks, each.writers) for each in files.values()} == {(3, 3 // count)}
    assert [each.output for each in files.values()][1:] == [
        f"/spool/ume-1.0-1.{rank}.out" for rank in range(1, count)
    ]

"""Which ranks of a task write which file, and on which machine it is."""

from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from iriai.home.core import Home
from iriai.jobs.history import LOG_FILES_MAX
from iriai.jobs.outputs import AttemptPlaces, log_files
from iriai.jobs.queries import JobQueries
from iriai.jobs.selection import SelectedJobs
from iriai.model.ids import Account, AttemptId, JobId
from iriai.model.job import JobSpec
from iriai.model.ranks import RankShape, SeatPlace
from iriai.model.submission import Interaction, Layout

ATTEMPT = AttemptId("ume", 1, 0, 2)
SPEC = JobSpec(
    Account("lab", "ann"), "ann", "wave", ("true",), "/w", output="o.%j", shape=RankShape(5, 5)
)
PLACES = (SeatPlace("b1", 3), SeatPlace("b2", 2))


def told(spec: JobSpec, places: tuple[SeatPlace, ...] = PLACES) -> list[tuple[object, ...]]:
    """First rank, how many write it, its machine and output of each file."""
    files = log_files(spec, AttemptPlaces(ATTEMPT, places, finished=True), "/spool")
    return [(each.rank, each.writers, each.machine, each.output) for _, each in files]


def test_the_ranks_of_a_seat_share_a_file():
    assert told(SPEC) == [(0, 3, "b1", "/w/o.ume-1.0"), (3, 2, "b2", "/w/o.ume-1.3")]
    assert told(SPEC, (SeatPlace("b1", 5),)) == [(0, 5, "b1", "/w/o.ume-1")]


def test_each_rank_may_have_a_file():
    own = replace(SPEC, output="o", error="e.%r")
    places = (SeatPlace("b1", 1), SeatPlace("b2", 2))
    found = [each for _, each in log_files(own, AttemptPlaces(ATTEMPT, places, True), "/s")]
    assert [(each.output, each.error) for each in found] == [
        ("/w/o.0", "/w/e.0"),
        ("/w/o.1", "/w/e.1"),
        ("/w/o.1", "/w/e.2"),
    ]


def test_a_command_that_runs_once_has_the_files_of_a_task():
    first = replace(SPEC, layout=Layout.FIRST)
    assert told(first) == [(0, 5, "b1", "/w/o.ume-1")]
    watched = replace(first, interaction=Interaction.STREAM)
    assert told(watched) == [(0, 5, "b1", "/spool/ume-1.0-2.out")]


def test_each_rank_that_is_watched_has_streams():
    watched = replace(SPEC, interaction=Interaction.STREAM)
    assert [each[:3] for each in told(watched)] == [
        *[(rank, 1, "b1") for rank in range(3)],
        *[(rank, 1, "b2") for rank in (3, 4)],
    ]
    assert told(watched)[4][3] == "/spool/ume-1.0-2.4.out"


@pytest.mark.parametrize("ranks", [LOG_FILES_MAX // 2, LOG_FILES_MAX + 1])
def test_many_files_come_in_several_answers(ranks: int):
    spec = replace(SPEC, output="%r", shape=RankShape(ranks, ranks))

    def last_places(_selected, after_index):
        attempts = (AttemptId("ume", 1, index, 1) for index in range(after_index + 1, 3))
        places = (SeatPlace("b1", ranks),)
        return {each.index: AttemptPlaces(each, places, finished=True) for each in attempts}, None

    past = SimpleNamespace(last_places=last_places, spec=lambda _: spec)
    queries = JobQueries(Home("ume", 1, ()), past, "/spool")
    selected, found, after = SelectedJobs(JobId("ume", 1)), [], (-1, None)
    while after is not None:
        files, after = queries.log_files(selected, *after)
        assert len(files) <= LOG_FILES_MAX
        found += files
    assert found == [
        AttemptId("ume", 1, index, 1, rank) for index in range(3) for rank in range(ranks)
    ]

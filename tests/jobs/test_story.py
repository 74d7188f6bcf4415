"""A story is told from stored events alone: who, what, after what wait, and how it ended."""

from __future__ import annotations

from iriai.jobs.story import StoryBuilder
from iriai.model.alteration import Alteration
from iriai.model.history import HistoryRow, JobRecord
from iriai.model.ids import ReservationId
from iriai.model.job import Condition, Dependency
from iriai.model.ranks import RankShape
from iriai.model.reason import Reason, Rule
from iriai.model.records import (
    Altered,
    Attempted,
    Cancelled,
    DependencyFailed,
    DependencyMet,
    Ended,
    Held,
    JobEvent,
    ReasonsTold,
    Released,
    ReservationOver,
    SeatReasons,
    Snapshot,
    Started,
)
from iriai.model.reservation import ReservationEnd
from iriai.model.state import EndCause
from iriai.model.suspension import SuspendReason
from tests.support.told import HOME, spec

OK_3 = Dependency(Condition.OK, HOME, 3)
ANY_4 = Dependency(Condition.ANY, HOME, 4)


def told(*changes, cause=None, task=None, history=(), **asked) -> list[tuple]:
    """What a job's story says, whose changes came ten seconds apart."""
    events = [JobEvent(1, n, 10.0 * n, change, f"ume:{n}") for n, change in enumerate(changes, 1)]
    ended_s = None if cause is None else 10.0 * len(changes)
    record = JobRecord(1, spec(**asked), 0.0, ended_s, cause, None)
    rows = StoryBuilder(HOME, record, history, task).rows(events)
    return [tuple(filter(None, (row.what, row.tasks, row.by, row.text))) for row in rows]


def completed(*indices: int) -> Ended:
    return Ended(tuple((index, 1, EndCause.COMPLETED, 0, None) for index in indices))


def ended_row(index: int, elapsed_s: float) -> HistoryRow:
    """A completed attempt as the history has it, begun at 12 s."""
    used = (0.0, 0, 0, 0)
    return HistoryRow(
        *(1, index, 1, HOME, EndCause.COMPLETED, 0, None),
        *used,
        *(12.0, 12.0 + elapsed_s, elapsed_s, 0.0, "", None, 0.0),
        *("lab", "ann", "ann", "job", 0.0),
    )


def test_a_job_from_its_submission_to_its_end():
    attempt = Attempted(((0, 1),), HOME)
    assert told(attempt, Started(((0, 1),)), completed(0), cause=EndCause.COMPLETED) == [
        ("submitted", "ann", "for lab/ann"),
        ("waited", "10s for its turn and for free resources"),
        ("claimed", "0"),
        ("started", "0"),
        ("ended", "0", "completed"),
        ("finished", "completed"),
    ]


def test_the_start_of_a_short_task_is_told_by_its_end():
    attempt = Attempted(((0, 1), (1, 1)), HOME)
    short = ended_row(0, elapsed_s=0.01), ended_row(1, elapsed_s=0.0)
    story = told(attempt, completed(0, 1), history=short, array=((0, 1, 1),), is_array=True)
    assert story[3:] == [("started", "0"), ("ended", "0-1", "completed")]


def test_the_wait_for_a_turn_begins_when_nothing_else_holds_it_back():
    met = DependencyMet(((OK_3, EndCause.COMPLETED),))
    story = told(Held("bob"), met, Released("bob"), Attempted(((0, 1),), HOME), after=(OK_3,))
    assert story == [
        ("submitted", "ann", "for lab/ann, after ok:ume-3"),
        ("held", "bob"),
        ("dependency", "ok:ume-3 holds: ume-3 ended completed"),
        ("released", "bob"),
        ("waited", "10s for its turn and for free resources"),
        ("claimed", "0"),
    ]


def test_a_dependency_that_can_never_hold_says_so():
    assert told(DependencyFailed(OK_3, EndCause.FAILED), after=(OK_3,))[1:] == [
        ("cancelled", "dependency ume-3 failed, so ok:ume-3 can never hold")
    ]


def test_the_end_of_the_reservation_of_a_job_says_which_and_why():
    over = ReservationOver(ReservationId(HOME, 7), ReservationEnd.CANCELLED)
    text = "the reservation ume-r7 is over: cancelled"
    assert told(over)[1:] == [("cancelled", text)]
    goes_on = ("altered", f"{text}, and what waits goes on without it")
    assert told(over, or_queue=True)[1:] == [goes_on]


def test_a_refusal_says_why():
    busy = Reason(Rule.MACHINE_BUSY, "2 cpus", "1 cpu free", HOME)
    refused = Ended(((0, 1, EndCause.REFUSED, None, None),), (busy,))
    assert told(refused)[1] == ("refused", "0", "machine-busy on ume: needs 2 cpus; 1 cpu free")


def test_a_finished_job_is_told_as_it_was_submitted_and_then_altered():
    altered = Altered(Alteration(after=(OK_3,)), Alteration(after=(ANY_4,)), "bob")
    assert told(altered, cause=EndCause.CANCELLED, after=(ANY_4,))[:2] == [
        ("submitted", "ann", "for lab/ann, after ok:ume-3"),
        ("altered", "bob", "after: ok:ume-3 -> any:ume-4"),
    ]


def test_tasks_of_an_array_are_told_together_and_each_alone():
    array = {"array": ((1, 9, 1),), "is_array": True}
    changes = (
        Attempted(((1, 1), (2, 1), (3, 1), (7, 1)), HOME),
        Ended(
            (
                *((index, 1, EndCause.COMPLETED, 0, None) for index in (1, 3)),
                (2, 1, EndCause.FAILED, 4, None),
            )
        ),
        Cancelled((7, 8), "bob"),
    )
    assert told(*changes, **array)[2:] == [
        ("claimed", "1-3,7"),
        ("ended", "1,3", "completed"),
        ("ended", "2", "failed with exit code 4"),
        ("cancelled", "7-8", "bob"),
    ]
    assert told(*changes, task=2, **array)[2:] == [
        ("claimed", "2"),
        ("ended", "2", "failed with exit code 4"),
    ]


def test_what_was_folded_is_said_to_be():
    assert told(Snapshot(b""))[1][0] == "folded"


def test_the_ranks_of_a_job_are_told_with_it():
    story = told(shape=RankShape(4, 16, per_node=2))
    assert story[0] == ("submitted", "ann", "for lab/ann, 4-16 ranks, 2 on each")


def test_a_task_that_goes_on_in_a_lower_queue():
    attempt = Attempted(((0, 1),), HOME)
    moved = ReasonsTold((SeatReasons(0, 1, 0, (), moved_to=1),))
    assert ("moved", "0", "to queue 1") in told(attempt, Started(((0, 1),)), moved)


def test_a_task_that_stands_for_an_owner_says_what_was_seen():
    attempt = Attempted(((0, 1),), HOME)
    stands = ReasonsTold((SeatReasons(0, 1, 0, (SuspendReason.OWNER,), seen="a key"),))
    words = "suspended by the owner of the machine (a key)"
    assert ("frozen", "0", words) in told(attempt, Started(((0, 1),)), stands)

"""Whatever people do and whatever breaks: what always holds (docs/spec/001, section 10), holds.

`VirtualMachine.turn` checks them: the parts' own, (a); attempts and claims, (b); the store, (c);
counters, (e); promises, (f); reasons, (h). The pretended launcher is the judge of what runs.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iriai.home import completion
from iriai.model.records import JobEvent
from tests.machine.scenario import (
    PATIENCE_S,
    actions,
    end_all_troubles,
    peaceful,
    play,
    rooms,
)


@pytest.mark.long
@settings(max_examples=300)
@given(room=rooms, story=actions)
def test_once_troubles_end_every_feasible_job_finishes(room, story):
    """(i), and all others on the way."""
    play(room, story)
    end_all_troubles(room)
    home = room.machine.machine.home
    room.machine.turn()
    until_s = room.machine.now_s + PATIENCE_S
    while room.machine.launcher.running or any(map(room.is_feasible, home.jobs.values())):
        assert room.machine.now_s < until_s, f"{list(home.jobs)} never finish"
        room.machine.wait(50.0)
        home = room.machine.machine.home
    assert room.machine.launcher.running == {}
    assert room.machine.machine.node.running() == []


@given(room=rooms, story=actions)
def test_no_job_is_lost_and_none_is_told_twice(room, story):
    """(c): every job that was durable is there, or has its end in the store."""
    play(room, story)
    store = room.machine.store
    there = {*room.machine.machine.home.jobs, *store.finished}
    assert there == set(store.accepted)
    assert len(set(room.machine.settled)) == len(room.machine.settled)


@given(room=rooms, story=actions)
def test_a_task_runs_again_only_where_its_attempt_was_lost_or_evicted(room, story):
    play(room, story)
    results = room.machine.store.results
    launcher = room.machine.launcher
    for attempt in launcher.starts:
        before = attempt._replace(attempt=attempt.attempt - 1)
        if before in launcher.starts:
            assert results[before].cause in ("lost", "evicted"), f"{attempt} follows {before}"
    assert len(set(launcher.starts)) == len(launcher.starts), "an attempt was started twice"


@given(room=rooms, story=actions, events_max=st.sampled_from([1, 3, 8]))
def test_bounded_events_replay_to_the_same_state(room, story, events_max):
    """`check_stored` compares after each turn; here jobs fold their events all the time."""
    kept, completion.EVENTS_MAX = completion.EVENTS_MAX, events_max
    try:
        play(room, story)
    finally:
        completion.EVENTS_MAX = kept
    for events in room.machine.store.events.values():
        assert len(events) <= events_max + 12  # one turn's changes of one job come on top


@given(room=rooms, story=st.lists(peaceful, max_size=30))
def test_a_machine_that_comes_back_is_the_machine_that_went(room, story):
    play(room, story)
    room.machine.wait(0.0)  # what the launcher said in the last turn is heard
    before = room.machine.machine
    room.machine.restart()
    after = room.machine.machine
    assert list(before.home.jobs) == list(after.home.jobs)
    assert all(job.equals(after.home.jobs[n]) for n, job in before.home.jobs.items())
    assert before.node.running() == after.node.running()
    assert before.node.calendar.free == after.node.calendar.free
    assert {job: e.count for job, e in before.broker.state.queues.entries.items()} == {
        job: e.count for job, e in after.broker.state.queues.entries.items()
    }


@given(room=rooms, story=actions)
def test_all_that_is_stored_of_a_job_has_its_cause(room, story):
    play(room, story)
    events = [event for events in room.machine.store.events.values() for event in events]
    assert all(isinstance(event, JobEvent) and event.story for event in events)

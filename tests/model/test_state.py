"""The table of states: what it must be like, and that the specification shows it as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from iriai.model.state import (
    ATTEMPT_ONLY,
    TRANSITIONS,
    EndCause,
    IllegalTransition,
    TaskEvent,
    TaskState,
    next_state,
)
from tests.support.state_diagram import PICTURE, diagram, table

SPECIFICATION = Path(__file__).parents[2] / "docs" / "spec" / "001-jobs.md"


def test_the_specification_shows_the_table():
    text = SPECIFICATION.read_text(encoding="utf-8")
    assert table() in text, f"put this into {SPECIFICATION.name}:\n{table()}"


def test_the_specification_shows_the_picture_of_the_table():
    assert f"]({PICTURE.name})" in SPECIFICATION.read_text(encoding="utf-8")
    message = "run python -m tests.support.state_diagram"
    assert PICTURE.read_text(encoding="utf-8") == diagram(), message


def test_the_specification_names_every_cause_and_state():
    text = SPECIFICATION.read_text(encoding="utf-8")
    assert [cause for cause in EndCause if f"`{cause}`" not in text] == []
    assert [state for state in TaskState if state not in text] == []


def test_what_is_not_in_the_table_raises():
    legal = 0
    for state in TaskState:
        for event in TaskEvent:
            if (state, event) in TRANSITIONS:
                assert next_state(state, event) is TRANSITIONS[state, event]
                legal += 1
            else:
                with pytest.raises(IllegalTransition):
                    next_state(state, event)
    assert legal == len(TRANSITIONS)


def test_nothing_leads_out_of_finished():
    assert [state for state, _ in TRANSITIONS if state is TaskState.FINISHED] == []


def test_every_state_can_end():
    for state in TaskState:
        if state is not TaskState.FINISHED:
            assert next_state(state, TaskEvent.FINISH) is TaskState.FINISHED


def test_every_state_can_be_reached():
    reached = {TaskState.QUEUED}
    while (
        more := {after for (state, _), after in TRANSITIONS.items() if state in reached} - reached
    ):
        reached |= more
    assert reached == set(TaskState)


def test_every_state_with_a_claim_can_lose_it():
    for state in TaskState:
        if state not in (TaskState.HELD, TaskState.QUEUED, TaskState.FINISHED):
            assert next_state(state, TaskEvent.REQUEUE) is TaskState.QUEUED


def test_two_causes_end_attempts_and_no_task():
    assert set(ATTEMPT_ONLY) == {EndCause.EVICTED, EndCause.REFUSED}

"""The states of a task as docs/spec/001 shows them: written from the table in the code."""

from __future__ import annotations

from iriai.model.state import TRANSITIONS, TaskEvent, TaskState


def diagram() -> str:
    """For mermaid: one arrow for each pair of states, with all events that lead along it."""
    arrows: dict[tuple[TaskState, TaskState], list[TaskEvent]] = {}
    for (state, event), after in TRANSITIONS.items():
        arrows.setdefault((state, after), []).append(event)
    lines = ["stateDiagram-v2", f"    [*] --> {TaskState.QUEUED}", f"    [*] --> {TaskState.HELD}"]
    for (state, after), events in arrows.items():
        lines.append(f"    {state} --> {after}: {', '.join(events)}")
    lines.append(f"    {TaskState.FINISHED} --> [*]")
    return "\n".join(lines)


def table() -> str:
    """For people: a row for each state, a column for each event."""
    lines = [
        "| state | " + " | ".join(TaskEvent) + " |",
        "|---|" + "---|" * len(TaskEvent),
    ]
    for state in TaskState:
        cells = [TRANSITIONS.get((state, event), "") for event in TaskEvent]
        lines.append(f"| **{state}** | " + " | ".join(cells) + " |")
    return "\n".join(lines)

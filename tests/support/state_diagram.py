"""The states of a task as docs/spec/001 shows them: written from the table in the code.

`python -m tests.support.state_diagram` writes the picture.
"""

from __future__ import annotations

from pathlib import Path

from iriai.model.state import TRANSITIONS, TaskEvent, TaskState

PICTURE = Path(__file__).parents[2] / "docs" / "spec" / "task-states.svg"
_CENTRES = {
    TaskState.HELD: (130, 50),
    TaskState.QUEUED: (130, 150),
    TaskState.CLAIMED: (310, 150),
    TaskState.RUNNING: (490, 150),
    TaskState.SUSPENDED: (490, 50),
    TaskState.MIGRATING: (690, 150),
}
"""Of the boxes; arrows to the state without one are text."""
_LISTED = (TaskEvent.REQUEUE, TaskEvent.FINISH)
"""Events of most states, which would cross the picture: as text."""
_HALF_WIDTH, _HALF_HEIGHT, _APART = 48, 18, 9
_START = (30, 100)
_HEAD = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 250" width="760" height="250" role="img" \
font-family="system-ui, Helvetica, Arial, sans-serif" font-size="14" fill="#222">
<title>States of a task and the events between them; the table below has the same</title>
<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" \
orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="#555"/></marker></defs>
<rect x="0.5" y="0.5" width="759" height="249" rx="10" fill="#fff" stroke="#ccc"/>
<circle cx="30" cy="100" r="6"/>"""


def diagram() -> str:
    """Return an SVG with an arrow for each transition, labelled with its event."""
    lines = [_HEAD]
    lines += [_arrow(_START, _CENTRES[state], "") for state in (TaskState.HELD, TaskState.QUEUED)]
    lines += [
        _arrow(_CENTRES[state], _CENTRES[after], event)
        for (state, event), after in TRANSITIONS.items()
        if event not in _LISTED
    ]
    for state, (x, y) in _CENTRES.items():
        lines.append(
            f'<rect x="{x - _HALF_WIDTH}" y="{y - _HALF_HEIGHT}" width="{2 * _HALF_WIDTH}" '
            f'height="{2 * _HALF_HEIGHT}" rx="6" fill="#eef3f8" stroke="#0072b2"/>'
        )
        lines.append(f'<text x="{x}" y="{y + 5}" text-anchor="middle">{state}</text>')
    for row, event in enumerate(_LISTED):
        of = [(state, after) for (state, each), after in TRANSITIONS.items() if each is event]
        (after,) = {after for _, after in of}
        states = ", ".join(state for state, _ in of)
        lines.append(f'<text x="24" y="{206 + 22 * row}">{event}: {states} → {after}</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"


def _arrow(start: tuple[int, int], end: tuple[int, int], label: str) -> str:
    """Return an arrow between two boxes: to the right of the line between their centres, so that
    one in each direction can be seen."""
    (x, y), (to_x, to_y) = start, end
    length = ((to_x - x) ** 2 + (to_y - y) ** 2) ** 0.5
    east, south = (to_x - x) / length, (to_y - y) / length
    is_slanted = abs(east) > 0.1 and abs(south) > 0.1
    apart, begin = 0 if is_slanted else _APART, 8.0 if start == _START else _edge(east, south)
    off_x, off_y = -south * apart, east * apart
    stop = length - _edge(east, south)
    ends = (x + east * begin + off_x, y + south * begin + off_y)
    tip = (x + east * stop + off_x, y + south * stop + off_y)
    text_x, text_y = (ends[0] + tip[0]) / 2 + off_x * 0.6, (ends[1] + tip[1]) / 2 + off_y * 1.6 + 4
    anchor = "middle" if abs(east) > 0.9 else "end" if off_x < 0 else "start"
    if is_slanted:
        text_x, text_y, anchor = text_x + 8, text_y - 8, "start"
    line = (
        f'<path d="M{ends[0]:.0f} {ends[1]:.0f} L{tip[0]:.0f} {tip[1]:.0f}" stroke="#555" '
        f'marker-end="url(#tip)"/>'
    )
    if not label:
        return line
    return line + (
        f'<text x="{text_x:.0f}" y="{text_y:.0f}" font-size="12.5" fill="#555" '
        f'text-anchor="{anchor}">{label}</text>'
    )


def _edge(east: float, south: float) -> float:
    """Return the distance from a box's centre to its edge in a direction."""
    across = _HALF_WIDTH / abs(east) if east else 1e9
    along = _HALF_HEIGHT / abs(south) if south else 1e9
    return min(across, along) + 2


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


if __name__ == "__main__":
    PICTURE.write_text(diagram(), encoding="utf-8")

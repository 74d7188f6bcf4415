"""Checks of what a parallel job asks for, at submission and at alteration (docs/spec/011)."""

from __future__ import annotations

from iriai.model.problem import UsageProblem
from iriai.model.ranks import STAGES_MAX, RankShape, shape_of
from iriai.model.submission import Interaction, Layout
from iriai.wire.requests import JobDraft

STREAMS_MAX = 4_096
"""Ranks of one command of `run`: a home fetches the output of 5,000 at a time."""


def checked_shape(draft: JobDraft) -> RankShape:
    """Return how the ranks of each task lie on machines.

    Raises:
        UsageProblem: there is no such shape, or no such job can have it.
    """
    shape = shape_of(draft.ranks, draft.nodes, draft.per_node)
    _check_pipes(draft)
    is_many = shape.most > 1 and draft.layout is Layout.RANKS
    if draft.interaction is Interaction.TERMINAL and (is_many or draft.pipes):
        asks = f"{shape.ranks_text} ranks" if is_many else f"{len(draft.pipes)} commands"
        raise UsageProblem(
            "one-terminal",
            f"a terminal is of one process, and the job asks for {asks}",
            "leave out --pty; or use --first, then the command runs once, on the first machine",
        )
    if is_many and draft.interaction is Interaction.STREAM and shape.most > STREAMS_MAX:
        raise UsageProblem(
            "too-many-streams",
            f"the output of {shape.ranks_text} ranks would be shown; the limit is STREAMS_MAX = "
            f"{STREAMS_MAX}",
            "submit it, then its ranks write files",
        )
    return shape


def _check_pipes(draft: JobDraft) -> None:
    if not draft.pipes:
        return
    if draft.command or draft.script:
        raise UsageProblem(
            "two-commands",
            "the job has a pipe, and another command",
            "make that command a --pipe, or leave it out",
        )
    if draft.layout is Layout.FIRST:
        raise UsageProblem(
            "two-commands",
            "a pipe runs once for each rank, and with --first one command runs once",
            "leave out --first",
        )
    if not all(draft.pipes):
        raise UsageProblem("no-command", "a --pipe has no command", "write --pipe 'sort -n'")
    if len(draft.pipes) > STAGES_MAX:
        raise UsageProblem(
            "too-many-pipes",
            f"a pipe of {len(draft.pipes)} commands is longer than {STAGES_MAX}",
            "put some of them into a script",
        )

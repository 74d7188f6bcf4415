"""How a job came to be where it is, as clients ask for it; a part of `wire.requests`."""

from __future__ import annotations

import msgspec


class AskStory(msgspec.Struct, frozen=True, tag="ask-story"):
    """Retell what happened to a job or task, from what is stored."""

    id: str


class StoryRow(msgspec.Struct, frozen=True):
    """One thing that happened."""

    wall_s: float
    what: str
    """submitted, held, released, altered, cancelled, waited, dependency, promised, claimed,
    started, ended, refused, folded, or finished."""
    tasks: str
    """Which tasks, as 7 or 1-20,25; empty: the job."""
    machine: str
    by: str
    """The user who asked for it; empty: nobody did."""
    text: str
    turn: str
    """The turn of the daemon that it happened in: what has the same turn happened together."""


class Story(msgspec.Struct, frozen=True, tag="story"):
    """Answer to `AskStory`, in the order in which it happened."""

    id: str
    rows: tuple[StoryRow, ...]

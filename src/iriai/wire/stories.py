"""How a job came to be where it is, as clients ask for it; a part of `wire.requests`."""

from __future__ import annotations

from typing import Annotated

import msgspec

from iriai.model.bounds import Expression, Many, Name, Seconds, Word, Words
from iriai.wire.exchange import ClientAnswer, Query


class StoryRow(msgspec.Struct, frozen=True):
    """One thing that happened."""

    wall_s: Seconds
    what: Word
    """submitted, held, released, altered, cancelled, waited, dependency, promised, claimed,
    started, ended, refused, folded, or finished."""
    tasks: Words
    """Which tasks, as 7 or 1-20,25; empty: the job."""
    machine: Name
    by: Name
    """The user who asked for it; empty: nobody did."""
    text: Words
    turn: Word
    """The turn of the daemon that it happened in: what has the same turn happened together."""


class Story(ClientAnswer, frozen=True, tag="story"):
    """Answer to `AskStory`, in the order in which it happened."""

    id: Expression
    rows: Annotated[tuple[StoryRow, ...], Many]


class AskStory(Query[Story], frozen=True, tag="ask-story"):
    """Retell what happened to a job or task, from what is stored."""

    id: Expression

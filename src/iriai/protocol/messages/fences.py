"""Barriers of the ranks of a parallel task on several machines (docs/spec/011, section 9)."""

from __future__ import annotations

from typing import Annotated

import msgspec

from iriai.model.bounds import Count, Many
from iriai.model.ids import AttemptId

KeyBytes = Annotated[bytes, msgspec.Meta(max_length=64)]
ValueBytes = Annotated[bytes, msgspec.Meta(max_length=1024)]
Pairs = Annotated[tuple[tuple[KeyBytes, ValueBytes], ...], Many]


class Fence(msgspec.Struct, frozen=True):
    """Node to home: all ranks of a seat have come to a barrier. Answered with `Fenced`.

    The last two of a seat are told again when the home can be reached again: it stores none.
    """

    attempt: AttemptId
    number: Count
    """Of the barrier, from 1."""
    put: Pairs = ()
    """What the ranks have put since the barrier before, by key."""


class Fenced(msgspec.Struct, frozen=True):
    """Home to node: the ranks of all seats have come to a barrier; each goes on."""

    attempt: AttemptId
    number: Count
    put: Pairs = ()
    """What they all have put; of one key that of the lowest seat."""

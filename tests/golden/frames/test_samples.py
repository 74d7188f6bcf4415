"""Samples follow from types alone, and show each change that others would see."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec
import pytest
from msgspec import Meta

from tests.golden.frames.samples import full, least


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Inner(msgspec.Struct):
    number: int = 2


class Ping(msgspec.Struct, tag="ping"):
    number: int
    name: Annotated[str, Meta(min_length=8)]
    share: Annotated[float, Meta(ge=0.0, le=0.5)]
    colour: Colour = Colour.RED
    is_new: bool = True
    other: Inner | str | None = None
    many: tuple[Inner, ...] = ()


class Row(msgspec.Struct, array_like=True):
    name: str
    number: int


class TurnedRow(msgspec.Struct, array_like=True):
    number: int
    name: str


class LongerRow(msgspec.Struct, array_like=True):
    name: str
    number: int
    more: int = 0


def test_a_full_one_has_every_field_and_no_default():
    assert full(Ping) == {
        "type": "ping",
        "number": 2,
        "name": "text-1--",
        "share": 0.5,
        "colour": "blue",
        "is_new": False,
        "other": {"number": 1},
        "many": [{"number": 1}],
    }


def test_the_least_has_what_it_must():
    assert least(Ping) == {"type": "ping", "number": 2, "name": "text-0--", "share": 0.5}


def test_both_are_what_the_decoder_takes():
    for tree in (full(Ping), least(Ping)):
        taken = msgspec.msgpack.decode(msgspec.msgpack.encode(tree), type=Ping)
        assert taken.number == tree["number"]


def test_a_turned_field_is_seen_and_an_appended_one_changes_no_other():
    assert full(Row) != full(TurnedRow)
    assert full(LongerRow)[: len(full(Row))] == full(Row)


@pytest.mark.parametrize("kind", [int | str | Inner | None, None | Inner | str | int])
def test_of_a_choice_the_order_in_which_it_is_written_does_not_matter(kind: object):
    assert full(kind) == {"number": 1}
    assert least(kind) is None

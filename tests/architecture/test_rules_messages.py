"""The rules of what comes from outside find what they are for, and let bounded messages be."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import msgspec
import pytest

from iriai.model.bounds import Bits, Count, Many, Real, Word
from tests.architecture.rules_messages import (
    asserted_input,
    implicit_tags,
    unbounded,
    uncontained_decoding,
)
from tests.architecture.source import module_from_text


class Pair(NamedTuple):
    """Within a message."""

    name: str
    number: Count


class Bad(msgspec.Struct):
    """Nothing of it is bounded."""

    number: int
    half: Annotated[int, msgspec.Meta(ge=0)]
    real: float | None
    text: str
    content: bytes
    words: tuple[Word, ...]
    named: Annotated[dict[str, float], Many]
    pairs: Annotated[tuple[Pair, ...], Many]
    anything: Any


class Good(msgspec.Struct):
    """Everything of it is."""

    bits: Bits
    numbers: Annotated[tuple[tuple[Count, Real], ...], Many]
    word: Word | None
    inner: Annotated[tuple[Good, ...], Many] = ()
    is_bounded: bool = True


def test_every_kind_of_field_without_bounds_is_found():
    every = {"number", "half", "real", "text", "content", "words", "named.key", "named[]"}
    assert set(unbounded(Bad)) == {f"Bad.{name}" for name in every | {"anything"}} | {"Pair.name"}


def test_bounded_messages_are_let_through():
    assert unbounded(Good) == []


@pytest.mark.parametrize(
    "text",
    [
        "msgspec.json.decode(content, type=Speed)",
        "x = msgspec.msgpack.Decoder(Speed).decode",
        "msgspec.msgpack.decode(content)",
    ],
)
def test_decoding_in_another_way_is_found(text: str):
    assert uncontained_decoding([module_from_text("iriai.daemon.x", text)])


def test_text_may_be_decoded():
    assert uncontained_decoding([module_from_text("iriai.daemon.x", "content.decode()")]) == []


@pytest.mark.parametrize(
    "name",
    ["iriai.wire.links", "iriai.protocol.rpc.x", "iriai.daemon.x", "iriai.store.x", "iriai.cli.x"],
)
def test_an_assertion_at_an_entrance_is_found(name: str):
    for what in ("assert x", "raise AssertionError('no')", "assert x is not None"):
        assert asserted_input([module_from_text(name, f"def take(x):\n    {what}")])
    assert asserted_input([module_from_text(name, "def check(self):\n    assert self.x")]) == []


def test_a_core_may_narrow_a_type_and_assert_nothing_else():
    def found(what: str, name: str = "iriai.home.x") -> bool:
        return bool(asserted_input([module_from_text(name, f"def take(x):\n    {what}")]))

    for what in ("assert x", "assert x == 1", "assert x is not None and x", "assert a < x"):
        assert found(what)
    for what in ("assert x is not None", "assert isinstance(x, int)", "assert self.a is not None"):
        assert not found(what)
    assert not found("assert x == 1", "iriai.machine.checks")
    assert not found("assert x == 1", "iriai.sim.x")


@pytest.mark.parametrize(
    "text",
    [
        "class Ping(msgspec.Struct, frozen=True, tag=True): ...",
        "class Ping(msgspec.Struct, tag=str.lower): ...",
        "class Ping(msgspec.Struct, tag_field='kind'): ...",
        "class Colour(Enum):\n    RED = auto()",
        "tag = type(message).__name__",
    ],
)
def test_a_name_of_the_source_that_others_would_see_is_found(text: str):
    assert implicit_tags([module_from_text("iriai.wire.x", text)])


def test_what_is_said_stays_when_its_class_is_renamed():
    for tag in ("'ping'", "7"):
        text = f"class Ping(msgspec.Struct, tag={tag}): ...\nclass Row(msgspec.Struct): ..."
        assert implicit_tags([module_from_text("iriai.wire.x", text)]) == []
    assert implicit_tags([module_from_text("iriai.cli.x", "type(error).__name__")]) == []

"""What is on the wire and in files is what it was, byte by byte.

A file that differs: `python -m tests.golden.frames` writes it anew. That is right for a message
that is new, and for a format that changes on purpose; docs/architecture.md says what else is due.
"""

from __future__ import annotations

import typing

import pytest

from iriai.protocol import messages, peer_messages
from iriai.wire import parts
from tests.golden.frames.families import Family, families
from tests.golden.frames.texts import FOLDER, file_of, read, text_of

FAMILIES = families()
HELD = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)


@HELD
def test_every_message_has_its_golden_lines_and_no_other(family: Family):
    assert read(family.name).keys() == {each.key for each in family.samples}


@HELD
def test_every_message_is_written_as_it_was(family: Family):
    golden = read(family.name)
    changed = [each.key for each in family.samples if golden[each.key].content != each.content]
    assert not changed
    assert file_of(family.name).read_text() == text_of(family)


@HELD
def test_what_was_written_then_is_read_as_the_same_now(family: Family):
    golden = read(family.name)
    for each in family.samples:
        assert each.read(golden[each.key].content) == each.value, each.key


@HELD
def test_each_tag_is_of_one_message(family: Family):
    keys = [each.key for each in family.samples]
    assert len(keys) == len(set(keys))


def test_no_family_is_gone():
    assert {file.stem for file in FOLDER.glob("*.txt")} == {each.name for each in FAMILIES}


def test_every_message_between_parts_has_a_tag():
    kinds = [kind for table in parts.KINDS.values() for kind in table.values()]
    assert len(kinds) == len(set(kinds)), "one message, one part and one tag"
    assert set(kinds) == set(typing.get_args(messages.Message))


@pytest.mark.parametrize(
    ("part", "union"),
    [
        ("node", messages.ToNode),
        ("home", messages.ToHome),
        ("broker", messages.ToBroker | messages.BetweenClusters),
        ("membership", peer_messages.ToMembership),
        ("directory", peer_messages.ToDirectory),
        ("succession", messages.ToSuccession),
        ("inquiry", messages.ToInquiry),
        ("output", messages.ToOutput),
    ],
)
def test_a_part_is_told_what_its_union_says(part: str, union: object):
    assert set(parts.KINDS[part].values()) == set(typing.get_args(union))

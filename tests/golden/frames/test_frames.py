"""What is on the wire and in files is what it was, byte by byte.

A file that differs: `python -m tests.golden.frames` writes it anew. That is right for a message
that is new, and for a format that changes on purpose; docs/architecture.md says what else is due.
"""

from __future__ import annotations

import pytest

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

"""What is on the wire and in files is what it was, byte by byte.

A file that differs: `python -m tests.golden.frames` writes it anew. That is right for a message
that is new, and for a format that changes on purpose; docs/architecture.md says what else is due.
"""

from __future__ import annotations

import re
import typing

import pytest
from msgspec import inspect

from iriai.identity.documents import revocation
from iriai.launcher import connection as partial_launch
from iriai.launcher.containment.cgroups import lowered_group, pool
from iriai.launcher.hooks import hooks
from iriai.launcher.tasks import steps, suspension, task
from iriai.model.records import ClaimStored, LedgerRow, Record
from iriai.protocol.messages import elections, gossip, scheduling
from iriai.store import schema
from iriai.wire import client_codec, codec, envelopes, exchange, parts, requests
from tests.golden.frames.database import loaded, records
from tests.golden.frames.families import Family, families
from tests.golden.frames.kinds import structs, within
from tests.golden.frames.texts import FOLDER, OTHERS, file_of, golden_rows, read, text_of

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
    assert set(kinds) == set(typing.get_args(scheduling.Message))


@pytest.mark.parametrize(
    ("part", "union"),
    [
        ("node", scheduling.ToNode),
        ("home", scheduling.ToHome),
        ("broker", scheduling.ToBroker | scheduling.BetweenClusters),
        ("membership", gossip.ToMembership),
        ("directory", gossip.ToDirectory),
        ("succession", elections.ToSuccession),
        ("inquiry", scheduling.ToInquiry),
        ("streams", scheduling.ToStreams),
    ],
)
def test_a_part_is_told_what_its_union_says(part: str, union: object):
    assert set(parts.KINDS[part].values()) == set(typing.get_args(union))


@pytest.mark.parametrize("name", sorted(OTHERS))
def test_tables_rows_and_choices_are_what_they_were(name: str):
    assert (FOLDER / name).read_text() == OTHERS[name]()


def test_every_table_has_a_row():
    text = "".join(schema.MIGRATIONS)
    made = re.findall("^CREATE TABLE (\\w+)", text, re.MULTILINE)
    dropped = re.findall("^DROP TABLE (\\w+)", text, re.MULTILINE)
    assert {table for table, _ in golden_rows()} == {*made} - {*dropped}


def test_rows_that_were_written_then_are_loaded_as_what_they_said():
    state = loaded(golden_rows())
    job, *_, drained, word, absences, section, reserved, booked = written = records()
    (unfinished,) = state.jobs
    assert (unfinished.number, unfinished.spec) == (1, written[1].spec)
    assert job.number not in {each.number for each in state.jobs}, "it has finished"
    assert state.claims == [each.claim for each in written if isinstance(each, ClaimStored)]
    assert state.ledger == [each for each in written if isinstance(each, LedgerRow)]
    assert (state.incarnation, state.drained, state.settings) == (2, drained, [section])
    assert (state.owner_word, state.absences) == (word, absences)
    assert (state.reservations, state.bookings) == ([reserved.reservation], [booked.booking])


def test_no_struct_is_forgotten():
    held = {
        each.cls
        for each in within(kind for family in FAMILIES for kind in family.kinds)
        if isinstance(each, inspect.StructType)
    }
    # They carry what is held.
    held |= {envelopes.Request, envelopes.Answer, requests.Notice, client_codec.NumberedAnswer}
    held |= set(typing.get_args(Record))  # rows of the store, or what deletes some
    held |= {
        exchange.ClientAnswer,
        exchange.JobRequest,
        *exchange.Query.__mro__[:3],
    }  # bases of these
    held |= {partial_launch._Parts, codec._Numbered}  # read the beginnings of others
    held |= {revocation.SignedEjection}  # within one process
    held |= {hooks.Hook, pool.TaskGroup, task.RunningTask, steps.RunningStep}  # within the launcher
    held |= {lowered_group.LoweredGroup}
    held |= {suspension.TaskSuspension, suspension.TaskTurns}
    # What the command line makes of words is sent to nobody.
    forgotten = {each for each in structs() - held if not each.__module__.startswith("iriai.cli.")}
    assert not forgotten, (
        "held by no family (or not what others read: tests/golden/frames/kinds.py)"
    )

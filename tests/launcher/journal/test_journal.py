"""The journal: what it says after a crash, and that it never says something else."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from iriai.launcher.contract.messages import Alive, Exit
from iriai.launcher.journal import journal as journal_module
from iriai.launcher.journal.journal import (
    MAGIC,
    Boot,
    DamagedJournal,
    Dropped,
    Exits,
    Intent,
    Intents,
    Journal,
    ProcessStarts,
    Record,
)
from iriai.model.ids import AttemptId
from iriai.model.state import EndCause
from iriai.model.usage import Usage
from tests.launcher.harness import attempt


def intent(number: int) -> Intent:
    return Intent(attempt(number), 1000, 3, b"digest", 12.5)


def end(number: int) -> Exit:
    usage = Usage(0.5, 1 << 20, 0, 512)
    cause = EndCause.COMPLETED
    return Exit(attempt(number), cause, 0, None, usage, 12.5, 13.5, 1.0, "well done")


RECORDS: list[tuple[Record, bool]] = [
    (Boot("boot", ("/groups/a",)), True),
    (Intents((intent(1), intent(2), intent(3))), True),
    (ProcessStarts(((Alive(attempt(1), 77, 12.6), 99), (Alive(attempt(2), 78, 12.6), 99))), False),
    (Exits((end(1),)), True),
    (Exits((end(2),)), True),
    (Dropped((attempt(1),)), False),
]


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path, os.O_RDONLY)
    yield fd
    os.close(fd)


def write_all(directory: int) -> Journal:
    journal = Journal(directory)
    for record, is_synced in RECORDS:
        journal.append(record, sync=is_synced)
    return journal


def said(journal: Journal) -> tuple[object, ...]:
    known = journal.known
    return known.boot, known.intents, known.started, known.exits, known.forgotten.lines()


def test_a_new_journal_says_nothing(directory: int):
    journal = Journal(directory)
    assert said(journal) == (None, {}, {}, {}, ())
    journal.close()
    again = Journal(directory)
    assert said(again) == (None, {}, {}, {}, ())
    again.close()


def test_what_was_written_is_read_again(directory: int):
    written = write_all(directory)
    written.close()
    read = Journal(directory)
    assert said(read) == said(written)
    assert list(read.known.intents) == [attempt(3)]
    assert list(read.known.started) == []
    assert list(read.known.exits) == [attempt(2)]
    assert attempt(1) in read.known.forgotten
    read.close()


def test_compacting_changes_nothing_but_the_size(directory: int, tmp_path: Path):
    journal = write_all(directory)
    for number in range(10, 200):
        journal.append(Intents((intent(number),)), Exits((end(number),)), sync=False)
        journal.append(Dropped((attempt(number),)), sync=False)
    before, size = said(journal), (tmp_path / "journal").stat().st_size
    journal.compact()
    assert said(journal) == before
    assert (tmp_path / "journal").stat().st_size < size / 10
    journal.append(Exits((end(3),)), sync=True)
    journal.close()
    read = Journal(directory)
    assert said(read) == said(journal)
    assert attempt(150) in read.known.forgotten
    read.close()
    assert os.listdir(tmp_path) == ["journal"]


def test_it_is_compacted_when_it_has_grown(
    directory: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(journal_module, "COMPACT_AT_BYTES", 10_000)
    journal = Journal(directory)
    for number in range(1000):
        journal.append(Intents((intent(number),)), Exits((end(number),)), sync=False)
        journal.append(Dropped((attempt(number),)), sync=False)
        journal.compact_if_grown()
    assert (tmp_path / "journal").stat().st_size < 12_000
    assert all(attempt(number) in journal.known.forgotten for number in range(1000))
    journal.close()


def test_a_tear_at_any_byte_loses_only_what_was_being_written(directory: int, tmp_path: Path):
    write_all(directory).close()
    content = (tmp_path / "journal").read_bytes()
    ends = [0, len(MAGIC), *record_ends(content)]
    said_by_whole_records = {}
    for size in ends:
        (tmp_path / "journal").write_bytes(content[:size])
        journal = Journal(directory)
        said_by_whole_records[size] = said(journal)
        journal.close()
    for size in range(len(content)):
        (tmp_path / "journal").write_bytes(content[:size])
        journal = Journal(directory)
        assert said(journal) == said_by_whole_records[max(each for each in ends if each <= size)]
        journal.append(Boot("later", ()), sync=True)  # and it goes on from there
        journal.close()
        again = Journal(directory)
        assert again.known.boot == Boot("later", ())
        again.close()


def test_damage_of_what_was_synced_is_refused(directory: int, tmp_path: Path):
    write_all(directory).close()
    content = (tmp_path / "journal").read_bytes()
    last_mark_begins = record_ends(content)[-3]  # then the mark, then what was not synced
    for position in range(last_mark_begins):
        damaged = bytearray(content)
        damaged[position] ^= 0x20
        (tmp_path / "journal").write_bytes(damaged)
        with pytest.raises(DamagedJournal):
            Journal(directory)
        assert (tmp_path / "journal").read_bytes() == damaged


def test_a_hole_of_what_was_never_synced_is_a_tear(directory: int, tmp_path: Path):
    journal = Journal(directory)
    journal.append(Intents((intent(1),)), sync=True)
    begin = (tmp_path / "journal").stat().st_size
    assert journal.is_synced
    journal.append(ProcessStarts(((Alive(attempt(1), 7, 1.0), 1),)), sync=False)
    journal.append(Exits((end(9),)), sync=False)
    journal.close()
    content = bytearray((tmp_path / "journal").read_bytes())
    content[begin : begin + 8] = bytes(8)
    (tmp_path / "journal").write_bytes(content)
    read = Journal(directory)
    assert list(read.known.intents) == [attempt(1)]
    read.close()


def test_a_file_of_something_else_is_refused(directory: int, tmp_path: Path):
    (tmp_path / "journal").write_text("this is somebody's diary, not a journal of ours")
    with pytest.raises(DamagedJournal):
        Journal(directory)


def test_what_could_not_be_written_is_not_said(directory: int, tmp_path: Path):
    journal = write_all(directory)
    before = said(journal)
    size = (tmp_path / "journal").stat().st_size
    import resource
    import signal

    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            journal.append(Exits((end(3),)), sync=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)
    assert said(journal) == before
    assert (tmp_path / "journal").stat().st_size == size
    journal.append(Exits((end(3),)), sync=True)
    journal.close()
    read = Journal(directory)
    assert AttemptId("ume", 3, 0, 1) in read.known.exits
    read.close()


def record_ends(content: bytes) -> list[int]:
    """Where each record of a sound journal ends."""
    ends, offset = [], len(journal_module.MAGIC)
    while offset < len(content):
        offset += 8 + int.from_bytes(content[offset : offset + 4], "big")
        ends.append(offset)
    return ends

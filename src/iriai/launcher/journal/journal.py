"""The launcher's journal: intents, ends, and what may be forgotten.

An append-only file of records, each `length (4 bytes), CRC-32 (4 bytes), msgpack`. Intents are
written before anything is spawned and exits before they are reported, so that they outlive this
process; they are synced soon after (docs/adr/0006): what a power cut takes with them had no process
left, or had not been stored by the daemon.

After a crash the last record may be torn; it is dropped. After a crash of the whole machine the
same holds for every record since the last sync. A bad record with something behind it that was
written after a later sync (the first record after each is a `Mark`) is damage, and the launcher
does not start.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from zlib import crc32

import msgspec

from iriai.launcher.contract.messages import Alive, Exit
from iriai.launcher.journal.tombstones import Line, Tombstones
from iriai.model.bounds import decoded
from iriai.model.ids import AttemptId

log = logging.getLogger(__name__)

NAME = "journal"
MAGIC = b"iriai launcher journal 1\n"
COMPACT_AT_BYTES = 4 << 20
"""Some ten thousand tasks: rare enough to cost nothing, small enough to be read at once."""
_HEADER_BYTES = 8


class Boot(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """A launcher began on this boot, with these parent control groups."""

    boot_id: str
    parents: tuple[str, ...]


class Intent(msgspec.Struct, frozen=True, array_like=True):
    """An attempt is about to be spawned."""

    attempt: AttemptId
    uid: int
    slot: int
    """Number of its pooled control group; -1 without one."""
    digest: bytes
    """Of the command, script, input and environment."""
    wall_s: float


class Intents(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """Written before the first of them is spawned."""

    intents: tuple[Intent, ...]


class ProcessStarts(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """These run; with each the start time of its process in clock ticks (0: unknown)."""

    started: tuple[tuple[Alive, int], ...]
    ranks: tuple[tuple[AttemptId, int, int], ...] = ()
    """Further processes of seats: process id and start time."""


class Exits(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """Written before they are reported."""

    exits: tuple[Exit, ...]


class Dropped(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """The daemon has stored these ends."""

    attempts: tuple[AttemptId, ...]


class Lines(msgspec.Struct, frozen=True, array_like=True, tag=6):
    """All tombstones, written when the journal is compacted."""

    lines: tuple[tuple[Line, tuple[tuple[int, int], ...]], ...]


class Mark(msgspec.Struct, frozen=True, array_like=True, tag=7):
    """Everything before this was synced."""


class Owed(msgspec.Struct, frozen=True, array_like=True, tag=8):
    """An attempt is about to be started that owes an epilog; written with its intent."""

    attempt: AttemptId
    environment: dict[str, str]


class EpilogsDone(msgspec.Struct, frozen=True, array_like=True, tag=9):
    """These attempts owe no epilog any more."""

    attempts: tuple[AttemptId, ...]


Record = Boot | Intents | ProcessStarts | Exits | Dropped | Lines | Mark | Owed | EpilogsDone
_encode = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[Record] = msgspec.msgpack.Decoder(Record)


class DamagedJournal(Exception):
    """The journal cannot be trusted; nothing was changed."""


class JournalState:
    """The state of the journal: the replay of its records, updated with each new one."""

    def __init__(self) -> None:
        self.boot: Boot | None = None
        self.intents: dict[AttemptId, Intent] = {}
        """Without an end yet."""
        self.started: dict[AttemptId, tuple[Alive, int]] = {}
        """Of those with an intent and without an end."""
        self.ranks: dict[AttemptId, list[tuple[int, int]]] = {}
        """The same of the further processes of each, where its control group does not tell."""
        self.exits: dict[AttemptId, Exit] = {}
        """Ended, and not dropped by the daemon yet."""
        self.owed: dict[AttemptId, Owed] = {}
        """Epilogs that may not have been run."""
        self.forgotten = Tombstones()

    def __contains__(self, attempt: AttemptId) -> bool:
        """Return whether an attempt was ordered, or refused."""
        return attempt in self.intents or attempt in self.exits or attempt in self.forgotten

    def apply(self, record: Record) -> None:
        """Update the state with one record."""
        match record:
            case Intents():
                for intent in record.intents:
                    self.intents[intent.attempt] = intent
            case ProcessStarts():
                for alive, ticks in record.started:
                    self.started[alive.attempt] = (alive, ticks)
                for attempt, pid, ticks in record.ranks:
                    self.ranks.setdefault(attempt, []).append((pid, ticks))
            case Exits():
                self._end(record.exits)
            case Dropped():
                for attempt in record.attempts if self.owed else ():
                    self.owed.pop(attempt, None)
                self.forgotten.add(
                    [each for each in record.attempts if self.exits.pop(each, None) is not None]
                )
            case Owed():
                self.owed[record.attempt] = record
            case EpilogsDone():
                for attempt in record.attempts:
                    self.owed.pop(attempt, None)
            case Boot():
                self.boot = record
            case Lines():
                self.forgotten = Tombstones(record.lines)

    def _end(self, exits: tuple[Exit, ...]) -> None:
        for exit_ in exits:
            self.exits[exit_.attempt] = exit_
            self.intents.pop(exit_.attempt, None)
            self.started.pop(exit_.attempt, None)
        if self.ranks:
            for exit_ in exits:
                self.ranks.pop(exit_.attempt, None)

    def records(self) -> Iterator[Record]:
        """Yield the fewest records whose replay gives this state."""
        if self.boot is not None:
            yield self.boot
        yield Lines(self.forgotten.lines())
        yield Intents(tuple(self.intents.values()))
        further = ((attempt, *each) for attempt, found in self.ranks.items() for each in found)
        yield ProcessStarts(tuple(self.started.values()), tuple(further))
        yield Exits(tuple(self.exits.values()))
        yield from self.owed.values()


class Journal:
    """The file, open for appending, and its state."""

    def __init__(self, directory_fd: int) -> None:
        """Open or make the journal in the directory and replay it.

        Raises `DamagedJournal` where records behind a damaged one matter.
        """
        self._directory_fd = directory_fd
        self.known = JournalState()
        self._fd = self._open(os.O_RDWR | os.O_CREAT, NAME)
        self.modified_wall_s = os.fstat(self._fd).st_mtime
        """When the last record was written before this launcher began."""
        with open(self._fd, "rb", closefd=False) as file:
            content = file.read()
        if not content:
            os.write(self._fd, MAGIC)
            os.fsync(self._fd)
            os.fsync(directory_fd)
        self._size_bytes = max(self._replay(content), len(MAGIC))
        self.is_synced = True
        """Whether a power cut would lose nothing."""
        self._is_marked = False
        """Whether a `Mark` was written since the last sync."""
        self.sync()
        self._compact_at_bytes = COMPACT_AT_BYTES

    def append(self, *records: Record, sync: bool) -> None:
        """Write `records` at once: they outlive this process, with `sync` also a power cut.

        Raises OSError if they could not be written (no space); then nothing was changed.
        """
        frames = b"".join(map(_frame, records if self._is_marked else (Mark(), *records)))
        try:
            _write_all(self._fd, frames)
        except OSError:
            os.ftruncate(self._fd, self._size_bytes)
            raise
        self._size_bytes += len(frames)
        self._is_marked, self.is_synced = True, False
        for record in records:
            self.known.apply(record)
        if sync:
            self.sync()

    def compact_if_grown(self) -> None:
        """Compact the journal once it has grown enough for that to be cheap."""
        if self._size_bytes >= self._compact_at_bytes:
            self.compact()

    def compact(self) -> None:
        """Replace the file, atomically, by one that holds only what still matters."""
        fresh = f"{NAME}.new"
        fd = self._open(os.O_RDWR | os.O_CREAT | os.O_TRUNC, fresh)
        content = MAGIC + b"".join(_frame(record) for record in self.known.records())
        _write_all(fd, content)
        os.fsync(fd)
        os.rename(fresh, NAME, src_dir_fd=self._directory_fd, dst_dir_fd=self._directory_fd)
        os.fsync(self._directory_fd)
        os.close(self._fd)
        self._fd = fd
        self._size_bytes = len(content)
        self._is_marked, self.is_synced = False, True
        self._compact_at_bytes = COMPACT_AT_BYTES + 2 * len(content)

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)

    def sync(self) -> None:
        """Make everything written durable. Raises `DamagedJournal` if that failed."""
        try:
            os.fdatasync(self._fd)
        except OSError as error:
            # The kernel drops pages that it cannot write and reports it once: nothing is certain.
            raise DamagedJournal(f"the journal could not be synced: {error.strerror}") from error
        self._is_marked, self.is_synced = False, True

    def _open(self, flags: int, name: str) -> int:
        flags |= os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        return os.open(name, flags, 0o600, dir_fd=self._directory_fd)

    def _replay(self, content: bytes) -> int:
        """Apply all records; return the end of the sound part, after cutting off the rest."""
        if not content:
            return 0
        if not content.startswith(MAGIC):
            if MAGIC.startswith(content):
                return self._cut_off(content, 0)
            raise DamagedJournal("the journal does not begin as one of this version")
        offset = len(MAGIC)
        while offset < len(content):
            found = _record_at(content, offset)
            if found is None:
                return self._cut_off(content, offset)
            record, offset = found
            self.known.apply(record)
        return offset

    def _cut_off(self, content: bytes, offset: int) -> int:
        if (later := _record_behind_a_sync(content, offset)) is not None:
            raise DamagedJournal(
                f"the journal is damaged at byte {offset}: it is unreadable there, but a valid "
                f"record follows at byte {later}"
            )
        torn = len(content) - offset
        log.warning("journal: dropped an incomplete end of %d bytes at byte %d", torn, offset)
        os.ftruncate(self._fd, offset)
        if offset < len(MAGIC):
            os.write(self._fd, MAGIC)
        os.fsync(self._fd)
        return offset


def _frame(record: Record) -> bytes:
    payload = _encode(record)
    return len(payload).to_bytes(4, "big") + crc32(payload).to_bytes(4, "big") + payload


def _record_at(content: bytes, offset: int) -> tuple[Record, int] | None:
    """Return the record at `offset` and the offset of the next; None if it is not sound."""
    begin = offset + _HEADER_BYTES
    end = begin + int.from_bytes(content[offset : offset + 4], "big")
    if begin >= end or end > len(content):
        return None
    payload = content[begin:end]
    if crc32(payload) != int.from_bytes(content[offset + 4 : begin], "big"):
        return None
    try:
        return decoded(_decoder, payload), end
    except msgspec.MsgspecError:
        return None


def _record_behind_a_sync(content: bytes, offset: int) -> int | None:
    """Return the offset of the first sound `Mark` behind `offset`, which proves a later sync."""
    at = offset + 1
    while at + _HEADER_BYTES < len(content):
        found = _record_at(content, at)
        if found is None:
            at += 1
        elif isinstance(found[0], Mark):
            return at
        else:
            at = found[1]
    return None


def _write_all(fd: int, content: bytes | bytearray) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(fd, view) :]

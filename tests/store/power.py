"""A disk that loses power: what a traced program wrote, and what of it is there afterwards.

A write is safe once its file was synced after it, a name (a file made or removed) once its
directory was. POSIX promises no more. Of all else anything may be there: nothing, everything, or
any part down to single sectors.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

SECTOR_BYTES = 512
"""What a disk writes whole."""
TRACED = (
    "openat,creat,write,writev,pwrite64,pwritev,pwritev2,fallocate,ftruncate,"
    "fsync,fdatasync,sync_file_range,unlink,unlinkat,rename,renameat,renameat2"
)
FILES = ("iriai.db", "iriai.db-wal", "iriai.db.new", "iriai.db.new-journal", "acknowledged")
"""What is followed; `iriai.db-shm` is memory that processes share, and does not outlive them."""

_LINE = re.compile(r"(\w+)\((.*)\)\s+= (-?\d+)")
_TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')
_DESCRIPTOR = re.compile(r"^(?:\d+|AT_FDCWD)<((?:\\x[0-9a-f]{2})*)>")


class Write(NamedTuple):
    name: str
    offset: int
    content: bytes


class Truncate(NamedTuple):
    name: str
    size: int


class Sync(NamedTuple):
    """Of a file, or (name empty) of the directory."""

    name: str


class Make(NamedTuple):
    name: str


class Remove(NamedTuple):
    name: str


class Rename(NamedTuple):
    old: str
    new: str


class Acknowledge(NamedTuple):
    """The program was told that this batch is durable."""

    batch: int


Step = Write | Truncate | Sync | Make | Remove | Rename | Acknowledge


def trace(directory: Path, command: list[str], log: Path) -> list[Step]:
    """Run `command`, and say what it did to the database `iriai.db` in `directory`."""
    paths = (directory, *(directory / name for name in FILES))
    watch = [word for path in paths for word in ("-P", str(path))]
    options = ["-o", str(log), "-xx", "-y", "-s", "1000000", "-e", f"trace={TRACED}"]
    subprocess.run(["strace", *options, *watch, *command], check=True)
    made: set[str] = set()
    steps = []
    for line in log.read_text().splitlines():
        if (found := _LINE.match(line)) and int(found[3]) >= 0:
            steps += _steps(found[1], found[2], str(directory), made)
    return steps


def _steps(call: str, arguments: str, directory: str, made: set[str]) -> Iterator[Step]:
    descriptor = _DESCRIPTOR.match(arguments)
    texts = [_plain(text) for text in _TEXT.findall(arguments)]
    numbers = [int(word) for word in arguments.split(", ")[1:] if word.isdecimal()]
    name = _name(_plain(descriptor[1]).decode(), directory) if descriptor else ""
    match call:
        case "openat":
            opened = _name(texts[0].decode(), directory)
            if "O_CREAT" in arguments and opened not in made:
                made.add(opened)
                yield Make(opened)
            assert "O_TRUNC" not in arguments
        case "pwrite64":
            yield Write(name, numbers[-1], texts[0])
        case "write":
            assert name == "acknowledged", name
            yield Acknowledge(int(texts[0]))
        case "ftruncate":
            yield Truncate(name, numbers[-1])
        case "fsync" | "fdatasync":
            yield Sync(name)
        case "unlink":
            removed = _name(texts[0].decode(), directory)
            made.discard(removed)
            yield Remove(removed)
        case "rename":
            old, new = (_name(text.decode(), directory) for text in texts)
            made.discard(old)
            made.add(new)
            yield Rename(old, new)
        case _:
            raise AssertionError(f"the model of a disk does not know {call}")


def _plain(escaped: str) -> bytes:
    return bytes.fromhex(escaped.replace("\\x", ""))


def _name(path: str, directory: str) -> str:
    return path.removeprefix(directory).lstrip("/")


class _File:
    """What is safe of one file, and what was done since."""

    def __init__(self) -> None:
        self.safe = bytearray()
        self.since: list[Write | Truncate] = []

    def sync(self) -> None:
        for step in self.since:
            _apply(self.safe, step)
        self.since.clear()

    def after_power_cut(self, random: Random | None) -> bytes:
        content = bytearray(self.safe)
        if random is not None:
            for step in self.since:
                for part in _sectors(step):
                    if random.random() < 0.5:
                        _apply(content, part)
        return bytes(content)


def _sectors(step: Write | Truncate) -> Iterator[Write | Truncate]:
    if isinstance(step, Truncate):
        yield step
        return
    for start in range(0, len(step.content), SECTOR_BYTES):
        part = step.content[start : start + SECTOR_BYTES]
        yield Write(step.name, step.offset + start, part)


def _apply(content: bytearray, step: Write | Truncate) -> None:
    size = step.size if isinstance(step, Truncate) else step.offset + len(step.content)
    if len(content) < size:
        content.extend(bytes(size - len(content)))
    if isinstance(step, Truncate):
        del content[size:]
    else:
        content[step.offset : size] = step.content


class Disk:
    """The files of one directory while a program works on them."""

    def __init__(self) -> None:
        self.acknowledged = 0
        self._names: dict[str, _File] = {}
        self._safe_names: dict[str, _File] = {}
        self._since: list[tuple[str, _File | None]] = []
        """Names given and taken since the directory was synced."""

    def perform(self, step: Step) -> None:
        match step:
            case Make(name):
                self._name(name, _File())
            case Remove(name):
                self._name(name, None)
            case Rename(old, new):
                self._name(new, self._names[old])
                self._name(old, None)
            case Write() | Truncate():
                self._names[step.name].since.append(step)
            case Sync(""):
                self._safe_names = dict(self._names)
                self._since.clear()
            case Sync(name):
                self._names[name].sync()
            case Acknowledge(batch):
                self.acknowledged = batch

    def _name(self, name: str, file: _File | None) -> None:
        self._since.append((name, file))
        _rename(self._names, name, file)

    def after_power_cut(self, directory: Path, random: Random | None) -> None:
        """Put what is left into `directory`: what is safe, and of the rest what `random` says."""
        names = dict(self._safe_names)
        if random is not None:
            for name, file in self._since:
                if random.random() < 0.5:
                    _rename(names, name, file)
        for name, file in names.items():
            (directory / name).write_bytes(file.after_power_cut(random))


def _rename(names: dict[str, _File], name: str, file: _File | None) -> None:
    if file is None:
        names.pop(name, None)
    else:
        names[name] = file

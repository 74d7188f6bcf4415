"""The process manager interface PMI-1 for the ranks of one seat, without input and output.

Bytes of ranks in, answers and events out (docs/spec/011, section 9; Flux RFC 13). The ranks of
several seats meet at a barrier through `BarrierReached`: what was put on each seat is gathered, and
given to `fenced` of each. Of one seat that is done here.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import NamedTuple

from iriai.launcher.pmi.key_values import KeyValues, NotStored
from iriai.launcher.pmi.lines import (
    COMMAND,
    KEY_BYTES_MAX,
    KVSNAME_BYTES_MAX,
    SEVERAL,
    VALUE_BYTES_MAX,
    BadLine,
    is_key,
    is_value,
    line_of,
    parse_line,
    split_lines,
)

MAPPING = b"PMI_process_mapping"
"""The key under which a program finds which ranks are together on a machine."""
VERSION, SUBVERSIONS = b"1", (b"0", b"1")
_CODE_DIGITS_MAX = 9


class RankAnswer(NamedTuple):
    """Send these bytes to a rank."""

    rank: int
    content: bytes


class Hang(NamedTuple):
    """Close the connection of a rank, which keeps no rule."""

    rank: int
    why: str


class Abort(NamedTuple):
    """A rank wants to fail, with all others."""

    rank: int
    exit_code: int


class BarrierReached(NamedTuple):
    """All ranks of the seat have come to a barrier; `fenced` goes on with what all have put."""

    number: int
    """Of the barrier, from 1."""
    put: Mapping[bytes, bytes]


PmiEvent = RankAnswer | Hang | Abort | BarrierReached


class _Client:
    """The connection of a rank."""

    def __init__(self) -> None:
        self.unread = b""
        self.is_begun = False
        """Whether it said which version it speaks."""
        self.is_waiting = False
        """Whether it waits at the barrier."""
        self.in_spawn = False
        """Whether it is in the middle of a command of several lines."""


class SeatServer:
    """Serves the ranks of one seat."""

    def __init__(self, name: str, seats: tuple[int, ...], first: int, ranks: int) -> None:
        """`name` is that of the key-value space, `seats` are the numbers of ranks of all seats.

        `first` is the first of this seat's `ranks`.
        """
        self._name = name.encode()[:KVSNAME_BYTES_MAX]
        self._size = sum(seats)
        self._is_alone = len(seats) == 1
        self._ranks = ranks
        self._clients = {rank: _Client() for rank in range(first, first + ranks)}
        mapping = process_mapping(seats)
        self._keys = KeyValues({MAPPING: mapping} if mapping else {}, ranks, self._size)
        self._waiting = 0
        self._barrier = 0
        """How many barriers all ranks of this seat have come to."""
        self._open: BarrierReached | None = None
        """The barrier that other seats have not come to, as far as known."""

    @property
    def open_fence(self) -> BarrierReached | None:
        """The barrier that waits for other seats: it is told again to whoever gathers."""
        return self._open

    def receive(self, rank: int, content: bytes) -> list[PmiEvent]:
        """Handle what a rank has sent, which may be a part of a line, or several."""
        client = self._clients.get(rank)
        if client is None:
            return [Hang(rank, "it has no connection")]
        events: list[PmiEvent] = []
        try:
            lines, client.unread = split_lines(client.unread + content)
            for line in lines:
                events += self._handle(rank, client, line)
        except BadLine as bad:
            self.hung_up(rank)
            return [*events, Hang(rank, str(bad))]
        return events

    def hung_up(self, rank: int) -> None:
        """Take in that the connection of a rank is over: nobody passes a barrier from here on."""
        client = self._clients.pop(rank, None)
        if client is not None and client.is_waiting:
            self._waiting -= 1

    def fenced(self, number: int, gathered: Mapping[bytes, bytes]) -> list[PmiEvent]:
        """Let the ranks go on from a barrier, with what those of all seats have put.

        It may come again.
        """
        if self._open is None or number != self._open.number:
            return []
        self._open = None
        self._keys.show(gathered)
        self._waiting = 0
        freed = [(rank, client) for rank, client in self._clients.items() if client.is_waiting]
        for _, client in freed:
            client.is_waiting = False
        return [RankAnswer(rank, line_of(b"barrier_out", rc=0)) for rank, _ in freed]

    # --- commands --------------------------------------------------------------------------------

    def _handle(self, rank: int, client: _Client, line: bytes) -> list[PmiEvent]:
        """Return what follows from one line. Raises `BadLine`."""
        if client.in_spawn:
            if line != b"endcmd":
                return []
            client.in_spawn = False
            return [RankAnswer(rank, line_of(b"spawn_result", rc=1, msg=b"not_supported"))]
        words = parse_line(line)
        if words.get(SEVERAL) == b"spawn":
            client.in_spawn = True
            return []
        command = words.get(COMMAND, b"")
        if client.is_waiting:
            raise BadLine(f"{command[:64]!r} while it waits at a barrier")
        if command == b"init":
            return [RankAnswer(rank, _init(client, words))]
        if not client.is_begun:
            raise BadLine(f"{command[:64]!r} before init")
        match command:
            case b"barrier_in":
                return self._barrier_in(client)
            case b"abort":
                return [Abort(rank, _exit_code(words))]
            case b"put":
                answer = self._put(rank, words)
            case b"get":
                answer = self._get(rank, words)
            case _:
                answer = self._about(command)
        return [RankAnswer(rank, answer)]

    def _about(self, command: bytes) -> bytes:
        """Return the answer to a question about the job. Raises `BadLine`."""
        match command:
            case b"get_maxes":
                return line_of(
                    b"maxes",
                    rc=0,
                    kvsname_max=KVSNAME_BYTES_MAX,
                    keylen_max=KEY_BYTES_MAX,
                    vallen_max=VALUE_BYTES_MAX,
                )
            case b"get_appnum":
                return line_of(b"appnum", rc=0, appnum=0)
            case b"get_my_kvsname":
                return line_of(b"my_kvsname", rc=0, kvsname=self._name)
            case b"get_universe_size":
                return line_of(b"universe_size", rc=0, size=self._size)
            case b"finalize":
                return line_of(b"finalize_ack", rc=0)
        raise BadLine(f"{command[:64]!r} is no command of PMI-1")

    def _put(self, rank: int, words: Mapping[bytes, bytes]) -> bytes:
        key, value = words.get(b"key", b""), words.get(b"value", b"")
        if words.get(b"kvsname") != self._name:
            return line_of(b"put_result", rc=-1, msg=b"unknown_kvsname")
        if not (is_key(key) and is_value(value)):
            return line_of(b"put_result", rc=-1, msg=b"key_or_value_is_too_long")
        try:
            self._keys.put(rank, key, value)
        except NotStored as why:
            return line_of(b"put_result", rc=-1, msg=str(why).encode())
        return line_of(b"put_result", rc=0, msg=b"success")

    def _get(self, rank: int, words: Mapping[bytes, bytes]) -> bytes:
        if words.get(b"kvsname") != self._name:
            return line_of(b"get_result", rc=-1, msg=b"unknown_kvsname", value=b"unknown")
        value = self._keys.get(rank, words.get(b"key", b""))
        if value is None:
            return line_of(b"get_result", rc=-1, msg=b"key_not_found", value=b"unknown")
        return line_of(b"get_result", rc=0, msg=b"success", value=value)

    def _barrier_in(self, client: _Client) -> list[PmiEvent]:
        client.is_waiting = True
        self._waiting += 1
        if self._waiting < self._ranks:
            return []
        self._barrier += 1
        self._open = BarrierReached(self._barrier, self._keys.drain())
        if self._is_alone:
            return self.fenced(self._barrier, self._open.put)
        return [self._open]


def process_mapping(seats: tuple[int, ...]) -> bytes:
    """Return which ranks are together: `(vector,(FIRST SEAT,SEATS,RANKS OF EACH),...)`.

    That is the form of PMI-1's process managers; of seats that differ much it is empty, for it
    would be longer than a value, and a program finds out by itself.
    """
    parts, place = [], 0
    for ranks, alike in groupby(seats):
        count = len(list(alike))
        parts.append(f"({place},{count},{ranks})")
        place += count
    text = f"(vector,{','.join(parts)})".encode()
    return text if len(text) <= VALUE_BYTES_MAX else b""


def _init(client: _Client, words: Mapping[bytes, bytes]) -> bytes:
    version, subversion = words.get(b"pmi_version"), words.get(b"pmi_subversion")
    client.is_begun = version == VERSION and subversion in SUBVERSIONS
    return line_of(
        b"response_to_init", pmi_version=1, pmi_subversion=1, rc=0 if client.is_begun else -1
    )


def _exit_code(words: Mapping[bytes, bytes]) -> int:
    """Return the code with which a rank aborts; of nonsense and of 0, 1: it has failed."""
    text = words.get(b"exitcode", b"")
    digits = text.removeprefix(b"-")
    if not digits.isdigit() or len(digits) > _CODE_DIGITS_MAX:
        return 1
    return int(text) & 0xFF or 1

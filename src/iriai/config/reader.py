"""Reader of `iriai.toml`: text in, one frozen object out, or one error with its place."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from iriai.config.keys import KeyType, WrongValue, keys
from iriai.config.sections import PoolSection, QueueMode, QueueSection, Sections
from iriai.config.values import MEASURED, QUEUES_MIN
from iriai.model.admission_rules import HomeRules
from iriai.model.problem import UsageProblem

TEXT_LENGTH_MAX = 1 << 20
"""Characters of a file; a longer one is not a configuration."""
DEFAULT = "default"
MOVED = dict.fromkeys(
    ("gossip.mode", "gossip.stop_after"),
    "rumours, as paper 001 has them, are run by benchmarks/gossip_paper.py in the sources",
)
"""Keys that were removed, and where their function is now."""
QUOTE_LENGTH_MAX = 60
"""The length of a wrong value in a message; an error is one line."""


class BadConfiguration(UsageProblem):
    """The configuration is invalid; no part of it is used."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__("bad-configuration", message, hint)


class Configuration(Sections, frozen=True):
    """The configuration of one machine. `Configuration()` has all defaults."""

    where: str = ""
    """The file from which it was read; empty for defaults."""
    given: Mapping[str, str] = {}
    """The given keys, dotted, with the file of each; for `config show`."""

    def right_of_group(self, name: str) -> float:
        """Return the right of a group; by default 1."""
        group = self.groups.get(name)
        return group.right if group else 1.0

    def right_of_user(self, group: str, user: str) -> float:
        """Return the right of `user` within `group`; by default 1."""
        members = self.groups.get(group)
        return members.users.get(user, 1.0) if members else 1.0

    @property
    def queue_count(self) -> int:
        """Return how many queues there are: up to the highest that is named."""
        return max(QUEUES_MIN, 1 + max(map(int, self.queues), default=0))

    @property
    def starting_queues(self) -> frozenset[int]:
        """Return the queues of which tasks start."""
        stopped = (int(each) for each, queue in self.queues.items() if queue.state == "enabled")
        return frozenset(range(self.queue_count)).difference(stopped)

    @property
    def queue_modes(self) -> dict[int, QueueMode]:
        """Return the modes of the queues whose running tasks may be frozen."""
        every = ((int(number), queue.mode) for number, queue in self.queues.items())
        return {number: mode for number, mode in every if mode != "shared"}

    @property
    def gang_queues(self) -> frozenset[int]:
        """Return the queues whose tasks take turns."""
        return frozenset(n for n, mode in self.queue_modes.items() if mode == "gang")

    @property
    def turning_queues(self) -> frozenset[int]:
        """Return those, and the queues that tasks leave for such a one after a while."""
        found = self.gang_queues
        for number in reversed(range(self.queue_count - 1)):
            queue = self.queues.get(str(number))
            if queue is not None and queue.residence_s is not None and number + 1 in found:
                found |= {number}
        return found

    @property
    def charge_factors(self) -> dict[int, float]:
        """Return the factors of charges, by queue, where they are not 1."""
        every = ((int(number), queue.charge_factor) for number, queue in self.queues.items())
        return {number: factor for number, factor in every if factor != 1.0}

    def is_active(self, number: int) -> bool:
        """Return whether a queue takes jobs and starts them."""
        queue = self.queue(number)
        return queue is not None and queue.state == "active"

    def queue(self, number: int) -> QueueSection | None:
        """Return a queue, by default without limits; None: there is none of that number."""
        known = self.queues.get(str(number))
        if known is None and 0 <= number < self.queue_count:
            return QueueSection()
        return known

    def pool(self, name: str) -> PoolSection:
        """Return the limits of a pool of machines, by default what these give away."""
        return self.pools.get(name) or PoolSection()

    @property
    def bounded_pools(self) -> dict[str, int]:
        """Return the pools with a bound on the tasks that run there, and the bound."""
        pools = self.pools.items()
        return {name: pool.jobs_max for name, pool in pools if pool.jobs_max is not None}

    def home_rules(self, home: str, *, is_member: bool) -> HomeRules:
        """Return the rules for whose tasks the machine `home` runs."""
        return HomeRules(home, self.homes, self.users.guest or "", is_member)

    def rows(self) -> list[tuple[str, str, str]]:
        """Return (key, value, source) of every value, for `config show`.

        A source is the file, `default`, or `measured` for values that the machine measures.
        """
        rows = []
        for path, kind, value in _values("", KeyType(Sections), self):
            is_measured = value is None and kind.is_measured
            source = self.given.get(path, MEASURED if is_measured else DEFAULT)
            rows.append((path, "" if is_measured else kind.show(value), source))
        return rows


def _values(path: str, kind: KeyType, value: object) -> Iterator[tuple[str, KeyType, object]]:
    """Return each value within `value`, with its path and type."""
    if kind.table:
        for name, key in keys(kind.table).items():
            yield from _values(_joined(path, name), key.type, getattr(value, key.field))
    elif isinstance(value, Mapping) and kind.entries:
        entry = kind.entries[1]
        for name in sorted(value, key=int) if entry.kind is QueueSection else value:
            yield from _values(_joined(path, name), entry, value[name])
    else:
        yield path, kind, value


def parse_configuration(text: str, where: str) -> Configuration:
    """Parse `text`; `where` is its file, for messages.

    Raises:
        BadConfiguration: with the line of a syntax error, or the key and the right values.
    """
    reader = _Reader(where)
    sections = reader.fields("", _document(text, where), Sections)
    given = dict.fromkeys(reader.given, where)
    return Configuration(**sections, where=where, given=given)


def _document(text: str, where: str) -> dict[str, object]:
    if len(text) > TEXT_LENGTH_MAX:
        raise BadConfiguration(
            f"{where} is longer than {TEXT_LENGTH_MAX} characters",
            "this does not look like a configuration; check which file it is",
        )
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        end = f"at line {text.count(chr(10)) + 1}, the end of the document"
        what = str(error).replace("at end of document", end)
        raise BadConfiguration(
            f"{where} is not valid TOML: {what}",
            "correct that line; a section looks like [machine], a value like cpus = 4",
        ) from None
    except RecursionError:
        raise BadConfiguration(
            f"{where} is nested too deeply", "a section looks like [machine]"
        ) from None
    except ValueError as error:  # from int(), which limits the number of digits
        raise BadConfiguration(
            f"{where} has a number that cannot be read: {error}", "write a smaller number"
        ) from None


class _Reader:
    """Reads one file and records its keys.

    It walks the tables itself, since msgspec does not name keys of a dictionary (`$.groups[...]`).
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self.given: list[str] = []

    def fields(self, path: str, raw: object, section: type[msgspec.Struct]) -> dict[str, Any]:
        """Return the fields of a section that its table `raw` gives."""
        known = keys(section)
        table = self._table(path, raw)
        for name in table:
            if name not in known:
                raise self._no_such_key(path, name, [*known])
        return {
            known[name].field: self._read(_joined(path, name), each, known[name].type)
            for name, each in table.items()
        }

    def _read(self, path: str, raw: object, kind: KeyType) -> object:
        if kind.table:
            return kind.table(**self.fields(path, raw, kind.table))
        if not kind.entries:
            self.given.append(path)
            return self._value(f"{path} is {_quoted(raw)}", raw, kind)
        names, values = kind.entries
        table = self._table(path, raw)
        for name in table:
            self._value(f"{path} has an invalid name: {_quoted(name)}", name, names)
        return {name: self._read(_joined(path, name), each, values) for name, each in table.items()}

    def _value(self, what: str, raw: object, kind: KeyType) -> object:
        try:
            return kind.read(raw)
        except WrongValue as wrong:
            raise BadConfiguration(f"{self._where}: {what}", f"write {wrong}") from None

    def _table(self, path: str, raw: object) -> dict[str, object]:
        if not isinstance(raw, dict):
            raise BadConfiguration(
                f"{self._where}: {path} is {_quoted(raw)}", f"write a section, [{path}]"
            )
        return raw

    def _no_such_key(self, path: str, name: str, known: list[str]) -> BadConfiguration:
        what = f"there is no key {path}.{name}" if path else f"there is no section [{name}]"
        if where := MOVED.get(_joined(path, name)):
            return BadConfiguration(f"{self._where}: {what}", f"remove it: {where}")
        from difflib import get_close_matches  # which a correct configuration does not need

        close = get_close_matches(name, known, 1)
        return BadConfiguration(
            f"{self._where}: {what}",
            f"did you mean {close[0]}?" if close else f"use one of: {', '.join(known)}",
        )


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _quoted(raw: object) -> str:
    """Return `raw` about as it is in the file, short enough for a message of one line."""
    if isinstance(raw, dict | list):
        return "a section" if isinstance(raw, dict) else "a list"
    text = str(raw).lower() if isinstance(raw, bool) else repr(raw)
    return text if len(text) <= QUOTE_LENGTH_MAX else text[: QUOTE_LENGTH_MAX - 3] + "..."

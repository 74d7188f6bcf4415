"""Settings that operators change while the daemon runs: keys and values as texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args, get_origin

from msgspec.structs import replace

from iriai.config.keys import Key, WrongValue, keys
from iriai.config.reader import Configuration
from iriai.config.sections import LIVE_SECTIONS, Sections
from iriai.config.values import NONE
from iriai.model.bounds import QUEUE_MAX
from iriai.model.problem import NotFound, Refused, UsageProblem
from iriai.model.records import KeySet, SectionSet

BAD_SETTING = "bad-setting"
_WHOLE = re.compile(r"[+-]?\d{1,19}")
_DECIMAL = re.compile(r"[+-]?\d{1,19}\.\d{1,19}(e[+-]?\d{1,3})?")
_SHOWN = 60
"""Characters of a wrong value in a message."""
_JOBS_SHOWN = 5
"""Jobs that a refusal names: as many as fit into a line."""
_WORDS_SHOWN = 20
"""Changed values that a line of the log names."""
_WORDS = {"queues": "queue", "pools": "pool", "gang": "gang"}
"""The command that sets each section."""


class LiveChange(NamedTuple):
    """What an operator sets of a live section, or of one of its entries."""

    section: str
    """One of `LIVE_SECTIONS`."""
    name: str
    """Of a queue or a pool; empty for a section without entries."""
    settings: tuple[tuple[str, str], ...]
    """Keys and their values, as in the file without quotes; none: what was set is forgotten."""

    @property
    def path(self) -> str:
        """Return the name of the section in the file."""
        return f"{self.section}.{self.name}" if self.name else self.section

    @property
    def queue(self) -> int | None:
        """Return the number of the queue that it is about, if any."""
        return int(self.name) if self.section == "queues" else None

    def __str__(self) -> str:
        """Return it for people: `queue 1: state is enabled`."""
        what = f"{_WORDS[self.section]} {self.name}" if self.name else _WORDS[self.section]
        words = ", ".join(f"{key} is {value}" for key, value in self.settings)
        return f"{what}: {words or 'nothing is set'}"


def checked(section: str, name: str, given: Iterable[tuple[str, str]]) -> LiveChange:
    """Return a change, of each key the last value.

    Raises:
        NotFound: there can be no such queue.
        UsageProblem: the section, a name or a key is unknown, or a value is wrong.
    """
    if section not in LIVE_SECTIONS:
        raise UsageProblem(
            BAD_SETTING,
            f"'{section[:_SHOWN]}' does not change while the daemon runs",
            f"use one of: {', '.join(LIVE_SECTIONS)}",
        )
    _check_name(section, name)
    settings = dict(given)
    _changes(section, settings)
    return LiveChange(section, name, tuple(settings.items()))


def merged(row: SectionSet | None, change: LiveChange, by: str, wall_s: float) -> SectionSet:
    """Return what is stored after a change: its keys beside those that were set before."""
    before = {each.key: each for each in row.settings} if row and change.settings else {}
    after = before | {key: KeySet(key, value, by) for key, value in change.settings}
    return SectionSet(change.section, change.name, tuple(after.values()), by, wall_s)


def with_settings(configuration: Configuration, rows: Iterable[SectionSet]) -> Configuration:
    """Return the configuration with what operators set over it; raises as `checked`."""
    sources = dict(configuration.given)
    sections: dict[str, Any] = {}
    for row in rows:
        if not row.settings:
            continue
        change = checked(row.section, row.name, [each[:2] for each in row.settings])
        values = _changes(change.section, dict(change.settings))
        held = sections.get(row.section, getattr(configuration, row.section))
        if isinstance(held, Mapping):
            entry = held.get(row.name) or LIVE_SECTIONS[row.section]()
            sections[row.section] = {**held, row.name: replace(entry, **values)}
        else:
            sections[row.section] = replace(held, **values)
        sources |= {f"{change.path}.{each.key}": f"set by {each.by}" for each in row.settings}
    return replace(configuration, given=sources, **sections)


def raw_value(section: str, key: str, text: str) -> object:
    """Return the value that `text` is, as a TOML file has it; raises `UsageProblem`."""
    for raw in _readings(text):
        try:
            _key(section, key).type.read(raw)
        except WrongValue as wrong:
            expected = str(wrong)
        else:
            return raw
    raise UsageProblem(
        BAD_SETTING, f"{key} cannot be '{text[:_SHOWN]}'", f"write {expected}"
    ) from None


def check_stays(
    after: Configuration, change: LiveChange, inside: Callable[[int], Sequence[str]]
) -> None:
    """Raise `Refused` if a change removes a queue that jobs are in.

    `after` is the configuration after it; `inside` returns the jobs in a queue.
    """
    number = change.queue
    if number is None or after.queue(number) is not None:
        return
    jobs = inside(number)
    if jobs:
        shown = ", ".join(jobs[:_JOBS_SHOWN])
        more = f" and {len(jobs) - _JOBS_SHOWN} more" if len(jobs) > _JOBS_SHOWN else ""
        raise Refused(
            "queue-not-empty",
            f"queue {number} would be gone, and jobs are in it: {shown}{more}",
            "move what waits with 'iriai alter JOB --queue N'; let what runs end, or cancel it",
        )


def setting_words(section: str) -> list[str]:
    """Return each key of a live section with `=`, and with its values where they are words."""
    found = []
    for name, key in keys(LIVE_SECTIONS[section]).items():
        words = get_args(key.type.kind) if get_origin(key.type.kind) is Literal else ()
        found += [f"{name}={word}" for word in words] or [f"{name}="]
        if key.type.may_be_none:
            found.append(f"{name}={NONE}")
    return found


def only_live_differs(one: Configuration, other: Configuration) -> bool:
    """Return whether two configurations are equal but for sections that change live."""
    live = {name: getattr(other, name) for name in LIVE_SECTIONS}
    return replace(one, given=other.given, **live) == other


def changed_words(before: Configuration, after: Configuration) -> str:
    """Return which values differ, for the log."""
    old = {key: value for key, value, _ in before.rows()}
    new = {key: value for key, value, _ in after.rows()}
    words = [f"{key} is {value}" for key, value in new.items() if old.get(key) != value]
    words += [f"{key} is not set" for key in old if key not in new]
    more = f" and {len(words) - _WORDS_SHOWN} more" if len(words) > _WORDS_SHOWN else ""
    return ", ".join(words[:_WORDS_SHOWN]) + more


def _changes(section: str, settings: Mapping[str, str]) -> dict[str, object]:
    return {
        _key(section, name).field: _key(section, name).type.read(raw_value(section, name, text))
        for name, text in settings.items()
    }


def _readings(text: str) -> Iterator[object]:
    """Yield what a text may mean in a file, numbers and truth values before words."""
    if _WHOLE.fullmatch(text):
        yield int(text)
    if _DECIMAL.fullmatch(text):
        yield float(text)
    if text in ("true", "false"):
        yield text == "true"
    yield text


def _key(section: str, name: str) -> Key:
    known = keys(LIVE_SECTIONS[section])
    if name not in known:
        raise UsageProblem(
            BAD_SETTING,
            f"a {_WORDS[section]} has no '{name[:_SHOWN]}'",
            f"use one of: {', '.join(known)}",
        )
    return known[name]


def _check_name(section: str, name: str) -> None:
    entries = keys(Sections)[section].type.entries
    if entries is None:
        if name:
            hint = f"leave '{name[:_SHOWN]}' out"
            raise UsageProblem(BAD_SETTING, f"[{section}] has no names", hint)
        return
    try:
        entries[0].read(name)
    except WrongValue as wrong:
        if section == "queues":
            raise NotFound(
                "no-such-queue",
                f"there can be no queue {name[:_SHOWN]}",
                f"use one from 0 to {QUEUE_MAX}",
            ) from None
        raise UsageProblem(
            BAD_SETTING, f"'{name[:_SHOWN]}' names no {_WORDS[section]}", f"write {wrong}"
        ) from None

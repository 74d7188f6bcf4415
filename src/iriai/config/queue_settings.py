"""Queues as an operator sets them while the daemon runs: keys and values as texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from iriai.config.keys import WrongValue, keys
from iriai.config.reader import Configuration
from iriai.config.sections import QueueSection
from iriai.model.bounds import QUEUE_MAX
from iriai.model.problem import NotFound, UsageProblem
from iriai.model.records import QueueSet


def checked_settings(number: int, given: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return what is given of a queue by key, the last of each.

    Raises:
        NotFound: there can be no such queue.
        UsageProblem: a key is unknown, or its value is wrong.
    """
    if not 0 <= number <= QUEUE_MAX:
        raise NotFound(
            "no-such-queue", f"there can be no queue {number}", f"use one from 0 to {QUEUE_MAX}"
        )
    settings = dict(given)
    _changes(settings)
    return settings


def with_queues(configuration: Configuration, rows: Iterable[QueueSet]) -> Configuration:
    """Return the configuration with what operators set over it; raises as `checked_settings`."""
    queues, sources = dict(configuration.queues), dict(configuration.given)
    for row in rows:
        if not row.settings:
            continue
        key = str(row.number)
        changes = _changes(dict(row.settings))
        queues[key] = replace(queues.get(key, QueueSection()), **changes)
        sources |= {f"queues.{key}.{name}": f"set by {row.by}" for name, _ in row.settings}
    return replace(configuration, queues=queues, given=sources)


def _changes(settings: Mapping[str, str]) -> dict[str, object]:
    known = keys(QueueSection)
    changes: dict[str, object] = {}
    for name, text in settings.items():
        if name not in known:
            raise UsageProblem(
                "bad-queue-setting",
                f"a queue has no '{name}'",
                f"use one of: {', '.join(known)}",
            )
        try:
            changes[known[name].field] = known[name].type.read(text)
        except WrongValue as wrong:
            raise UsageProblem(
                "bad-queue-setting", f"{name} cannot be '{text[:60]}'", f"write {wrong}"
            ) from None
    return changes

"""Alterations of waiting jobs, and their results."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from iriai.model.job import Dependency, JobSpec
from iriai.model.ranks import RankShape
from iriai.model.resources import Resources, describe_amount
from iriai.model.units import format_duration


class Alteration(msgspec.Struct, frozen=True, omit_defaults=True):
    """New values of some fields of a `JobSpec`; fields that are unset stay."""

    name: str | UnsetType = UNSET
    resources: Resources | UnsetType = UNSET
    time_limit_s: float | UnsetType | None = UNSET
    urgency: float | UnsetType = UNSET
    after: tuple[Dependency, ...] | UnsetType = UNSET
    throttle: int | UnsetType | None = UNSET
    exclusive: bool | UnsetType = UNSET
    requirements: str | UnsetType = UNSET
    rank: str | UnsetType = UNSET
    shape: RankShape | UnsetType = UNSET
    across_pools: bool | UnsetType = UNSET
    queue: int | UnsetType = UNSET

    @property
    def fields(self) -> dict[str, object]:
        """Return the fields that are set."""
        values = ((name, getattr(self, name)) for name in self.__struct_fields__)
        return {name: value for name, value in values if value is not UNSET}

    def applied(self, spec: JobSpec) -> JobSpec:
        """Return `spec` with the new values."""
        return replace(spec, **self.fields)

    @property
    def concerns_machines(self) -> bool:
        """Return whether the alteration may change which machines fit."""
        return bool(self.fields.keys() & _OF_MACHINES)

    def differing(self, spec: JobSpec) -> Alteration:
        """Return the part of it that `spec` does not have yet."""
        return _made({n: value for n, value in self.fields.items() if getattr(spec, n) != value})

    def undone(self, spec: JobSpec) -> Alteration:
        """Return the alteration that leads back to `spec`."""
        return _made({name: getattr(spec, name) for name in self.fields})


_OF_MACHINES = frozenset(
    {"resources", "exclusive", "requirements", "rank", "shape", "across_pools"}
)


def _made(fields: dict[str, object]) -> Alteration:
    return replace(Alteration(), **fields)


class Difference(NamedTuple):
    """A changed field, as text."""

    field: str
    was: str
    now: str


def differences(was: Alteration, now: Alteration) -> list[Difference]:
    """Return what `now` changed, field by field; resources one by one."""
    found = []
    for name, value in now.fields.items():
        before = getattr(was, name)
        if isinstance(value, Resources) and isinstance(before, Resources):
            found += _resources(before, value)
        else:
            found.append(
                Difference(_LABELS.get(name, name), _text(name, before), _text(name, value))
            )
    return found


_LABELS = {
    "time_limit_s": "time limit",
    "throttle": "at once",
    "shape": "ranks",
    "across_pools": "across pools",
}


def _resources(was: Resources, now: Resources) -> list[Difference]:
    old, new = dict(was.amounts()), dict(now.amounts())
    return [
        Difference(
            name, describe_amount(name, old.get(name, 0)), describe_amount(name, new.get(name, 0))
        )
        for name in dict.fromkeys([*old, *new])
        if old.get(name, 0) != new.get(name, 0)
    ]


def _text(name: str, value: object) -> str:
    if name == "after" and isinstance(value, tuple):
        return " ".join(map(str, value)) or "nothing"
    if value is None:
        return "none"
    if value == "":
        return "nothing"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name == "time_limit_s" and isinstance(value, float | int):
        return format_duration(value)
    return f"{value:g}" if isinstance(value, float) else str(value)

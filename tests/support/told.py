"""The effects of one event, sorted by whom they are for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from iriai.model.ids import Account, AttemptId, JobId
from iriai.model.instant import Instant
from iriai.model.job import JobSpec
from iriai.model.records import Record
from iriai.model.resources import Resources
from iriai.protocol.messages.effects import Effect, Part, Persist, Send
from iriai.protocol.messages.scheduling import ToBroker, ToHome, ToNode

HOME = "ume"
WALL_S = 1_800_000_000.0


class Told(NamedTuple):
    """Empty where nothing was said."""

    node: list[ToNode]
    home: list[ToHome]
    broker: list[ToBroker]
    records: list[Record]
    others: list[Effect]
    """For the launcher, the clock, and whoever waits."""


def told(effects: Iterable[Effect]) -> Told:
    """Sort effects. What acknowledges messages of other machines is left out."""
    sorted_ = Told([], [], [], [], [])
    parts = {Part.NODE: sorted_.node, Part.HOME: sorted_.home, Part.BROKER: sorted_.broker}
    for effect in effects:
        match effect:
            case Send(_, Part.SUCCESSION):
                pass
            case Send(_, part, message):
                parts[part].append(message)
            case Persist(record):
                sorted_.records.append(record)
            case _:
                sorted_.others.append(effect)
    return sorted_


NOTHING_TOLD = told(())


def instant(now_s: float) -> Instant:
    """Second `now_s` of the steady clock, and the wall clock that goes with it."""
    return Instant(now_s, WALL_S + now_s, "test")


def spec(user: str = "ann", *, group: str = "lab", cpus: int = 1, gpus: int = 0, **changes):
    """A job that says only what the test is about."""
    resources = Resources(cpus, 0, gpus)
    return JobSpec(Account(group, user), user, "job", ("true",), "/", resources, **changes)


def attempt(number: int = 1, index: int = 0, attempt: int = 1) -> AttemptId:
    """An attempt of a job of this home."""
    return AttemptId(HOME, number, index, attempt)


def job(number: int = 1) -> JobId:
    """A job of this home."""
    return JobId(HOME, number)


def only(found: Iterable[object], kind: type) -> object:
    """The one of a kind; there must be exactly one."""
    [one] = [each for each in found if type(each) is kind]
    return one

"""The judge of who is where and when: each attempt says what time it is in a file outside iriai."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count, pairwise
from pathlib import Path
from typing import NamedTuple

from tests.endtoend.installation import PYTHON, Installation

STAMP = """
import os, signal, sys, time
place, name, enough, on_term = sys.argv[1:]
machine = os.environ["IRIAI_STATE"].split("/")[-2]
numbers = [os.environ[f"IRIAI_{each}"] for each in ("TASK_ID", "ATTEMPT")]
file = open(f"{place}/{','.join([name, *numbers, machine])}", "w", buffering=1)
def end(*_):
    file.write(f"term {time.time()}\\n")
    if on_term == "exits":
        os._exit(1)
signal.signal(signal.SIGTERM, end)
file.write(f"stamp {time.time()}\\n")
while not os.path.exists(f"{place}/{enough}"):
    time.sleep(0.05)
    file.write(f"stamp {time.time()}\\n")
"""
KINDS = ("stamp", "term")
_SERIALS = count(1)


class Stay(NamedTuple):
    """One attempt of a task, as it has told it."""

    name: str
    """Of the job."""
    task: int
    attempt: int
    machine: str
    stamps: list[float]
    """Of the wall clock, while it ran."""
    terms: list[float]
    """When it was told to end (SIGTERM)."""

    @property
    def start_s(self) -> float:
        return self.stamps[0]

    @property
    def last_s(self) -> float:
        return max(self.stamps[-1], *self.terms, 0.0)

    def is_between(self, from_s: float, to_s: float) -> bool:
        """Whether it ran at any moment of a time."""
        return any(from_s <= each < to_s for each in (*self.stamps, *self.terms))


class TimeJudge:
    """Hands tasks their program, and reads what they have told."""

    def __init__(self, machines: Mapping[str, Installation]) -> None:
        """`machines`: all that may run tasks, by name."""
        self._names = {each.directory.name: name for name, each in machines.items()}
        self.place = next(iter(machines.values())).directory / f"stays-{next(_SERIALS)}"
        self.place.mkdir()
        self.place.chmod(0o777)

    def command(self, name: str, enough: str = "enough", on_term: str = "exits") -> tuple[str, ...]:
        """A task that runs until `enough` is said; `on_term`: `exits` at SIGTERM, or `stays`."""
        return (PYTHON, "-S", "-E", "-c", STAMP, str(self.place), name, enough, on_term)

    def say(self, enough: str) -> None:
        """End what waits for this word."""
        (self.place / enough).touch()

    def stays(self, is_asked: Callable[[Stay], bool] = lambda _: True) -> list[Stay]:
        """The attempts that have begun, the first to begin first."""
        found = [stay for path in self.place.iterdir() if (stay := self._stay(path)) is not None]
        return sorted(filter(is_asked, found), key=lambda each: each.start_s)

    def of(self, name: str) -> list[Stay]:
        return self.stays(lambda each: each.name == name)

    def check_apart(self) -> None:
        """Raise where two attempts ran on one machine at a time; each takes all of it."""
        for machine in {each.machine: None for each in self.stays()}:
            its = self.stays(lambda each, machine=machine: each.machine == machine)
            for one, next_one in pairwise(its):
                assert one.last_s < next_one.start_s, f"on {machine}: {one} and {next_one}"

    def _stay(self, path: Path) -> Stay | None:
        """What one attempt has told; None: it has not begun."""
        name, *numbers = path.name.split(",")
        lines = [line.split() for line in path.read_text().split("\n")[:-1]]
        if not numbers or not lines:
            return None
        task, attempt, place = numbers
        stamps, terms = ([float(at) for what, at in lines if what == kind] for kind in KINDS)
        return Stay(name, int(task), int(attempt), self._names[place], stamps, terms)

"""Translation of options of another batch system into those of iriai."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import ClassVar

from iriai.client.directives.block import DirectiveLine
from iriai.client.directives.option import (
    Collected,
    Given,
    Option,
    OptionValue,
    Surroundings,
    Translation,
    bad_value,
    scan,
)
from iriai.model.batch_variables import BatchSystem, VariableName

_CONDITIONS = {"afterok": "ok", "afterany": "any", "afternotok": "fail"}
_FOREIGN_ID = re.compile(r"\d[\d+_]*([.\[].*)?")
_BEGINNING = frozenset({"BEGIN", "b"})
_NEVER = frozenset({"NONE", "n", "p"})
"""What says that no mail is wanted."""
_END = frozenset({"END", "ALL", "e"})


class Translator(ABC):
    """One translation; each dialect adds what it computes from several options."""

    system: ClassVar[BatchSystem]
    command: ClassVar[str]
    names: ClassVar[Mapping[str, Option]]
    """All options, in the order in which they are followed."""
    families: ClassVar[tuple[tuple[str, ...], ...]]
    """One alone of each can be meant."""
    mail: ClassVar[tuple[str, str, str]]
    """The options for when and whom, and what separates events; empty where each is a letter."""

    def __init__(self, lines: Iterable[DirectiveLine], around: Surroundings) -> None:
        self.around = around
        self.all = Collected(around)
        self._settings: list[OptionValue] = []
        lines = list(lines)
        self._place = lines[0].place
        self.collect(given for line in lines for given in scan(line, self.names, self.command))
        self.all.check_families(self.families)

    def translation(self) -> Translation:
        """What the directives ask for.

        Raises:
            Refused: something would run differently from what the script says.
            UsageProblem: two directives contradict each other, or one has a bad value.
        """
        for given in self.all.find(*self.names):
            self.follow(given)
        variables = self.size()
        self._notify()
        self.name_files(is_array=bool(self.chosen("--array")))
        self.all.check()
        settings, warnings = tuple(self._settings), tuple(self.all.warnings)
        return Translation(settings, variables, warnings, self.interpreter(), self.system)

    def collect(self, options: Iterable[Given]) -> None:
        """Take in the options of the script."""
        for given in options:
            self.all.add(given)

    @abstractmethod
    def size(self) -> dict[VariableName, str]:
        """Set what the machine must have; returns the variables of a job of this size."""

    @abstractmethod
    def name_files(self, *, is_array: bool) -> None:
        """Set where output goes."""

    def interpreter(self) -> str:
        """The program for a script that names none."""
        return ""

    def set(self, given: Given | None, option: str, value: str | None) -> None:
        """Set an option of iriai; without `given` it is what the other system does by default."""
        self._settings.append(OptionValue(option, value, given.place if given else self._place))

    def follow(self, given: Given) -> None:
        """Set what an option asks for by itself."""
        if given.option.becomes:
            for value in given.option.read(given, self.all):
                self.set(given, given.option.becomes, value)

    def chosen(self, option: str) -> str | None:
        """An option of iriai as the command line gives it, else as the script does."""
        given = (each.value for each in self.all.given.values() if each.option.becomes == option)
        return self.around.chosen.get(option) or next(given, None)

    def chosen_number(self, option: str) -> int | None:
        """A number that the command line gives; what is wrong there is checked with it."""
        text = self.around.chosen.get(option, "")
        return int(text) if text.isdecimal() else None

    @property
    def name(self) -> str:
        """The job's."""
        return self.chosen("--name") or self._place.script.rpartition("/")[2]

    def _notify(self) -> None:
        when, whom, separator = self.mail
        for given in self.all.find(when):
            events = set(filter(None, given.value.split(separator) if separator else given.value))
            if events & _BEGINNING:
                warning = f"{given.place}: {given.text}: no mail is sent at the beginning"
                self.all.warnings.append(warning)
            events -= _BEGINNING | _NEVER
            if events:
                address = (self.all.value(whom) or self.around.user).split(",")[0]
                self.set(given, "--notify", f"mailto:{address}")
                self.set(given, "--notify-on", "end" if events & _END else "fail")


# --- values, as both write them ------------------------------------------------------------------


def whole(given: Given, text: str | None = None) -> int:
    """A number of something, 1 or more; `text` is a part of the value."""
    text = given.value if text is None else text
    if not text.isdecimal() or not 0 < int(text) < 10**9:
        raise bad_value(given, f"'{text}' is not a number", "write 1 or more")
    return int(text)


def environment(
    given: Given, found: Collected, skipped: tuple[str, ...] = ("",)
) -> Iterable[str | None]:
    """Variables, with values or of the submitter's environment."""
    for each in given.value.split(","):
        if "=" in each or each in found.around.environment:
            yield each
        elif each not in skipped:
            found.warn(given, f"the variable {each} is not set here")


def dependencies(given: Given, found: Collected) -> Iterable[str | None]:
    """`afterok:ume-1:ume-2,afterany:ume-3`."""
    if "?" in given.value:
        found.refuse(given, "one of them would not be enough: all must hold")
        return
    for each in given.value.split(","):
        kind, *ids = each.split(":")
        condition = _CONDITIONS.get(kind)
        if condition is None:
            found.refuse(given, f"'{kind}' is not a kind of dependency")
        elif any(map(_FOREIGN_ID.fullmatch, ids)):
            found.refuse(given, "a job has no number alone here: write its id, as ume-42")
        else:
            yield f"{condition}:{','.join(ids)}"

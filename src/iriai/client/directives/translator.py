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
from iriai.model.ids import parse_reservation_id
from iriai.model.problem import UsageProblem
from iriai.model.ranks import RankShape

_CONDITIONS = {"afterok": "ok", "afterany": "any", "afternotok": "fail"}
_FOREIGN_ID = re.compile(r"\d[\d+_]*([.\[].*)?")
_BEGINNING = frozenset({"BEGIN", "b"})
_NEVER = frozenset({"NONE", "n", "p"})
"""Values that request no mail."""
_SHAPE = frozenset({"--nodes", "--per-node"})
_END = frozenset({"END", "ALL", "e"})


class Translator(ABC):
    """One translation; each dialect adds values that depend on several options."""

    system: ClassVar[BatchSystem]
    command: ClassVar[str]
    names: ClassVar[Mapping[str, Option]]
    """All options, in the order of their translation."""
    families: ClassVar[tuple[tuple[str, ...], ...]]
    """Groups of options that exclude each other."""
    mail: ClassVar[tuple[str, str, str]]
    """Options for events and address of mail, and the separator of events; empty: letters."""

    def __init__(self, lines: Iterable[DirectiveLine], around: Surroundings) -> None:
        self.around = around
        self.all = Collected(around)
        self._settings: list[OptionValue] = []
        lines = list(lines)
        self._place = lines[0].place
        self.collect(given for line in lines for given in scan(line, self.names, self.command))
        self.all.check_families(self.families)

    def translation(self) -> Translation:
        """Return the translated directives.

        Raises:
            Refused: the job would run differently from what the script requests.
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
        """Collect the options of the script."""
        for given in options:
            self.all.add(given)

    @abstractmethod
    def size(self) -> dict[VariableName, str]:
        """Set the resources of the job; return its environment variables."""

    @abstractmethod
    def name_files(self, *, is_array: bool) -> None:
        """Set the files for output and errors."""

    def interpreter(self) -> str:
        """Return the interpreter for a script without `#!`."""
        return ""

    def set(self, given: Given | None, option: str, value: str | None) -> None:
        """Set an option of iriai, asked for by `given` or (None) a default of the other system."""
        self._settings.append(OptionValue(option, value, given.place if given else self._place))

    def sets_variable(self, name: str) -> bool:
        """Return whether the script sets an environment variable of its tasks."""
        values = (each.value or "" for each in self._settings if each.option == "--env")
        return any(value.partition("=")[0] == name for value in values)

    def follow(self, given: Given) -> None:
        """Set the option of iriai that `given` alone determines."""
        if given.option.becomes:
            for value in given.option.read(given, self.all):
                self.set(given, given.option.becomes, value)

    def chosen(self, option: str) -> str | None:
        """Return the value of an option of iriai on the command line, else in the script."""
        given = (each.value for each in self.all.given.values() if each.option.becomes == option)
        return self.around.chosen.get(option) or next(given, None)

    def set_ranks(self, shape: RankShape) -> None:
        """Set the ranks of a script, which runs once and starts the rest."""
        if shape.most > 1:
            self.set(None, "--ranks", shape.ranks_text)
            for option, count in (("--nodes", shape.nodes), ("--per-node", shape.per_node)):
                if count is not None:
                    self.set(None, option, str(count))
        if shape.most > 1 or self.chosen_ranks or self.around.chosen.keys() & _SHAPE:
            self.set(None, "--first", None)

    @property
    def chosen_ranks(self) -> tuple[int, int] | None:
        """Return the least and most ranks on the command line; None if absent or malformed."""
        least, _, most = self.around.chosen.get("--ranks", "").partition("-")
        is_number = least.isdecimal() and (most or least).isdecimal()
        return (int(least), int(most or least)) if is_number else None

    def chosen_number(self, option: str) -> int | None:
        """Return a number from the command line; None if it is absent or malformed."""
        text = self.around.chosen.get(option, "")
        return int(text) if text.isdecimal() else None

    @property
    def name(self) -> str:
        """Name of the job."""
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
    """Return a number, 1 or more, from the value or its part `text`; raise `UsageProblem`."""
    text = given.value if text is None else text
    if not text.isdecimal() or not 0 < int(text) < 10**9:
        raise bad_value(given, f"'{text}' is not a number", "write 1 or more")
    return int(text)


def environment(
    given: Given, found: Collected, skipped: tuple[str, ...] = ("",)
) -> Iterable[str | None]:
    """Yield variables with values, or names from the submitter's environment."""
    for each in given.value.split(","):
        if "=" in each or each in found.around.environment:
            yield each
        elif each not in skipped:
            found.warn(given, f"the variable {each} is not set here")


def reservation(given: Given, found: Collected) -> Iterable[str]:
    """Yield the reservation of a value such as `ume-r7`."""
    try:
        parse_reservation_id(given.value)
    except UsageProblem:
        found.refuse(given, "no reservation is called so here: write its id, as ume-r7")
    else:
        yield given.value


def dependencies(given: Given, found: Collected) -> Iterable[str | None]:
    """Yield the dependencies of a value such as `afterok:ume-1:ume-2,afterany:ume-3`."""
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

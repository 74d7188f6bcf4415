"""Options of another batch system: how each is treated here, and what a script gave for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from iriai.client.directives.block import DirectiveLine, ScriptPosition
from iriai.model.batch_variables import (
    VALUE_LENGTH_MAX,
    BatchSystem,
    BatchVariables,
    VariableName,
)
from iriai.model.problem import Refused, UsageProblem


class Treatment(StrEnum):
    """What becomes of a directive."""

    UNDERSTOOD = "understood"
    IGNORED = "ignored, with a warning"
    REFUSED = "refused"


class Argument(StrEnum):
    """Whether an option has a value."""

    NONE = "none"
    REQUIRED = "required"
    OPTIONAL = "optional"
    """Only after `=`."""


class Option(NamedTuple):
    """One option of another system."""

    names: tuple[str, ...]
    """The first is the one to show."""
    treatment: Treatment
    note: str
    """Understood: what it is here. Ignored: why that does no harm, or what is missing. Refused:
    what would run differently from what the script says."""
    argument: Argument = Argument.REQUIRED


class Given(NamedTuple):
    """An option as a script gives it."""

    option: Option
    value: str
    place: ScriptPosition

    @property
    def text(self) -> str:
        """As it may be written."""
        name = self.option.names[0]
        glue = "=" if name.startswith("--") else " " if name.startswith("-") else "="
        return f"{name}{glue}{self.value}" if self.value else name


class OptionValue(NamedTuple):
    """An option of iriai, from a directive."""

    option: str
    """As `--cpus`."""
    value: str | None
    """None: it takes none."""
    place: ScriptPosition

    @property
    def word(self) -> str:
        """As a word of the command line."""
        return self.option if self.value is None else f"{self.option}={self.value}"


class Surroundings(NamedTuple):
    """What a translation needs to know of the one who submits."""

    directory: str
    """Where the job is handed in."""
    user: str
    home: str
    """The user's directory, as the system knows it and tasks find it in HOME."""
    host: str
    environment: Mapping[str, str]
    chosen: Mapping[str, str]
    """Options of iriai that the command line or `#IRIAI` gives and that beat the script's:
    `--cpus`, `--array`, `--name`, `--memory`, `--gpus`, each as text."""
    is_directory: Callable[[str], bool]


class Translation(NamedTuple):
    """What the directives of another system are here."""

    settings: tuple[OptionValue, ...] = ()
    variables: Mapping[VariableName, str] = {}
    """Of the task's environment, known at submission; see `variables`."""
    warnings: tuple[str, ...] = ()
    interpreter: str = ""
    """What runs a script that names none itself."""
    system: BatchSystem | None = None
    """Whose directives they are; None: there were none."""

    @property
    def batch(self) -> BatchVariables | None:
        """System and variables as a job carries them, without values that are too long for it."""
        if self.system is None:
            return None
        kept = (each for each in self.variables.items() if len(each[1]) <= VALUE_LENGTH_MAX)
        return BatchVariables(self.system, tuple(kept))


_BEGINNING = frozenset({"BEGIN", "b"})
_NEVER = frozenset({"NONE", "n", "p"})
"""What says that no mail is wanted."""


def by_name(options: Iterable[Option]) -> dict[str, Option]:
    """Each option by each of its names."""
    return {name: option for option in options for name in option.names}


def contradiction(first: Given, second: Given) -> UsageProblem:
    """Two directives that cannot both be meant."""
    return UsageProblem(
        "contradicting-directives",
        f"{first.place}: {first.text} contradicts line {second.place.number}: {second.text}",
        "leave one of them out",
    )


def bad_value(given: Given, why: str, hint: str) -> UsageProblem:
    """A value that its own batch system would not understand."""
    return UsageProblem("bad-directive", f"{given.place}: {given.text}: {why}", hint)


def refused(refusals: Sequence[tuple[Given, str]]) -> Refused:
    """Directives that cannot be followed, each with the reason; at least one."""
    script = refusals[0][0].place.script
    told = [f"line {given.place.number}: {given.text}: {why}" for given, why in refusals]
    return Refused(
        "directive",
        f"{script}, {'; '.join(told)}",
        "change the script, or say --no-directives to read none of them",
    )


def check_families(given: Mapping[str, Given], families: Iterable[tuple[str, ...]]) -> None:
    """Raise `UsageProblem` where two options are given of which one alone can be meant."""
    for family in families:
        found = [given[name] for name in family if name in given]
        if len(found) > 1:
            raise contradiction(*sorted(found[:2], key=lambda each: each.place.number))


class Collected:
    """The options of a script by name, sorted by what becomes of them."""

    def __init__(self) -> None:
        self.given: dict[str, Given] = {}
        self.warnings: list[str] = []
        self.refusals: list[tuple[Given, str]] = []

    def add(self, given: Given) -> None:
        """Take one in; the same again is nothing new, another value a contradiction."""
        name = given.option.names[0]
        before = self.given.get(name)
        if before is not None and before.value != given.value:
            raise contradiction(before, given)
        if before is not None:
            return
        self.given[name] = given
        if given.option.treatment is Treatment.IGNORED:
            self.warn(given, given.option.note)
        elif given.option.treatment is Treatment.REFUSED:
            self.refusals.append((given, given.option.note))

    def value(self, name: str) -> str | None:
        """What was given for `name`."""
        found = self.given.get(name)
        return None if found is None else found.value

    def warn(self, given: Given, why: str) -> None:
        """Ignore one, and say so."""
        self.warnings.append(f"{given.place}: {given.text} is ignored: {why}")

    def refuse(self, given: Given, why: str) -> None:
        """Refuse one."""
        self.refusals.append((given, why))

    def mail(
        self, when: str, whom: str, events: tuple[frozenset[str], str], user: str
    ) -> list[OptionValue]:
        """Settings for mail, from the options `when` and `whom`.

        `events` are those that tell of every end, and what separates them; any other tells of
        failures at most, and of the beginning nobody is told.
        """
        given = self.given.get(when)
        if given is None:
            return []
        every, separator = events
        asked = set(filter(None, given.value.split(separator) if separator else given.value))
        if asked & _BEGINNING:
            self.warnings.append(f"{given.place}: {given.text}: no mail is sent at the beginning")
        asked -= _BEGINNING | _NEVER
        if not asked:
            return []
        address = (self.value(whom) or user).split(",")[0]
        return [
            OptionValue("--notify", f"mailto:{address}", given.place),
            OptionValue("--notify-on", "end" if asked & every else "fail", given.place),
        ]

    def check(self) -> None:
        """Raise `Refused` where something was."""
        if self.refusals:
            raise refused(sorted(self.refusals, key=lambda each: each[0].place.number))


def unknown(line: DirectiveLine, word: str, system: str) -> UsageProblem:
    """A word that its own batch system would not understand."""
    return UsageProblem(
        "bad-directive",
        f"{line.place}: '{word}' is not an option of {system}",
        "correct it, or say --no-directives to read none",
    )


def without_value(line: DirectiveLine, name: str) -> UsageProblem:
    """An option that ends where its value should be."""
    return UsageProblem(
        "bad-directive", f"{line.place}: {name} needs a value", "write one after it"
    )

"""Options of another batch system: how each is treated, and its values in a script."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
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

Reader = Callable[["Given", "Collected"], Iterable[str | None]]
"""The values of an option of iriai that an option of a script asks for, None where it takes none;
warns and refuses in what the script gave together with it."""


def as_written(given: Given, _: Collected) -> Iterable[str | None]:
    """The value itself."""
    return (None if given.option.argument is Argument.NONE else given.value,)


class Treatment(StrEnum):
    """The treatment of a directive."""

    UNDERSTOOD = "understood"
    IGNORED = "ignored, with a warning"
    REFUSED = "refused"


class Argument(StrEnum):
    """Whether an option has a value, as manual pages write it behind the option's name."""

    NONE = ""
    REQUIRED = "="
    OPTIONAL = "[=]"
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
    becomes: str = ""
    """The option of iriai that it alone decides; empty where others count with it."""
    read: Reader = as_written


def understood(spec: str, note: str, becomes: str = "", read: Reader = as_written) -> Option:
    """An option that is followed; `spec` is as `--exclusive[=] -x`, a value only where it says."""
    first, *others = spec.split()
    name = first.rstrip("[=]")
    argument = Argument(first[len(name) :])
    return Option((name, *others), Treatment.UNDERSTOOD, note, argument, becomes, read)


def ignored(note: str, specs: str) -> tuple[Option, ...]:
    """Options that are ignored for one reason; `specs` has a comma between two."""
    return _alike(Treatment.IGNORED, note, specs)


def refused(note: str, specs: str) -> tuple[Option, ...]:
    """Options that are refused for one reason."""
    return _alike(Treatment.REFUSED, note, specs)


def _alike(treatment: Treatment, note: str, specs: str) -> tuple[Option, ...]:
    return tuple(understood(e, note)._replace(treatment=treatment) for e in specs.split(", "))


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
    """Where the job is submitted."""
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
    """The directives of another system, translated."""

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


def by_name(options: Iterable[Option]) -> dict[str, Option]:
    """Each option by each of its names."""
    return {name: option for option in options for name in option.names}


def contradiction(*two: Given) -> UsageProblem:
    """Two directives that cannot both be meant."""
    first, second = sorted(two, key=lambda each: each.place.number)
    return UsageProblem(
        "contradicting-directives",
        f"{first.place}: {first.text} contradicts line {second.place.number}: {second.text}",
        "leave one of them out",
    )


def bad_value(given: Given, why: str, hint: str) -> UsageProblem:
    """A value that its own batch system would not understand."""
    return UsageProblem("bad-directive", f"{given.place}: {given.text}: {why}", hint)


class Collected:
    """The options of a script by name, sorted by what becomes of them."""

    def __init__(self, around: Surroundings) -> None:
        self.around = around
        self.given: dict[str, Given] = {}
        self.warnings: list[str] = []
        self.refusals: list[tuple[Given, str]] = []

    def part(self) -> Collected:
        """Options with names of their own, whose warnings and refusals are counted here."""
        part = Collected(self.around)
        part.warnings, part.refusals = self.warnings, self.refusals
        return part

    def add(self, given: Given) -> None:
        """Take one in; the same again is nothing new, another value a contradiction."""
        before = self.given.setdefault(given.option.names[0], given)
        if before.value != given.value:
            raise contradiction(before, given)
        if before is not given:
            return
        if given.option.treatment is Treatment.IGNORED:
            self.warn(given, given.option.note)
        elif given.option.treatment is Treatment.REFUSED:
            self.refuse(given, given.option.note)

    def find(self, *names: str) -> list[Given]:
        """Those of `names` that were given, in this order."""
        return [self.given[name] for name in names if name in self.given]

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

    def check_families(self, families: Iterable[tuple[str, ...]]) -> None:
        """Raise `UsageProblem` where two options are given of which one alone can be meant."""
        for family in families:
            if len(found := self.find(*family)) > 1:
                raise contradiction(*found[:2])

    def check(self) -> None:
        """Raise `Refused` where something was."""
        if self.refusals:
            refusals = sorted(self.refusals, key=lambda each: each[0].place.number)
            told = [f"line {given.place.number}: {given.text}: {why}" for given, why in refusals]
            raise Refused(
                "directive",
                f"{refusals[0][0].place.script}, {'; '.join(told)}",
                "change the script, or use --no-directives to ignore all of them",
            )


def scan(line: DirectiveLine, known: Mapping[str, Option], command: str) -> Iterator[Given]:
    """The options of one line, as `command` reads them: `--nodes 1`, `--nodes=1`, `-N1`, `-HN 1`.

    Raises:
        UsageProblem: `command` has no such option, or one lacks its value.
    """
    words = iter(line.words)
    for word in words:
        name, equals, value = word.partition("=")
        is_short = word.startswith("-") and not word.startswith("--")
        if is_short:
            name, equals, value = word[:2], "", word[2:]
        option = _find(known, name, line, command)
        while is_short and value and option.argument is Argument.NONE:
            yield Given(option, "", line.place)
            name, value = f"-{value[0]}", value[1:]
            option = _find(known, name, line, command)
        if option.argument is Argument.REQUIRED and not (value or equals):
            following = next(words, None)
            if following is None:
                raise UsageProblem(
                    "bad-directive", f"{line.place}: {name} needs a value", "write one after it"
                )
            value = following
        yield Given(option, value, line.place)


def _find(known: Mapping[str, Option], name: str, line: DirectiveLine, command: str) -> Option:
    try:
        return known[name]
    except KeyError:
        raise UsageProblem(
            "bad-directive",
            f"{line.place}: '{name}' is not an option of {command}",
            "correct it, or use --no-directives to ignore all",
        ) from None

"""Options of another batch system: their treatment, and their values in a script."""

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
"""Returns the values of an option of iriai for an option of a script; None for an option without
value. Adds warnings and refusals to the collected options."""


def as_written(given: Given, _: Collected) -> Iterable[str | None]:
    """Return the value unchanged."""
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
    """A value is given only after `=`."""


class Option(NamedTuple):
    """One option of another system."""

    names: tuple[str, ...]
    """All names; the first is shown in messages."""
    treatment: Treatment
    note: str
    """Understood: the equivalent here. Ignored: the reason why that does no harm, or the missing
    feature. Refused: how the job would differ from the script."""
    argument: Argument = Argument.REQUIRED
    becomes: str = ""
    """The option of iriai that it alone determines; empty if several options determine it."""
    read: Reader = as_written


def understood(spec: str, note: str, becomes: str = "", read: Reader = as_written) -> Option:
    """Return an option that is translated; `spec` is as `--exclusive[=] -x`."""
    first, *others = spec.split()
    name = first.rstrip("[=]")
    argument = Argument(first[len(name) :])
    return Option((name, *others), Treatment.UNDERSTOOD, note, argument, becomes, read)


def ignored(note: str, specs: str) -> tuple[Option, ...]:
    """Return options that are ignored for one reason; `specs` are separated by commas."""
    return _alike(Treatment.IGNORED, note, specs)


def refused(note: str, specs: str) -> tuple[Option, ...]:
    """Return options that are refused for one reason."""
    return _alike(Treatment.REFUSED, note, specs)


def _alike(treatment: Treatment, note: str, specs: str) -> tuple[Option, ...]:
    return tuple(understood(e, note)._replace(treatment=treatment) for e in specs.split(", "))


class Given(NamedTuple):
    """An option in a script."""

    option: Option
    value: str
    place: ScriptPosition

    @property
    def text(self) -> str:
        """Option and value as they may be written in a script."""
        name = self.option.names[0]
        glue = "=" if name.startswith("--") else " " if name.startswith("-") else "="
        return f"{name}{glue}{self.value}" if self.value else name


class OptionValue(NamedTuple):
    """An option of iriai, from a directive."""

    option: str
    """Name of the option, as `--cpus`."""
    value: str | None
    """None for an option without value."""
    place: ScriptPosition

    @property
    def word(self) -> str:
        """Option and value as one word of a command line."""
        return self.option if self.value is None else f"{self.option}={self.value}"


class Surroundings(NamedTuple):
    """Facts about the submission that a translation needs."""

    directory: str
    """Directory in which the job is submitted."""
    user: str
    home: str
    """Home directory of the user according to the system, as in HOME of a task."""
    host: str
    environment: Mapping[str, str]
    chosen: Mapping[str, str]
    """Options of iriai from the command line or `#IRIAI`, which take precedence over the script's:
    `--cpus`, `--array`, `--name`, `--memory`, `--gpus`, `--ranks`, `--nodes`, `--per-node`, each as
    text."""
    is_directory: Callable[[str], bool]


class Translation(NamedTuple):
    """The directives of another system, translated."""

    settings: tuple[OptionValue, ...] = ()
    variables: Mapping[VariableName, str] = {}
    """Environment variables of a task that are known at submission."""
    warnings: tuple[str, ...] = ()
    interpreter: str = ""
    """Interpreter for a script without `#!`; empty: the default."""
    system: BatchSystem | None = None
    """The system of the directives; None if there are none."""

    @property
    def batch(self) -> BatchVariables | None:
        """System and variables for the job draft, without values that are too long."""
        if self.system is None:
            return None
        kept = (each for each in self.variables.items() if len(each[1]) <= VALUE_LENGTH_MAX)
        return BatchVariables(self.system, tuple(kept))


def by_name(options: Iterable[Option]) -> dict[str, Option]:
    """Return a dictionary from each name to its option."""
    return {name: option for option in options for name in option.names}


def contradiction(*two: Given) -> UsageProblem:
    """Return the problem of two directives that contradict each other."""
    first, second = sorted(two, key=lambda each: each.place.number)
    return UsageProblem(
        "contradicting-directives",
        f"{first.place}: {first.text} contradicts line {second.place.number}: {second.text}",
        "leave one of them out",
    )


def bad_value(given: Given, why: str, hint: str) -> UsageProblem:
    """Return the problem of a value that its own batch system would refuse."""
    return UsageProblem("bad-directive", f"{given.place}: {given.text}: {why}", hint)


class Collected:
    """The options of a script by name, with warnings and refusals."""

    def __init__(self, around: Surroundings) -> None:
        self.around = around
        self.given: dict[str, Given] = {}
        self.warnings: list[str] = []
        self.refusals: list[tuple[Given, str]] = []

    def part(self) -> Collected:
        """Return a collection with names of its own that shares warnings and refusals with this."""
        part = Collected(self.around)
        part.warnings, part.refusals = self.warnings, self.refusals
        return part

    def add(self, given: Given) -> None:
        """Add an option; raise `UsageProblem` if it was given with another value before."""
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
        """Return the given options among `names`, in this order."""
        return [self.given[name] for name in names if name in self.given]

    def value(self, name: str) -> str | None:
        """Return the value of `name`; None if it was not given."""
        found = self.given.get(name)
        return None if found is None else found.value

    def warn(self, given: Given, why: str) -> None:
        """Add a warning that the option is ignored."""
        self.warnings.append(f"{given.place}: {given.text} is ignored: {why}")

    def refuse(self, given: Given, why: str) -> None:
        """Add a refusal of the option."""
        self.refusals.append((given, why))

    def check_families(self, families: Iterable[tuple[str, ...]]) -> None:
        """Raise `UsageProblem` if two options of a family are given."""
        for family in families:
            if len(found := self.find(*family)) > 1:
                raise contradiction(*found[:2])

    def check(self) -> None:
        """Raise `Refused` if an option was refused."""
        if self.refusals:
            refusals = sorted(self.refusals, key=lambda each: each[0].place.number)
            texts = [f"line {given.place.number}: {given.text}: {why}" for given, why in refusals]
            raise Refused(
                "directive",
                f"{refusals[0][0].place.script}, {'; '.join(texts)}",
                "change the script, or use --no-directives to ignore all of them",
            )


def scan(line: DirectiveLine, known: Mapping[str, Option], command: str) -> Iterator[Given]:
    """Yield the options of one line as `command` parses them: `--nodes 1`, `-N1`, `-HN 1`.

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

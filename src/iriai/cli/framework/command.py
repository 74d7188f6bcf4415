"""Functions as commands: the options and arguments that they declare, and how they are called."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, cast

import msgspec

from iriai.cli.framework.standard_streams import complain, print_document, reader_gone
from iriai.model.problem import Problem

if TYPE_CHECKING:
    from pathlib import Path
    from typing import TypeVar

    import typer

    from iriai.client.client import Client
    from iriai.wire.exchange import ClientAnswer, ClientRequest

    _A = TypeVar("_A", bound=ClientAnswer)


class Parameter:
    """The default of a function's parameter that is an option or an argument of its command."""

    __slots__ = ("default", "is_argument", "names", "settings")

    def __init__(
        self,
        default: object,
        names: tuple[str, ...],
        settings: dict[str, Any],
        *,
        is_argument: bool,
    ) -> None:
        self.default = default
        """Its value if it is not given; `...` if it has to be."""
        self.names = names
        """As they are typed; none: made of the parameter's name."""
        self.settings = settings
        """Metavariable, help and the like, as Typer calls them. `min` and `max` bound a number;
        `autocompletion` may be the name of a function of `framework.completion`."""
        self.is_argument = is_argument


def option(default: object, *names: str, **settings: object) -> Any:  # noqa: ANN401 - its value
    """Declare an option."""
    return Parameter(default, names, settings, is_argument=False)


def argument(default: object, **settings: object) -> Any:  # noqa: ANN401 - its value
    """Declare an argument."""
    return Parameter(default, (), settings, is_argument=True)


def options_under(panel: str) -> Callable[..., Any]:
    """Return `option` for options that help pages list under the heading `panel`."""
    return partial(option, rich_help_panel=panel)


class OptionGroup(msgspec.Struct, frozen=True):
    """Several options that are one parameter of a command: each field is an option."""


class Declared(msgspec.Struct, frozen=True):
    """One option or argument of a command."""

    name: str
    kind: str
    """Its type as it is written."""
    parameter: Parameter

    @property
    def names(self) -> tuple[str, ...]:
        """Its names as they are typed; of a switch that can be negated both, after a `/`."""
        if self.parameter.names:
            return self.parameter.names
        name = self.name.replace("_", "-")
        return (f"--{name}/--no-{name}" if self.is_switch else f"--{name}",)

    @property
    def is_switch(self) -> bool:
        """Whether it takes no value."""
        return self.kind.removesuffix(" | None") == "bool"


def declared_by(
    names: tuple[str, ...], defaults: tuple[object, ...], kinds: dict[str, str]
) -> list[Declared]:
    """Return what parameters declare, of which the last have `defaults`."""
    with_default = names[len(names) - len(defaults) :]
    return [
        Declared(name, kinds[name], default)
        for name, default in zip(with_default, defaults, strict=True)
        if isinstance(default, Parameter)
    ]


PANEL = "Everywhere"
"""Heading of the global options."""
_everywhere = options_under(PANEL)


class GlobalOptions(OptionGroup, frozen=True):
    """Global options, before or after the command; those after it win."""

    state: Path | None = _everywhere(
        None,
        metavar="DIR",
        help="State directory of the daemon to use. \\[default: $IRIAI_STATE, else your own "
        "(~/.local/state/iriai), else the machine's (/var/lib/iriai)]",
    )
    as_json: bool = _everywhere(False, "--json", help="Print one JSON document, errors included.")

    def within(self, outer: object) -> GlobalOptions:
        """Return these options, completed by those before the command."""
        if not isinstance(outer, GlobalOptions):
            return self
        return GlobalOptions(self.state or outer.state, self.as_json or outer.as_json)

    @property
    def directory(self) -> str:
        """The state directory of this machine's own daemon."""
        from iriai.model.paths import state_directory

        state = None if self.state is None else str(self.state)
        return state_directory(state, os.environ, os.geteuid())

    def local_directories(self) -> tuple[str, ...]:
        """Return the state directories that `connect` tries; none if it uses a token."""
        from iriai.client.client import local_directories

        return local_directories(self.state)

    def connect(self, *, follow: bool = True) -> Client:
        """Connect to the daemon; see `Client.connect`."""
        from iriai.client.client import Client

        return Client.connect(self.state, follow=follow)

    def ask(self, request: ClientRequest[_A], *, follow: bool = True) -> _A:
        """Return the daemon's answer to `request`, over a connection of its own."""
        with self.connect(follow=follow) as client:
            return client.ask(request)

    def print_result(self, document: object, text: str | Callable[[], object]) -> None:
        """Print `text`, or call it to print; with --json print `document` instead."""
        if self.as_json:
            print_document(document)
        elif isinstance(text, str):
            print(text)
        else:
            text()


MACHINE = "The machine"
"""Heading of the commands about machines, in help."""

Function = Callable[..., int | None]
"""The function behind a command; returns the exit code, None is 0."""
Example = tuple[str, str]
"""A command line, and its explanation."""
WORDS = "words"
"""Name of the parameter that takes the words of a command."""


class Invocation(msgspec.Struct, frozen=True):
    """How a command was called, for a function that has such a parameter."""

    given: list[str]
    """All words after the name of the command."""
    has_dashes: bool
    """Whether `--` precedes the words of its parameter `words`."""
    meta: dict[str, Any]
    """What an earlier call for the same command line has left."""
    context: Callable[[], typer.Context]
    """Returns what Typer knows of the call."""


def has_dashes(given: Sequence[str], words: Sequence[str] | None) -> bool:
    """Return whether `--` stands before the last of `given`, which are `words`."""
    place = len(given) - len(words or ()) - 1
    return bool(words) and place >= 0 and given[place] == "--"


class Command:
    """One command, named like its function.

    A parameter of the function whose type is an `OptionGroup` stands for each of its options, one
    of type `Invocation` for the call itself. A problem that is raised is reported, and becomes an
    exit code. With `takes_command`, everything after the first word that is not an option belongs
    to that word.
    """

    def __init__(self, function: Function, *examples: Example, takes_command: bool = False) -> None:
        self.function = function
        self.examples = examples
        self.takes_command = takes_command

    @cached_property
    def groups(self) -> dict[str, type[OptionGroup]]:
        """The groups of options, by their parameters."""
        function = cast("Any", self.function)
        types = {
            name: function.__globals__.get(kind) for name, kind in function.__annotations__.items()
        }
        return {
            name: kind
            for name, kind in types.items()
            if isinstance(kind, type) and issubclass(kind, OptionGroup)
        }

    @cached_property
    def kinds(self) -> list[Declared]:
        """An option `--KIND AMOUNT` for each kind of resource that has a name."""
        like = next((each.parameter for each in self._declared if each.name == "resource"), None)
        if like is None:
            return []
        from iriai.model.resources import NAMED_KINDS

        found = []
        for kind in NAMED_KINDS.values():
            metavar = "SIZE" if kind.unit == "bytes" else "N"
            settings = like.settings | {"metavar": metavar, "help": kind.help}
            found.append(
                Declared(kind.name, "str | None", Parameter(None, (), settings, is_argument=False))
            )
        return found

    @property
    def declared(self) -> list[Declared]:
        """All options and arguments, in the order of the help page: global ones last."""
        return self._declared + self.kinds

    @cached_property
    def _declared(self) -> list[Declared]:
        function = cast("Any", self.function)
        count = function.__code__.co_argcount
        names, kinds = function.__code__.co_varnames[:count], function.__annotations__
        own = {each.name: [each] for each in declared_by(names, function.__defaults__ or (), kinds)}
        for name, group in self.groups.items():
            own[name] = declared_by(
                group.__struct_fields__, group.__struct_defaults__, group.__annotations__
            )
        last = [name for name in names if self.groups.get(name) is GlobalOptions]
        order = [name for name in names if name in own and name not in last] + last
        return [each for name in order for each in own[name]]

    def call(self, values: dict[str, Any], outer: object, invocation: Invocation) -> int | None:
        """Call the function with `values` of all that is declared; return the exit code.

        `outer` are the global options before the command.
        """
        as_json = False
        given = dict(values)
        asked = [(each.name, given.pop(each.name)) for each in self.kinds]
        if amounts := [f"{name}={amount}" for name, amount in asked if amount is not None]:
            given["resource"] = [*(given["resource"] or ()), *amounts]
        for name, group in self.groups.items():
            value = group(**{each: given.pop(each) for each in group.__struct_fields__})
            if isinstance(value, GlobalOptions):
                value = value.within(outer)
                as_json = value.as_json
            given[name] = value
        for name, kind in self.function.__annotations__.items():
            if kind == Invocation.__name__:
                given[name] = invocation
        try:
            return self.function(**given)
        except Problem as problem:
            complain(problem, as_json=as_json)
            return problem.exit_code
        except BrokenPipeError:
            return reader_gone()


class CommandGroup:
    """Several commands under one name; `text` is their help."""

    def __init__(self, text: str, commands: Mapping[Function, Sequence[Example]]) -> None:
        self.text = text
        self.commands = {
            function.__name__: Command(function, *examples)
            for function, examples in commands.items()
        }

"""Turns functions into commands: options in groups, problems reported, examples in help."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_type_hints

import typer
from typer.core import TyperCommand
from typer.models import ParameterInfo

from iriai.cli.framework.standard_streams import complain, print_document, reader_gone
from iriai.model.paths import state_directory
from iriai.model.problem import Problem

if TYPE_CHECKING:
    from typing import TypeVar

    from iriai.client.client import Client
    from iriai.wire.exchange import ClientAnswer, ClientRequest

    _A = TypeVar("_A", bound=ClientAnswer)


def options_under(panel: str) -> Callable[..., Any]:
    """Return `typer.Option` for options that help pages list under the heading `panel`."""
    return partial(typer.Option, rich_help_panel=panel)


PANEL = "Everywhere"
"""Heading of the global options."""
_everywhere = options_under(PANEL)


@dataclass(frozen=True, slots=True)
class GlobalOptions:
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

EXAMPLE_COLUMNS = 74
"""Columns of an example and its explanation: 80 with margins."""

Command = Callable[..., int | None]
"""The function behind a command; returns the exit code, None is 0."""
Example = tuple[str, str]
"""A command line, and its explanation."""


DASHES = "iriai.dashes"
"""Key in the context's `meta`: whether `--` precedes the words of a command."""
GIVEN = "iriai.given"
"""Key in the context's `meta`: all words after the name of the command."""
WORDS = "words"
"""Name of the parameter that takes the words of a command."""


class WordsCommand(TyperCommand):
    """A command that takes the words of another command."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Record whether `--` preceded the words, which parsing forgets."""
        given = ctx.meta[GIVEN] = list(args)
        rest = super().parse_args(ctx, args)
        words = ctx.params[WORDS] or ()
        place = len(given) - len(words) - 1
        ctx.meta[DASHES] = bool(words) and place >= 0 and given[place] == "--"
        return rest


def command_app(function: Command, *examples: Example, takes_command: bool = False) -> typer.Typer:
    """Return an application of this one command, named like the function.

    With `takes_command`, everything after the first word that is not an option belongs to that
    word.
    """
    app = typer.Typer(add_completion=False, rich_markup_mode="rich")
    register = app.command(
        function.__name__,
        cls=WordsCommand if takes_command else None,
        epilog=examples_text(examples),
        context_settings={"allow_interspersed_args": not takes_command},
    )
    register(flattened(function))
    return app


def group_app(text: str, commands: Mapping[Command, Sequence[Example]]) -> typer.Typer:
    """Return an application of several commands, each with its examples; `text` is its help."""
    app = typer.Typer(help=text, add_completion=False, rich_markup_mode="rich")
    for function, examples in commands.items():
        app.command(function.__name__, epilog=examples_text(examples), rich_help_panel=MACHINE)(
            flattened(function)
        )
    return app


def examples_text(examples: Sequence[Example]) -> str:
    """Return the examples as the end of a help page, in lines that fit into 80 columns."""
    widths = [len(line) for line, why in examples if len(line) + len(why) < EXAMPLE_COLUMNS]
    width = max(widths, default=0)
    lines = ["[bold]Examples[/]"]
    for line, why in examples:
        shown = f"  [cyan]{line.replace('[', chr(92) + '[')}[/]"
        fits = max(len(line), width) + len(why) < EXAMPLE_COLUMNS
        lines.append(
            f"{shown}{' ' * (width - len(line))}  {why}" if fits else f"{shown}\n      {why}"
        )
    return "\n".join(lines)


def flattened(function: Command) -> Callable[..., int | None]:
    """Return `function` as Typer wants it: with the options of its groups one by one.

    A parameter whose type is a dataclass is a group: each of its fields becomes an option. A
    parameter `ctx` is Typer's context. A problem that is raised is reported, and becomes an exit
    code.
    """
    hints = get_type_hints(function)
    hints.pop("return", None)
    wants_context = hints.pop("ctx", None) is not None
    groups: dict[str, type] = {
        name: hint for name, hint in hints.items() if isinstance(hint, type) and is_dataclass(hint)
    }
    parameters = [_keyword("ctx", typer.Context, inspect.Parameter.empty)]
    for each in _with_globals_last(function, hints):
        if each.name in groups:
            parameters += _parameters_of(groups[each.name])
        else:
            parameters.append(_keyword(each.name, hints[each.name], each.default))
    kinds = _kind_parameters(parameters)
    parameters += kinds

    def run(ctx: typer.Context, **flat: object) -> int | None:
        as_json = False
        asked = [(each.name, flat.pop(each.name)) for each in kinds]
        if given := [f"{name}={amount}" for name, amount in asked if amount is not None]:
            flat["resource"] = [*cast("list[str]", flat["resource"] or []), *given]
        for name, group in groups.items():
            value = group(**{each.name: flat.pop(each.name) for each in fields(group)})
            if isinstance(value, GlobalOptions):
                value = value.within(ctx.obj)
                as_json = value.as_json
            flat[name] = value
        if wants_context:
            flat["ctx"] = ctx
        try:
            return function(**flat)
        except Problem as problem:
            complain(problem, as_json=as_json)
            return problem.exit_code
        except BrokenPipeError:
            return reader_gone()

    run.__doc__ = _joined_paragraphs(inspect.getdoc(function) or "")
    run.__name__ = function.__name__
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


def _joined_paragraphs(text: str) -> str:
    """Return `text` with each paragraph in one line, for terminals of any width."""
    return "\n\n".join(each.replace("\n", " ") for each in text.split("\n\n"))


def _with_globals_last(function: Command, hints: dict[str, object]) -> list[inspect.Parameter]:
    """Return the parameters that become options: those of the command first."""
    found = [each for each in inspect.signature(function).parameters.values() if each.name in hints]
    return sorted(found, key=lambda each: hints[each.name] is GlobalOptions)


def _parameters_of(group: type) -> list[inspect.Parameter]:
    kinds = get_type_hints(group)
    return [_keyword(each.name, kinds[each.name], each.default) for each in fields(group)]


def _kind_parameters(parameters: list[inspect.Parameter]) -> list[inspect.Parameter]:
    """Return an option `--KIND AMOUNT` for each kind of resource that has a name."""
    like = next((each.default for each in parameters if each.name == "resource"), None)
    if like is None:
        return []
    from iriai.model.resources import NAMED_KINDS

    found = []
    for kind in NAMED_KINDS.values():
        option = copy(like)
        option.metavar, option.help = "SIZE" if kind.unit == "bytes" else "N", kind.help
        found.append(_keyword(kind.name, str | None, option))
    return found


def _keyword(name: str, annotation: object, default: object) -> inspect.Parameter:
    """Return a parameter; its help shows a default only if there is one to show."""
    if isinstance(default, ParameterInfo) and default.default in (..., None, ""):
        default.show_default = False
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default
    )

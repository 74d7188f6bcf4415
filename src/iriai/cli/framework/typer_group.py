"""All commands as Typer has them: for help, completion, mistakes, and what is not ordinary."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command
from typer.models import ParameterInfo

from iriai.cli.framework import completion
from iriai.cli.framework.command import (
    MACHINE,
    WORDS,
    Command,
    CommandGroup,
    Declared,
    Example,
    GlobalOptions,
    Invocation,
    has_dashes,
)
from iriai.cli.framework.registry import COMMANDS, FOLDERS, ROOT, load, show_version
from iriai.cli.framework.standard_streams import complain
from iriai.model.problem import ExitCode, Problem, UsageProblem

if TYPE_CHECKING:
    from collections.abc import Callable

EXAMPLE_COLUMNS = 74
"""Columns of an example and its explanation: 80 with margins."""
GIVEN = "iriai.given"
"""Key in the context's `meta`: all words after the name of the command."""

_HELP = """\
Share the computers of a laboratory fairly.

Submit work with [bold]run[/] or [bold]submit[/]; iriai draws whose turn it is, by what each \
account has used, and runs it on this machine.
"""


class _Command(TyperCommand):
    """A command that keeps its words as they were given."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        ctx.meta[GIVEN] = list(args)
        return super().parse_args(ctx, args)


class _LazyGroup(TyperGroup):
    """The commands of `COMMANDS`, each loaded on first use."""

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        """Return all names, in the order of the help page."""
        return list(COMMANDS)

    def get_command(  # type: ignore[override]
        self, ctx: typer.Context, cmd_name: str
    ) -> TyperCommand | TyperGroup | None:
        """Return the command `cmd_name`, or None."""
        if cmd_name not in COMMANDS:
            return None
        command = cast("TyperCommand | TyperGroup", get_command(_app(load(cmd_name))))
        command.name = cmd_name
        command.rich_help_panel = FOLDERS[COMMANDS[cmd_name].split(".")[2]][0]
        return command


def root_command() -> TyperGroup:
    """Return the command `iriai`, with all others below it."""
    app = typer.Typer(
        cls=_LazyGroup, rich_markup_mode="rich", epilog=examples_text(ROOT.examples), help=_HELP
    )
    app.callback(invoke_without_command=True)(_declaring(_call_root, ROOT))
    command = cast("TyperGroup", get_command(app))
    # Their names alone are used, for suggestions after a typing error.
    command.commands = dict.fromkeys(COMMANDS, TyperCommand(None))
    return command


def run_by_typer(words: Sequence[str]) -> int:
    """Run the command in `words`; return the exit code, or raise as Typer does."""
    result = root_command().main(args=list(words), prog_name="iriai", standalone_mode=False)
    return int(result or 0)


def context_of(options: GlobalOptions, name: str, given: Sequence[str]) -> typer.Context:
    """Return what Typer knows of the command `name` with the words `given` after `options`."""
    root = root_command()
    outer = root.make_context("iriai", [name, *given])
    outer.obj = options
    command = cast("TyperCommand", root.get_command(outer, name))
    return cast("typer.Context", command.make_context(name, list(given), parent=outer))


def exit_code_of(error: Exception, *, as_json: bool) -> int | None:
    """Report what Typer found wrong, and return its exit code; None for other errors."""
    if isinstance(error, typer.TyperException):
        complain(_usage_problem(error), as_json=as_json)
        return ExitCode.USAGE
    if isinstance(error, EOFError):
        print(file=sys.stderr)  # the question is still in the line
    if isinstance(error, typer.Abort | EOFError):  # it was not answered
        complain(Problem("interrupted", "interrupted: nothing was changed"), as_json=False)
        return 130
    return None


def _usage_problem(error: typer.TyperException) -> UsageProblem:
    context = getattr(error, "ctx", None)
    command = getattr(context, "command_path", "iriai")
    message, _, guess = error.format_message().rstrip(".").partition(". Did you mean ")
    hint = f"see '{command} --help'"
    if guess:
        hint = f"did you mean {guess} {hint}"
    return UsageProblem("usage", message[:1].lower() + message[1:], hint)


def _app(command: Command | CommandGroup) -> typer.Typer:
    """Return an application of one command, or of a group of them."""
    if isinstance(command, Command):
        app = typer.Typer(add_completion=False, rich_markup_mode="rich")
        _register(app, command)
        return app
    app = typer.Typer(help=command.text, add_completion=False, rich_markup_mode="rich")
    for each in command.commands.values():
        _register(app, each, rich_help_panel=MACHINE)
    app.callback()(lambda: None)  # else a group of one command would be that command
    return app


def _register(app: typer.Typer, command: Command, **settings: Any) -> None:  # noqa: ANN401
    def call(ctx: typer.Context, **values: object) -> int | None:
        given = ctx.meta[GIVEN]
        words = cast("list[str] | None", values.get(WORDS))
        invocation = Invocation(given, has_dashes(given, words), ctx.meta, lambda: ctx)
        return command.call(values, ctx.obj, invocation)

    app.command(
        command.function.__name__,
        cls=_Command,
        epilog=examples_text(command.examples),
        context_settings={"allow_interspersed_args": not command.takes_command},
        **settings,
    )(_declaring(call, command))


def _call_root(
    ctx: typer.Context,
    *,
    version: bool,
    **options: Any,  # noqa: ANN401
) -> int | None:
    ctx.obj = GlobalOptions(**options)
    if version:
        ctx.exit(show_version())
    if ctx.invoked_subcommand is None:
        ctx.get_help()
    return 0


def _declaring(call: Callable[..., int | None], command: Command) -> Callable[..., int | None]:
    """Return `call` with the signature that Typer reads: what `command` declares, one by one."""
    types: dict[str, object] = dict.fromkeys((each.name for each in command.kinds), str | None)
    for holder in (*command.groups.values(), command.function):
        types |= get_type_hints(holder, localns={"Path": Path, "Invocation": Invocation})
    parameters = [_keyword("ctx", typer.Context, inspect.Parameter.empty)]
    parameters += [
        _keyword(each.name, types[each.name], _information(each)) for each in command.declared
    ]
    call.__doc__ = _joined_paragraphs(inspect.getdoc(command.function) or "")
    call.__name__ = command.function.__name__
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {each.name: each.annotation for each in parameters}
    return call


def _keyword(name: str, annotation: object, default: object) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, annotation=annotation, default=default)


def _information(declared: Declared) -> ParameterInfo:
    """Return Typer's form of an option or argument; help shows a default if there is one."""
    parameter = declared.parameter
    settings = dict(parameter.settings)
    complete = settings.get("autocompletion")
    if isinstance(complete, str):
        settings["autocompletion"] = getattr(completion, complete)
    if parameter.default in (..., None, ""):
        settings["show_default"] = False
    make = typer.Argument if parameter.is_argument else typer.Option
    return cast("ParameterInfo", make(parameter.default, *parameter.names, **settings))


def _joined_paragraphs(text: str) -> str:
    """Return `text` with each paragraph in one line, for terminals of any width."""
    return "\n\n".join(each.replace("\n", " ") for each in text.split("\n\n"))


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

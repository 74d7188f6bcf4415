"""reference/commands.md: every command with its arguments, options, defaults and examples."""

from __future__ import annotations

import re
from collections.abc import Iterator

import typer
from rich.text import Text
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from iriai.cli.framework.command import PANEL
from iriai.cli.framework.typer_group import root_command

_HEAD = """\
# Commands

Made from the program, as `iriai COMMAND --help` shows it. Options are given in any order, before
or after names; of `iriai run` and `iriai submit` before the command that they run.
"""
Command = TyperCommand | TyperGroup
Parameter = TyperArgument | TyperOption


def command_reference() -> str:
    """The page."""
    root = root_command()
    context = typer.Context(root, info_name="iriai")
    parts = [
        _HEAD,
        "## Options of every command",
        *_table("Option", _options(root, context, PANEL)),
    ]
    panel = ""
    for name in root.list_commands(context):
        command = _inner(root, context, name)
        heading = str(command.rich_help_panel or "")
        if heading != panel:
            panel = heading
            parts.append(f"## {panel}")
        parts += _command(command, context, name, 3)
    return "\n\n".join(parts) + "\n"


def _inner(group: TyperGroup, context: typer.Context, name: str) -> Command:
    command = group.get_command(context, name)
    assert isinstance(command, TyperCommand | TyperGroup), name
    return command


def _command(command: Command, outer: typer.Context, name: str, level: int) -> Iterator[str]:
    context = typer.Context(command, parent=outer, info_name=name)
    yield f"{'#' * level} {context.command_path}"
    yield f"```\n{' '.join([context.command_path, *command.collect_usage_pieces(context)])}\n```"
    yield _plain(command.help or "")
    yield from _table("Argument", _arguments(command, context))
    yield from _table("Option", _options(command, context))
    lines = _plain(command.epilog or "").splitlines()
    if lines:
        yield "```\n" + "\n".join(line.removeprefix("  ") for line in lines[1:]) + "\n```"
    if isinstance(command, TyperGroup):
        for each in command.list_commands(context):
            yield from _command(_inner(command, context, each), context, each, level + 1)


def _arguments(command: Command, context: typer.Context) -> list[tuple[str, str]]:
    return [
        (f"`{each.make_metavar(context)}`", _about(each))
        for each in command.params
        if isinstance(each, TyperArgument) and not each.hidden
    ]


def _options(
    command: Command, context: typer.Context, panel: str | None = None
) -> list[tuple[str, str]]:
    """Those of one panel of the help; None: all but those that every command has."""
    return [
        (_option_name(each, context), _about(each))
        for each in command.params
        if isinstance(each, TyperOption)
        and not each.hidden
        and each.name != "help"
        and (each.rich_help_panel != PANEL if panel is None else each.rich_help_panel == panel)
    ]


def _option_name(option: TyperOption, context: typer.Context) -> str:
    takes = "" if option.is_flag or option.count else f" {option.make_metavar(context)}"
    names = [*option.opts, *option.secondary_opts]
    return ", ".join(f"`{name}{takes if name.startswith('--') else ''}`" for name in names)


def _about(parameter: Parameter) -> str:
    text = _plain(parameter.help or "")
    default = parameter.default
    if parameter.required:
        text += " Required."
    elif parameter.show_default and default not in (None, False, "", ()) and not callable(default):
        text += f" Default: `{getattr(default, 'value', default)}`."
    return text


def _table(what: str, rows: list[tuple[str, str]]) -> list[str]:
    if not rows:
        return []
    lines = [f"| {what} | What it does |", "|---|---|"]
    lines += [f"| {name.replace('|', chr(92) + '|')} | {_cell(about)} |" for name, about in rows]
    return ["\n".join(lines)]


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "\\<").replace("*", "\\*")


def _plain(text: str) -> str:
    """Without the markup of terminals."""
    return re.sub(r"\[default: ([^\]]+)\]", r"Default: \1.", Text.from_markup(text).plain)

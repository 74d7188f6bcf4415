"""Directives of a submitted script become options, placed before those of the command line."""

from __future__ import annotations

import os
import pwd
import socket
from enum import Enum
from pathlib import Path
from typing import cast

import typer
from typer.core import TyperCommand

from iriai.cli.framework.command import WORDS, GlobalOptions
from iriai.cli.framework.standard_streams import remark
from iriai.cli.framework.typer_group import GIVEN
from iriai.cli.jobs.options.script import SCRIPT, Script
from iriai.client.directives.block import Block, Dialect, DirectiveLine, read_block
from iriai.client.directives.option import OptionValue, Surroundings
from iriai.client.directives.reading import translate
from iriai.model.problem import UsageProblem

_ADDED = ("env",)
"""Options whose values on the command line are added to the script's instead of replacing them."""
_FAMILIES = (("max_restarts", "no_restart"), ("across_pools", "no_across_pools"))
"""Options that set the same thing."""
_FOREIGN = (*GlobalOptions.__struct_fields__, "dry_run", "immediate", "no_directives", "help")
"""Options that control the submission, not the job."""
_OFF = {"--evictable": "--no-evict"}
"""Switches that are not turned off by `--no-` and their name."""
_CHOSEN = ("cpus", "array", "name", "memory", "gpus", "ranks", "nodes", "per_node")


def submit_with_directives(ctx: typer.Context, script: Script) -> int | None:
    """Submit `script` with its directives as options of the command line.

    Raises:
        Refused: a directive cannot be honoured.
        UsageProblem: directives contradict each other, or cannot be understood.
    """
    block = read_block(script.content, script.path)
    given = [str(each) for each in ctx.meta[GIVEN]]
    chosen = {name for name in ctx.params if _is_given(ctx, name)}
    own = [each for each in _own_settings(ctx, block) if _counts(each, chosen)]
    chosen |= {_parameter(each.option) for each in own}
    found = translate(block, _surroundings(ctx, own))
    settings = (*(each for each in found.settings if _counts(each, chosen)), *own)
    for warning in found.warnings:
        remark(warning)
    content = script.content
    if found.interpreter and not block.interpreter:
        content = f"#!{found.interpreter}\n".encode() + content
    mail = (each.place for each in settings if each.option == "--notify" and each not in own)
    ctx.meta[SCRIPT] = Script(
        script.path,
        script.name,
        content,
        found.batch,
        settings,
        directives_are_read=True,
        mail_place=str(next(mail, "")),
    )
    command = ctx.command
    words = [*(each.word for each in settings), *given]
    again = command.make_context(ctx.info_name, words, parent=ctx.parent)
    with again:
        result = command.invoke(again)
    return cast("int | None", result)


def _counts(setting: OptionValue, chosen: set[str]) -> bool:
    """Return whether no source of higher priority sets the same option."""
    name = _parameter(setting.option)
    same = {name} | {each for family in _FAMILIES if name in family for each in family}
    return name in _ADDED or not same & chosen


def _parameter(option: str) -> str:
    name = "urgency" if option == "-p" else option.removeprefix("--").replace("-", "_")
    return "as_json" if name == "json" else name


def _is_given(ctx: typer.Context, name: str) -> bool:
    return _is_from_words(ctx.get_parameter_source(name))


def _is_from_words(source: Enum | None) -> bool:
    return source is not None and source.name == "COMMANDLINE"


# --- #IRIAI --------------------------------------------------------------------------------------


def _own_settings(ctx: typer.Context, block: Block) -> list[OptionValue]:
    """Return the options that `#IRIAI` sets."""
    settings: list[OptionValue] = []
    seen: dict[str, tuple[object, OptionValue]] = {}
    for line in block.lines:
        if line.dialect is not Dialect.IRIAI:
            continue
        for name, value in _options_of(ctx, line).items():
            found = _as_settings(name, value, line)
            for other in (name, *(each for f in _FAMILIES if name in f for each in f)):
                if other in seen and (other != name or seen[other][0] != value):
                    raise _contradiction(seen[other][1], found[0])
            if name not in seen or isinstance(value, list):
                settings += found
            if not isinstance(value, list):
                seen[name] = value, found[0]
    return settings


def _options_of(ctx: typer.Context, line: DirectiveLine) -> dict[str, object]:
    """Return the options that the words of one line set, by parameter."""
    command = cast("TyperCommand", ctx.command)
    meta = dict(ctx.meta)
    try:
        words = [*line.words, "--", "script"]
        with command.make_context(ctx.info_name, words, parent=ctx.parent) as made:
            found = {
                name: value
                for name, value in made.params.items()
                if _is_from_words(made.get_parameter_source(name))
            }
    except typer.TyperException as error:
        message = error.format_message().rstrip(".")
        text = f"{line.place}: {message[:1].lower()}{message[1:]}"
        raise UsageProblem(
            "bad-directive", text, "use the options of 'iriai submit --help'"
        ) from None
    except typer.Exit:  # --help
        found = {"help": True}
    finally:
        ctx.meta.update(meta)
    words_given = found.pop(WORDS, None)
    if isinstance(words_given, list | tuple) and words_given[0] != "script":
        raise UsageProblem(
            "bad-directive",
            f"{line.place}: '{words_given[0]}' is not an option",
            "use the options of 'iriai submit --help'",
        )
    for name in _FOREIGN:
        if name in found:
            raise UsageProblem(
                "bad-directive",
                f"{line.place}: --{name.removeprefix('as_').replace('_', '-')} cannot stand in "
                "a script",
                "give it on the command line",
            )
    return found


def _as_settings(name: str, value: object, line: DirectiveLine) -> list[OptionValue]:
    option = f"--{name.replace('_', '-')}"
    if value is False:
        option, value = _OFF.get(option, f"--no-{option[2:]}"), True
    if isinstance(value, list | tuple):
        return [OptionValue(option, str(each), line.place) for each in value]
    return [OptionValue(option, None if value is True else str(value), line.place)]


def _contradiction(first: OptionValue, second: OptionValue) -> UsageProblem:
    return UsageProblem(
        "contradicting-directives",
        f"{first.place}: {first.word} contradicts line {second.place.number}: {second.word}",
        "leave one of them out",
    )


# --- what surrounds the submission ---------------------------------------------------------------


def _surroundings(ctx: typer.Context, own: list[OptionValue]) -> Surroundings:
    chosen = {each.option: each.value for each in own if each.value is not None}
    chosen |= {
        f"--{name.replace('_', '-')}": str(ctx.params[name])
        for name in _CHOSEN
        if name in ctx.params and _is_given(ctx, name)
    }
    user, home = _user_and_home()
    return Surroundings(
        directory=str(Path.cwd()),
        user=user,
        home=home,
        host=socket.gethostname(),
        environment=os.environ,
        chosen=chosen,
        is_directory=os.path.isdir,
    )


def _user_and_home() -> tuple[str, str]:
    here = os.environ.get("HOME", str(Path.cwd()))
    try:
        known = pwd.getpwuid(os.geteuid())
    except KeyError:
        return os.environ.get("USER", str(os.geteuid())), here
    return known.pw_name, known.pw_dir or here

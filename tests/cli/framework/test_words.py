"""Both readers of a command line: what the quick one takes, Typer reads the same way."""

import shlex
from itertools import chain

import pytest
import typer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from iriai.cli.framework.command import Command, CommandGroup
from iriai.cli.framework.program import CommandCall, read_call
from iriai.cli.framework.registry import COMMANDS, ROOT, load
from iriai.cli.framework.typer_group import run_by_typer

SOME = (
    "x",
    "",
    "-",
    "--",
    "-1",
    "0",
    "7",
    " 7",
    "1_0",
    "2.5",
    "1e3",
    "nan",
    "end",
    "a=b",
    "/tmp",
    "./a b",
    "é",
)
"""Values and words: right for some options, wrong for others."""


def names_of(command: Command) -> list[str]:
    found = [
        name for each in command.declared for name in each.names if not each.parameter.is_argument
    ]
    return [half for name in found for half in name.split("/")]


def pieces_of(command: Command) -> st.SearchStrategy[list[str]]:
    """An option with a value, one without, a word, or what is no option of it."""
    names, values = (
        st.sampled_from([*names_of(command), "--help", "--nothing", "-zx"]),
        st.sampled_from(SOME),
    )
    return st.one_of(
        values.map(lambda value: [value]),
        names.map(lambda name: [name]),
        st.tuples(names, values).map(list),
        st.tuples(names, values).map(lambda both: ["=".join(both)]),
        st.tuples(names, values).map(lambda both: ["".join(both)]),
    )


def lines_of(name: str) -> st.SearchStrategy[list[str]]:
    app = load(name)
    inner = app.commands if isinstance(app, CommandGroup) else {"": app}

    def line(chosen: tuple[str, list[list[str]], list[list[str]]]) -> list[str]:
        which, before, after = chosen
        return [*chain(*before), name, *which.split(), *chain(*after)]

    before = st.lists(pieces_of(ROOT), max_size=2)
    return st.one_of(
        st.tuples(st.just(which), before, st.lists(pieces_of(each), max_size=6)).map(line)
        for which, each in inner.items()
    )


@pytest.fixture
def calls(monkeypatch) -> list[CommandCall]:
    """The calls that commands get, which do nothing."""
    found: list[CommandCall] = []

    def call(self, values, outer, invocation):
        found.append(CommandCall(self, values, outer, invocation))

    monkeypatch.setattr(Command, "call", call)
    return found


def by_typer(words: list[str], calls: list[CommandCall]) -> CommandCall | None:
    calls.clear()
    try:
        run_by_typer(words)
    except typer.TyperException:
        return None
    return calls[0]


def essence(call: CommandCall) -> object:
    """What a call is apart from the objects that make it."""
    values = {name: repr(value) for name, value in call.values.items()}
    given = list(call.invocation.given)
    return call.command.function, values, call.outer, given, call.invocation.has_dashes


@pytest.mark.parametrize("name", COMMANDS)
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_what_the_quick_reader_takes_typer_reads_the_same_way(name: str, calls, capsys, data):
    words = data.draw(lines_of(name))
    quick = read_call(words)
    if quick is not None:
        theirs = by_typer(words, calls)
        assert theirs is not None, "Typer refuses it"
        assert essence(quick) == essence(theirs)


ORDINARY = """
jobs
--state /x jobs --all --finished -n 5 --json
submit -- make -j4
submit --cpus 4 --memory 8G --time=2h --env A=1 --env B ./train.sh --verbose
submit --licence-free
run -p 2 --no-stdin -- true
show ume-1.2 --json
wait ume-1 ume-2
alter --no-exclusive --urgency 2 ume-3
config show
"""


@pytest.mark.parametrize("line", ORDINARY.strip().split("\n"))
def test_an_ordinary_line_does_not_need_typer(line: str, calls):
    words = shlex.split(line)
    assert (read_call(words) is None) == ("--licence-free" in words)

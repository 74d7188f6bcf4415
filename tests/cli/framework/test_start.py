"""What a command costs before it does anything, and what it says about itself."""

import os
import subprocess
import sys
from importlib import import_module

import msgspec
import pytest

from iriai.cli.framework.registry import COMMANDS
from iriai.wire.requests import (
    JobDetail,
    JobList,
    JobRow,
    Jobs,
    LogFiles,
    Logs,
    Outcome,
    Show,
    Submit,
    Submitted,
    Wait,
    Waited,
)
from tests.client.double import Asking, double

NEVER = {
    *("asyncio", "click", "concurrent", "cryptography", "dataclasses", "email", "http", "inspect"),
    *("importlib.metadata", "json", "multiprocessing", "pathlib", "pydantic", "rich", "shutil"),
    *("sqlite3", "ssl", "subprocess", "threading", "tomllib", "typer", "typing_extensions"),
    *("urllib", "uvloop", "iriai.config", "iriai.daemon", "iriai.wire.changes"),
    *("iriai.wire.envelopes", "iriai.wire.joining", "iriai.wire.machines", "iriai.wire.reports"),
}
"""What no frequent command loads: each costs a part of what Python's own start does."""
LINES = {
    "--version": (("--version",), 11),
    "run": (("run", "--", "true"), 41),
    "submit": (("submit", "--", "true"), 34),
    "jobs": (("jobs",), 31),
    "show": (("show", "ume-1"), 35),
}
"""The frequent commands, and how many modules of ours each loads at most."""
PROGRAM = """
import os, sys
os._exit = lambda code: print(code, *sys.modules)
from iriai.cli.main import main
main()
"""
ROW = JobRow("ume-1", "true", "lab", "ann", "running", 1, 0, 1, 0, 0, 0.0, 1, 1.0)
DETAIL = JobDetail(
    *(ROW, "lab/ann", ("true",), False, "/", {"cpus": 1}, None, None, "", ""),
    *((), {}, (), ()),
)
ANSWERS = {
    Submit: Submitted("ume-1", 1),
    Jobs: JobList((msgspec.Raw(msgspec.msgpack.encode(ROW)),)),
    Show: DETAIL,
    Wait: Waited((Outcome("ume-1", "completed", 0, None),)),
    Logs: LogFiles(()),
}


def answer(asking: Asking) -> object:
    return ANSWERS[type(asking.body)]


@pytest.mark.parametrize("name", LINES)
def test_a_frequent_command_loads_nothing_that_it_does_not_need(name: str, state):
    words, modules_max = LINES[name]
    with double(state, answer):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, *words],
            env={"IRIAI_STATE": str(state), "PATH": os.environ["PATH"]},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=True,
        )
    code, *modules = done.stdout.splitlines()[-1].split()
    assert code == "0", done.stderr
    assert NEVER & set(modules) == set()
    ours = sorted(each for each in modules if each.partition(".")[0] == "iriai")
    assert len(ours) <= modules_max, ours
    others = set(COMMANDS.values()) - {COMMANDS.get(name)}
    assert others & set(modules) == set(), "commands are loaded when they are called"


IN_GROUPS = [
    *("config show", "cluster create", "cluster show"),
    "policy check",
    *("operator request", "operator add", "operator remove", "operator show"),
]


@pytest.mark.parametrize("command", [*COMMANDS, *IN_GROUPS])
def test_every_command_has_help_with_examples(shell, command: str):
    said = shell(*command.split(), "--help")
    assert said.code == 0
    assert said.err == ""
    of_group = {"config": "show", "cluster": "show", "operator": "show"}
    of_group |= dict.fromkeys(("queue", "pool", "gang"), "unset") | {
        "reservation": "cancel",
        "policy": "check",
    }
    for option in (
        (of_group[command],) if command in of_group else ("--state", "--json", "Examples")
    ):
        assert option in said.out


def test_without_a_command_there_is_help(shell):
    said = shell()
    assert said.code == 0
    assert all(command in said.out for command in COMMANDS)


def test_the_version_is_printed(shell):
    assert shell("--version").out.startswith("iriai 0.")


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_is_named_like_its_module(name: str):
    module = import_module(COMMANDS[name])
    assert (module.__doc__ or "").startswith(f"`iriai {name}")


def test_a_process_ends_with_the_code_and_without_open_streams():
    script = "import os, sys; from iriai.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", f"import os; os.closerange(0, 3)\n{script}", "--version"],
        check=False,
    )
    assert done.returncode == 0

"""What a command costs before it does anything, and what it says about itself."""

import subprocess
import sys
from importlib import import_module

import pytest

from iriai.cli.framework.registry import COMMANDS

NEVER = ("asyncio", "rich", "sqlite3", "uvloop", "iriai.daemon")
"""What `run` does not load: each costs more than the command itself."""

LOADED = """
import sys
from iriai.cli.framework.program import run_arguments
code = run_arguments(["--state", "/no/such", "run", "--", "true"])
print(code, *sys.modules)
"""


def test_run_loads_nothing_that_it_does_not_need():
    done = subprocess.run(
        [sys.executable, "-c", LOADED], capture_output=True, text=True, check=True
    )
    code, *modules = done.stdout.split()
    assert code == "6"
    assert [name for name in NEVER if name in modules] == []
    others = set(COMMANDS.values()) - {"iriai.cli.jobs.run"}
    assert others & set(modules) == set(), "commands are loaded when they are called"


IN_GROUPS = [
    *("config show", "cluster create", "cluster show"),
    *("operator request", "operator add", "operator remove", "operator show"),
]


@pytest.mark.parametrize("command", [*COMMANDS, *IN_GROUPS])
def test_every_command_has_help_with_examples(shell, command: str):
    said = shell(*command.split(), "--help")
    assert said.code == 0
    assert said.err == ""
    is_group = command in ("config", "cluster", "operator")
    for option in ("show",) if is_group else ("--state", "--json", "Examples"):
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

"""Where a daemon could load nothing after the drop, all that it may need is there before."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.architecture.rules_imports import TABLE, imports_of
from tests.architecture.source import ROOT, Module, product_modules

IN_THE_DAEMON = TABLE["daemon"] | {"daemon"}
"""Packages that run there."""

NEVER_AFTER_THE_DROP = {
    ("iriai.store.migrate", "alembic.command"): "in a process of its own, before the drop",
    ("iriai.store.migrate", "alembic.config"): "in a process of its own, before the drop",
}


class Daemon(NamedTuple):
    """What a member's daemon loads, where its program lies out of reach after the drop."""

    loaded: set[str]
    """Before it."""
    after: dict[str, list[str]]
    """By what was done after it: modules that were not there before."""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Daemon:
    plug_ins = with_an_order(tmp_path_factory.mktemp("plug-ins"))
    command = [sys.executable, "-m", "tests.support.before_the_drop"]
    command += [str(tmp_path_factory.mktemp("member")), plug_ins]
    environment = {**os.environ, "PYTHONPATH": plug_ins}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    return Daemon(set(said["loaded"]), said["after"])


def with_an_order(directory: Path) -> str:
    """As pip installs a plug-in that brings the order `last`."""
    (directory / "last_one.py").write_text("class LastOne: ...\n")
    installed = directory / "last_one-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: last-one\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text("[iriai.orders]\nlast = last_one:LastOne\n")
    return str(directory)


def module_of(target: str) -> str:
    """The module of a dotted name, which may be something in it."""
    try:
        is_module = importlib.util.find_spec(target) is not None
    except ModuleNotFoundError:
        is_module = False
    return target if is_module else target.rpartition(".")[0]


def late_imports(modules: list[Module]) -> set[tuple[str, str]]:
    """Each module that imports something inside a function, and what."""
    return {
        (module.name, module_of(each.target))
        for module in modules
        for each in imports_of(module)
        if each.in_function and not each.for_types_only
    }


def test_what_is_imported_late_is_there_before_privileges_are_given_up(daemon: Daemon):
    ours = [each for each in product_modules() if each.package in IN_THE_DAEMON]
    missing = {each for each in late_imports(ours) if each[1] not in daemon.loaded}
    assert missing == NEVER_AFTER_THE_DROP.keys()
    by_name = {each.name for each in ours if "import_module(" in each.text}
    assert by_name == {"iriai.daemon.startup.hardware"}  # NVIDIA's library: before the drop


def test_what_a_daemon_does_after_that_loads_nothing_more(daemon: Daemon):
    assert len(daemon.after) == 4
    assert {use: names for use, names in daemon.after.items() if names} == {}

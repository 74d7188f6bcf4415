"""T6, T10e: nobody can lock or read what supervisor, daemon and launcher keep for themselves."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.endtoend.installation import PYTHON, Installation, as_person
from tests.support.people import TestPerson
from tests.support.waiting import until

pytestmark = pytest.mark.root

LOCKS = ("supervisor.lock", "daemon.lock", "launcher.lock")
TRY = """
import fcntl, os, sys
for path in sys.argv[1:]:
    try:
        fcntl.flock(os.open(path, os.O_RDONLY | os.O_NONBLOCK), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except PermissionError:
        continue
    except BlockingIOError:
        pass
    print(path)
"""
"""Prints what could be opened, and locks it where nobody else has."""


def opened(person: TestPerson, *paths: Path) -> list[str]:
    """Which of these files the person can open."""
    words = [word for word in as_person(person) if "dac" not in word and not word.endswith("caps")]
    done = subprocess.run(
        [*words, PYTHON, "-c", TRY, *map(str, paths)], capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def test_nobody_can_open_a_lock_and_the_daemon_comes_back(served: Installation):
    """T6a: whoever could read the daemon's lock could hold it."""
    paths = [served.state / name for name in LOCKS]
    assert all(path.exists() for path in paths)
    assert opened(served.person, *paths) == []
    before = served.kill("daemon")
    until(lambda: served.runs_tasks() and served.pid("daemon") != before, "the next daemon")


def test_a_number_that_a_lock_names_is_not_taken_for_ours(served: Installation):
    """T6b: a stale pid in a lock was adopted, and signalled by root."""
    with subprocess.Popen(["sleep", "1000"], user=served.person.uid) as bystander:
        launcher = served.pid("launcher")
        text = (served.state / "launcher.lock").read_bytes()
        try:
            # As after a crash and a reboot: the number is another process's now.
            words = text.replace(str(launcher).encode(), str(bystander.pid).encode(), 1)
            (served.state / "launcher.lock").write_bytes(words)
            assert served.pid("launcher") is None
        finally:
            (served.state / "launcher.lock").write_bytes(text)
        assert served.pid("launcher") == launcher
        assert bystander.poll() is None
        bystander.kill()


def test_what_the_machine_is_and_how_it_is_configured_is_not_readable(served: Installation):
    """T10e: state, machine file and configuration were readable by all."""
    names = ("state.json", "machine.json", "iriai.toml", "daemon.end", "supervisor.end")
    paths = [served.state / name for name in names]
    paths += [Path(served.paths.log_of(part)) for part in ("daemon", "launcher", "supervisor")]
    paths += [served.state / "launcher" / "journal", Path(served.paths.database)]
    assert [path for path in paths if not path.exists()] == []
    assert opened(served.person, *paths) == []
    # What users need they are told.
    assert "machine.cpus" in served.call("config", "show").stdout
    assert f"daemon {served.pid('daemon')}" in served.call("status").stdout
    assert f"supervisor {served.pid('supervisor')}" in served.call("status").stdout


def test_the_directories_are_for_nobody_to_look_around_in(served: Installation):
    """T10e: names in them are passed, where they are passed at all, and never listed."""
    for directory in (served.state, Path(served.paths.log), Path(served.paths.store)):
        found = os.stat(directory)
        assert found.st_mode & 0o066 == 0, directory

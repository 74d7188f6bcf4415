"""Tasks on a file system that their user serves (FUSE, as sshfs): nobody else is let in, not root.

The kernel lets a process in whose real, effective and saved user and group all are those of who
mounted it.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.launcher.harness import Lab
from tests.support.served_files import served_files

pytestmark = pytest.mark.root

SCRIPT = "#!/bin/sh\npwd; echo written > written; cat written; id -u\n"


@pytest.fixture(params=["/tmp", "/tmp/below", "/var/tmp"])
def served(lab: Lab, request: pytest.FixtureRequest) -> Iterator[Path]:
    """What the task's user serves: an entry of /tmp, below one, and somewhere else."""
    machine = lab.machine
    parent = Path(request.param)
    parent = lab.folder if parent.name == "below" else parent
    place = Path(tempfile.mkdtemp(prefix="iriai-served-", dir=parent))
    os.chown(place, machine.uid, machine.gid)
    with served_files(place, machine.uid, machine.gid):
        yield place
    place.rmdir()


def as_user(lab: Lab, *command: str, stdin: str = "") -> str:
    """What a command of the task's user prints; root is not let in."""
    who = [f"--reuid={lab.machine.uid}", f"--regid={lab.machine.gid}", "--clear-groups"]
    done = subprocess.run(
        ["setpriv", *who, *command], input=stdin, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_root_is_not_let_in(served: Path):
    with pytest.raises(PermissionError):
        os.listdir(served)


def test_directory_script_and_output_are_found(lab: Lab, served: Path):
    as_user(lab, "sh", "-c", f"cat > {served}/script", stdin=SCRIPT)
    spec = lab.machine.spec(f"{served}/script", working_directory=str(served), error="errors")
    end = lab.end_of(spec)
    words = as_user(lab, "cat", f"{served}/out")
    assert end.exit_code == 0, (end.message, words)
    assert words == f"{served}\nwritten\n{lab.machine.uid}\n"


def test_output_alone_lies_there(lab: Lab, served: Path):
    end = lab.end_of(lab.spec("echo", "hello", output=f"{served}/out", error=f"{served}/errors"))
    assert end.exit_code == 0, end.message
    assert as_user(lab, "cat", f"{served}/out") == "hello\n"

"""With PYTHONOPTIMIZE=1 nothing is asserted any more, and nothing depends on it."""

from __future__ import annotations

import socket
from pathlib import Path

from iriai.model.problem import ExitCode
from tests.endtoend.installation import Installation

OPTIMIZED = {"PYTHONOPTIMIZE": "1"}


def environment_of(pid: int | None) -> list[str]:
    """The environment with which a process was started."""
    return Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")


def test_a_machine_without_assertions_runs_tasks_and_refuses_what_is_malformed(
    iriai: Installation,
):
    iriai.start(OPTIMIZED)
    for part in ("supervisor", "daemon", "launcher"):
        assert "PYTHONOPTIMIZE=1" in environment_of(iriai.pid(part))
    daemon = iriai.pid("daemon")
    for content in (b"\x00\x00\x00\x02\xc1\xc1", b"\xff" * 64, b"\x00\x00\x00\x01\x90"):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(iriai.paths.daemon_socket)
            connection.sendall(content)
            connection.shutdown(socket.SHUT_WR)
            connection.settimeout(60)
            while connection.recv(4096):
                pass
    ran = iriai.call("run", "--no-env", "--", "/bin/echo", "done", **OPTIMIZED)
    assert (ran.returncode, ran.stdout) == (ExitCode.DONE, "done\n"), ran
    refused = iriai.call("submit", "--cpus", "0", "--", "true", **OPTIMIZED)
    assert refused.returncode == ExitCode.USAGE, refused
    assert iriai.pid("daemon") == daemon

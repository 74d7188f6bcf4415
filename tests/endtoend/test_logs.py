"""Logs of a real installation are bounded, and may be moved away."""

import os
import signal
from pathlib import Path

from tests.endtoend.installation import Installation
from tests.support.waiting import until


def test_logs_are_bounded_and_followed(iriai: Installation):
    prolog = iriai.programs / "prolog"
    prolog.write_text("#!/bin/sh\nseq 500\necho for $IRIAI_JOB_ID\n")
    prolog.chmod(0o755)
    iriai.configure(f'[machine]\nprolog = "{prolog}"\nlog_bytes_max = 1000\nlog_files = 1\n')
    iriai.start()
    launcher = Path(iriai.paths.log_of("launcher"))
    daemon = Path(iriai.paths.log_of("daemon"))
    with iriai.client() as client:
        first = client.submit(iriai.draft("true")).id
        client.wait([first])
        daemon.rename(f"{daemon}.old")  # as somebody does who wants to keep it
        moved = until(lambda: _content(f"{launcher}.1"), "the rotation")
        assert f"for {first}" in moved
        until(daemon.exists, "a fresh log of the daemon")
        pid = iriai.pid("daemon")
        assert pid is not None
        os.kill(pid, signal.SIGHUP)
        second = client.submit(iriai.draft("true", notify="exit 1")).id
        client.wait([second])
        assert f"for {second}" in launcher.read_text()
        until(lambda: f"notice of {second}" in daemon.read_text(), "a line of the daemon")
        assert iriai.pid("daemon") == pid


def _content(path: str) -> str:
    return Path(path).read_text() if Path(path).exists() else ""

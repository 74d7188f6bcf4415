"""Peers run where nobody can reach them, and leave nothing behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.harness.descendants import none_left

LOOPBACK_ONLY = Path(__file__).parents[2] / "benchmarks" / "peers" / "loopback_only.py"


def is_running(pid):
    return Path(f"/proc/{pid}").exists()


def test_what_a_peer_left_running_is_ended(tmp_path):
    pid_file = tmp_path / "pid"

    with none_left():
        # The shell ends at once; what it started in a session of its own does not.
        script = f"setsid sleep 1000 & echo $! > {pid_file}"
        subprocess.run(["/bin/sh", "-c", script], check=True)
        orphan = int(pid_file.read_text())
        assert is_running(orphan)

    assert not is_running(orphan)


def test_nothing_is_left_when_it_is_told_to_end():
    started = []

    def work():
        with none_left():
            started.append(os.posix_spawnp("sleep", ["sleep", "1000"], {}))
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(SystemExit):
        work()

    assert not is_running(started[0])
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_a_child_from_before_is_left_alone():
    with subprocess.Popen(["sleep", "1000"]) as older:
        with none_left():
            pass
        assert older.poll() is None
        older.kill()


@pytest.mark.root
def test_only_the_loopback_device_is_there():
    probe = "import socket; print([name for _, name in socket.if_nameindex()])"

    done = subprocess.run(
        [sys.executable, LOOPBACK_ONLY, sys.executable, "-c", probe],
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout == "['lo']\n"


@pytest.mark.root
def test_one_can_talk_to_oneself_there():
    probe = (
        "import socket; server = socket.create_server(('127.0.0.1', 0));"
        "socket.create_connection(server.getsockname())"
    )

    command = [sys.executable, LOOPBACK_ONLY, sys.executable, "-c", probe]

    assert subprocess.run(command, check=False).returncode == 0

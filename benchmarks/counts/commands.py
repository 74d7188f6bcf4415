"""The start of commands: modules imported, calls, opcodes; a daemon answers by script.

Each command is a process of its own with an environment of five variables. Its daemon is a thread
here that has one answer for each kind of request.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import msgspec

from counts.counter import FUNCTIONS
from counts.daemon import ANSWER, PROTOCOL_VERSION

PROGRAM = Path(__file__).with_name("command.py")
JOB = "ume-1"
COMMANDS = {
    "start_version": ("--version",),
    "start_submit": ("submit", "--", "true"),
    "start_jobs": ("jobs",),
    "start_show": ("show", JOB),
    "start_run": ("run", "--", "true"),
    "start_daemon": ("import", "iriai.daemon.__main__"),
    "start_launcher": ("import", "iriai.launcher.__main__"),
}
ENVIRONMENT = {
    "HOME": "/",
    "LANG": "C.UTF-8",
    "PATH": "/usr/bin:/bin",
    "PYTHONHASHSEED": "0",
}
WAIT_S = 60.0
WALL_S = 1_799_999_000.0


ROW = [JOB, "true", "staff", "ann", "queued", 1, 1, 0, 0, 0, WALL_S, 1, 1.0, None, False, None, ""]
DETAIL = {
    "row": ROW,
    "account": "staff/ann",
    "command": ["true"],
    "script": False,
    "working_directory": "/",
    "resources": {"cpus": 1, "memory": 0, "gpus": 0},
    "time_limit_s": None,
    "max_restarts": None,
    "output": "x.out",
    "error": "",
    "array": [],
    "causes": {},
    "attempts": [],
    "why": [{"type": "why", "rule": "busy", "needed": "1 cpu", "had": "0 cpus"}],
}
LOG_FILE = {"task": f"{JOB}.0", "attempt": 1, "finished": True, "output": "/dev/null"} | {
    "error": "", "user": "ann", "is_kept": True
}  # fmt: skip
OUTCOME = {"type": "outcome", "id": JOB, "cause": "completed", "exit_code": 0, "signal": None}
ANSWERS: dict[str, dict[str, object]] = {
    "submit": {"type": "submitted", "id": JOB, "tasks": 1},
    "jobs": {"type": "job-list", "rows": [ROW] * 3},
    "show": {"type": "job-detail"} | DETAIL,
    "wait": {"type": "waited", "outcomes": [OUTCOME]},
    "logs": {"type": "log-files", "files": [LOG_FILE]},
    "read-output": {"type": "output-piece", "content": b"", "is_complete": True},
}
"""What a command's daemon says to each kind of request; on the wire, as docs/spec has it."""


class ScriptedDaemon:
    """Listens, and answers each kind of request alike; counts what passes."""

    def __init__(self, directory: Path) -> None:
        self.messages = self.bytes = 0
        welcome = {"type": "welcome", "version": PROTOCOL_VERSION, "home": "ume"} | {
            "state_directory": str(directory), "daemon_pid": 1000, "user": "ann", "operator": False
        }  # fmt: skip
        self._answers = ANSWERS | {"hello": welcome}
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listening.bind(str(directory / "daemon.sock"))
        self._listening.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            connection, _ = self._listening.accept()
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as stream:
            while header := stream.read(4):
                payload = stream.read(int.from_bytes(header, "big"))
                number, asked = msgspec.msgpack.decode(payload)
                content = msgspec.msgpack.encode([ANSWER, number, self._answers[asked["type"]]])
                answer = len(content).to_bytes(4, "big") + content
                self.messages += 2
                self.bytes += 4 + len(payload) + len(answer)
                connection.sendall(answer)


def measure(directory: Path) -> dict[str, dict[str, float]]:
    """Count each command."""
    daemon = ScriptedDaemon(directory)
    return {name: _count(daemon, directory, name, words) for name, words in COMMANDS.items()}


def _count(
    daemon: ScriptedDaemon, directory: Path, name: str, words: tuple[str, ...]
) -> dict[str, float]:
    answer = directory / "counts.json"
    messages, size_bytes = daemon.messages, daemon.bytes
    handed = {name: os.environ[name] for name in (FUNCTIONS, "PYTHONPATH") if name in os.environ}
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(answer), *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd="/",
        env=ENVIRONMENT | handed | {"IRIAI_STATE": str(directory), "IRIAI_GUARD_CASE": name},
        timeout=WAIT_S,
        check=False,
    )
    counts: dict[str, float] = json.loads(answer.read_text()) if answer.exists() else {}
    if done.returncode or counts.pop("exit_code", 1):
        raise RuntimeError(f"iriai {' '.join(words)} has failed: {done.stderr or done.stdout}")
    os.unlink(answer)
    if daemon.messages > messages:
        counts |= {"messages": daemon.messages - messages, "wire_bytes": daemon.bytes - size_bytes}
    return counts

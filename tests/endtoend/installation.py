"""A whole iriai in a directory of its own: supervisor, daemon and launcher as real processes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from iriai.client import Client, draft
from iriai.model.paths import StatePaths
from iriai.model.problem import Unreachable
from iriai.system.lock_file import lock_holder
from iriai.wire.requests import JobDraft
from tests.support.assertions import without_assertions
from tests.support.people import TestPerson
from tests.support.trusted_place import PARENT
from tests.support.waiting import is_gone, until

PYTHON = "/usr/bin/python3" if os.access("/usr/bin/python3", os.X_OK) else sys.executable
"""An interpreter that other users can run, for tasks."""
IRIAI = str(Path(sys.executable).with_name("iriai"))
PATH = "/usr/bin:/bin"
"""Of tasks: no directory in it that they may not enter."""
STOP_WAIT_S = 30.0
LEFT_OVER_S = 5.0
"""What still runs so long after its end was left over."""
CALL_WAIT_S = 60.0
MARK = "END_TO_END_OF_IRIAI"
"""Environment variable of everything that a test starts: its installation's directory."""
IS_ROOT = os.geteuid() == 0


class Installation:
    """One state directory with its processes, and a directory in which jobs work."""

    def __init__(self, person: TestPerson | None, *options: str) -> None:
        """`person` owns the working directory and hands jobs in; None: whoever runs the tests.

        `options` are those of `iriai up`.
        """
        self.options = options
        self.prefix: tuple[str, ...] = ()
        """Before each command: what puts it where the machine is."""
        self.program = IRIAI
        """The command of its installation."""
        self.person = person
        self.directory = Path(tempfile.mkdtemp(prefix="iriai-end-"))
        # The daemon's user and the tasks' have to pass.
        self.directory.chmod(0o711)
        self.state = self.directory / "state"
        self.state.mkdir()
        self.work = self.directory / "work"
        self.work.mkdir()
        self.programs = Path(tempfile.mkdtemp(prefix="iriai-end-", dir=PARENT))
        """Where hooks lie: nobody but their owner can write the way to it."""
        self.programs.chmod(0o755)
        self.paths = StatePaths(str(self.state))
        self.supervisor: subprocess.Popen[bytes] | None = None
        if person is not None:
            os.chown(self.work, person.uid, person.gid)

    # --- processes -------------------------------------------------------------------------------

    def configure(self, text: str) -> None:
        """Write `iriai.toml`; before `start`."""
        Path(self.paths.configuration).write_text(text)

    def start(self, environment: Mapping[str, str] | None = None) -> Installation:
        """Start it; it runs tasks when this returns."""
        self.begin(environment)
        until(self._is_up, "the start")
        return self

    def begin(self, environment: Mapping[str, str] | None = None) -> None:
        """Start it, without waiting for anything."""
        with (self.directory / "stderr").open("ab") as words:
            self.supervisor = subprocess.Popen(
                [*self.prefix, self.program, "up", "--state", str(self.state), *self.options],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=words,
                env=os.environ | {MARK: str(self.directory)} | dict(environment or {}),
                start_new_session=True,
            )

    def _is_up(self) -> bool:
        assert self.supervisor is not None
        assert self.supervisor.poll() is None, self.words()
        return self.runs_tasks()

    def runs_tasks(self) -> bool:
        """Whether a daemon answers that has a launcher, where it needs one, and links."""
        try:
            with Client.connect(self.state, follow=False) as client:
                status = client.status()
                is_linked = all(link.is_up for link in status.links)
                return is_linked and (status.launcher_pid is not None or "node" not in status.parts)
        except Unreachable:
            return False

    def answers(self) -> bool:
        """Whether a daemon answers."""
        try:
            Client.connect(self.state, follow=False).close()
        except Unreachable:
            return False
        return True

    def pid(self, part: str) -> int | None:
        """The process that is supervisor, daemon or launcher now."""
        return lock_holder(self.paths.lock(part))

    def kill(self, part: str) -> int | None:
        """Kill a part as a crash does, where it runs; returns which process that was."""
        pid = self.pid(part)
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return pid

    def leave_launcher(self) -> None:
        """End supervisor and daemon as for an upgrade; tasks go on."""
        if self.supervisor is not None:
            self.supervisor.terminate()
            self.supervisor.wait(STOP_WAIT_S)

    def stop_processes(self) -> None:
        """End everything."""
        self.leave_launcher()
        # Of an `iriai up --detach` we are not the parent.
        for part in ("supervisor", "launcher"):
            pid = self.pid(part)
            if pid is not None:
                os.kill(pid, signal.SIGTERM)
                until(lambda pid=pid: is_gone(pid), f"the end of the {part}")

    def stop(self) -> None:
        """End everything. Raises where something was left over, or something crashed."""
        self.stop_processes()
        # What announces the start in the foreground is no child of anybody, and ends by itself.
        deadline_s = time.monotonic() + LEFT_OVER_S
        while (left_over := self.processes()) and time.monotonic() < deadline_s:
            time.sleep(0.02)
        for pid in left_over:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        words = self.words()
        shutil.rmtree(self.directory, ignore_errors=True)
        shutil.rmtree(self.programs, ignore_errors=True)
        assert not left_over, f"left over: {left_over}\n{words}"
        assert "Traceback" not in words, words

    def processes(self) -> dict[int, str]:
        """Every live process of this installation, tasks and clients included."""
        mark = str(self.directory).encode()
        return {pid: text for pid, text in _processes_with(mark) if pid != os.getpid()}

    def words(self) -> str:
        """What all parts have said so far."""
        files = [self.directory / "stderr", *sorted(Path(self.paths.log).glob("*.log"))]
        texts = [f"--- {file.name}\n{file.read_text()}" for file in files if file.exists()]
        return "\n".join(texts)

    # --- clients ---------------------------------------------------------------------------------

    @contextmanager
    def client(self, person: TestPerson | None = None) -> Iterator[Client]:
        """A connection as `person`, by default the one who hands jobs in."""
        with become(person or self.person):
            client = Client.connect(self.state)
        with client:
            yield client

    def draft(self, *command: str, **fields: object) -> JobDraft:
        """A job in the working directory, with an environment that says whose process it is."""
        fields.setdefault("cwd", self.work)
        fields.setdefault("env", {"PATH": PATH, MARK: str(self.directory)})
        return draft(command, **fields)  # type: ignore[arg-type]

    def command(self, *words: str, person: TestPerson | None = None) -> list[str]:
        """`iriai WORDS` as `person`, by default the one who hands jobs in."""
        who = person or self.person
        return [*self.prefix, *(as_person(who) if who and IS_ROOT else ()), self.program, *words]

    def environment(self) -> dict[str, str]:
        """Of the commands that are called."""
        here = str(self.directory)
        return {
            "PATH": PATH,
            "HOME": here,
            "IRIAI_STATE": str(self.state),
            MARK: here,
            "LANG": "C.UTF-8",
            **without_assertions(),
        }

    def call(
        self,
        *words: str,
        person: TestPerson | None = None,
        stdin: str = "",
        cwd: Path | None = None,
        **environment: str,
    ) -> subprocess.CompletedProcess[str]:
        """Call `iriai WORDS` and wait for its end."""
        return subprocess.run(
            self.command(*words, person=person),
            input=stdin,
            capture_output=True,
            text=True,
            cwd=cwd or self.work,
            env=self.environment() | environment,
            timeout=CALL_WAIT_S,
            check=False,
        )

    def begin_call(self, *words: str) -> subprocess.Popen[str]:
        """Call `iriai WORDS` with pipes, and do not wait for its end."""
        return subprocess.Popen(
            self.command(*words),
            cwd=self.work,
            env=self.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


@contextmanager
def installed(person: TestPerson | None, configuration: str) -> Iterator[Installation]:
    """An installation that runs tasks, with this configuration; it is stopped afterwards."""
    installation = Installation(person)
    installation.configure(configuration)
    try:
        yield installation.start()
    finally:
        installation.stop()


@contextmanager
def ended_afterwards() -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that are put in here are killed in the end."""
    started: list[subprocess.Popen[str]] = []
    try:
        yield started
    finally:
        for process in started:
            with process:
                process.kill()


def as_person(person: TestPerson) -> list[str]:
    """Become `person`, but able to read the Python that runs the tests, wherever that lies.

    Without the bit, access(2) would say that it is not there (it asks as an ordinary user would).
    """
    reading = ["--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search"]
    reading += ["--securebits", "+no_setuid_fixup"]
    user = ["--reuid", str(person.uid), "--regid", str(person.gid), "--init-groups"]
    return ["setpriv", *user, *reading, "--"]


@contextmanager
def become(person: TestPerson | None) -> Iterator[None]:
    """Be `person` for those who ask the kernel, and for files; None: stay who we are."""
    if person is None or not IS_ROOT:
        yield
        return
    groups = os.getgroups()
    os.setgroups(os.getgrouplist(person.name, person.gid))
    os.setegid(person.gid)
    os.seteuid(person.uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(groups)


def _processes_with(mark: bytes) -> Iterator[tuple[int, str]]:
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            command = Path("/proc", name, "cmdline").read_bytes()
            environment = Path("/proc", name, "environ").read_bytes()
        except OSError:
            continue
        if (mark in command or mark in environment) and not is_gone(int(name)):
            yield int(name), command.replace(b"\0", b" ").decode(errors="replace")

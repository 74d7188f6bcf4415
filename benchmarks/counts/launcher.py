"""The launcher: what it does for a task, with processes and control groups that are a script.

The whole program runs (its loop, journal, containments, private directories), as an ordinary user,
with a real socket and real files. A task is over after one turn; its control group is a directory
of plain files.
"""

from __future__ import annotations

import os
import select
import signal
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec

from counts import scripted, threads
from counts.counter import Counter
from counts.peer import Peer

HOME = "ume"
BATCH = 16
"""Tasks of one order."""
WARM_UP_TASKS, TASKS = 20 * BATCH, 30 * BATCH
KERNEL_FILES = {
    "cgroup.kill": "",
    "cgroup.procs": "",
    "cpu.stat": "usage_usec 1000\nuser_usec 1000\nsystem_usec 0\n",
    "cpu.weight": "100\n",
    "memory.events": "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\n",
    "memory.max": "max\n",
    "memory.oom.group": "0\n",
    "memory.peak": "0\n",
    "pids.current": "0\n",
    "pids.events": "max 0\n",
    "pids.max": "max\n",
}
"""Of a control group in which nothing runs any more."""


class Processes:
    """The system's processes, as far as the launcher asks for them."""

    def __init__(self, counter: Counter) -> None:
        self._counter = counter
        self._pid = 2000
        self._running: list[int] = []
        self._ended: list[int] = []
        usage = dict.fromkeys(
            ("ru_utime", "ru_stime", "ru_maxrss", "ru_inblock", "ru_oublock", "ru_minflt"), 0
        )
        self._usage = SimpleNamespace(**usage)
        replaced: list[tuple[str, Any]] = [
            ("posix_spawn", self._spawn),
            ("waitid", self._waitid),
            ("wait4", self._wait4),
        ]
        for name, function in replaced:
            setattr(os, name, function)

    def end_all(self) -> bool:
        """End what runs; return whether anything did."""
        self._ended += self._running
        self._running = []
        if self._ended:
            signal.raise_signal(signal.SIGCHLD)
        return bool(self._ended)

    def _spawn(self, *_: object, **__: object) -> int:
        self._counter.system_calls += 1
        self._pid += 1
        self._running.append(self._pid)
        return self._pid

    def _waitid(self, *_: object) -> SimpleNamespace | None:
        self._counter.system_calls += 1
        return SimpleNamespace(si_pid=self._ended[0]) if self._ended else None

    def _wait4(self, pid: int, _: int) -> tuple[int, int, SimpleNamespace]:
        self._counter.system_calls += 1
        self._ended.remove(pid)
        return pid, 0, self._usage


class Poll:
    """An epoll that asks the script where it would wait."""

    script: Script

    def __init__(self) -> None:
        self._real = _EPOLL()

    def register(self, descriptor: int, events: int) -> None:
        """As of epoll."""
        self._real.register(descriptor, events)

    def modify(self, descriptor: int, events: int) -> None:
        """As of epoll."""
        self._real.modify(descriptor, events)

    def poll(self, timeout_s: float | None = None) -> list[tuple[int, int]]:
        """Return what is readable; where nothing is, and somebody waits, the script goes on."""
        self.script.counter.system_calls += 1
        found = self._real.poll(0)
        while not found and timeout_s is None:
            self.script.step()
            found = self._real.poll(0)
        return found


_EPOLL = select.epoll


class Script:
    """The daemon's side: orders tasks, takes their ends."""

    def __init__(self, counter: Counter, processes: Processes, path: str) -> None:
        from iriai.launcher.contract import messages

        self.counter = counter
        self.before: dict[str, float] = {}
        self.after: dict[str, float] = {}
        self._contract = messages
        self._decode = msgspec.msgpack.Decoder(messages.FromLauncher).decode
        self._processes = processes
        self._path = path
        self._peer: Peer | None = None
        self._ordered = self._over = 0
        self._ended: list[Any] = []

    def step(self) -> None:
        """Do the next thing; the launcher waits for it."""
        with self.counter.paused():
            self._step()
        if self.before and not self.after:
            self.counter.enter(is_on=True)

    def _step(self) -> None:
        if self._peer is None:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            connection.connect(self._path)
            self._peer = Peer(connection)
            self._send(self._contract.Attach(self._contract.LAUNCHER_VERSION, 0))
            return
        for payload in self._peer.receive():
            message = self._decode(payload)
            if isinstance(message, self._contract.Exited):
                self._take(message)
        scripted.CLOCK.now_s += 0.001
        if self._over < self._ordered:
            if not self._processes.end_all():
                raise RuntimeError("the launcher waits, and its tasks have no process")
        elif self._over >= WARM_UP_TASKS + TASKS:
            self.after = self._counted()
            self._send(self._contract.ShutDown())
        else:
            if self._over >= WARM_UP_TASKS and not self.before:
                self.before = self._counted()
            self._order()

    def _take(self, message: Any) -> None:  # noqa: ANN401 - an `Exited`
        for end in message.exits:
            if end.cause != "completed":
                raise RuntimeError(f"a task of this case has failed: {end}")
        self._over += len(message.exits)
        self._ended += [end.attempt for end in message.exits]

    def _order(self) -> None:
        from iriai.model.ids import Account, AttemptId
        from iriai.model.job import JobSpec
        from iriai.model.resources import Resources

        contract = self._contract
        account = Account(scripted.GROUP, scripted.USER)
        needed = Resources(1, 256 << 20)
        spec = JobSpec(account, scripted.USER, "true", ("true",), "/tmp", needed, output="%t.out")
        environment = msgspec.msgpack.encode({"HOME": "/home/ann", "PATH": "/usr/bin:/bin"})
        template = contract.Template(spec, environment)
        first, self._ordered = self._ordered, self._ordered + BATCH
        attempts = [AttemptId(HOME, 1, index, 1) for index in range(first, first + BATCH)]
        orders = tuple(contract.StartOrder(attempt, 0) for attempt in attempts)
        messages: list[Any] = [contract.Launch((template,), orders)]
        if self._ended:
            messages.insert(0, contract.Discard(tuple(self._ended)))
            self._ended = []
        self._send(*messages)

    def _send(self, *messages: Any) -> None:  # noqa: ANN401 - of the contract
        assert self._peer is not None
        self._peer.send([msgspec.msgpack.encode(message) for message in messages])

    def _counted(self) -> dict[str, float]:
        assert self._peer is not None
        wire = {"messages": self._peer.messages, "wire_bytes": self._peer.bytes}
        return self.counter.counts | wire


def _control_groups(root: str) -> Any:  # noqa: ANN401 - a `CgroupSupport`
    """Return control groups that are directories of plain files."""
    from iriai.launcher.containment.cgroups.choose import CgroupSupport
    from iriai.launcher.containment.cgroups.hierarchy import ControllerMount
    from iriai.launcher.containment.cgroups.pool import Pool

    places = dict.fromkeys(("pids", "memory", "cpu", "cpuacct"), ControllerMount(2, root))
    make = os.makedirs

    def make_group(path: str, *rest: Any, **options: Any) -> None:  # noqa: ANN401 - as that
        make(path, *rest, **options)
        if str(path).startswith(root):
            for name, text in KERNEL_FILES.items():
                Path(path, name).write_text(text)

    setattr(os, "makedirs", make_group)  # noqa: B010 - a checker takes it for a mistake
    return CgroupSupport(Pool(places), places, {})


def measure(directory: Path) -> dict[str, dict[str, float]]:
    """Count what is done for a task: order, journal, start, end, report."""
    uid = os.getuid() or scripted.UID
    scripted.settle(uid=uid)
    from iriai.launcher import __main__ as program
    from iriai.launcher.contract.machine_config import MachineSettings, write_machine_file
    from iriai.launcher.settings import LauncherSettings

    counter = Counter()
    threads.script_threads(counter.watch_thread)
    scripted.become_user(str(directory), uid)
    state, tmp = directory / "state", directory / "tmp"
    for folder in (state, tmp):
        folder.mkdir(mode=0o755)
    write_machine_file(str(state), MachineSettings(tmp=str(tmp)))
    run, replaced = program._run, vars(program)  # noqa: SLF001 - what its process does
    replaced["choose"] = lambda *_: _control_groups(f"{directory}/groups")
    replaced["find_helper"] = lambda _: ("iriai-exec",)
    setattr(select, "epoll", Poll)  # noqa: B010 - a checker takes it for a mistake
    path = str(directory / "launcher.sock")
    script = Poll.script = Script(counter, Processes(counter), path)
    settings = LauncherSettings(str(state), path, uid, minimum_uid=0)
    with counter.on("launcher_task"), counter.paused():
        run(settings, lambda: None)
    counter.tell_functions()
    task = {name: (count - script.before[name]) / TASKS for name, count in script.after.items()}
    return {"launcher_task": task}

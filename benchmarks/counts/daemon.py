"""The daemon: tasks of an array, and single submissions, with a launcher that answers by script.

The whole service runs (event loop, cores, store, wire), with real sockets and a real database, in
scripted time. The launcher lets each task run for one of its turns, 4 ms; only its end is told.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sqlite3
from pathlib import Path
from typing import Any

import msgspec

from counts import scripted, threads
from counts.counter import Counter
from counts.peer import Peer
from counts.virtual_loop import VirtualLoop

HOME = "ume"
CPUS = 16
GATHER_S = 0.004
LOAD = "0.50 0.50 0.50 1/100 1000\n"
"""The machine's own would be another in each run."""
PROTOCOL_VERSION = 2
ANSWER = 1
"""The first element of an answer."""
WARM_UP_TASKS, TASKS = 300, 300
WARM_UP_SINGLES, SINGLES = 40, 60
ENVIRONMENT = {"HOME": "/home/ann", "LANG": "C.UTF-8", "PATH": "/usr/bin:/bin", "USER": "ann"}


class Statements:
    """Counts what SQLite is asked, by all connections of this process."""

    def __init__(self) -> None:
        self.statements = 0
        self.commits = 0
        connect = sqlite3.connect

        def watched(*arguments: Any, **options: Any) -> sqlite3.Connection:  # noqa: ANN401 - as that
            connection: sqlite3.Connection = connect(*arguments, **options)
            connection.set_trace_callback(self._asked)
            return connection

        setattr(sqlite3, "connect", watched)  # noqa: B010 - a checker takes it for a mistake

    def _asked(self, statement: str) -> None:
        self.statements += 1
        self.commits += statement.startswith("COMMIT")


class Scene:
    """A daemon, its launcher and a client."""

    def __init__(self, directory: Path, counter: Counter) -> None:
        self.counter = counter
        self.statements = Statements()
        self.loop = VirtualLoop()
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listening.bind(str(directory / "launcher.sock"))
        listening.listen()
        self.loop.run_until_complete(self._begin(directory))
        self._run()
        accepted, _ = listening.accept()
        self.launcher = Launcher(Peer(accepted))
        client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        client.connect(str(directory / "daemon.sock"))
        self.client = Client(Peer(client))
        self._settle()
        self.client.greet()
        self._settle()

    async def _begin(self, directory: Path) -> None:
        from iriai.config.reader import Configuration
        from iriai.config.sections import MachineSection
        from iriai.daemon.service import Service
        from iriai.daemon.startup.settings import DaemonSettings, ServiceMode
        from iriai.host.hardware import MachineFacts
        from iriai.model.paths import StatePaths
        from iriai.model.resources import Resources
        from iriai.state.role import Role
        from iriai.store.store import Store

        threads.script_threads(self.counter.watch_thread)
        paths = StatePaths(str(directory))
        for folder in (paths.store, paths.spool):
            os.mkdir(folder)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(paths.daemon_socket)
        listener.listen()
        memory_bytes = 64 << 30
        load_file = str(directory / "loadavg")
        Path(load_file).write_text(LOAD)
        settings = DaemonSettings(
            paths=paths,
            configuration=Configuration(machine=MachineSection(load_file=load_file)),
            facts=MachineFacts(CPUS, memory_bytes, 0, HOME, "boot"),
            capacity=Resources(CPUS, memory_bytes),
            mode=ServiceMode.SYSTEM,
            home=HOME,
            role=Role(),
            daemon_user="",
            owner_uid=0,
            listener=listener,
            ending=os.open(os.devnull, os.O_RDWR),
        )
        self.service = Service(settings, Store.open(Path(paths.database)))
        self.running = asyncio.ensure_future(self.service.run())

    def _run(self) -> None:
        self.loop.run_until_idle()
        if self.running.done():
            raise RuntimeError("the daemon has ended") from self.running.exception()

    def _settle(self) -> None:
        """Let everybody act until nobody has anything to do before time passes."""
        self._run()
        while self._act():
            self._run()

    def _act(self) -> bool:
        """Let client and launcher answer; return whether either had anything to say."""
        with self.counter.paused():
            return self.launcher.act() | self.client.act()

    def submit(self, tasks: int = 1) -> None:
        """Have the client submit a job."""
        with self.counter.paused():
            self.client.submit(tasks)
        self._settle()

    def step(self) -> None:
        """Let some milliseconds pass; tasks that ran before them are over."""
        self.loop.pass_time(GATHER_S)
        with self.counter.paused():
            self.launcher.turn()
        self._settle()

    def until_over(self, jobs: int) -> None:
        """Let time pass until so many jobs have been waited for."""
        for _ in range(100_000):
            if self.client.over == jobs:
                return
            self.step()
        raise RuntimeError("the jobs of this case do not end")

    def counted(self) -> dict[str, float]:
        """Everything that was counted so far."""
        peers = (self.launcher.peer, self.client.peer)
        return self.counter.counts | {
            "statements": self.statements.statements,
            "commits": self.statements.commits,
            "messages": sum(each.messages for each in peers),
            "wire_bytes": sum(each.bytes for each in peers),
        }


class Launcher:
    """Answers the daemon's orders."""

    def __init__(self, peer: Peer) -> None:
        from iriai.launcher.contract import messages

        self.peer = peer
        self._contract = messages
        self._decode = msgspec.msgpack.Decoder(messages.ToLauncher).decode
        self._encode = msgspec.msgpack.Encoder().encode
        self._ordered: list[Any] = []
        self._alive: list[Any] = []

    def act(self) -> bool:
        """Take in what was ordered; return whether anything was answered."""
        contract, answers = self._contract, []
        for payload in self.peer.receive():
            match self._decode(payload):
                case contract.Attach():
                    attached = contract.Attached(contract.LAUNCHER_VERSION, 999, "boot", (), (), ())
                    answers.append(self._encode(attached))
                case contract.Launch(_, orders):
                    self._ordered += [order.attempt for order in orders]
                case _:
                    pass
        self.peer.send(answers)
        return bool(answers)

    def turn(self) -> None:
        """End what runs, and start what was ordered; as such short tasks are told, once."""
        from iriai.model.state import EndCause
        from iriai.model.usage import Usage

        contract, now_s = self._contract, scripted.CLOCK.wall_s()
        messages: list[Any] = []
        if self._alive:
            usage = Usage(0.001, 1 << 20, 0, 0)
            began_s = now_s - GATHER_S
            fields = (EndCause.COMPLETED, 0, None, usage, began_s, now_s, GATHER_S)
            exits = [contract.Exit(attempt, *fields) for attempt in self._alive]
            messages.append(contract.Exited(tuple(exits)))
        self._alive, self._ordered = self._ordered, []
        self.peer.send([self._encode(message) for message in messages])


class Client:
    """Submits, and waits for what it submitted; on the wire, as docs/spec has it."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self._number = 0
        self.over = 0
        """Jobs that were waited for and have ended."""

    def greet(self) -> None:
        """Send the first request."""
        self._ask({"type": "hello", "version": PROTOCOL_VERSION})

    def submit(self, tasks: int = 1) -> None:
        """Submit a job."""
        environment = msgspec.msgpack.encode(ENVIRONMENT)
        draft: dict[str, object] = {
            "command": ["true"],
            "working_directory": "/tmp",
            "environment": environment,
        }
        if tasks > 1:
            draft["array"] = [(1, tasks, 1)]
        self._ask({"type": "submit", "draft": draft})

    def act(self) -> bool:
        """Read answers; return whether anything more was asked."""
        asked = False
        for payload in self.peer.receive():
            kind, _, *rest = msgspec.msgpack.decode(payload)
            if kind != ANSWER:
                raise RuntimeError(f"the daemon refused: {rest}")
            body = rest[0]
            if body["type"] == "submitted":
                self._ask({"type": "wait", "ids": [body["id"]]})
                asked = True
            elif body["type"] == "waited":
                [outcome] = body["outcomes"]
                if outcome["cause"] != "completed":
                    raise RuntimeError(f"a job of this case has failed: {outcome}")
                self.over += 1
        return asked

    def _ask(self, body: dict[str, object]) -> None:
        self._number += 1
        self.peer.send([msgspec.msgpack.encode([self._number, body])])


def _each(scene: Scene, units: int, before: dict[str, float]) -> dict[str, float]:
    """Return what was counted since `before`, for each unit."""
    return {name: (count - before[name]) / units for name, count in scene.counted().items()}


def measure(directory: Path) -> dict[str, dict[str, float]]:
    """Count a task of an array, and a single submission from its request to its end."""
    scripted.settle()
    scene = Scene(directory, Counter())
    scene.submit(WARM_UP_TASKS)
    scene.until_over(1)
    for number in range(WARM_UP_SINGLES):
        scene.submit()
        scene.until_over(2 + number)
    over = scene.client.over
    before = scene.counted()
    with scene.counter.on("array_task"):
        scene.submit(TASKS)
        scene.until_over(over + 1)
    task = _each(scene, TASKS, before)
    before = scene.counted()
    with scene.counter.on("single_submission"):
        for number in range(SINGLES):
            scene.submit()
            scene.until_over(over + 2 + number)
    single = _each(scene, SINGLES, before)
    scene.counter.tell_functions()
    return {"array_task": task, "single_submission": single}

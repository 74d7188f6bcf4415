"""What an honest user notices while another abuses the service, as far as they can.

A daemon of root with 8 cpus, in a cluster; an honest user's tasks of `sleep 0.2` run, and `jobs` is
asked over a new connection each 100 ms. Each kind of abuse is done for `--seconds` to the daemon,
and as long to a socket that only reads and discards, so that the abuser's own processor time counts
on both sides. `honest_p99_ms` (and its ratio to the same beside the other socket),
`honest_tasks_ratio`, `memory_extra_mb` (the most that daemon and launcher had more than before),
`memory_left_mb` (10 s after the end). The figures at the top are the worst of all kinds; `missed`
names for each goal the kinds that miss it, and `passed` says that there are none and that the
honest user was refused nothing. A run of all kinds takes 18 minutes. Root only.
"""

from __future__ import annotations

import argparse
import importlib
import os
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from harness import abusers
from harness.abusers import Place
from harness.live_network import people_kit, until
from harness.report import finish, machine_facts, percentile, progress

from iriai.model.problem import Problem

SECONDS = 60.0
SETTLE_S = 10.0
ASK_EACH_S = 0.1
TASKS = 100_000
GOALS = {
    "honest_p99_ms": 250,
    "honest_p99_ratio": 5,
    "honest_tasks_ratio": 0.9,
    "memory_extra_mb": 128,
    "memory_left_mb": 16,
}
CONFIGURATION = "[machine]\ncpus = 8\n[jobs]\nkill_grace_s = 1\n"

Machine = Any
"""`tests.endtoend.installation.Installation`: the tests are not checked for types."""
Person = Any
"""`tests.support.people.TestPerson`."""

identity_kit = importlib.import_module("tests.endtoend.test_identity")
fuzz_kit = importlib.import_module("tests.fuzz.live")
watcher_kit = importlib.import_module("tests.fuzz.watcher")


class Seen(NamedTuple):
    """By the honest user, in one phase."""

    p99_ms: float
    tasks_per_s: float
    unanswered: int
    memory_mb: float
    """The most that daemon and launcher had."""


class Honest:
    """The honest user: an array that runs, and questions."""

    def __init__(self, machine: Machine, person: Person) -> None:
        self._machine = machine
        self._person = person
        with machine.client(person) as client:
            words = machine.draft("sleep", "0.2", output="/dev/null", array=((1, TASKS, 1),))
            self.job = client.submit(words).id
        until(lambda: self._succeeded() > 0, "the first task")

    def watch(self, seconds: float) -> Seen:
        """Ask for that long."""
        times_ms, unanswered, most_kib = [], 0, 0
        began_s, before = time.monotonic(), self._succeeded()
        while time.monotonic() - began_s < seconds:
            asked_s = time.monotonic()
            try:
                with self._machine.client(self._person) as client:
                    client.jobs()
            except Problem as problem:
                progress(f"the honest user was refused: {problem}")
                unanswered += 1
            times_ms.append((time.monotonic() - asked_s) * 1000)
            most_kib = max(most_kib, memory_kib(self._machine))
            time.sleep(max(0.0, ASK_EACH_S - (time.monotonic() - asked_s)))
        rate = (until(self._succeeded, "the daemon, which may have ended") - before) / (
            time.monotonic() - began_s
        )
        return Seen(percentile([*times_ms, times_ms[-1]], 99), rate, unanswered, most_kib / 1024)

    def _succeeded(self) -> int:
        with self._machine.client(self._person) as client:
            return next((int(row.succeeded) for row in client.jobs() if row.id == self.job), 0)


def memory_kib(machine: Machine) -> int:
    """Resident memory of daemon and launcher."""
    return sum(watcher_kit.resident_kib(machine.pid(part)) for part in ("daemon", "launcher"))


@contextmanager
def sink() -> Iterator[tuple[Place, Place]]:
    """Two sockets, a Unix one and one of the network, from which all is read and discarded."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="iriai-sink-")))
        folder.chmod(0o755)
        unix = stack.enter_context(socket.socket(socket.AF_UNIX))
        unix.bind(str(folder / "socket"))
        (folder / "socket").chmod(0o666)
        tcp = stack.enter_context(socket.socket())
        tcp.bind(("127.0.0.1", 0))
        pid = os.fork()
        if pid == 0:
            try:
                abusers.allow_descriptors()
                _discard(unix, tcp)
            finally:
                os._exit(0)
        stack.callback(os.waitpid, pid, 0)
        stack.callback(os.kill, pid, 9)
        host, port = tcp.getsockname()
        yield Place(unix=str(folder / "socket")), Place(host=host, port=port)


def _discard(*listeners: socket.socket) -> None:
    import selectors

    waiting = selectors.DefaultSelector()
    for each in listeners:
        each.listen(1024)
        waiting.register(each, selectors.EVENT_READ, data=True)
    while True:
        for key, _ in waiting.select():
            found: Any = key.fileobj
            if key.data:
                waiting.register(found.accept()[0], selectors.EVENT_READ, data=False)
            else:
                with suppress(OSError):
                    if found.recv(1 << 18):
                        continue
                waiting.unregister(found)
                found.close()


class Scene:
    """The machine, its honest user and the one who is not."""

    def __init__(self, machine: Machine, honest: Honest, abuser: Person, seconds: float) -> None:
        self._machine = machine
        self._honest = honest
        self._abuser = abuser
        self._seconds = seconds

    def beside(self, kind: Callable[[Place, float], None], place: Place) -> Seen:
        """What the honest user sees while `kind` is done to `place`."""
        pid = abusers.begin(kind, place, self._seconds, self._abuser.uid, self._abuser.gid)
        seen = self._honest.watch(self._seconds)
        os.waitpid(pid, 0)
        return seen

    def measure(
        self, name: str, kind: Callable[[Place, float], None], target: Place, discards: Place
    ) -> dict[str, float]:
        """Do one kind of abuse, to the socket that discards and to the daemon."""
        base = self.beside(kind, discards)
        before_mb = memory_kib(self._machine) / 1024
        seen = self.beside(kind, target)
        self._clean()
        time.sleep(SETTLE_S if self._seconds > SETTLE_S else 0.1)
        row = {
            "honest_p99_ms": round(seen.p99_ms, 1),
            "honest_p99_ratio": round(seen.p99_ms / base.p99_ms, 2),
            "honest_tasks_ratio": round(seen.tasks_per_s / max(base.tasks_per_s, 1e-9), 3),
            "memory_extra_mb": round(max(0.0, seen.memory_mb - before_mb), 1),
            "memory_left_mb": round(max(0.0, memory_kib(self._machine) / 1024 - before_mb), 1),
            "unanswered": seen.unanswered,
        }
        progress(f"{name}: {row}")
        return row

    def _clean(self) -> None:
        """Cancel what the abuser has handed in."""
        with suppress(Problem), self._machine.client(self._abuser) as client:
            client.cancel(["name:*"])


def worst(rows: dict[str, dict[str, float]]) -> dict[str, float]:
    """The worst of each figure."""
    return {
        name: (min if name == "honest_tasks_ratio" else max)(row[name] for row in rows.values())
        for name in GOALS
    }


def judged(rows: dict[str, dict[str, float]]) -> dict[str, list[str]]:
    """For each goal the kinds that miss it: no longer than 5 times and 250 ms, and so on."""
    return {
        name: [
            kind
            for kind, row in rows.items()
            if (row[name] < goal if name == "honest_tasks_ratio" else row[name] > goal)
        ]
        for name, goal in GOALS.items()
    }


def main() -> None:
    """Do all kinds, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each phase")
    parser.add_argument("--kind", action="append", help="one kind alone; repeatable")
    parser.add_argument("--quick", action="store_true", help="two seconds each, as a check")
    parser.add_argument("--no-peers", action="store_true", help="there are none")
    given = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("abuse.py needs root: it becomes two users")
    seconds = 2.0 if given.quick else given.seconds
    machine_kind = machine_facts(Path(tempfile.gettempdir()))
    rows: dict[str, dict[str, float]] = {}
    with ExitStack() as stack:
        people = stack.enter_context(people_kit.temporary_people())
        machine = stack.enter_context(identity_kit.machine("ume", CONFIGURATION, people.ann))
        place = stack.enter_context(tempfile.TemporaryDirectory())
        target = fuzz_kit.Target(machine, people, Path(place))
        identity, context = target.member()
        host, port = target.address
        local = Place(unix=machine.paths.daemon_socket)
        remote = Place(host=host, port=port, member=(identity.name, context))
        local_sink, remote_sink = stack.enter_context(sink())
        scene = Scene(machine, Honest(machine, people.ann), people.eve, seconds)
        every = [(n, k, local, local_sink) for n, k in abusers.LOCAL.items()]
        every += [(n, k, remote, remote_sink) for n, k in abusers.REMOTE.items()]
        for name, kind, at, discards in every:
            if not given.kind or name in given.kind:
                rows[name] = scene.measure(name, kind, at, discards)
    finish(
        {
            **worst(rows),
            "kinds": rows,
            "goals": GOALS,
            "missed": (missed := judged(rows)),
            "passed": not any(missed.values()) and not any(r["unanswered"] for r in rows.values()),
            "settings": {"seconds": seconds, "cpus": 8, "runs": 1},
            "machine": machine_kind,
        }
    )


if __name__ == "__main__":
    main()

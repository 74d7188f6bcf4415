"""A real daemon of root's that is flooded, and whoever looks at it from outside meanwhile."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from iriai.client import Client
from iriai.model.problem import Problem
from iriai.wire.requests import Failure
from tests.endtoend.bad_peer import Lab
from tests.endtoend.installation import Installation
from tests.endtoend.test_identity import machine, say
from tests.fuzz.mendings import SMALL, without
from tests.fuzz.watcher import IDENTITY, Watcher
from tests.security.bad_client import BadClient, bad_client, nested
from tests.support.people import People, TestPerson
from tests.support.waiting import until

MIB = 1 << 20
CONNECTIONS, OF_A_USER = 40, 20
UNFINISHED_BYTES, UNSENT_BYTES, JOB_BYTES = 8 * MIB, 4 * MIB, 4 * MIB
CONNECTS, REQUESTS, WAITS, JOBS, DESCRIPTORS = 200, 3_000, 500, 30, 3
CONFIGURATION = f"""
[machine]
cpus = 16
memory = "8G"
[limits]
connections = {CONNECTIONS}
connections_per_user = {OF_A_USER}
connections_reserved = 10
connects_per_s = 100.0
connects_burst = {CONNECTS}
requests_per_s = 500.0
requests_burst = {REQUESTS}
waits_per_user = {WAITS}
hello_s = 3.0
unfinished_bytes_per_user = {UNFINISHED_BYTES}
unsent_bytes_per_user = {UNSENT_BYTES}
descriptors_per_user = {DESCRIPTORS}
jobs_per_user = {JOBS}
job_bytes_per_user = {JOB_BYTES}
"""
"""Smaller than usual, so that a flood is short."""
LEFT_MB = 32.0
"""Of memory, which a daemon may take for what it does for the first time."""
BACK_S = 10.0
"""For memory to come back."""
WAIT_S = 5.0
"""For what is closed or ended at once, on a busy machine."""
PAUSE_S = 0.2
NESTED = msgspec.msgpack.encode([1, {"type": "hello", "version": 1}, msgspec.Raw(nested(3_000))])
Complaints = Iterator[str]


class Scene:
    """A daemon of root's that is flooded, perhaps with a mending taken out."""

    def __init__(self, installation: Installation, people: People, directory: Path) -> None:
        self.installation = installation
        self.people = people
        self._directory = directory
        self._lab: Lab | None = None

    @property
    def lab(self) -> Lab:
        """It in a cluster, with a port; made when it is first asked for."""
        if self._lab is None:
            say(self.installation, "cluster", "create", "lab")
            until(self.installation.runs_tasks, "the machine, in a cluster now")
            self._lab = Lab(self.installation, self.installation, self._directory)
        return self._lab

    @contextmanager
    def user(self, person: TestPerson | None = None) -> Iterator[BadClient]:
        """A connection of Eve's, who said nothing yet."""
        with ExitStack() as stack:
            with IDENTITY:
                opened = bad_client(self.installation, person or self.people.eve)
                found = stack.enter_context(opened)
            yield found

    @contextmanager
    def greeted(self) -> Iterator[BadClient]:
        """One that said Hello.

        Eve is turned away as long as the daemon counts connections of hers that have just ended.
        """
        until_s = time.monotonic() + WAIT_S
        while True:
            with self.user() as eve:
                if _is_welcome(eve) or time.monotonic() > until_s:
                    yield eve
                    return
            time.sleep(PAUSE_S)

    @contextmanager
    def client(self, person: TestPerson | None = None) -> Iterator[Client]:
        """One by our own library."""
        with ExitStack() as stack:
            with IDENTITY:
                found = self.installation.client(person or self.people.eve)
                entered = stack.enter_context(found)
            yield entered

    def draft(self, *command: str, **fields: Any) -> Any:
        """A job that works where everybody may be."""
        return self.installation.draft(*command, **{"cwd": "/tmp", "output": "/dev/null"} | fields)

    def limited(self, key: str) -> int:
        """How often Eve was refused or slowed by a limit of `[limits]`, as the daemon says."""
        with Client.connect(self.installation.state, follow=False) as root:
            rows = root.status().limited
        eve = self.people.eve.name
        return sum(row.times for row in rows if (row.user, row.limit) == (eve, key))

    def without_refusal(self, key: str, before: int) -> Complaints:
        """Complain where that is no more than `before`."""
        if self.limited(key) <= before:
            yield f"{key}: what is beyond is not refused"


def _is_welcome(eve: BadClient) -> bool:
    try:
        return not isinstance(eve.greet(), Failure)
    except ConnectionError:
        return False


def refused(reply: Any, words: str) -> Complaints:
    """Complain where `reply` is no refusal that says `words`."""
    told = f"{reply.code} {reply.message} {reply.hint}" if isinstance(reply, Failure) else ""
    if words not in told:
        yield f"not refused with '{words}': {str(reply)[:200]}"


def is_closed(eve: BadClient, wait_s: float = WAIT_S) -> bool:
    """Whether the daemon closes a connection soon."""
    eve.socket.settimeout(wait_s)
    try:
        while eve.socket.recv(1 << 18):
            pass
    except TimeoutError:
        return False
    except OSError:
        return True
    return True


Flood = Callable[[Scene], Complaints]


@contextmanager
def scene_of(people: People, *taken_out: str, has_usual_limits: bool = False) -> Iterator[Scene]:
    """A daemon of root's, started without these mendings, with lower limits than usual."""
    configuration = CONFIGURATION.partition("[limits]")[0] if has_usual_limits else CONFIGURATION
    names = taken_out if has_usual_limits else (SMALL, *taken_out)
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        installation = stack.enter_context(
            machine("ume", configuration, people.ann, environment=without(*names))
        )
        yield Scene(installation, people, place)


def reported(
    scene: Scene, flood: Flood, *, is_at_port: bool = False, is_heavy: bool = False
) -> list[str]:
    """What is to complain about while and after `scene` is flooded; nothing, where it holds.

    Of a heavy flood turns and memory are not looked at.
    """
    if is_at_port:
        scene.lab  # noqa: B018 - made before anybody watches
    watcher = Watcher(scene.installation, 0.0)
    watcher.begin()
    try:
        found = list(flood(scene))
    except (OSError, Problem, AssertionError) as error:
        found = [f"{type(error).__name__}: {error}"]
    seen = watcher.end()
    found += [f"{seen[each]} {each}" for each in ("ends", "tracebacks") if seen[each]]
    if is_heavy:
        return found
    until_s = time.monotonic() + BACK_S
    while (left_mb := watcher.memory_left_mb()) > LEFT_MB and time.monotonic() < until_s:
        time.sleep(0.5)
    if seen["slow_turns"]:
        found.append(f"{seen['slow_turns']} slow turns, {seen['slowest_turn_s']} s at most")
    return found + ([f"{left_mb} MB of memory do not come back"] if left_mb > LEFT_MB else [])

"""One user who takes all they can of the daemon, and others who are served all the same."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from iriai.model.problem import ExitCode, Refused
from iriai.wire.requests import Answer, Failure, Jobs, Reply, Status
from tests.endtoend.installation import Installation
from tests.security.bad_client import BadClient, bad_client
from tests.support.people import People, TestPerson
from tests.support.waiting import until

pytestmark = pytest.mark.root

ROOT = TestPerson("root", 0, 0, ("root",))
CONNECTIONS, OF_A_USER, OF_OPERATORS = 40, 20, 10
UNFINISHED_BYTES = 8 << 20
CONFIGURATION = f"""
[machine]
cpus = 2
memory = "1G"

[limits]
connections = {CONNECTIONS}
connections_per_user = {OF_A_USER}
connections_reserved = {OF_OPERATORS}
hello_s = 1.5
unfinished_bytes_per_user = {UNFINISHED_BYTES}
descriptors_per_user = 3
"""


@pytest.fixture(scope="module")
def served(people: People) -> Iterator[Installation]:
    """A daemon of root's with smaller limits than usual."""
    installation = Installation(people.ann)
    installation.configure(CONFIGURATION)
    try:
        yield installation.start()
    finally:
        installation.stop()


def connections(stack: ExitStack, installation: Installation, person: TestPerson) -> list[Reply]:
    """As many as they get, and what each was told when it said Hello; the last was refused."""
    told: list[Reply] = []
    while not told or isinstance(told[-1], Answer):
        client = stack.enter_context(bad_client(installation, person))
        told.append(client.greet())
    return told


def descriptors_of(installation: Installation) -> int:
    """How many the daemon has open."""
    return len(os.listdir(f"/proc/{installation.pid('daemon')}/fd"))


def memory_bytes(installation: Installation) -> int:
    """What the daemon has resident."""
    pages = Path(f"/proc/{installation.pid('daemon')}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGESIZE")


def test_connections_of_one_user(undisturbed: Installation, people: People):
    """T9c: they have so many and no more; others, and root, are served."""
    with ExitStack() as stack:
        told = connections(stack, undisturbed, people.eve)
        assert len(told) == OF_A_USER + 1
        refused = told[-1]
        assert isinstance(refused, Failure)
        assert refused.exit_code == ExitCode.UNREACHABLE
        assert f"{people.eve.name} has {OF_A_USER} connections" in refused.message
        assert "connections_per_user in [limits] of iriai.toml" in refused.hint
        assert undisturbed.call("jobs", person=people.ann).returncode == 0


def test_connections_of_all_users(undisturbed: Installation, people: People):
    """T9c: several together leave room for operators."""
    with ExitStack() as stack:
        connections(stack, undisturbed, people.eve)
        told = connections(stack, undisturbed, people.bob)
        refused = told[-1]
        assert isinstance(refused, Failure)
        assert refused.code == "too-many-clients"
        assert undisturbed.call("jobs", person=people.ann).returncode == ExitCode.UNREACHABLE
        with bad_client(undisturbed, ROOT) as root:
            assert isinstance(root.greet(), Answer)
            assert isinstance(root.ask(Status()), Answer)


def test_connections_that_say_nothing(undisturbed: Installation, people: People):
    """T9c: they are closed after a while; who has said Hello may be silent for long."""
    with bad_client(undisturbed, people.ann) as ann, bad_client(undisturbed, people.eve) as eve:
        ann.greet()
        assert eve.is_cut_off()
        assert isinstance(ann.ask(Jobs()), Answer)


def test_descriptors_beside_an_unfinished_frame(undisturbed: Installation, people: People):
    """T9f: a request takes one; who passes more is cut off, and they are closed."""
    before = descriptors_of(undisturbed)
    with bad_client(undisturbed, people.eve) as eve, Path(os.devnull).open("rb") as null:
        eve.greet()
        eve.send(b"\x00\x00\x10\x00")
        for _ in range(100):
            try:
                socket.send_fds(eve.socket, [b"x"], [null.fileno()] * 10)
            except OSError:
                break
        assert eve.is_cut_off()
    until(lambda: descriptors_of(undisturbed) <= before, "what was passed to be closed")


def test_descriptors_of_jobs_that_wait(undisturbed: Installation, people: People):
    """T9f: so many for each user, given back with the job."""
    with undisturbed.client(people.bob) as client, Path(os.devnull).open("rb") as null:
        draft = undisturbed.draft("true", held=True, cwd="/tmp")
        held = [client.submit(draft, null.fileno()).id for _ in range(3)]
        with pytest.raises(Refused) as refused:
            client.submit(draft, null.fileno())
        assert "descriptors_per_user in [limits]" in refused.value.hint
        client.cancel(held)
        until(lambda: can_submit(undisturbed, people.bob, null.fileno()), "room for another")


def can_submit(installation: Installation, person: TestPerson, descriptor: int) -> bool:
    with installation.client(person) as client:
        job = client.submit(installation.draft("true", held=True, cwd="/tmp"), descriptor).id
        client.cancel([job])
    return True


def test_unfinished_frames(undisturbed: Installation, people: People):
    """T9g: those of one user have a bound in all, and their memory comes back."""
    before = memory_bytes(undisturbed)
    piece = bytes(UNFINISHED_BYTES // 3)
    with ExitStack() as stack:
        eves = [stack.enter_context(bad_client(undisturbed, people.eve)) for _ in range(10)]
        for eve in eves:
            eve.greet()
            eve.send(len(piece + b"more").to_bytes(4, "big") + piece)
        left = [eve for eve in eves if not is_closed(eve)]
        assert len(left) <= 3
        assert memory_bytes(undisturbed) - before < 4 * UNFINISHED_BYTES
    until(lambda: memory_bytes(undisturbed) - before < UNFINISHED_BYTES // 2, "the memory back")


def is_closed(client: BadClient) -> bool:
    """Whether the daemon closed it; one that it reads to the end has nothing to say."""
    client.socket.settimeout(1.0)
    try:
        return client.is_cut_off()
    except TimeoutError:
        return False

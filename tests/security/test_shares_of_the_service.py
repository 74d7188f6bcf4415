"""One user who takes all they can of the daemon, and others who are served all the same."""

from __future__ import annotations

import os
import select
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from iriai.model.problem import ExitCode, Problem, Refused
from iriai.model.submission import Interaction
from iriai.wire.changes import (
    Alter,
    Cancel,
    Hold,
)
from iriai.wire.codec import request_frame
from iriai.wire.envelopes import Answer, Reply, Request
from iriai.wire.exchange import IDS_MAX
from iriai.wire.reports import Status
from iriai.wire.requests import (
    Failure,
    Jobs,
    Submitted,
    Wait,
)
from tests.endtoend.installation import Installation, installed
from tests.security.bad_client import BadClient, bad_client
from tests.support.people import People, TestPerson
from tests.support.waiting import until

pytestmark = pytest.mark.root

ROOT = TestPerson("root", 0, 0, ("root",))
CONNECTIONS, OF_A_USER, OF_OPERATORS = 40, 20, 10
UNFINISHED_BYTES = 8 << 20
JOB_BYTES = 4 << 20
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
job_bytes_per_user = {JOB_BYTES}
"""


@pytest.fixture(scope="module")
def served(people: People) -> Iterator[Installation]:
    """A daemon of root's with smaller limits than usual."""
    with installed(people.ann, CONFIGURATION) as installation:
        yield installation


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
        assert limited(undisturbed, ROOT)[people.eve.name, "connections_per_user"] >= 1
        assert not limited(undisturbed, people.ann)
        assert people.eve.name not in undisturbed.call("doctor", person=people.ann).stdout


def limited(installation: Installation, person: TestPerson) -> dict[tuple[str, str], int]:
    """Who was refused or slowed, as `person` sees it, and by which limit how often."""
    with installation.client(person) as client:
        return {(row.user, row.limit): row.times for row in client.status().limited}


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
        assert is_cut_off(eve)
        assert isinstance(ann.ask(Jobs()), Answer)


def test_descriptors_beside_an_unfinished_frame(undisturbed: Installation, people: People):
    """T9f: no request takes any; who passes some is cut off, and they are closed."""
    before = descriptors_of(undisturbed)
    with bad_client(undisturbed, people.eve) as eve, Path(os.devnull).open("rb") as null:
        eve.greet()
        eve.send(b"\x00\x00\x10\x00")
        for _ in range(100):
            try:
                socket.send_fds(eve.socket, [b"x"], [null.fileno()] * 10)
            except OSError:
                break
        assert is_cut_off(eve)
    until(lambda: descriptors_of(undisturbed) <= before, "what was passed to be closed")


def test_inputs_of_jobs_that_wait(undisturbed: Installation, people: People):
    """T9f: so many for each user, given back with the job."""
    with undisturbed.client(people.bob) as client:
        draft = undisturbed.draft("true", held=True, cwd="/tmp", interaction=Interaction.STREAM)
        held = [client.submit(draft, takes_input=True).id for _ in range(3)]
        with pytest.raises(Refused) as refused:
            client.submit(draft, takes_input=True)
        assert "descriptors_per_user in [limits]" in refused.value.hint
        client.cancel(held)
        until(lambda: can_submit(undisturbed, people.bob), "room for another")


def can_submit(installation: Installation, person: TestPerson) -> bool:
    with installation.client(person) as client:
        draft = installation.draft("true", held=True, cwd="/tmp", interaction=Interaction.STREAM)
        job = client.submit(draft, takes_input=True).id
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


def is_cut_off(client: BadClient) -> bool:
    """Whether an end comes; waits for it."""
    try:
        while True:
            client.reply()
    except ConnectionError:
        return True


def is_closed(client: BadClient) -> bool:
    """Whether the daemon closed it; one that it reads to the end has nothing to say."""
    client.socket.settimeout(1.0)
    try:
        return is_cut_off(client)
    except TimeoutError:
        return False


def test_many_ids_in_one_request(undisturbed: Installation, people: People):
    """T9a: there is a bound for each request."""
    ids = tuple(f"ume-{number}" for number in range(200_000))
    with bad_client(undisturbed, people.eve) as eve:
        eve.greet()
        for body in (Cancel(ids), Hold(ids), Wait(ids), Alter(ids, cpus=2)):
            refused = eve.ask(body)
            assert isinstance(refused, Failure)
            assert "10000 of one request" in refused.message


def test_others_are_served_while_many_ids_are_looked_at(undisturbed: Installation, people: People):
    """T9a: ids of jobs that have finished are looked up in the store, each for itself."""
    with undisturbed.client() as client:
        job = client.submit(undisturbed.draft("true")).id
        client.wait([job])
    ids = tuple(f"{job}.0-{last}" for last in range(IDS_MAX))
    with bad_client(undisturbed, people.eve) as eve, bad_client(undisturbed, people.ann) as ann:
        eve.greet()
        ann.greet()
        assert_served_during(
            ann, [eve], [request_frame(Request(n, Cancel(ids))) for n in range(10)]
        )


def assert_served_during(honest: BadClient, others: list[BadClient], flood: list[bytes]) -> None:
    """Five requests are answered before all of `flood`, which each of the others sends."""
    answered, most = [0], len(flood) * len(others)
    reader = threading.Thread(target=read_all, args=(others, most, answered))
    for other in others:
        threading.Thread(target=other.send, args=(b"".join(flood),)).start()
    reader.start()
    for _ in range(5):
        assert isinstance(honest.ask(Jobs()), Answer)
    before = answered[0]
    reader.join(timeout=60)
    assert before < answered[0] == most


def test_cancelling_very_many_from_the_command_line(undisturbed: Installation, people: People):
    """T9a: the client asks in several requests, and tells of all."""
    with undisturbed.client() as client:
        job = client.submit(undisturbed.draft("true", held=True)).id
        client.cancel([job])
    names = [f"{job}.{index}" for index in range(20_000)]
    done = undisturbed.call("cancel", *names, person=people.ann)
    assert done.returncode == ExitCode.REFUSED
    assert done.stderr.count("has finished") == len(names)


@pytest.mark.parametrize("pattern", ["[" * 12_000, "*a" * 6000, "[!" * 500])
def test_patterns_that_take_long(undisturbed: Installation, people: People, pattern: str):
    """T9b: they are no longer than a name may be."""
    with bad_client(undisturbed, people.eve) as eve:
        eve.greet()
        named = Cancel((f"name:{pattern}",)), Jobs(name=pattern), Jobs(name=pattern, finished=True)
        for body in named:
            refused = eve.ask(body)
            assert isinstance(refused, Failure)
            assert "at most 256" in refused.hint


def test_others_are_served_in_a_flood(undisturbed: Installation, people: People):
    """T9c: what one asks on ten connections waits, and not what others ask."""
    with ExitStack() as stack:
        ann = stack.enter_context(bad_client(undisturbed, people.ann))
        ann.greet()
        eves = [stack.enter_context(bad_client(undisturbed, people.eve)) for _ in range(10)]
        for eve in eves:
            eve.greet()
        flood = [request_frame(Request(n, Cancel(("ume-1",)))) for n in range(5_000)]
        assert_served_during(ann, eves, flood)


def read_all(clients: list[BadClient], most: int, answered: list[int]) -> None:
    """Count what they are answered, until that is `most`."""
    while answered[0] < most:
        for ready in select.select([client.socket for client in clients], [], [], 60)[0]:
            client = next(each for each in clients if each.socket is ready)
            client.reply()
            answered[0] += 1 + client.forget_replies()


def test_jobs_with_large_environments(undisturbed: Installation, people: People):
    """T9h: what could never start is not kept, and so many bytes of one user."""
    with undisturbed.client(people.bob) as client:
        large = undisturbed.draft("true", held=True, cwd="/tmp", env={"LARGE": "x" * (2 << 20)})
        with pytest.raises(Problem):
            client.submit(large)
        allowed = {f"LARGE{place}": "x" * 100_000 for place in range(8)}
        draft = undisturbed.draft("true", held=True, cwd="/tmp", env=allowed)
        told = client.submit_many([draft] * 10)
        held = [each.id for each in told if isinstance(each, Submitted)]
        refused = [each for each in told if isinstance(each, Problem)]
        assert len(held) == JOB_BYTES // 800_000
        assert {each.code for each in refused} == {"too-many-job-bytes"}
        assert "job_bytes_per_user in [limits]" in refused[0].hint
        client.cancel(held)
        client.wait(held)
        client.cancel([client.submit(draft).id])

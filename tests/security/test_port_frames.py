"""Bad frames at the port, over real TLS, before anybody has shown who they are (T3b)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from iriai.system.frames import frame
from iriai.wire.greetings import greeting_frame
from iriai.wire.joining import AskAuthority, AuthorityShown
from tests.endtoend.bad_peer import Lab, Peer
from tests.endtoend.installation import Installation
from tests.endtoend.test_identity import machine, say
from tests.security.bad_client import nested
from tests.security.test_port import stranger
from tests.support.people import People
from tests.support.waiting import until

pytestmark = pytest.mark.root
DEEP = 3_000
ADDRESS = "127.0.9.1"


@pytest.fixture(scope="module")
def lab(people: People, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with machine("ume", person=people.ann) as ume:
        say(ume, "cluster", "create", "lab")
        until(ume.runs_tasks, "the machine, in a cluster now")
        yield Lab(ume, ume, tmp_path_factory.mktemp("peers"))


@pytest.fixture
def undisturbed(lab: Lab) -> Iterator[Installation]:
    """Afterwards it is the same daemon, no error of ours was logged, and a job runs."""
    before = lab.ume.pid("daemon")
    yield lab.ume
    with lab.ume.client() as client:
        [outcome] = client.wait([client.submit(lab.ume.draft("true")).id])
    assert outcome.cause == "completed"
    assert lab.ume.pid("daemon") == before
    assert "an internal error of iriai" not in Path(lab.ume.paths.log_of("daemon")).read_text()


@pytest.mark.parametrize(
    "payload",
    [
        msgspec.msgpack.encode([1, {"type": "hello", "unknown": msgspec.Raw(nested(DEEP))}]),
        msgspec.msgpack.encode([1, {"type": "hello", "version": 1}, msgspec.Raw(nested(DEEP))]),
        nested(DEEP),
    ],
)
def test_nested_values_of_a_stranger(lab: Lab, undisturbed: Installation, payload: bytes):
    """T3b: anybody who reaches the port; the next stranger is answered."""
    for _ in range(3):
        with stranger(lab, ADDRESS) as oni:
            oni.send(frame(payload))
            assert oni.last_word().code == "bad-request"
    with stranger(lab, ADDRESS) as momo:
        momo.greet()
        assert isinstance(momo.ask(AskAuthority()).body, AuthorityShown)


def test_nested_values_in_a_greeting(lab: Lab, undisturbed: Installation):
    """T3b: with a certificate, before the greeting is answered."""
    honest = Peer(lab.member("kiku"), lab.address)
    greeting = honest.greeting()
    honest.socket.close()
    content = greeting_frame(greeting)[4:]
    oni = Peer(lab.member("oni"), lab.address)
    with oni.socket:
        oni.socket.sendall(frame(bytes([content[0] + 1]) + content[1:] + nested(DEEP)))
        oni.await_end()
    again = Peer(lab.member("momo"), lab.address)
    again.begin()
    again.socket.close()

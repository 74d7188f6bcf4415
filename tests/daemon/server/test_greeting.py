"""A client is greeted at once; everything else that it asks has its turn."""

from __future__ import annotations

from types import SimpleNamespace

from iriai.daemon.server.connections import ClientSession
from iriai.identity.users.permissions import Caller
from iriai.system.passwd_cache import Person
from iriai.wire.codec import decode_reply, request_frame
from iriai.wire.envelopes import Answer, Request
from iriai.wire.reports import Status
from iriai.wire.requests import (
    PROTOCOL_VERSION,
    Failure,
    Hello,
    Welcome,
)

LENGTH_BYTES = 4
ANN = Caller(Person(1001, "ann", "lab", ()), operator=False)
NOBODY = Caller(Person(-1, "", "", ()), operator=False)
SETTINGS = SimpleNamespace(
    home="ume",
    paths=SimpleNamespace(directory="/var/lib/iriai"),
    role=SimpleNamespace(front=""),
)


class Scene:
    """One session, without a socket, and whether it waits for a turn."""

    def __init__(self, caller: Caller = ANN) -> None:
        self.waits = 0
        clients = SimpleNamespace(
            room=SimpleNamespace(unsent=None),
            turns=SimpleNamespace(ready=self._ready),
            flush_later=lambda _session: None,
            settings=SETTINGS,
        )
        stream = SimpleNamespace(redirect=lambda *_: None, drains_to=lambda *_: None)
        self.session = ClientSession(clients, caller, {}, stream)  # type: ignore[arg-type]

    def _ready(self, _session) -> None:
        self.waits += 1

    def ask(self, *bodies):
        """One piece of bytes with these requests; returns what is answered at once."""
        frames = [request_frame(Request(number, each)) for number, each in enumerate(bodies, 1)]
        self.session._frames([frame[LENGTH_BYTES:] for frame in frames])
        told = [decode_reply(each[LENGTH_BYTES:]) for each in self.session._unsent]
        self.session._unsent.clear()
        return told


def test_hello_is_answered_without_a_turn():
    scene = Scene()
    [answer] = scene.ask(Hello(PROTOCOL_VERSION))
    assert isinstance(answer, Answer)
    assert isinstance(answer.body, Welcome)
    assert (answer.body.home, answer.body.user) == ("ume", "ann")
    assert answer.body.state_directory == "/var/lib/iriai"
    assert scene.waits == 0


def test_who_has_no_name_is_not_told_the_paths():
    [answer] = Scene(NOBODY).ask(Hello(PROTOCOL_VERSION))
    assert (answer.body.user, answer.body.state_directory) == ("", "")


def test_what_follows_waits_for_its_turn():
    scene = Scene()
    assert len(scene.ask(Hello(PROTOCOL_VERSION), Status())) == 1
    assert scene.waits == 1


def test_only_the_first_is_answered_at_once():
    scene = Scene()
    [refused] = scene.ask(Hello(PROTOCOL_VERSION + 1))
    assert isinstance(refused, Failure)
    assert refused.code == "other-version"
    assert scene.ask(Hello(PROTOCOL_VERSION + 1)) == []
    assert scene.waits == 1

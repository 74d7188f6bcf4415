"""One bad frame costs whoever sent it their connection, or their request, and nobody else."""

from __future__ import annotations

import msgspec
import pytest

from iriai.daemon.server.connections import HELLO_BYTES_MAX, REQUEST_BYTES_MAX
from iriai.model.problem import ExitCode
from iriai.system.frames import frame
from iriai.wire.machines import AskMatch
from iriai.wire.requests import Failure, Submit, Submitted
from tests.endtoend.installation import Installation
from tests.security.bad_client import bad_client, nested
from tests.support.people import People

pytestmark = pytest.mark.root
DEEP = 3_000
FAR = 2**64 - 1
MANY_DIGITS = "1" * 5000


@pytest.mark.parametrize(
    "payload",
    [
        msgspec.msgpack.encode([1, {"type": "hello", "unknown": msgspec.Raw(nested(DEEP))}]),
        msgspec.msgpack.encode([1, {"type": "hello", "version": 1}, msgspec.Raw(nested(DEEP))]),
    ],
)
def test_nested_values_before_hello(undisturbed: Installation, people: People, payload: bytes):
    """T3a: by any user of the machine."""
    for _ in range(3):
        with bad_client(undisturbed, people.eve) as eve:
            eve.send(frame(payload))
            assert "nested too deeply" in eve.last_word().message


def test_nested_values_in_a_request(undisturbed: Installation, people: People):
    """T3a: within a field that nobody knows, which is passed over."""
    for depth in map(msgspec.Raw, (nested(1500), nested(100_000))):
        with bad_client(undisturbed, people.eve) as eve:
            eve.greet()
            eve.send(frame(msgspec.msgpack.encode([1, {"type": "status", "unknown": depth}])))
            assert "nested too deeply" in eve.last_word().message


@pytest.mark.parametrize("text", [f"Memory > {MANY_DIGITS}", f"{MANY_DIGITS} > 1", "1e999 > 1"])
def test_requirements_with_thousands_of_digits(
    undisturbed: Installation, people: People, text: str
):
    """T3e: they are refused as any number that is too large, in `submit` and in `match`."""
    draft = undisturbed.draft("true", requirements=text)
    with bad_client(undisturbed, people.eve) as eve:
        eve.greet()
        for body in (Submit(draft), AskMatch(text)):
            refused = eve.ask(body)
            assert isinstance(refused, Failure)
            assert refused.exit_code == ExitCode.USAGE
            assert "too large" in refused.message
        good = undisturbed.draft("true", requirements="Memory >= 0")
        assert isinstance(eve.ask(Submit(good, dry_run=False)).body, Submitted)


def test_a_long_frame_before_hello(undisturbed: Installation, people: People):
    """T9g: nothing is kept of what nobody needs before they have said who they are."""
    with bad_client(undisturbed, people.eve) as eve:
        eve.send((HELLO_BYTES_MAX + 1).to_bytes(4, "big"))
        assert f"the limit is {HELLO_BYTES_MAX}" in eve.last_word().message
    with bad_client(undisturbed, people.eve) as eve:
        eve.greet()
        eve.send((REQUEST_BYTES_MAX + 1).to_bytes(4, "big"))
        assert f"the limit is {REQUEST_BYTES_MAX}" in eve.last_word().message


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("time_limit_s", float("nan")),
        ("lease_s", float("inf")),
        ("urgency", float("-inf")),
        ("cpus", FAR),
        ("memory_bytes", FAR),
        ("array", [[0, FAR, 1]]),
        ("named", [["licence", FAR]]),
    ],
)
def test_a_number_that_cannot_be_counted_with(
    undisturbed: Installation, people: People, field: str, value: object
):
    """T3: it costs the request; the connection answers the next one."""
    draft = msgspec.to_builtins(undisturbed.draft("true"), builtin_types=(bytes,))
    with bad_client(undisturbed, people.eve) as eve:
        eve.greet()
        refused = eve.ask_encoded({"type": "submit", "draft": draft | {field: value}})
        assert isinstance(refused, Failure)
        assert (refused.exit_code, refused.code) == (ExitCode.USAGE, "bad-request")
        assert f"draft.{field}" in refused.message
        assert isinstance(eve.ask(Submit(undisturbed.draft("true"))).body, Submitted)

"""One bad frame costs whoever sent it their connection, or their request, and nobody else."""

from __future__ import annotations

import msgspec
import pytest

from iriai.model.problem import ExitCode
from iriai.wire.ads import AskMatch
from iriai.wire.frames import frame
from iriai.wire.requests import Failure, Submit, Submitted
from tests.endtoend.installation import Installation
from tests.security.bad_client import bad_client, nested
from tests.support.people import People

pytestmark = pytest.mark.root
DEEP = 100_000
MANY_DIGITS = "1" * 5000


@pytest.mark.parametrize("payload", [nested(DEEP), b"\x92\x01" + nested(DEEP)])
def test_nested_values_before_hello(undisturbed: Installation, people: People, payload: bytes):
    """T3a: by any user of the machine."""
    for _ in range(3):
        with bad_client(undisturbed, people.eve) as eve:
            eve.send(frame(payload))
            assert eve.is_cut_off()


def test_nested_values_in_a_request(undisturbed: Installation, people: People):
    """T3a: within a field that nobody knows, which is passed over."""
    deep = msgspec.Raw(nested(1500))
    for depth in (deep, msgspec.Raw(nested(DEEP))):
        with bad_client(undisturbed, people.eve) as eve:
            eve.greet()
            eve.send(frame(msgspec.msgpack.encode([1, {"type": "status", "unknown": depth}])))
            assert eve.is_cut_off()


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

"""Two ask for the same machines at once: who is refused for the other booking asks again there."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from iriai.home.reservations.exchange import TAKEN_MAX
from iriai.home.reservations.negotiation import PAUSE_MIN_S
from iriai.protocol.messages.reservations import SeekNodes
from tests.home.reserving import (
    FULL,
    TAKEN,
    ReservingHome,
    answers,
    confirmed,
    held,
    offer,
    refused,
)


@pytest.fixture
def home() -> ReservingHome:
    made = ReservingHome()
    made.ask()
    return made


def refuses(home: ReservingHome, version: int, reason=TAKEN) -> None:
    """Both are offered, one holds it, and the other refuses."""
    home.tell(offer("a", "b", version=version))
    home.tell(held("a", version))
    home.tell(refused("b", version, reason=reason))
    home.tell(refused("a", version))  # it has freed it


def sought_without(home: ReservingHome) -> tuple[str, ...]:
    """The machines that are not to be offered, when it is sought again."""
    [seek] = home.wait(1.0).broker
    assert isinstance(seek, SeekNodes)
    return seek.without


def test_what_another_has_at_the_moment_may_be_had_in_the_next_try(home):
    refuses(home, 1)
    assert sought_without(home) == ()
    home.tell(offer("a", "b", version=2))
    home.tell(held("a", 2), held("b", 2))
    assert answers(home.tell(confirmed("a", 2), confirmed("b", 2)))[0].is_confirmed


def test_it_is_not_asked_for_ever(home):
    for version in range(1, TAKEN_MAX):
        refuses(home, version)
        assert sought_without(home) == ()
    refuses(home, TAKEN_MAX)
    assert sought_without(home) == ("b",)


def test_who_refuses_for_another_reason_is_not_asked_again(home):
    refuses(home, 1)
    assert sought_without(home) == ()
    refuses(home, 2, reason=FULL)
    assert sought_without(home) == ("b",)


def test_the_next_try_waits_until_what_was_held_can_be_known_to_be_free(home, monkeypatch):
    least = SimpleNamespace(random=lambda: 0.0)
    monkeypatch.setattr(home.home.reservations._negotiation, "_rng", least)
    refuses(home, 1)
    assert home.wait(PAUSE_MIN_S * 0.9).broker == []
    assert len(home.wait(PAUSE_MIN_S * 0.2).broker) == 1

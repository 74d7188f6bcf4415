"""The pool that a machine says it is of, as a broker takes it."""

from __future__ import annotations

import pytest

from iriai.broker.machines.pools import pool_of
from iriai.model.ad import MachineAd, machine_ad
from tests.broker.lone_broker import LoneBroker


@pytest.mark.parametrize(
    "name", [7, True, "", " ", "a/b", "x" * 65, "two\nlines", "\x1b[31mred", "none\x00"]
)
def test_what_cannot_be_the_name_of_a_pool_is_none(name):
    assert pool_of(machine_ad({"Pool": name})) == ""


def test_a_malformed_ad_says_no_pool():
    assert pool_of(MachineAd(b"\xc1")) == ""


def test_a_machine_that_was_restarted_may_be_of_another_pool():
    lone = LoneBroker()
    lone.tell(lone.idle(machine="ken", ad=machine_ad({"Pool": "old"})))
    lone.tell(lone.idle(machine="ume", ad=machine_ad({"Pool": "old"})))
    state = lone.broker.state
    rooms = state.index.rooms
    assert {pool.name: [*pool.machines] for pool in rooms.pools(is_across=False)} == {
        "old": ["ken", "ume"]
    }
    lone.tell(lone.idle(machine="ken", incarnation=2, ad=machine_ad({"Pool": "new"})))
    assert state.machines["ken"].pool == "new"
    assert {pool.name: [*pool.machines] for pool in rooms.pools(is_across=False)} == {
        "old": ["ume"],
        "new": ["ken"],
    }

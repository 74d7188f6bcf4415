"""Shares of the daemon: turns by what was used, a bucket of requests, allowances, and room."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from iriai.config.limits import LimitsSection
from iriai.policy.service.allowances import Allowance, ConnectionLimits, HeldBytes
from iriai.policy.service.request_order import FairTurns

COSTS_S = st.floats(0.0001, 0.01)


@given(st.lists(st.tuples(COSTS_S, COSTS_S, COSTS_S), min_size=10, max_size=60))
def test_users_who_always_want_something_get_the_same_time(costs):
    """However different what each asks for is: nobody is ahead by more than one piece of work."""
    turns, used = FairTurns(), dict.fromkeys("abc", 0.0)
    for user in used:
        turns.enter(user)
    for row in costs:
        user = turns.next()
        took_s = row["abc".index(user)]
        turns.charge(user, took_s)
        used[user] += took_s
        assert max(used.values()) - min(used.values()) <= 0.01 + 1e-9


@given(st.lists(COSTS_S, max_size=60), COSTS_S)
def test_who_asks_seldom_is_served_before_who_floods(flood, first):
    turns = FairTurns()
    turns.enter("flood")
    for took_s in [first, *flood]:
        assert turns.next() == "flood"
        turns.charge("flood", took_s)
    turns.enter("seldom")
    assert turns.next() == "seldom"


def test_idling_earns_nothing():
    """Who was away for long is served next, and then in turn with the others."""
    turns = FairTurns()
    turns.enter("a")
    for _ in range(1000):
        turns.charge(turns.next(), 1.0)
    turns.enter("b")
    served = []
    for _ in range(10):
        served.append(turns.next())
        turns.charge(served[-1], 1.0)
    assert served.count("b") in (5, 6)


def test_leaving_and_coming_back_at_once_gains_nothing():
    turns = FairTurns()
    turns.enter("honest")
    turns.enter("sly")
    used = {"honest": 0.0, "sly": 0.0}
    for _ in range(100):
        user = turns.next()
        used[user] += 1.0
        turns.charge(user, 1.0)
        if user == "sly":
            turns.leave("sly")
            turns.enter("sly")
    assert abs(used["honest"] - used["sly"]) <= 1.0


def test_weights():
    turns, used = FairTurns(), {"user": 0, "operator": 0}
    for user in used:
        turns.enter(user)
    for _ in range(100):
        user = turns.next()
        used[user] += 1
        turns.charge(user, 1.0, 4.0 if user == "operator" else 1.0)
    assert used["operator"] == 4 * used["user"]


def test_what_is_given_back_can_be_taken_again():
    allowance = Allowance("things_per_user", "things", 3)
    allowance.add("eve", 3)
    assert not allowance.has_room("eve")
    assert allowance.has_room("ann", 3)
    assert allowance.refusals == {"eve": 1}
    assert "things_per_user in [limits]" in allowance.refusal("eve").hint
    allowance.give_back("eve", 3)
    assert allowance.has_room("eve", 3)
    assert allowance.held("eve") == 0


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.booleans()), max_size=100))
def test_room_is_kept_for_operators_whoever_comes(comings):
    room = ConnectionLimits(
        LimitsSection(connections=20, connections_reserved=5, connections_per_user=8)
    )
    for user, is_leaving in comings:
        if is_leaving and room.per_user.held(user):
            room.leave(user)
        else:
            room.enter(user, is_operator=False)
    assert all(room.per_user.held(user) <= 8 for user in "abcdef")
    for _ in range(5):
        assert room.enter("root", is_operator=True) is None


def test_a_connection_becomes_anothers():
    room = ConnectionLimits(LimitsSection(connections_per_user=1))
    assert room.enter("ann", is_operator=False) is None
    assert room.enter("eve", is_operator=False) is None
    assert room.become("eve", "ann", is_operator=False) is not None
    room.leave("ann")
    assert room.become("eve", "ann", is_operator=False) is None


def test_bytes_of_connections_are_held_for_their_user_and_given_back():
    allowance = Allowance("things_per_user", "bytes of things", 10)
    first, second = (HeldBytes(allowance, "eve", is_operator=False) for _ in range(2))
    assert first.hold(6) == second.hold(4) == ""
    assert second.hold(5) == "bytes of things of eve: things_per_user is less"
    assert allowance.refusals == {"eve": 1}
    first.hold(0)
    second.hold(0)
    assert allowance.held("eve") == 0


def test_an_operator_holds_what_it_takes():
    allowance = Allowance("things_per_user", "bytes of things", 10)
    root = HeldBytes(allowance, "root", is_operator=True)
    assert root.hold(100) == ""
    assert (allowance.held("root"), allowance.refusals) == (100, {})

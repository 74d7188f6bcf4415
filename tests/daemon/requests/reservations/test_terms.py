"""What may be reserved: times, nodes and amounts, as a client may send anything."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from iriai.daemon.requests.reservations.terms import changed_terms, checked_terms, number_at
from iriai.model.ids import Account, parse_reservation_id
from iriai.model.problem import NotFound, Refused, UsageProblem
from iriai.model.reservation import LENGTH_MAX_S, LENGTH_MIN_S, NODES_MAX
from iriai.model.resources import Resources
from iriai.wire.reservations import ModifyReservation, Reserve

NOW_S = 1_800_000_000.0
HOUR_S = 3600.0
ANN = Account("lab", "ann")
ASKED = Reserve(NOW_S + HOUR_S, NOW_S + 2 * HOUR_S, 2)


def terms(**changed):
    return checked_terms(replace(ASKED, **changed), ANN, "ann", ((), ""), NOW_S)


def test_what_is_asked_for_becomes_the_terms():
    found = terms(cpus=4, memory_bytes=1 << 30, named=(("licence", 1), ("a", 2), ("b", 0)))
    assert (found.account, found.user, found.nodes) == (ANN, "ann", 2)
    assert (found.start_wall_s, found.end_wall_s) == (ASKED.start_wall_s, ASKED.end_wall_s)
    assert found.resources == Resources(4, 1 << 30, 0, (("a", 2), ("licence", 1)))


def test_without_amounts_each_node_gives_the_whole_machine():
    assert terms().resources is None
    assert terms(gpus=1).resources == Resources(1, 0, 1)


def test_users_and_a_group_may_use_it_as_well():
    found = checked_terms(ASKED, ANN, "ann", (("bob", "kim"), "lecture"), NOW_S)
    assert (found.users, found.group) == (("bob", "kim"), "lecture")
    assert found.admits("kim", Account("x", "kim"))
    assert found.admits("joe", Account("lecture", "joe"))
    assert not found.admits("joe", Account("lab", "joe"))


def test_one_that_has_just_begun_is_taken():
    found = terms(start_wall_s=NOW_S - 60, end_wall_s=NOW_S + HOUR_S)
    assert found.start_wall_s == NOW_S - 60


def test_the_earliest_start_is_not_before_now_and_as_long():
    found = terms(start_wall_s=NOW_S - HOUR_S, end_wall_s=NOW_S, is_earliest=True)
    assert (found.start_wall_s, found.end_wall_s) == (NOW_S, NOW_S + HOUR_S)


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"start_wall_s": NOW_S - 2 * HOUR_S, "end_wall_s": NOW_S - HOUR_S}, "in-the-past"),
        ({"start_wall_s": NOW_S - HOUR_S, "end_wall_s": NOW_S}, "in-the-past"),
        ({"start_wall_s": NOW_S - HOUR_S, "end_wall_s": NOW_S + HOUR_S}, "in-the-past"),
        ({"start_wall_s": -1e18, "end_wall_s": -1e17}, "bad-time"),
        ({"start_wall_s": -1e18}, "bad-time"),
        ({"end_wall_s": -1e18}, "bad-time"),
        ({"start_wall_s": -1e18, "is_earliest": True}, "bad-time"),
        ({"start_wall_s": 1e18, "end_wall_s": 1e18}, "bad-time"),
        ({"end_wall_s": 1e18}, "bad-time"),
        ({"end_wall_s": NOW_S + HOUR_S}, "bad-length"),
        ({"end_wall_s": NOW_S + HOUR_S / 2}, "bad-length"),
        ({"end_wall_s": NOW_S + HOUR_S + LENGTH_MIN_S - 1}, "bad-length"),
        ({"end_wall_s": NOW_S + HOUR_S + LENGTH_MAX_S + 60}, "bad-length"),
        ({"nodes": 0}, "bad-nodes"),
        ({"nodes": -1}, "bad-nodes"),
        ({"nodes": NODES_MAX + 1}, "bad-nodes"),
        ({"nodes": 2**53}, "bad-nodes"),
        ({"cpus": 0}, "bad-resources"),
        ({"cpus": -1}, "bad-resources"),
        ({"cpus": 1, "memory_bytes": -1}, "bad-resources"),
        ({"named": (("a", -1),)}, "bad-resources"),
        ({"named": (("a", 1), ("a", 1))}, "bad-resources"),
    ],
)
def test_what_cannot_be_is_refused(changed, code):
    with pytest.raises(UsageProblem) as refused:
        terms(**changed)
    assert refused.value.code == code
    assert len(str(refused.value)) < 200


def test_what_lies_too_far_ahead_is_refused():
    start_s = NOW_S + 15 * 86_400
    with pytest.raises(Refused, match="would start in 15d00h"):
        terms(start_wall_s=start_s, end_wall_s=start_s + HOUR_S)


def test_the_bounds_themselves_are_taken():
    assert terms(nodes=NODES_MAX).nodes == NODES_MAX
    for length_s in (LENGTH_MIN_S, LENGTH_MAX_S):
        assert terms(end_wall_s=ASKED.start_wall_s + length_s).length_s == length_s


def test_an_id_names_a_reservation_of_the_home():
    assert number_at("ume", "ume-r7") == 7
    with pytest.raises(NotFound, match="not a reservation of this home") as missing:
        number_at("ume", "momo-r7")
    assert "ask on momo" in missing.value.hint


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ume-7", "the id of a job, not of a reservation"),
        ("ume-7.1", "the id of a job, not of a reservation"),
        ("ume-r", "no id of a reservation"),
        ("r7", "no id of a reservation"),
        ("ume-r-7", "the id of a job"),  # of the home ume-r
        ("ume-r" + "7" * 30, "no id of a reservation"),
        ("", "no id of a reservation"),
        ("ume-r7\n", "no id of a reservation"),
    ],
)
def test_what_is_no_id_of_a_reservation_is_refused(text, words):
    with pytest.raises(UsageProblem, match=words):
        parse_reservation_id(text)


# --- changes -------------------------------------------------------------------------------------


def changed(use_by=None, before=None, **fields):
    """The terms of a reservation, with some changed."""
    return changed_terms(ModifyReservation("ume-r1", **fields), before or terms(), use_by)


def test_what_is_not_given_stays():
    assert changed(nodes=3) == replace(terms(), nodes=3)


def test_another_start_alone_moves_it():
    found = changed(start_wall_s=NOW_S + 5 * HOUR_S)
    assert found.end_wall_s == NOW_S + 6 * HOUR_S


def test_one_that_was_the_earliest_is_at_its_time():
    assert not changed(before=replace(terms(), is_earliest=True), nodes=1).is_earliest


def test_amounts_that_are_not_given_stay():
    before = terms(cpus=4, memory_bytes=1 << 30, named=(("a", 2), ("licence", 1)))
    found = changed(before=before, gpus=1, named=(("a", 3),))
    assert found.resources == Resources(4, 1 << 30, 1, (("a", 3), ("licence", 1)))
    assert changed(before=before, is_whole=True).resources is None
    assert changed(cpus=2).resources == Resources(2)


def test_who_may_use_it_is_replaced():
    before = replace(terms(), users=("kim",), group="lecture")
    assert changed((("bob",), ""), before).users == ("bob",)
    assert changed((("bob",), ""), before).group == ""
    assert changed(before=before, nodes=1).group == "lecture"


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"nodes": 2},
        {"start_wall_s": 1e300},
        {"end_wall_s": -1.0},
        {"start_wall_s": float("nan")},
        {"cpus": -1},
        {"requirements": "Mips >"},
    ],
)
def test_a_change_of_nothing_or_to_what_cannot_be_is_refused(fields):
    with pytest.raises((UsageProblem, Refused)):
        changed(**fields)

"""What the draws come to once use feeds back: 10,000 equal jobs, everybody always waiting."""

import pytest

from tests.policy.stories import CHARGE_S, Room, by_name, order

pytestmark = pytest.mark.long

JOBS = 10_000
A_POINT = 0.01
THREE_AND_ONE = {"lab/ann": 1.0, "lab/ben": 1.0, "lab/cleo": 1.0, "shop/dora": 1.0}
EQUAL_GROUPS = {"lab": 1.0, "shop": 1.0}


@pytest.mark.parametrize(
    ("name", "ann", "ben"),
    [("lottery", 1 / 5, 4 / 5), ("stride", 1 / 5, 4 / 5), ("paper000", 1 / 3, 2 / 3)],
)
def test_rights_1_to_4(name, ann, ben):
    shares = Room(order(name), {"ann": 1.0, "ben": 4.0}).shares_after(JOBS)
    assert shares == pytest.approx({"ann": ann, "ben": ben}, abs=A_POINT)


@pytest.mark.parametrize(("name", "lab"), [("lottery", 1 / 2), ("stride", 1 / 2)])
def test_a_group_of_three_and_a_group_of_one_get_halves(name, lab):
    shares = Room(order(name), THREE_AND_ONE, EQUAL_GROUPS).shares_after(JOBS)
    each = pytest.approx(lab / 3, abs=A_POINT)
    assert shares == {
        "lab/ann": each,
        "lab/ben": each,
        "lab/cleo": each,
        "shop/dora": pytest.approx(1 - lab, abs=A_POINT),
    }


def test_under_paper000_a_group_gains_by_its_members():
    shares = Room(order("paper000"), THREE_AND_ONE, EQUAL_GROUPS).shares_after(JOBS)
    assert shares == pytest.approx(dict.fromkeys(THREE_AND_ONE, 0.25), abs=A_POINT)


@pytest.mark.parametrize("name", ["lottery", "stride"])
def test_rights_of_groups_and_of_users_multiply(name):
    users = {"lab/ann": 1.0, "lab/ben": 3.0, "shop/cleo": 1.0}
    shares = Room(order(name), users, {"lab": 2.0, "shop": 1.0}).shares_after(JOBS)
    wanted = {"lab/ann": 1 / 6, "lab/ben": 1 / 2, "shop/cleo": 1 / 3}
    assert shares == pytest.approx(wanted, abs=A_POINT)


@pytest.mark.parametrize("name", ["lottery", "stride", "paper000"])
def test_always_asking_for_urgency_gains_nothing(name):
    room = Room(order(name), {"ann": 1.0, "ben": 1.0}, urgencies={"ann": 5.0})
    assert room.shares_after(JOBS)["ann"] <= 0.5 + A_POINT


TWO_AND_ONE = {"lab/ann": 1.0, "lab/ben": 1.0, "shop/cleo": 1.0}
WANTED_BY_TWO_AND_ONE = {"lab/ann": 0.25, "lab/ben": 0.25, "shop/cleo": 0.5}


@pytest.mark.parametrize("urgency", [5.0, 50.0])
@pytest.mark.parametrize("urgent", [("lab/ann",), ("lab/ann", "lab/ben"), ("shop/cleo",)])
@pytest.mark.parametrize("name", ["lottery", "stride"])
def test_always_asking_for_urgency_gains_nothing_and_costs_nobody_anything(name, urgent, urgency):
    urgencies = dict.fromkeys(urgent, urgency)
    room = Room(order(name), TWO_AND_ONE, EQUAL_GROUPS, urgencies=urgencies)
    assert room.shares_after(JOBS) == pytest.approx(WANTED_BY_TWO_AND_ONE, abs=A_POINT)


@pytest.mark.parametrize("name", ["lottery", "stride"])
def test_the_same_with_unequal_rights(name):
    users = {"lab/ann": 3.0, "lab/ben": 1.0, "lab/dan": 1.0, "shop/cleo": 1.0}
    room = Room(order(name), users, {"lab": 2.0, "shop": 1.0}, urgencies={"lab/ann": 4.0})
    wanted = {"lab/ann": 0.4, "lab/ben": 2 / 15, "lab/dan": 2 / 15, "shop/cleo": 1 / 3}
    assert room.shares_after(JOBS) == pytest.approx(wanted, abs=A_POINT)


@pytest.mark.parametrize("urgencies", [{}, {"lab/ann": 5.0}])
@pytest.mark.parametrize("long", ["lab/ann", "lab/ben", "shop/cleo"])
def test_jobs_that_cost_16_times_as_much_gain_and_cost_nobody_anything(long, urgencies):
    costs_s = {long: 16 * CHARGE_S}
    room = Room(order("lottery"), TWO_AND_ONE, EQUAL_GROUPS, urgencies, costs_s)
    assert room.shares_after(3 * JOBS) == pytest.approx(WANTED_BY_TWO_AND_ONE, abs=2 * A_POINT)


def test_under_paper000_jobs_that_cost_16_times_as_much_get_4_to_1():
    room = Room(order("paper000"), {"ann": 1.0, "ben": 1.0}, costs_s={"ann": 16 * CHARGE_S})
    room.shares_after(JOBS)
    assert room.shares_after(JOBS)["ann"] == pytest.approx(4 / 5, abs=2 * A_POINT)


def test_urgency_once_brings_a_turn_forward_and_is_paid_back():
    calm = {"ann": 1000.0, "ben": 1000.0}
    hurried = Room(order("lottery"), {"ann": 1.0, "ben": 1.0}, usage=dict(calm))
    hurried.urgencies = {"ann": 5.0}
    assert hurried.shares_after(20)["ann"] > 0.6

    hurried.urgencies = {}
    paid_back = hurried.shares_after(200, seed=2)
    assert paid_back["ann"] < 0.5


def test_urgency_once_brings_a_job_in_a_group_forward_at_nobody_elses_expense_in_it():
    calm = {"lab/ann": 1000.0, "lab/ben": 1000.0, "shop/cleo": 2000.0}
    room = Room(order("lottery"), TWO_AND_ONE, EQUAL_GROUPS, usage=dict(calm))
    before = by_name(room.rates())
    room.urgencies = {"lab/ann": 5.0}
    after = by_name(room.rates())
    assert after["lab/ann"] > 2 * before["lab/ann"]
    assert after["lab/ben"] / after["shop/cleo"] == pytest.approx(
        before["lab/ben"] / before["shop/cleo"]
    )


@pytest.mark.parametrize("name", ["lottery", "paper000"])
def test_beside_a_newcomer_one_with_a_thousandfold_usage_still_runs(name):
    room = Room(order(name), {"new": 1.0, "old": 1.0}, usage={"new": 1_000.0, "old": 1_000_000.0})
    # About one draw in a thousand to begin with, more often as the newcomer's use grows.
    assert room.shares_after(2_000)["old"] > 0
    assert room.shares_after(JOBS)["old"] < 0.1


def test_under_stride_one_far_ahead_waits_until_the_others_caught_up():
    room = Room(order("stride"), {"new": 1.0, "old": 1.0}, usage={"old": 100 * CHARGE_S})
    assert room.shares_after(100)["old"] == 0
    assert room.shares_after(100)["old"] == pytest.approx(0.5)


def test_stride_is_never_more_than_one_job_from_its_shares():
    room = Room(order("stride"), {"ann": 1.0, "ben": 4.0})
    for _ in range(50):
        room.shares_after(1)
        total = sum(room.usage.values())
        assert abs(room.usage.get("ann", 0) - total / 5) <= CHARGE_S

"""What must hold for any contenders, under every order."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iriai.model.ids import Account, TaskId
from iriai.plugins.orders import BUILT_IN
from iriai.policy.draw.order import NO_GROUPS, Contender, GroupUsage, shares_wanted
from tests.policy.stories import FLOOR_S, order

NAMES = BUILT_IN
DRAWN = ["lottery", "paper000"]

usages = st.floats(0, 1e12)
rights = st.floats(0.001, 1000)
urgencies = st.sampled_from([1.0, 1.0, 2.0, 10.0, 1000.0])
accounts = st.builds(
    Account, st.sampled_from(["art", "lab", "shop"]), st.text("abcdef", min_size=1)
)
heads = st.builds(TaskId, st.just("ume"), st.integers(1, 99), st.integers(0, 9))
costs = st.floats(0.01, 1e7)
contenders = st.builds(
    Contender, accounts, usages, rights, urgencies, st.floats(0, 1e9), heads, costs
)
rooms = st.lists(contenders, min_size=1, max_size=12, unique_by=lambda c: c.account)


@st.composite
def scenes(draw):
    """Contenders, and the groups they are in (or none)."""
    room = draw(rooms)
    if not draw(st.booleans()):
        return room, NO_GROUPS
    standings = {}
    for contender in room:
        name = contender.account.group
        used = sum(c.usage_s for c in room if c.account.group == name)
        elsewhere = draw(st.floats(0, 1e9))
        standings[name] = GroupUsage(name, draw(rights), used + elsewhere)
    return room, standings


@pytest.mark.parametrize("name", NAMES)
@given(scene=scenes())
def test_rates_add_up_to_1_over_exactly_the_contenders(name, scene):
    room, groups = scene
    rates = order(name).rates(room, groups)
    assert list(rates) == [c.account for c in room]
    assert all(0 <= rate <= 1 + 1e-12 for rate in rates.values())
    assert sum(rates.values()) == pytest.approx(1)


@pytest.mark.parametrize("name", DRAWN)
@given(scene=scenes())
def test_in_a_draw_everybody_has_a_chance(name, scene):
    room, groups = scene
    assert min(order(name).rates(room, groups).values()) > 0


@pytest.mark.parametrize("name", NAMES)
@given(scene=scenes(), more_s=st.floats(0, 1e12))
def test_who_has_used_more_is_drawn_no_more_often(name, scene, more_s):
    room, groups = scene
    first = room[0]
    heavier = [first._replace(usage_s=first.usage_s + more_s), *room[1:]]
    standings = dict(groups)
    if standings:
        own = standings[first.account.group]
        standings[own.group] = own._replace(usage_s=own.usage_s + more_s)

    before = order(name).rates(room, groups)[first.account]
    after = order(name).rates(heavier, standings)[first.account]
    assert after <= before * (1 + 1e-9)


@pytest.mark.parametrize("name", NAMES)
@given(scene=scenes(), times=st.floats(1, 1000))
def test_who_is_in_more_of_a_hurry_is_drawn_no_less_often(name, scene, times):
    room, groups = scene
    first = room[0]
    hurried = [first._replace(urgency=first.urgency * times), *room[1:]]
    before = order(name).rates(room, groups)[first.account]
    assert order(name).rates(hurried, groups)[first.account] >= before * (1 - 1e-9)


@pytest.mark.parametrize("name", NAMES)
@given(scene=scenes(), seed=st.integers(0, 2**32))
def test_the_same_seed_draws_the_same_account_and_one_that_has_a_rate(name, scene, seed):
    room, groups = scene
    chosen = order(name).choose(room, groups, Random(seed))
    assert chosen == order(name).choose(room, groups, Random(seed))
    assert order(name).rates(room, groups)[chosen] > 0


class _Dice(Random):
    """Always throws the same."""

    def __init__(self, throw):
        super().__init__(0)
        self.throw = throw

    def random(self):
        return self.throw


@pytest.mark.parametrize("name", DRAWN)
@given(scene=scenes())
def test_the_lowest_and_the_highest_throw_fall_on_a_contender(name, scene):
    room, groups = scene
    assert order(name).choose(room, groups, _Dice(0.0)) == room[0].account
    assert order(name).choose(room, groups, _Dice(1 - 2**-53)) in [c.account for c in room]


@given(scene=scenes())
def test_shares_wanted_add_up_to_1(scene):
    room, groups = scene
    shares = shares_wanted(room, groups)
    assert sum(shares.values()) == pytest.approx(1)
    assert list(shares) == [c.account for c in room]


def two_levels(room, groups):
    """The probabilities of the lottery as docs/spec/003 has them, one level after the other."""
    chances, levels = {}, {}
    for name, group in groups.items():
        members = [c for c in room if c.account.group == name]
        weights = [c.right**2 / max(c.usage_s, FLOOR_S) / c.expected_s * c.urgency for c in members]
        for c, weight in zip(members, weights, strict=True):
            chances[c.account] = weight / sum(weights)
        cost_s = sum(chances[c.account] * c.expected_s for c in members)
        urgency = sum(c.right * c.urgency for c in members) / sum(c.right for c in members)
        levels[name] = group.right**2 / max(group.usage_s, FLOOR_S) / cost_s * urgency
    return {
        c.account: levels[c.account.group] / sum(levels.values()) * chances[c.account] for c in room
    }


@given(scene=scenes())
def test_the_lottery_is_a_draw_of_a_group_and_then_of_a_user(scene):
    room, groups = scene
    if groups:
        assert order("lottery").rates(room, groups) == pytest.approx(two_levels(room, groups))


@given(scene=scenes())
def test_under_the_lottery_usage_grows_by_rights_and_usage_whatever_jobs_cost(scene):
    """What a draw adds to an account is expected to be `r^2 / u` of what it adds to its group."""
    calm, groups = [c._replace(urgency=1.0) for c in scene[0]], scene[1]
    rates = order("lottery").rates(calm, groups)
    growth = {c.account: rates[c.account] * c.expected_s for c in calm}
    free = order("lottery").rates([c._replace(expected_s=1.0) for c in calm], groups)
    total = sum(growth.values())
    assert {a: g / total for a, g in growth.items()} == pytest.approx(free)


@given(scene=scenes())
def test_the_haste_of_one_leaves_the_others_their_chances_against_other_groups(scene):
    """Where members have used alike, by their rights."""
    room, groups = scene
    if not groups:
        return
    even = [c._replace(usage_s=1e6 * c.right, urgency=1.0, expected_s=1.0) for c in room]
    hurried = [even[0]._replace(urgency=7.0), *even[1:]]
    before, after = (order("lottery").rates(cs, groups) for cs in (even, hurried))
    quiet = [c.account for c in even[1:]]
    for account in quiet:
        ratio = after[account] / before[account]
        assert ratio == pytest.approx(after[quiet[0]] / before[quiet[0]])

"""What each order draws, by numbers worked out by hand from the formulas of docs/spec/003."""

from collections import Counter
from random import Random

import pytest

from iriai.plugins.orders import BUILT_IN
from iriai.policy.draw.order import NO_GROUPS, shares_wanted
from tests.policy.chi_square import p_value
from tests.policy.stories import account, by_name, contender, groups, order

DRAWN = ("lottery", "paper000")
DRAWS = 100_000


def drawn_counts(name, contenders, standings, seed):
    rng = Random(seed)
    the_order = order(name)
    return Counter(the_order.choose(contenders, standings, rng) for _ in range(DRAWS))


@pytest.mark.parametrize("name", DRAWN)
def test_usages_of_100_200_400_are_drawn_4_to_2_to_1(name):
    contenders = [contender("ann", 100), contender("ben", 200), contender("cleo", 400)]
    by_hand = {account("ann"): 4 / 7, account("ben"): 2 / 7, account("cleo"): 1 / 7}

    assert order(name).rates(contenders, NO_GROUPS) == pytest.approx(by_hand)
    assert p_value(drawn_counts(name, contenders, NO_GROUPS, seed=2), by_hand) > 0.001


@pytest.mark.parametrize("name", DRAWN)
def test_within_one_group_the_same_usages_give_the_same_rates(name):
    contenders = [contender("lab/ann", 100), contender("lab/ben", 200), contender("lab/cleo", 400)]
    standings = groups(lab=(1, 700))
    by_hand = {account("lab/ann"): 4 / 7, account("lab/ben"): 2 / 7, account("lab/cleo"): 1 / 7}

    assert order(name).rates(contenders, standings) == pytest.approx(by_hand)
    assert p_value(drawn_counts(name, contenders, standings, seed=3), by_hand) > 0.001


# Rights 2 and 1, usages 100 and 100.
# lottery:  weights 4/100 and 1/100, so 4/5 and 1/5.
# paper000: usage/right 50 and 100, priorities 150/50 = 3 and 150/100 = 1.5, so 2/3 and 1/3.
@pytest.mark.parametrize(("name", "first"), [("lottery", 4 / 5), ("paper000", 2 / 3)])
def test_a_double_right_of_a_user(name, first):
    contenders = [contender("ann", 100, right=2), contender("ben", 100)]
    by_hand = {account("ann"): first, account("ben"): 1 - first}

    assert order(name).rates(contenders, NO_GROUPS) == pytest.approx(by_hand)
    assert p_value(drawn_counts(name, contenders, NO_GROUPS, seed=4), by_hand) > 0.001


# Groups: lab (right 2, usage 800, of which 200 by members with nothing queued), shop (right 1,
# usage 100). In lab ann 200 (right 1) and ben 400 (right 2), in shop cleo 100.
# lottery:  groups 4/800 and 1/100, so 1/3 and 2/3; in lab 1/200 and 4/400, so 1/3 and 2/3.
# paper000: groups 800/2 = 400 and 100/1 = 100, sum 500, priorities 5/4 and 5;
#           in lab sum 600 (rights play no part), priorities 3 and 3/2; in shop 1;
#           products 15/4, 15/8, 5, sum 85/8: 30/85, 15/85, 40/85.
GROUPED = {
    "lottery": {"lab/ann": 1 / 9, "lab/ben": 2 / 9, "shop/cleo": 2 / 3},
    "paper000": {"lab/ann": 30 / 85, "lab/ben": 15 / 85, "shop/cleo": 40 / 85},
}


@pytest.mark.parametrize("name", DRAWN)
def test_groups_with_rights_and_a_member_who_has_nothing_queued(name):
    contenders = [
        contender("lab/ann", 200),
        contender("lab/ben", 400, right=2),
        contender("shop/cleo", 100),
    ]
    standings = groups(lab=(2, 800), shop=(1, 100))
    by_hand = {account(text): rate for text, rate in GROUPED[name].items()}

    assert order(name).rates(contenders, standings) == pytest.approx(by_hand)
    assert p_value(drawn_counts(name, contenders, standings, seed=5), by_hand) > 0.001


# Usages 100 each, ann asks for -p 3: weights 3 : 1 under both orders.
@pytest.mark.parametrize("name", DRAWN)
def test_urgency_multiplies_a_weight(name):
    contenders = [contender("ann", 100, urgency=3), contender("ben", 100)]
    assert by_name(order(name).rates(contenders, NO_GROUPS)) == pytest.approx(
        {"ann": 3 / 4, "ben": 1 / 4}
    )


# Usages 100 each; a job of ann costs 4 times as much. The lottery weighs 1/4 : 1, the paper 1 : 1.
@pytest.mark.parametrize(("name", "ann"), [("lottery", 1 / 5), ("paper000", 1 / 2)])
def test_who_asks_for_more_at_once_is_drawn_less_often(name, ann):
    contenders = [contender("ann", 100, expected_s=40), contender("ben", 100, expected_s=10)]
    by_hand = {account("ann"): ann, account("ben"): 1 - ann}

    assert order(name).rates(contenders, NO_GROUPS) == pytest.approx(by_hand)
    assert p_value(drawn_counts(name, contenders, NO_GROUPS, seed=6), by_hand) > 0.001


# Two groups alike in right and usage; in lab jobs of ann cost 30, of ben 10; in shop 30.
# In lab 1/30 : 1/10, so 1/4 and 3/4, and a draw costs 30/4 + 30/4 = 15. Groups 1/15 : 1/30, so
# 2/3 and 1/3.
def test_a_group_whose_jobs_cost_less_is_drawn_more_often():
    contenders = [
        contender("lab/ann", 100, expected_s=30),
        contender("lab/ben", 100, expected_s=10),
        contender("shop/cleo", 200, expected_s=30),
    ]
    standings = groups(lab=(1, 200), shop=(1, 200))
    by_hand = {account("lab/ann"): 1 / 6, account("lab/ben"): 1 / 2, account("shop/cleo"): 1 / 3}

    assert order("lottery").rates(contenders, standings) == pytest.approx(by_hand)
    assert p_value(drawn_counts("lottery", contenders, standings, seed=7), by_hand) > 0.001


# Two groups alike in right and usage; in lab ann and ben alike, ann with -p 3; in shop cleo.
# lottery:  the mean urgency in lab is (3 + 1) / 2 = 2, so 2/3; within it 3/4 and 1/4. Without
#           -p each would have 1/4, 1/4 and 1/2: ben and cleo stand as they stood to each other.
# paper000: products 2*2*3, 2*2, 2*1 (two members double a group), sum 18.
@pytest.mark.parametrize(
    ("name", "by_hand"),
    [
        ("lottery", {"lab/ann": 1 / 2, "lab/ben": 1 / 6, "shop/cleo": 1 / 3}),
        ("paper000", {"lab/ann": 12 / 18, "lab/ben": 4 / 18, "shop/cleo": 2 / 18}),
    ],
)
def test_urgency_lifts_the_group_too(name, by_hand):
    contenders = [
        contender("lab/ann", 100, urgency=3),
        contender("lab/ben", 100),
        contender("shop/cleo", 200),
    ]
    standings = groups(lab=(1, 200), shop=(1, 200))
    assert by_name(order(name).rates(contenders, standings)) == pytest.approx(by_hand)


# As above, but ann has right 3 and used 3 times as much: the mean of M is (3 x 3 + 1) / 4 = 5/2,
# so lab 5/7; within it 9/300 x 3 and 1/100, so 9/10 and 1/10.
def test_the_mean_urgency_of_a_group_is_by_rights():
    contenders = [
        contender("lab/ann", 300, right=3, urgency=3),
        contender("lab/ben", 100),
        contender("shop/cleo", 400),
    ]
    standings = groups(lab=(1, 400), shop=(1, 400))
    assert by_name(order("lottery").rates(contenders, standings)) == pytest.approx(
        {"lab/ann": 9 / 14, "lab/ben": 1 / 14, "shop/cleo": 2 / 7}
    )


# Floor 60: ann at 0 counts as 60, ben at 20 too, cleo at 120; so 2 : 2 : 1.
@pytest.mark.parametrize("name", DRAWN)
def test_usage_below_the_floor_counts_as_the_floor(name):
    contenders = [contender("ann", 0), contender("ben", 20), contender("cleo", 120)]
    rates = order(name, floor_s=60).rates(contenders, NO_GROUPS)
    assert by_name(rates) == pytest.approx({"ann": 2 / 5, "ben": 2 / 5, "cleo": 1 / 5})


# Floor 60 for groups too: lab at 0 counts as 60, shop at 120, one member each; so 2 : 1.
@pytest.mark.parametrize("name", DRAWN)
def test_the_floor_holds_for_groups_too(name):
    contenders = [contender("lab/ann", 0), contender("shop/cleo", 120)]
    standings = groups(lab=(1, 0), shop=(1, 120))
    rates = order(name, floor_s=60).rates(contenders, standings)
    assert by_name(rates) == pytest.approx({"lab/ann": 2 / 3, "shop/cleo": 1 / 3})


def test_paper000_priorities_are_at_least_1():
    contenders = [contender("ann", 100), contender("ben", 200), contender("cleo", 400)]
    assert order("paper000").weights(contenders, NO_GROUPS) == pytest.approx([7, 7 / 2, 7 / 4])
    assert order("paper000").weights([contender("ann", 100)], NO_GROUPS) == [1]


def test_stride_takes_the_group_and_then_the_user_furthest_below_its_right():
    contenders = [
        contender("lab/ann", 100),
        contender("lab/ben", 150, right=2),
        contender("shop/cleo", 10),
    ]
    lab_is_behind = groups(lab=(2, 250), shop=(1, 130))
    shop_is_behind = groups(lab=(2, 250), shop=(1, 120))

    assert by_name(order("stride").rates(contenders, lab_is_behind)) == {
        "lab/ann": 0,
        "lab/ben": 1,
        "shop/cleo": 0,
    }
    chosen = order("stride").choose(contenders, shop_is_behind, Random(1))
    assert chosen == account("shop/cleo")


def test_stride_breaks_ties_by_name():
    contenders = [contender("ben", 5), contender("ann", 5)]
    assert order("stride").choose(contenders, NO_GROUPS, Random(1)) == account("ann")


def test_fifo_takes_the_urgent_then_the_oldest_then_the_lowest_id():
    heads = [
        contender("ann", 0, queued_at_s=20, number=1),
        contender("ben", 10**6, queued_at_s=10, number=7),
        contender("cleo", 0, queued_at_s=10, number=42),
    ]
    urgent = contender("dora", 0, urgency=2, queued_at_s=30)

    fifo = order("fifo")
    assert fifo.choose(heads, NO_GROUPS, Random(1)) == account("ben")
    assert fifo.choose([*heads, urgent], NO_GROUPS, Random(1)) == account("dora")
    assert by_name(fifo.rates(heads, NO_GROUPS)) == {"ann": 0, "ben": 1, "cleo": 0}


# lab 2/3, shop 1/3; within lab 1/4 and 3/4.
def test_shares_wanted_follow_the_rights_of_those_with_something_to_run():
    contenders = [
        contender("lab/ann", 9),
        contender("lab/ben", 5, right=3),
        contender("shop/cleo", 7),
    ]
    standings = groups(lab=(2, 14), shop=(1, 7), idle=(100, 0))
    assert by_name(shares_wanted(contenders, standings)) == pytest.approx(
        {"lab/ann": 1 / 6, "lab/ben": 1 / 2, "shop/cleo": 1 / 3}
    )
    without_groups = shares_wanted(contenders, NO_GROUPS)
    assert by_name(without_groups) == pytest.approx(
        {"lab/ann": 1 / 5, "lab/ben": 3 / 5, "shop/cleo": 1 / 5}
    )


@pytest.mark.parametrize("name", BUILT_IN)
def test_one_account_alone_is_always_next(name):
    alone = [contender("lab/ann", 10**9)]
    standings = groups(lab=(1, 10**9))
    assert order(name).choose(alone, standings, Random(1)) == account("lab/ann")
    assert order(name).rates(alone, standings) == {account("lab/ann"): 1}


@pytest.mark.parametrize("name", BUILT_IN)
def test_nobody_is_next_where_nobody_contends(name):
    assert order(name).rates([], NO_GROUPS) == {}
    with pytest.raises(ValueError, match="no account"):
        order(name).choose([], NO_GROUPS, Random(1))

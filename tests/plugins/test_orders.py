"""Orders by name, plug-ins among them."""

from random import Random

import pytest

from iriai.model.problem import UsageProblem
from iriai.plugins.orders import order_named
from iriai.policy.api import NO_GROUPS, Order, OrderSettings
from tests.policy.stories import account, contender

SETTINGS = OrderSettings(usage_floor_s=60.0)


class LastOne(Order):
    """An order as a plug-in might bring it."""

    def rates(self, contenders, groups):
        last = contenders[-1].account
        return {c.account: float(c.account == last) for c in contenders}

    def choose(self, contenders, groups, rng):
        return contenders[-1].account


def test_a_plug_in_is_an_order_like_the_others():
    order = order_named("last", SETTINGS, {"last": LastOne})
    room = [contender("ann", 0), contender("ben", 0)]
    assert order.choose(room, NO_GROUPS, Random(1)) == account("ben")


def test_an_unknown_name_is_answered_with_the_known_ones():
    with pytest.raises(UsageProblem) as caught:
        order_named("lotery", SETTINGS, {"last": LastOne})
    assert caught.value.code == "unknown-order"
    assert caught.value.hint == "there are: fifo, lottery, paper000, stride, last"


def test_a_plug_in_that_brings_no_order_is_refused_with_what_to_derive_from():
    with pytest.raises(UsageProblem, match="not an order") as caught:
        order_named("last", SETTINGS, {"last": lambda settings: settings})
    assert "iriai.policy.api.Order" in caught.value.hint


def test_a_plug_in_cannot_take_the_place_of_a_built_in_order():
    with pytest.raises(UsageProblem, match="built in"):
        order_named("lottery", SETTINGS, {"lottery": LastOne})


@pytest.mark.parametrize("wrong", [0.0, -1.0, float("nan"), float("inf")])
def test_a_usage_floor_is_more_than_nothing(wrong):
    with pytest.raises(ValueError, match="usage_floor_s"):
        OrderSettings(usage_floor_s=wrong)

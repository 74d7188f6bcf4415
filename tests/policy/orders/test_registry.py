"""Orders by name, plug-ins among them."""

from dataclasses import dataclass
from random import Random

import pytest

from iriai.model.problem import UsageProblem
from iriai.policy.orders.order import NO_GROUPS, OrderSettings
from iriai.policy.orders.registry import order_named
from tests.policy.stories import account, contender

SETTINGS = OrderSettings(usage_floor_s=60.0)


@dataclass
class LastOne:
    """An order as a plug-in might bring it."""

    settings: OrderSettings

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
    assert caught.value.hint == "there are: lottery, paper000, stride, fifo, last"


def test_a_plug_in_cannot_take_the_place_of_a_built_in_order():
    with pytest.raises(UsageProblem, match="built in"):
        order_named("lottery", SETTINGS, {"lottery": LastOne})


@pytest.mark.parametrize("wrong", [0.0, -1.0, float("nan"), float("inf")])
def test_a_usage_floor_is_more_than_nothing(wrong):
    with pytest.raises(ValueError, match="usage_floor_s"):
        OrderSettings(usage_floor_s=wrong)

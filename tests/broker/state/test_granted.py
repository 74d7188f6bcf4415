"""A claim that a machine grants for a match gets the place of that, and counts for as much."""

from __future__ import annotations

from random import Random

import msgspec
import pytest

from iriai.broker.machines.machine_view import MachineView
from iriai.broker.scheduling.scheduling_pass import SchedulingPass
from iriai.broker.state.contention import DecisionRng
from iriai.broker.state.state import BrokerSettings, BrokerState
from iriai.broker.usage.usage import UsageAccounts
from iriai.config.reader import Configuration
from iriai.model.ids import Account, AttemptId, JobId
from iriai.model.instant import Instant
from iriai.model.resources import Resources
from iriai.plugins.orders import order_named
from iriai.policy.accounting.decay import ChargeRule
from iriai.policy.accounting.decay_rule import decay_of
from iriai.policy.draw.order import OrderSettings
from iriai.protocol.messages.scheduling import Capability, Running, Want

NOW = Instant(100.0, 1.8e9)
LATER_S = 101.0
ANN, BOB = Account("lab", "ann"), Account("bio", "bob")
MATCH = Capability(1, 1, 0, 7)
WANT = Want(JobId("home", 1), ANN, Resources(2), 60.0, 1.0, 0.0, 1)
GRANTED = Running(AttemptId("home", 1, 0, 1), ANN, Resources(2), 60.0, 60.0, 0.0, 1.0, MATCH)
OTHERS = {
    "resources": Resources(1),
    "limit_s": 30.0,
    "urgency": 2.0,
    "charge_so_far_s": 5.0,
    "account": BOB,
}


class Scene:
    """A machine of four processors with one match, which counts `released` claims."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        configuration = Configuration()
        order = configuration.order
        self.usage = UsageAccounts(decay_of(order), ChargeRule.of(order))
        named = order_named(order.name, OrderSettings(order.usage_floor_s))
        self.state = BrokerState(BrokerSettings(configuration, named), self.usage)
        self.view = MachineView("ume", Resources(4))
        self.view.capabilities.append(MATCH)
        self.state.add_machine(self.view)
        self.state.put(WANT, NOW.steady_s)
        [(_, ((_, _, key),))] = (
            SchedulingPass(self.state, DecisionRng(Random(1)), NOW).run().decisions
        )
        assert key == MATCH
        self.released = 0
        release = self.state.release

        def counted(*arguments, **more) -> bool:
            self.released += 1
            return release(*arguments, **more)

        monkeypatch.setattr(self.state, "release", counted)

    def granted(self, running: Running) -> None:
        self.state.granted(self.view, MATCH, WANT, running, running.account, LATER_S)

    def claimed_again(self, running: Running) -> None:
        self.state.release(self.view, MATCH, was_granted=True)
        self.state.began(self.view, running, running.account, LATER_S)

    def seen(self, running: Running) -> dict[str, object]:
        """All that a claim changes."""
        calendar, usage = self.view.calendar, self.usage
        self.usage.check((running.attempt,))
        return {
            "claims": list(calendar.in_order()),
            "free": calendar.free,
            "tenants": dict(self.view.tenants),
            "ended": self.view.ended,
            "accounts": [usage.whose(key) for key in (MATCH, running.attempt)],
            "cpus": [usage.running_cpus(each) for each in (ANN, BOB)],
            "left_s": usage.expected_left_s(running.attempt),
        }


def test_a_grant_of_what_was_matched_passes_its_place_on(monkeypatch):
    scene, other = Scene(monkeypatch), Scene(monkeypatch)
    scene.granted(GRANTED)
    other.claimed_again(GRANTED)
    assert scene.released == 0
    assert scene.seen(GRANTED) == other.seen(GRANTED)


@pytest.mark.parametrize("name", OTHERS)
def test_a_grant_that_differs_is_claimed_as_it_is(monkeypatch, name):
    running = msgspec.structs.replace(GRANTED, **{name: OTHERS[name]})
    scene, other = Scene(monkeypatch), Scene(monkeypatch)
    scene.granted(running)
    other.claimed_again(running)
    assert scene.released == 1
    assert scene.seen(running) == other.seen(running)
    assert scene.view.calendar.held_by(running.attempt) == running.resources

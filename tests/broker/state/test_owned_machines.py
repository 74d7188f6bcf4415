"""A task gets, of machines that are alike, the one whose owner is away just long enough."""

from __future__ import annotations

from math import inf
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iriai.broker.machines.machine_view import MachineView
from iriai.broker.scheduling.scheduling_pass import SchedulingPass
from iriai.broker.state.contention import DecisionRng
from iriai.broker.state.owned_machines import LOAD_ALIKE, just_enough
from iriai.broker.state.state import BrokerSettings, BrokerState
from iriai.broker.usage.usage import UsageAccounts
from iriai.config.reader import Configuration
from iriai.model.ad import machine_ad
from iriai.model.ids import Account, JobId
from iriai.model.instant import Instant
from iriai.model.resources import Resources
from iriai.plugins.orders import order_named
from iriai.policy.accounting.decay import ChargeRule
from iriai.policy.accounting.decay_rule import decay_of
from iriai.policy.draw.order import OrderSettings
from iriai.protocol.messages.scheduling import Want

NOW = Instant(1_000.0, 1.8e9)
HOUR_S = 3_600.0
hours = st.one_of(st.floats(0.0, 200.0), st.just(inf))


class Site:
    """Machines of one processor; by name for how many hours their owners are expected away."""

    def __init__(self, loads: dict[str, float] | None = None, **away_h: float | None) -> None:
        configuration = Configuration()
        order = configuration.order
        named = order_named(order.name, OrderSettings(order.usage_floor_s))
        usage = UsageAccounts(decay_of(order), ChargeRule.of(order))
        self.state = BrokerState(BrokerSettings(configuration, named), usage)
        self.jobs = 0
        for name, away in away_h.items():
            view = MachineView(name, Resources(1), mints=False)
            view.ad = machine_ad({"Machine": name, "Cpus": 1, "IsOld": name.startswith("old")})
            view.load = (loads or {}).get(name, 0.0)
            self.state.add_machine(view)
            if away is not None:
                self.state.index.expect_owner(view, NOW.steady_s + away * HOUR_S)

    def start(self, limit_h: float | None, **changes) -> str | None:
        """Submit a task with a time limit; return where it starts."""
        self.jobs += 1
        limit_s = None if limit_h is None else limit_h * HOUR_S
        job, account = JobId("home", self.jobs), Account("lab", "ann")
        want = Want(job, account, Resources(1), limit_s, 1.0, 0.0, 1, **changes)
        self.state.put(want, NOW.steady_s)
        decisions = SchedulingPass(self.state, DecisionRng(Random(1)), NOW).run()[0]
        self.state.index.check()
        return decisions[0].seats[0][0].name if decisions else None


def test_a_short_task_leaves_long_absences_to_long_tasks():
    site = Site(night=14.0, pause=0.5, lunch=1.5, server=None)
    assert site.start(1.0) == "lunch"
    assert site.start(10.0) == "night"
    assert site.start(100.0) == "server"
    assert site.start(10.0) == "pause"  # nothing else is left


def test_a_task_without_a_limit_gets_the_machine_that_is_idle_longest():
    site = Site(night=14.0, pause=0.5, lunch=1.5)
    assert site.start(None) == "night"
    assert site.start(3.0) == "lunch"


def test_without_owners_the_usual_order_stands():
    assert Site(b=None, a=None).start(1.0) == "a"
    site = Site(b=None, a=None, c=1.0)
    site.state.drop_machine(site.state.machines["c"], NOW.steady_s)
    assert not site.state.index.owned
    assert site.start(None) == "a"


def test_a_loaded_machine_is_no_better_for_its_owner():
    site = Site({"lunch": 0.5}, night=14.0, lunch=1.5)
    assert site.start(1.0) == "night"
    assert Site({"lunch": LOAD_ALIKE / 2}, night=14.0, lunch=1.5).start(1.0) == "lunch"


def test_what_the_job_ranks_highest_comes_before():
    site = Site(night=14.0, oldlunch=1.5, oldnight=14.0, lunch=1.5)
    assert site.start(10.0, rank="IsOld ? 1 : 0") == "oldnight"
    assert site.start(10.0, rank="IsOld ? 1 : 0") == "oldlunch"
    assert site.start(1.0, rank="IsOld ? 1 : 0") == "lunch"


def test_requirements_can_name_what_is_expected():
    site = Site(night=14.0, lunch=1.5)
    site.state.machines["night"].expected_idle_s = 14 * HOUR_S
    site.state.machines["lunch"].expected_idle_s = 1.5 * HOUR_S
    for view in site.state.machines.values():
        site.state.measured(view)
    assert site.start(1.0, requirements="ExpectedIdle > 36000") == "night"


@pytest.mark.parametrize("ranked", [{}, {"requirements": "Cpus >= 1"}])
def test_on_many_machines_the_best_of_those_compared_is_found(ranked):
    many = {f"desk{number:03}": 0.1 * number for number in range(200)}
    site = Site(**many)
    assert site.start(5.0, **ranked) == "desk051"  # it may take a little longer than its limit
    assert site.start(30.0, **ranked) == "desk199"


@given(st.lists(st.tuples(hours, st.floats(0.0, 1.0)), max_size=12), hours | st.none())
def test_no_other_machine_that_is_alike_would_have_been_better(machines, stay_h):
    stay_s = None if stay_h is None else stay_h * HOUR_S
    views = []
    for number, (away_h, load) in enumerate(machines):
        view = MachineView(f"m{number:02}", Resources(1), mints=False)
        view.load, view.idle_until_s = load, NOW.steady_s + away_h * HOUR_S
        views.append(view)
    found = just_enough(views, stay_s, NOW.steady_s)
    if not views:
        assert found is None
        return
    assert found is not None
    least = min(view.rank().load for view in views)
    alike = [view for view in views if view.rank().load <= least + LOAD_ALIKE]
    assert found in alike
    wanted_s = NOW.steady_s + (inf if stay_s is None else stay_s)
    if found.idle_until_s >= wanted_s:
        assert not any(wanted_s <= other.idle_until_s < found.idle_until_s for other in alike)
    else:
        assert max(other.idle_until_s for other in alike) <= found.idle_until_s

"""Each check finds what it is for: a part is broken on purpose, and the check must notice."""

from __future__ import annotations

from random import Random

import pytest
from msgspec.structs import replace

from iriai.broker.core import Broker
from iriai.broker.intake.reports import NodeReports
from iriai.broker.scheduling.scheduling_pass import PassResult, SchedulingPass
from iriai.broker.state.placement import Placement
from iriai.broker.state.reserved_heads import ReservedHeads
from iriai.config.reader import Configuration
from iriai.config.sections import OrderSection
from iriai.home.attempts import Attempts, NodeSessions
from iriai.home.completion import EventLog
from iriai.home.core import Home
from iriai.home.job import JobState
from iriai.model.records import (
    ClaimsDropped,
    ClaimStored,
    JobEvent,
    JobFinished,
    LedgerRow,
    Promised,
)
from iriai.model.state import EndCause
from iriai.node.admission import Admission
from iriai.node.attempt_ends import AttemptEnds
from iriai.node.claims import Claims
from iriai.node.core import Node
from iriai.node.metering import HeldClaim, UsageCounters
from iriai.policy.placement.backfill import ReservedHead
from iriai.policy.placement.calendar import within_running_cap
from iriai.sim.world.store_model import StoreModel
from tests.node.lone_node import LoneNode, exited
from tests.support.virtual import VirtualMachine


def busy_machine() -> VirtualMachine:
    """Work for three accounts; one job needs the whole machine and gets a reserved place."""
    machine = VirtualMachine(4, seed=14)  # eve waits, and her place is planned twice
    machine.submit("ann", tasks=6, run_s=7.0, limit_s=10.0)
    machine.submit("bob", tasks=3, run_s=3.0, limit_s=5.0)
    machine.turn()
    machine.submit("eve", cpus=4, run_s=5.0)
    machine.turn()
    machine.submit("bob", tasks=9, run_s=3.0, limit_s=5.0)
    return machine


def story() -> VirtualMachine:
    """A busy machine, its daemon restarted half-way, until all is done."""
    machine = busy_machine()
    machine.wait(4.0)
    machine.restart()
    machine.finish()
    return machine


def expect(message: str) -> None:
    """The checks find something in the story."""
    with pytest.raises(AssertionError, match=message):
        story()


def test_nothing_is_found_where_nothing_is_broken():
    assert story().machine.home.jobs == {}


# --- (a) -----------------------------------------------------------------------------------------


def test_a_node_that_grants_too_much(monkeypatch):
    monkeypatch.setattr(Admission, "_lacks", lambda *_: None)
    node = LoneNode(cpus=4)
    node.run(1, cpus=3)
    with pytest.raises(AssertionError, match="exceed"):
        node.run(2, cpus=3)


def test_a_node_that_gives_one_gpu_to_two(monkeypatch):
    whole = Claims._claim

    def claim(self, run, now, **more):
        made = whole(self, run, now, **more)
        self._free_gpu_ids = [0, *self._free_gpu_ids]
        return made

    monkeypatch.setattr(Claims, "_claim", claim)
    with pytest.raises(AssertionError, match="gpus"):
        LoneNode(cpus=4, gpus=2).run(1, gpus=1)


def test_a_node_that_keeps_what_has_ended(monkeypatch):
    monkeypatch.setattr(AttemptEnds, "_free", lambda *_: None)
    node = LoneNode()
    node.run(1)
    with pytest.raises(AssertionError, match="claim and end"):
        node.tell(exited(1))


# --- (b) -----------------------------------------------------------------------------------------


def test_a_home_that_does_not_hear_of_ends(monkeypatch):
    monkeypatch.setattr(NodeSessions, "current", lambda *_: None)
    expect("attempts of the home")


def test_a_home_that_starts_a_task_again_too_early(monkeypatch):
    """It takes a task that only began for one that was lost."""

    def begun(self, message, now):
        job = self.nodes.current(message.attempt)
        self._end(job, message.attempt, EndCause.LOST, None, None)

    monkeypatch.setattr(Attempts, "begun", begun)
    expect("two live attempts|is started while|attempts of the home")


def test_a_home_that_counts_attempts_from_one_again(monkeypatch):
    monkeypatch.setattr(JobState, "next_attempt", lambda *_: 1)
    machine = VirtualMachine(1)
    machine.submit(run_s=50.0)
    machine.wait(1.0)
    machine.kill_launcher()
    machine.start_launcher()
    machine.wait(100.0)
    # The launcher knows that attempt already, and does not run it a second time.
    assert len(machine.launcher.starts) == 1
    assert machine.machine.home.jobs


# --- (c) -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [JobEvent, JobFinished, ClaimStored, ClaimsDropped, LedgerRow])
def test_a_record_that_nobody_asked_to_keep(monkeypatch, kind):
    keep = StoreModel.write

    def write(self, records):
        keep(self, [record for record in records if not isinstance(record, kind)])

    monkeypatch.setattr(StoreModel, "write", write)
    expect("claims|replay|counters|in order|not kept")


def test_a_job_whose_state_is_not_in_its_events(monkeypatch):
    keep = Home.cancel

    def cancel(self, number, indices, by):
        self.jobs[number].held = True
        return keep(self, number, indices, by)

    monkeypatch.setattr(Home, "cancel", cancel)
    machine = busy_machine()
    machine.cancel(machine.submit("eve", tasks=3), 2)
    with pytest.raises(AssertionError, match="replay"):
        machine.turn()


def test_a_job_that_loses_a_task(monkeypatch):
    def count(self, outcome, tasks):
        self.worst = outcome

    monkeypatch.setattr(JobState, "_count", count)
    expect("tasks lost")


# --- (e) and (f) ---------------------------------------------------------------------------------


def test_counters_that_fall(monkeypatch):
    whole = UsageCounters._row

    def row(self, account):
        made = whole(self, account)
        return LedgerRow(account, 100.0 / made.runs, made.epoch_wall_s, made.runs, made.run_s)

    monkeypatch.setattr(UsageCounters, "_row", row)
    expect("less use")


def test_a_fill_that_delays_a_head(monkeypatch):
    monkeypatch.setattr(ReservedHead, "tolerates", lambda *_: True)
    monkeypatch.setattr(Placement, "_mask_of", lambda *_: -1)
    expect("put off")


def test_a_machine_that_comes_back_and_counts_limits_from_then(monkeypatch):
    monkeypatch.setattr(
        HeldClaim, "restored", lambda claim, now, _slack_s: HeldClaim(claim, None, now.steady_s)
    )
    machine = VirtualMachine(4)
    machine.submit("ann", cpus=2, run_s=50.0, limit_s=60.0)
    machine.turn()
    machine.submit("eve", cpus=4, run_s=5.0)
    machine.wait(20.0)
    with pytest.raises(AssertionError, match="put off"):
        machine.restart()


def test_a_promise_that_is_forgotten(monkeypatch):
    whole = EventLog._event

    def event(self, job, change, now):
        recorded = whole(self, job, change, now)
        if isinstance(change, Promised):
            job.promised_wall_s = None
        return recorded

    monkeypatch.setattr(EventLog, "_event", event)
    expect("replay|withdrawn")


def test_a_promise_that_is_taken_back(monkeypatch):
    whole = ReservedHeads.plan

    def plan(self, head, view, now_s):
        if head.told_start_s is None:
            return whole(self, head, view, now_s)
        self.promise(head, None, now_s)
        return False

    monkeypatch.setattr(ReservedHeads, "plan", plan)
    expect("withdrawn")


# --- (h), and what the parts believe of each other -----------------------------------------------


def test_a_job_without_a_reason(monkeypatch):
    monkeypatch.setattr(Broker, "explain", lambda *_: [])
    expect("waits for nothing")


def test_a_broker_that_matches_nothing(monkeypatch):
    monkeypatch.setattr(SchedulingPass, "run", lambda *_: PassResult([], []))
    expect("could start")


def test_a_broker_that_leaves_something_out(monkeypatch):
    whole, chance = SchedulingPass._next_of, Random(1)

    def next_of(self, queue):
        return whole(self, queue) if chance.random() < 0.5 else None

    monkeypatch.setattr(SchedulingPass, "_next_of", next_of)
    expect("could start")


def test_a_broker_that_does_not_hear_of_ends(monkeypatch):
    whole = NodeReports.receive

    def receive(self, idle, now):
        return whole(self, replace(idle, ended=()), now)

    monkeypatch.setattr(NodeReports, "receive", receive)
    expect("claims that the broker knows|add up|exceed")


def test_a_home_that_does_not_say_what_it_wants(monkeypatch):
    whole = Attempts._end

    def end(self, job, *arguments):
        whole(self, job, *arguments)
        self._requests._due.clear()

    monkeypatch.setattr(Attempts, "_end", end)
    machine = busy_machine()
    machine.wait(1.0)
    machine.kill_launcher()
    with pytest.raises(AssertionError, match="the broker knows of"):
        machine.start_launcher()


def test_an_account_that_counts_too_little(monkeypatch):
    machine = busy_machine()
    machine.turn()
    standings = machine.machine.broker.state.usage
    for standing in standings._accounts.values():
        standing.running_cpus += 1
    with pytest.raises(AssertionError, match="cpus of"):
        machine.turn()


# --- (i) -----------------------------------------------------------------------------------------


def test_a_launch_that_got_lost_is_never_ordered_again(monkeypatch):
    monkeypatch.setattr(Node, "_reconcile", lambda *_: None)
    machine = VirtualMachine(1)
    machine.submit(run_s=1.0)
    machine.crash(is_durable=True)
    machine.wait(1000.0)
    assert machine.machine.home.jobs  # which `test_properties` would call stuck


def test_a_cap_is_no_excuse_for_a_promise_that_is_broken(monkeypatch):
    """Without a place in the cap, what fills in beside a head takes the cap from it."""
    monkeypatch.setattr("iriai.broker.state.state.BrokerState.running_cap", _cap_without_heads)
    order = OrderSection(running_cap_cpus=4)
    machine = VirtualMachine(4, configuration=Configuration(order=order))
    machine.submit("eve", cpus=2, run_s=20.0, limit_s=20.0)
    machine.turn()
    machine.submit("ann", cpus=4, run_s=5.0)
    machine.turn()
    machine.submit("ann", tasks=2, run_s=1.0, limit_s=2.0)
    with pytest.raises(AssertionError, match="withdrawn"):
        machine.finish()


def _cap_without_heads(state, entry):
    running = state.usage.running_cpus(entry.want.account)
    return within_running_cap(entry.want.resources.cpus, running, 4)

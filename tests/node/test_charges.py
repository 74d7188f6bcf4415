"""What attempts cost is counted slice by slice, once, and survives restarts."""

from __future__ import annotations

import pytest

from iriai.model.records import ClaimStored, LedgerRow
from iriai.model.state import EndCause
from iriai.model.usage import Usage
from iriai.node.metering import SLICE_S
from iriai.protocol.messages.effects import (
    AttemptsSampled,
    AttemptStarted,
    LauncherAttached,
    Part,
    Persist,
    SampleAttempts,
    Wake,
    WakeAt,
)
from iriai.protocol.messages.scheduling import Acknowledge, Counted, Idle, Run
from tests.node.lone_node import LoneNode, exited
from tests.support.told import NOTHING_TOLD, WALL_S, attempt, instant, only, spec


def started(cpus=2, **changes) -> LoneNode:
    node = LoneNode(cpus=4, now_s=0.0)
    node.run(1, cpus=cpus, **changes)
    node.tell(AttemptStarted(attempt(1), WALL_S))
    return node


def sample(node: LoneNode, cpu_s: float = 0.0):
    return node.tell(AttemptsSampled(((attempt(1), Usage(cpu_s)),)))


def usage_s(node: LoneNode) -> float:
    """What the one account was charged; nothing has decayed yet."""
    [row] = node.node.ledger.rows()
    return row.counter * 2.0 ** -((WALL_S - row.epoch_wall_s) / 3600.0)


def test_while_something_runs_the_launcher_is_asked_each_slice():
    node = LoneNode()
    assert WakeAt(Part.NODE, SLICE_S) in node.run(1).others
    node.wait(SLICE_S)
    said = node.tell(Wake(Part.NODE))
    assert said.others == [SampleAttempts(), WakeAt(Part.NODE, 2 * SLICE_S)]


def test_an_alarm_that_comes_early_is_set_again():
    node = started()
    node.wait(SLICE_S / 2)
    assert node.tell(Wake(Part.NODE)).others == [WakeAt(Part.NODE, SLICE_S)]


def test_an_idle_node_sets_no_alarm():
    node = started()
    node.tell(exited(1))
    node.wait(SLICE_S)
    assert node.tell(Wake(Part.NODE)) == NOTHING_TOLD


def test_a_slice_is_charged_and_kept_with_its_claim():
    node = started(cpus=2)
    node.wait(10.0)
    said = sample(node)
    assert only(said.records, ClaimStored).claim.charged_s == 20.0
    assert only(said.records, LedgerRow).account == ("lab", "ann")
    assert node.counted.charged == ((attempt(1), 20.0),)


def test_cpu_seconds_count_where_they_are_more_than_was_claimed():
    node = started(cpus=1)
    node.wait(10.0)
    sample(node, cpu_s=35.0)
    assert node.counted.charged == ((attempt(1), 35.0),)


def test_the_end_charges_what_the_slices_did_not():
    node = started(cpus=2)
    node.wait(10.0)
    sample(node)
    [end] = node.tell(exited(1, ran_s=12.0)).home
    assert end.result.charge_s == 24.0
    assert usage_s(node) == pytest.approx(24.0, rel=0.01)


def test_a_node_that_comes_back_charges_no_second_again():
    node = started(cpus=2)
    node.wait(10.0)
    records = sample(node).records
    claim = only(records, ClaimStored).claim
    row = only(records, LedgerRow)
    again = LoneNode(claims=[claim], ledger=[row], incarnation=2, now_s=20.0, attached=False)
    again.tell(Run(attempt(1), spec(cpus=2), None), LauncherAttached(((attempt(1), WALL_S),)))
    sample(again)
    assert again.counted.charged == ((attempt(1), 40.0),)
    [end] = again.tell(exited(1, ran_s=25.0)).home
    assert end.result.charge_s == 50.0
    assert usage_s(again) == pytest.approx(50.0, rel=0.01)


def test_a_sample_that_says_less_takes_nothing_back():
    node = started(cpus=1)
    node.wait(10.0)
    sample(node, cpu_s=35.0)
    sample(node, cpu_s=20.0)
    assert usage_s(node) == pytest.approx(35.0, rel=0.01)


def test_haste_is_charged():
    node = started(cpus=1, urgency=3.0)
    [end] = node.tell(exited(1, ran_s=10.0)).home
    assert end.result.charge_s == 30.0


def test_what_was_lost_is_charged_and_says_nothing_about_run_times():
    node = started(cpus=1)
    node.tell(exited(1, EndCause.LOST, ran_s=10.0))
    [row] = node.node.ledger.rows()
    assert (row.counter > 0, row.runs) == (True, 0)


def test_a_sample_of_what_has_ended_is_nothing():
    node = started()
    node.tell(exited(1))
    assert sample(node) == NOTHING_TOLD


def test_charges_of_running_tasks_are_not_worth_a_sync():
    node = started()
    node.wait(10.0)
    effects = node.node.handle(AttemptsSampled(((attempt(1), Usage()),)), instant(10.0))
    effects += node.node.end_turn(instant(10.0))
    kept = [effect for effect in effects if isinstance(effect, Persist)]
    assert kept
    assert not any(effect.urgent for effect in kept)


def test_what_began_and_was_over_in_one_turn_is_not_reported_as_running():
    node = LoneNode()
    run = Run(attempt(1), spec(), node.capabilities[0])
    node.tell(run, exited(1), Acknowledge(attempt(1)))
    assert (node.idle.began, node.idle.ended) == ((), (attempt(1),))
    assert node.idle.spent == (run.capability,)


def test_a_start_far_behind_its_grant_moves_the_end():
    """The launcher was away; slack is for commits and spawns, not for that."""
    node = LoneNode()
    claim = only(node.run(1, time_limit_s=60.0).records, ClaimStored).claim
    again = LoneNode(claims=[claim], incarnation=2, now_s=100.0, attached=False)
    again.tell(Run(attempt(1), spec(time_limit_s=60.0), None))
    again.tell(LauncherAttached(((attempt(1), WALL_S + 90.0),)))
    [held] = again.node._claims.all()
    assert held.stay_left_s(instant(100.0)) == 90.0 + 60.0 + 10.0 - 100.0


def test_the_first_report_tells_everything_later_ones_what_changed():
    node = started(cpus=2, time_limit_s=60.0)
    claim = node.node.claims()[0]
    node.tell(exited(1))
    assert node.idle.ended == (attempt(1),)
    assert not node.idle.whole
    again = LoneNode(claims=[claim], incarnation=2, now_s=30.0, attached=False)
    assert again.idle.version >= 1
    running = only(again.first.broker, Idle).began[0]
    assert running.attempt == attempt(1)
    assert (
        running.ends_in_s == 60.0 + 10.0 + 5.0 - 30.0
    )  # limit, grace, slack, less what has passed


def test_a_whole_report_comes_before_its_counters():
    """A new broker refuses the counters of a machine whose size it does not know."""
    node = LoneNode()
    node.run()
    node.tell(exited())
    node.node.resend_report()
    assert [type(each) for each in node.settle().broker] == [Idle, Counted]

"""Attempts whose homes are on other machines: when their leases begin, and who keeps them.

A lease is 90 s: capabilities are good for a start at once for 30 s, and homes are asked every 30 s.
"""

from __future__ import annotations

from iriai.model.reason import Rule
from iriai.model.state import EndCause
from iriai.protocol.messages.effects import (
    AttemptStarted,
    LaunchAttempt,
    LauncherAttached,
    LauncherLost,
    LinkUp,
    Part,
    RenewLeases,
    TerminateAttempt,
    Wake,
    WakeAt,
)
from iriai.protocol.messages.scheduling import (
    Accepted,
    Acknowledge,
    Begun,
    End,
    Refusal,
    Renew,
    Renewed,
    Run,
    Stop,
)
from tests.node.lone_node import LoneNode, exited
from tests.support.told import HOME, WALL_S, Told, attempt, only, spec

LEASE_S = 90.0


def leased(*, age_s: float = 0.0, is_running: bool = True, **changes) -> LoneNode:
    """A node with an attempt of another home, granted for a capability of this age."""
    node = LoneNode(**changes)
    node.wait(age_s)
    node.run(lease_s=LEASE_S)
    if is_running:
        node.tell(AttemptStarted(attempt(1), WALL_S + node.now_s))
    return node


def wake(node: LoneNode, seconds: float) -> Told:
    node.wait(seconds)
    return node.tell(Wake(Part.NODE))


def launches(said: Told) -> list[LaunchAttempt]:
    return [effect for effect in said.others if isinstance(effect, LaunchAttempt)]


def asks(said: Told) -> list[Renew]:
    return [message for message in said.home if isinstance(message, Renew)]


def restarted(node: LoneNode, **changes) -> LoneNode:
    """A new daemon on the same machine; no launcher has answered yet."""
    changes = {"attached": False, "now_s": node.now_s, "incarnation": 2} | changes
    return LoneNode(claims=node.node.claims(), **changes)


# --- when a lease begins -------------------------------------------------------------------------


def test_a_lease_begins_when_its_capability_was_minted():
    node = LoneNode(now_s=5.0)
    node.wait(29.0)
    [launch] = launches(node.run(lease_s=LEASE_S))
    assert (launch.lease_s, launch.leased_steady_s) == (LEASE_S, 5.0)


def test_without_a_lease_the_launcher_is_told_of_none():
    node = LoneNode()
    node.wait(1000.0)
    said = node.run()
    assert launches(said)[0].lease_s is None
    assert not asks(said)


def test_a_claim_for_an_old_capability_waits_until_its_home_confirms_it():
    node = LoneNode()
    node.wait(30.0)
    said = node.run(lease_s=LEASE_S)
    assert not launches(said)
    assert said.home == [Accepted(attempt(1), HOME), Renew(HOME, 30.0, (attempt(1),))]
    node.wait(2.0)
    said = node.tell(Renewed(HOME, 30.0, (attempt(1),)))
    [launch] = launches(said)
    assert launch.leased_steady_s == 30.0


def test_what_the_home_does_not_name_is_not_started():
    node = leased(age_s=30.0, is_running=False)
    assert not launches(node.tell(Renewed(HOME, 30.0)))
    said = node.tell(Stop(attempt(1), EndCause.LOST, 0.0))
    [end] = said.home
    assert end.result.cause is EndCause.LOST
    assert node.node.running() == []


def test_claims_of_one_turn_are_confirmed_by_one_ask():
    node = LoneNode(cpus=2)
    node.wait(31.0)
    runs = [Run(attempt(n), spec(), node.capabilities[n], LEASE_S) for n in range(2)]
    [ask] = asks(node.tell(*runs))
    assert ask.unconfirmed == (attempt(0), attempt(1))


def test_a_claim_that_is_never_confirmed_is_given_up_after_its_lease():
    node = leased(age_s=30.0, is_running=False)
    for _ in range(11):
        assert asks(wake(node, 7.5))
    [end] = wake(node, 7.5).home
    assert end.result.cause is EndCause.LOST
    assert node.node.running() == []


# --- renewal -------------------------------------------------------------------------------------


def test_the_home_is_asked_when_a_third_of_the_lease_is_over():
    node = LoneNode()
    said = node.run(lease_s=LEASE_S)
    assert said.others[-1] == WakeAt(Part.NODE, 30.0)
    assert not asks(wake(node, 29.9))
    assert asks(wake(node, 0.1)) == [Renew(HOME, 30.0)]


def test_one_ask_is_for_all_attempts_of_a_home():
    node = leased()
    node.run(2, lease_s=LEASE_S)
    assert len(asks(wake(node, 30.0))) == 1


def test_an_answer_renews_from_when_it_was_asked():
    node = leased()
    wake(node, 30.0)
    node.wait(20.0)
    assert RenewLeases(HOME, 30.0) in node.tell(Renewed(HOME, 30.0)).others
    assert not asks(wake(node, 9.9))
    assert asks(wake(node, 0.1)) == [Renew(HOME, 60.0)]


def test_an_ask_without_answer_is_repeated():
    node = leased()
    wake(node, 30.0)
    assert asks(wake(node, 7.5)) == [Renew(HOME, 37.5)]
    # An answer to the first counts from the first, also when it comes late.
    assert RenewLeases(HOME, 30.0) in node.tell(Renewed(HOME, 30.0)).others
    assert RenewLeases(HOME, 37.5) in node.tell(Renewed(HOME, 37.5)).others


def test_an_answer_to_nothing_that_was_asked_is_ignored():
    node = leased()
    wake(node, 30.0)
    assert node.tell(Renewed(HOME, 29.0)).others == []
    assert node.tell(Renewed("other", 30.0)).others == []
    node.tell(Renewed(HOME, 30.0))
    assert node.tell(Renewed(HOME, 30.0)).others == []


def test_nothing_is_asked_for_what_has_ended():
    node = leased()
    node.tell(exited(1))
    assert not asks(wake(node, 30.0))


def test_a_lease_that_is_over_stays_over():
    node = leased(is_running=False)
    node.tell(LauncherLost())
    wake(node, 30.0)
    node.wait(70.0)
    said = node.tell(Renewed(HOME, 30.0))  # only a launcher can tell whether it runs
    assert not [message for message in said.home if isinstance(message, End)]
    said = node.tell(LauncherAttached(()))
    assert only(said.home, End).result.cause is EndCause.LOST
    assert not launches(said)


def test_what_ran_before_a_restart_is_not_given_up_before_a_launcher_is_heard():
    """Its lease counted from the grant is over; the launcher knows of the renewals since."""
    old = leased()
    old.wait(200.0)
    node = restarted(old)
    said = node.tell()
    assert not [message for message in said.home if isinstance(message, End)]
    said = node.tell(LauncherAttached(((attempt(1), WALL_S),)))
    assert [type(message) for message in said.home] == [Begun]


# --- links and restarts --------------------------------------------------------------------------


def test_a_home_that_can_be_reached_again_is_told_all_and_asked():
    node = leased()
    node.run(2, lease_s=LEASE_S)
    node.run(3, lease_s=LEASE_S)
    node.tell(exited(3))
    said = node.tell(LinkUp(HOME))
    assert [type(message) for message in said.home] == [Begun, Accepted, End, Renew]


def test_another_machine_s_link_is_nothing_to_it():
    node = leased()
    assert node.tell(LinkUp("other")).home == []


def test_the_home_of_this_machine_needs_no_link():
    node = LoneNode()
    node.run()
    assert node.tell(LinkUp(HOME)).home == []


def test_a_run_that_comes_again_is_answered_and_not_started_twice():
    node = leased()
    said = node.tell(Run(attempt(1), spec(), None, LEASE_S))
    assert said.home == [Begun(attempt(1), HOME, WALL_S)]
    assert not launches(said)


def test_what_was_refused_once_is_refused_for_ever():
    """A home asks again for what never came; then it does come."""
    node = LoneNode()
    late = Run(attempt(1), spec(), node.capabilities[0], LEASE_S)
    [refusal] = node.tell(Run(attempt(1), spec(), None, LEASE_S)).home
    assert refusal.reason.rule is Rule.STALE_CAPABILITY
    [refusal] = node.tell(late).home
    assert refusal.reason.rule is Rule.STALE_CAPABILITY
    [accepted] = node.run(2, lease_s=LEASE_S).home
    assert isinstance(accepted, Accepted)


def test_a_restarted_node_asks_at_once_and_its_launcher_goes_on_keeping_leases():
    node = restarted(leased(), now_s=10.0)
    assert asks(node.first) == [Renew(HOME, 10.0, (attempt(1),))]
    node.tell(LauncherAttached(((attempt(1), WALL_S),)))
    assert RenewLeases(HOME, 10.0) in node.tell(Renewed(HOME, 10.0, (attempt(1),))).others


def test_a_claim_that_never_started_waits_for_its_home_after_a_restart():
    node = restarted(leased(is_running=False), attached=True)
    assert not launches(node.tell(Run(attempt(1), spec(), None, LEASE_S)))
    said = node.tell(Renewed(HOME, node.now_s, (attempt(1),)))
    assert len(launches(said)) == 1


def test_a_launcher_that_comes_back_is_told_the_answers_it_may_have_missed():
    node = leased()
    wake(node, 30.0)
    node.tell(LauncherLost())
    node.tell(Renewed(HOME, 30.0))
    said = node.tell(LauncherAttached(((attempt(1), WALL_S),)))
    assert RenewLeases(HOME, 30.0) in said.others


def test_a_stop_of_what_may_have_been_started_goes_to_the_launcher():
    node = leased(is_running=False)
    said = node.tell(Stop(attempt(1), EndCause.CANCELLED, 5.0))
    assert said.others == [TerminateAttempt(attempt(1), EndCause.CANCELLED, 5.0)]


def test_a_task_cancelled_before_it_was_confirmed_ends_without_a_launcher():
    node = leased(age_s=30.0, is_running=False)
    [end] = node.tell(Stop(attempt(1), EndCause.CANCELLED, 5.0)).home
    assert end.result.cause is EndCause.CANCELLED
    node.tell(Acknowledge(attempt(1)))
    assert node.node.claims() == []


def test_a_refusal_by_the_launcher_ends_the_lease():
    node = leased(is_running=False)
    said = node.tell(exited(1, EndCause.REFUSED, why="no room"))
    assert isinstance(only(said.home, Refusal), Refusal)
    assert not asks(wake(node, 60.0))


def test_what_starts_after_its_end_was_told_is_ended():
    """A launcher knew nothing of it, the home gave it up, and then it does start."""
    node = restarted(leased(is_running=False), attached=True)
    [end] = node.tell(Stop(attempt(1), EndCause.LOST, 0.0)).home
    assert end.result.cause is EndCause.LOST
    said = node.tell(AttemptStarted(attempt(1), WALL_S))
    assert said.others == [TerminateAttempt(attempt(1), EndCause.LOST, 0.0)]
    node.tell(Acknowledge(attempt(1)))
    said = node.tell(AttemptStarted(attempt(1), WALL_S))
    assert said.others == [TerminateAttempt(attempt(1), EndCause.LOST, 0.0)]

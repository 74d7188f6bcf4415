"""A node takes a claim or refuses it, and says why; it never says wait."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from iriai.model.pool_room import MachineLimits
from iriai.model.reason import Rule
from iriai.model.records import ClaimsDropped, ClaimStored
from iriai.protocol.messages.effects import ForgetAttempt, LaunchAttempt, LauncherLost, WakeAt
from iriai.protocol.messages.scheduling import Acknowledge, Capability, Refusal, Run
from tests.node.lone_node import LoneNode, exited
from tests.support.told import NOTHING_TOLD, attempt, only, spec


def refusal(said) -> Rule:
    """The rule of the one refusal; nothing else was stored or started."""
    assert said.records == []
    assert [each for each in said.others if type(each) is not WakeAt] == []
    [message] = said.home
    assert isinstance(message, Refusal)
    assert message.reason.needed
    assert message.reason.had
    return message.reason.rule


def test_a_claim_is_stored_and_its_start_is_ordered():
    node = LoneNode(cpus=4)
    said = node.run(1, cpus=3, time_limit_s=60.0)
    claim = only(said.records, ClaimStored).claim
    assert (claim.attempt, claim.limit_s, claim.boot_id) == (attempt(1), 60.0, "boot")
    assert only(said.others, LaunchAttempt).attempt == attempt(1)
    assert said.home == []  # it is beside this machine, and would hear of a refusal
    assert node.node.calendar.free.cpus == 1


def test_there_are_as_many_capabilities_as_free_cpus():
    node = LoneNode(cpus=3)
    assert len(node.capabilities) == 3
    node.run(1, cpus=2)
    assert len(node.capabilities) == 2  # one more than cpus are free: it costs a refusal at most


def test_a_capability_is_good_once():
    node = LoneNode(cpus=4)
    capability = node.capabilities[0]
    node.tell(Run(attempt(1), spec(), capability))
    free = node.node.calendar.free
    told_before = node.idle.version
    said = node.tell(Run(attempt(2), spec(), capability))
    assert refusal(said) is Rule.STALE_CAPABILITY
    assert node.node.calendar.free == free
    assert node.idle.version > told_before  # the broker is told, so that it does not try again
    assert node.idle.spent == (capability,)


def test_whose_task_it_is_was_judged_at_its_submission_if_that_was_here():
    node = LoneNode(cpus=4, judge_user=lambda home, user, _wall_s: f"nothing of {user} at {home}")
    node.tell(Run(attempt(1), spec(), node.capabilities[0]))
    assert node.node.running() == [attempt(1)]
    elsewhere = attempt(1)._replace(home="momo")
    said = node.tell(Run(elsewhere, spec(), node.capabilities[1]))
    assert refusal(said) is Rule.USER_NOT_ALLOWED


def test_a_capability_is_good_only_as_it_was_minted():
    node = LoneNode(cpus=4)
    forged = node.capabilities[0]._replace(random=7)
    assert refusal(node.tell(Run(attempt(1), spec(), forged))) is Rule.STALE_CAPABILITY
    node.tell(Run(attempt(1), spec(), node.capabilities[0]))
    assert node.node.running() == [attempt(1)]


def test_a_capability_of_an_earlier_incarnation_is_refused():
    earlier = LoneNode(incarnation=1).capabilities[0]
    node = LoneNode(incarnation=2)
    assert refusal(node.tell(Run(attempt(1), spec(), earlier))) is Rule.STALE_CAPABILITY


def test_without_a_capability_nothing_new_is_taken():
    assert refusal(LoneNode().tell(Run(attempt(1), spec(), None))) is Rule.STALE_CAPABILITY


def test_what_does_not_fit_is_refused_with_what_is_there():
    node = LoneNode(cpus=4)
    node.run(1, cpus=3)
    said = node.run(2, cpus=2)
    assert refusal(said) is Rule.MACHINE_BUSY
    assert said.home[0].reason.needed == "2 cpus"
    assert said.home[0].reason.had == "1 cpu free"


def test_without_a_launcher_nothing_is_taken():
    node = LoneNode(attached=False)
    assert node.idle.unavailable is not None
    assert refusal(node.run(1)) is Rule.NO_LAUNCHER


def test_a_launcher_that_goes_away_is_told_to_the_broker():
    node = LoneNode()
    assert node.idle.unavailable is None
    node.tell(LauncherLost())
    assert node.idle.unavailable.rule is Rule.NO_LAUNCHER


def test_gpus_are_given_out_one_by_one_and_come_back():
    node = LoneNode(cpus=8, gpus=3)
    first = only(node.run(1, gpus=2).others, LaunchAttempt).gpu_ids
    second = only(node.run(2, gpus=1).others, LaunchAttempt).gpu_ids
    assert sorted([*first, *second]) == [0, 1, 2]
    assert refusal(node.run(3, gpus=1)) is Rule.MACHINE_BUSY
    node.tell(exited(1))
    again = only(node.run(4, gpus=2).others, LaunchAttempt).gpu_ids
    assert sorted(again) == sorted(first)


def test_a_gpu_that_a_machine_no_longer_has_is_not_given_out_again():
    claim = only(LoneNode(cpus=8, gpus=3).run(1, gpus=3).records, ClaimStored).claim
    smaller = LoneNode(cpus=8, gpus=1, claims=[claim], is_checked=False)
    assert refusal(smaller.run(2, gpus=1)) is Rule.MACHINE_BUSY
    smaller.tell(exited(1))
    assert only(smaller.run(3, gpus=1).others, LaunchAttempt).gpu_ids == (0,)
    smaller.node.check()


def test_running_an_attempt_again_starts_it_once():
    node = LoneNode()
    run = Run(attempt(1), spec(), node.capabilities[0])
    node.tell(run)
    free = node.node.calendar.free
    said = node.tell(run)
    assert said.records == []
    assert node.node.calendar.free == free
    assert node.node.running() == [attempt(1)]


def test_an_end_is_repeated_until_it_is_acknowledged():
    node = LoneNode()
    node.run(1)
    [end] = node.tell(exited(1)).home
    assert node.tell(exited(1)).home == [end]
    assert node.tell(Run(attempt(1), spec(), None)).home == [end]
    said = node.tell(Acknowledge(attempt(1)))
    assert said.records == [ClaimsDropped((attempt(1),))]
    assert said.others == [ForgetAttempt(attempt(1))]


def test_what_was_acknowledged_is_forgotten_again_when_the_launcher_repeats_it():
    node = LoneNode()
    node.run(1)
    node.tell(exited(1), Acknowledge(attempt(1)))
    assert node.tell(Acknowledge(attempt(1))) == NOTHING_TOLD
    said = node.tell(exited(1))
    assert said.home == []
    assert said.others == [ForgetAttempt(attempt(1))]


def test_an_attempt_that_runs_cannot_be_acknowledged_away():
    node = LoneNode()
    node.run(1)
    assert node.tell(Acknowledge(attempt(1))) == NOTHING_TOLD
    assert node.node.running() == [attempt(1)]


capabilities = st.builds(
    Capability, st.integers(0, 2), st.integers(0, 3), st.integers(0, 6), st.integers(0, 2)
)
runs = st.lists(st.tuples(st.integers(1, 5), st.integers(1, 3), capabilities | st.integers(0, 3)))


@given(runs=runs)
def test_whatever_is_asked_claims_never_exceed_the_machine(runs):
    """Forged capabilities mixed with good ones (the numbers): only a good one buys a claim."""
    node = LoneNode(cpus=4)
    for number, cpus, choice in runs:
        good = dict(enumerate(node.capabilities)) if isinstance(choice, int) else {}
        capability = good.get(choice) if isinstance(choice, int) else choice
        before = node.node.running()
        node.tell(Run(attempt(number), spec(cpus=cpus), capability))
        if node.node.running() != before:
            assert choice in good
            assert node.node.running() == [*before, attempt(number)]


def test_an_exclusive_task_takes_the_whole_machine():
    node = LoneNode(cpus=4, gpus=2)
    said = node.run(1, cpus=1, exclusive=True)
    claim = only(said.records, ClaimStored).claim
    assert (claim.resources.cpus, claim.gpu_ids) == (4, (0, 1))
    launch = only(said.others, LaunchAttempt)
    assert (launch.spec.resources, launch.gpu_ids) == (claim.resources, (0, 1))
    assert refusal(node.run(2, cpus=1)) is Rule.MACHINE_BUSY


def test_an_exclusive_task_has_no_more_than_its_queue_permits():
    node = LoneNode(cpus=4)
    said = node.run(1, cpus=1, exclusive=True, limits=MachineLimits(1 << 20, 2 << 20))
    launched = only(said.others, LaunchAttempt).spec.resources
    assert (launched.cpus, launched.memory_bytes, launched.disk_bytes) == (4, 1 << 20, 2 << 20)


def test_an_exclusive_task_does_not_start_beside_another():
    node = LoneNode(cpus=4)
    node.run(1, cpus=1)
    assert refusal(node.run(2, cpus=1, exclusive=True)) is Rule.MACHINE_BUSY
    node.tell(exited(1))
    assert only(node.run(3, exclusive=True).others, LaunchAttempt)

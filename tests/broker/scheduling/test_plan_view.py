"""What a policy sees: the cluster, queues, machines with their tasks, bookings, and what waits."""

from __future__ import annotations

from iriai.config.sections import QueueSection
from iriai.model.ids import ReservationId
from iriai.model.resources import Resources
from iriai.policy.placement.policy_api import PlanSource, Start
from iriai.protocol.messages.reservations import BookedTime
from tests.broker.lone_broker import LoneBroker, matches, want
from tests.support.told import HOME, attempt, job

R7 = ReservationId("ume", 7)


class Looks:
    """Starts nothing, and keeps what it saw last."""

    def __init__(self) -> None:
        self.view = None
        self.starts = []

    def plan(self, view, now):
        self.view = view
        self.waiting = {each.id: each for each in view.queue()}
        return [Start(each, HOME) for each in self.starts if each in self.waiting]


def looking(**options) -> tuple[LoneBroker, Looks]:
    policy = Looks()
    broker = LoneBroker(plan=PlanSource(policy, "mine.py"), order="fifo", **options)
    broker.tell(broker.idle())
    return broker, policy


def test_the_cluster_says_what_it_has_and_what_waits():
    broker, policy = looking()
    broker.broker.peers_changed("lab", ())
    broker.tell(want(1, cpus=3, count=4))
    state = policy.view.cluster
    assert (state.name, state.capacity.cpus, state.free.cpus) == ("lab", 4, 4)
    assert (state.waiting, state.running) == (4, 0)


def test_a_machine_shows_its_tasks_from_the_match_to_the_end():
    broker, policy = looking()
    policy.starts = [job(1)]
    wanted = want(1, cpus=3, limit_s=100.0)
    [matched] = matches(broker.tell(wanted))
    [machine] = policy.view.machines
    [task] = machine.tasks()
    assert (task.attempt, task.job, task.resources.cpus) == (None, job(1), 3)
    broker.tell(broker.began(matched, wanted))
    [machine] = policy.view.machines
    [task] = machine.tasks()
    assert (task.attempt, task.job, task.account) == (attempt(1), job(1), wanted.account)
    assert not task.is_suspended
    assert policy.view.cluster.running == 1
    broker.tell(broker.idle(0, whole=False, ended=(attempt(1),)))
    assert not list(machine.tasks())


def test_queues_come_with_their_states_and_counts():
    broker, policy = looking(queues={"1": QueueSection(state="enabled"), "2": QueueSection()})
    broker.tell(want(1, queue=1, count=3), want(2, queue=2, count=2))
    queues = {each.number: each for each in policy.view.queues}
    assert (queues[1].state, queues[1].waiting) == ("enabled", 3)
    assert (queues[2].state, queues[2].waiting, queues[2].mode) == ("active", 2, "shared")
    assert policy.waiting[job(2)].queue == 2


def test_a_queue_that_is_configured_no_more_is_gone():
    broker, policy = looking()
    broker.tell(want(1, queue=40))
    assert policy.view.queues[-1].state == "gone"


def test_bookings_come_with_their_ids():
    broker, policy = looking()
    booked = BookedTime(R7, Resources(2), 100.0, 200.0, None)
    broker.tell(broker.idle(0, whole=False, bookings=(booked,)), want(1))
    [machine] = policy.view.machines
    [span] = machine.bookings()
    assert (span.reservation, span.resources.cpus, span.is_open) == (R7, 2, False)
    assert (span.start_s, span.end_s) == (99.0, 200.0)  # a match takes a moment


def test_a_machine_that_takes_no_tasks_is_closed():
    broker, policy = looking()
    machine = broker.broker.state.machines[HOME]
    machine.is_away = True
    broker.broker.state.availability_changed(machine)
    broker.tell(want(1))
    assert [(each.name, each.reason) for each in policy.view.closed] == [
        (HOME, "it cannot be reached")
    ]
    assert not policy.view.machines


def test_a_waiting_job_says_what_it_asks_for():
    broker, policy = looking()
    broker.tell(want(1, "ann", exclusive=True, limit_s=600.0, is_evictable=True))
    seen = policy.waiting[job(1)]
    assert (seen.user, seen.is_exclusive, seen.is_evictable) == ("ann", True, True)


def test_machines_keep_their_objects_from_pass_to_pass():
    broker, policy = looking()
    broker.tell(want(1, cpus=9))
    before = policy.view.machines
    broker.tell(want(2, cpus=9))
    assert policy.view.machines[0] is before[0]

"""How much of a free machine one account may take at once."""

from collections import Counter

from iriai.model.ids import Account
from iriai.model.records import LedgerRow
from iriai.policy.accounting.decay import DecayedCounter
from tests.support.virtual import WALL_S, VirtualMachine

OTHERS = ("ann", "ben", "cleo")


def room_of_64(tasks_of_others):
    """64 free cpus; a newcomer with 1,000 tasks beside three who have used a lot."""
    machine = VirtualMachine(64)
    usage = DecayedCounter(machine.configuration.order.half_life_s).charged(1e6, 0.0, WALL_S)
    for user in OTHERS:
        row = LedgerRow(Account("lab", user), usage.counter, usage.epoch_wall_s, 100, 8 * 100.0)
        machine.store.write([row])
    machine.restart()
    jobs = {machine.submit("new", tasks=1_000, run_s=100.0): "new"}
    for user in OTHERS if tasks_of_others else ():
        jobs[machine.submit(user, tasks=tasks_of_others, run_s=100.0)] = user
    machine.turn()
    return machine, jobs


def running(machine, jobs):
    return Counter(jobs[job] for job in machine.running())


def test_among_four_waiting_accounts_a_newcomer_takes_half_and_no_more():
    taken = running(*room_of_64(tasks_of_others=1_000))
    assert taken["new"] == 32
    assert taken.total() == 64
    assert all(taken[user] for user in OTHERS)


def test_where_others_have_nothing_the_newcomer_takes_all():
    assert running(*room_of_64(tasks_of_others=0)) == {"new": 64}


def test_once_the_others_have_nothing_left_the_newcomer_takes_all():
    machine, jobs = room_of_64(tasks_of_others=1)
    assert running(machine, jobs) == {"new": 61, "ann": 1, "ben": 1, "cleo": 1}
    machine.wait(150.0)
    assert running(machine, jobs) == {"new": 64}

"""What gives way to the owner, in each way in which tasks are frozen."""

from __future__ import annotations

import time

from iriai.launcher.contract.messages import (
    Freeze,
    FreezeOrder,
    Launch,
    ParallelSeat,
    StartOrder,
    StartStep,
    Template,
    Terminate,
)
from iriai.model.state import EndCause
from iriai.model.submission import Interaction
from tests.launcher.harness import Lab, attempt, is_running, until
from tests.launcher.owner.used import INPUT, OWNER, START, USER, UsedLab, sensors_of
from tests.launcher.tasks.test_freezing import LISTENS, goes_on


def test_all_stand_at_a_sign_and_go_on_when_it_is_over(used: UsedLab):
    one, two = used.begin("one"), used.begin("two")
    used.runs("one")
    used.watch()
    used.use()
    for name, each in (("one", one), ("two", two)):
        state = used.told(each, OWNER)
        assert (state.number, state.is_complete) == (0, True)
        used.stands(name)
    used.release()
    for name, each in (("one", one), ("two", two)):
        assert used.told(each).frozen_s > 0.0
        used.runs(name)
    used.cancel(one, two)


def test_the_begin_of_watching_is_a_sign(used: UsedLab):
    task = used.begin()
    used.runs()
    used.link.watch_owner()
    used.await_sign(START)
    used.told(task, OWNER)
    used.stands()
    assert [each.kind for each in used.seen.last] == [START]
    used.cancel(task)


def test_the_exempt_go_on_and_who_is_exempt_may_change(used: UsedLab):
    one, two = used.begin("one"), used.begin("two")
    used.runs("one")
    used.runs("two")
    used.watch(one)
    used.use()
    used.told(two, OWNER)
    assert goes_on(used, "one")
    used.link.watch_owner(two)
    used.told(one, OWNER)
    used.told(two)
    used.stands("one")
    assert goes_on(used, "two")
    used.cancel(one, two)


def test_what_starts_meanwhile_starts_frozen_unless_it_is_exempt(used: UsedLab):
    used.watch()
    used.use()
    wanted, exempt = used.new_attempt(), used.new_attempt()
    used.link.watch_owner(exempt)
    spec = used.spec("sh", "-c", "echo > began", output="")
    order = (StartOrder(wanted, 0),)
    used.link.send(Launch((Template(spec, b"\x80"),), order))
    pid = used.link.pid_of(wanted)
    assert used.told(wanted, OWNER).is_complete
    time.sleep(0.2)
    assert is_running(pid)
    assert not (used.folder / "began").exists()
    used.link.send(Launch((Template(used.spec("true"), b"\x80"),), (StartOrder(exempt, 0),)))
    assert used.link.exit_of(exempt).cause is EndCause.COMPLETED
    used.release()
    end = used.link.exit_of(wanted)
    assert end.cause is EndCause.COMPLETED
    assert end.elapsed_s < end.ended_wall_s - end.started_wall_s - 0.15
    assert (used.folder / "began").exists()


def test_ranks_and_steps_start_frozen_with_their_seat(used: UsedLab):
    used.watch()
    used.use()
    wanted = used.new_attempt()
    spec = used.spec("sh", "-c", "echo > rank-$IRIAI_RANK; exec sleep 600", output="")
    order = StartOrder(wanted, 0, parallel=ParallelSeat(40))
    used.link.send(Launch((Template(spec, b"\x80"),), (order,)))
    used.told(wanted, OWNER)
    step = wanted.of_step(1)
    used.link.send(StartStep(step, 0, ("sh", "-c", "echo > step"), Interaction.STREAM))
    time.sleep(0.3)
    assert list(used.folder.iterdir()) == []
    used.release()
    until(lambda: len(list(used.folder.glob("rank-*"))) == 40, "all ranks")
    assert used.link.exit_of(step).cause is EndCause.COMPLETED
    used.cancel(wanted)


# --- when it is over -----------------------------------------------------------------------------


def test_a_sign_that_the_node_has_not_taken_in_keeps_them_frozen(used: UsedLab):
    task = used.begin()
    used.runs()
    used.watch()
    used.use()
    signs = used.seen.signs
    used.use()
    used.link.watch_owner(signs=signs, are_over=True)
    used.link.watch_owner(signs=signs + 2, are_over=True)
    used.link.watch_owner(signs=signs + 1, are_over=False)
    used.machine.wait_until_read(used.link)
    used.told(task, OWNER)
    used.stands()
    used.release()
    used.told(task)
    assert goes_on(used)
    used.cancel(task)


def test_an_order_that_is_not_newer_changes_nothing_and_is_answered(used: UsedLab):
    task = used.begin()
    used.runs()
    used.watch()
    used.use()
    used.told(task, OWNER)
    number = used.link.watch_owner()
    before = len(used.link.seen)
    for late in (number, number - 1, 1):
        used.link.watch_owner(signs=used.seen.signs, are_over=True, number=late)
    used.link.until(lambda: len(used.link.seen) > before, "an answer")
    used.stands()
    used.cancel(task)


def test_orders_of_reasons_do_not_thaw_what_the_owner_keeps(used: UsedLab):
    task = used.begin()
    used.runs()
    used.watch()
    assert used.link.freeze(task).reasons == (USER,)
    used.use()
    assert used.told(task, USER, OWNER).number == 1
    number = used.link.order_freeze(task)
    assert used.link.state_of(task, number).reasons == (OWNER,)
    used.stands()
    number = used.link.order_freeze(task, OWNER)
    assert used.link.state_of(task, number).reasons == (OWNER,)
    used.release()
    used.machine.wait_until_read(used.link)
    used.stands()  # the node's own order has the reason still
    assert used.link.thaw(task).reasons == ()
    assert goes_on(used)
    used.cancel(task)


def test_what_its_user_keeps_stays_when_the_owner_has_gone(used: UsedLab):
    task = used.begin()
    used.runs()
    used.watch()
    used.use()
    used.told(task, OWNER)
    used.link.freeze(task)
    used.release()
    used.told(task, USER)
    used.stands()
    used.link.thaw(task)
    assert goes_on(used)
    used.cancel(task)


def test_without_suspends_a_sign_is_told_and_freezes_nothing(used: UsedLab):
    task = used.begin()
    used.runs()
    used.link.watch_owner(suspends=False)
    used.await_sign(START)
    used.use()
    assert goes_on(used)
    assert used.link.frozen == []
    used.cancel(task)


def test_an_order_that_does_not_suspend_any_more_lets_them_go_on(used: UsedLab):
    task = used.begin()
    used.runs()
    used.watch()
    used.use()
    used.told(task, OWNER)
    used.link.watch_owner(suspends=False)
    used.told(task)
    assert goes_on(used)
    used.cancel(task)


# --- ends and turns ------------------------------------------------------------------------------


def test_what_is_asked_to_end_goes_on_for_its_grace(used: UsedLab):
    task = used.launch(used.python(LISTENS))
    used.wait_for("ready")
    used.watch()
    used.use()
    used.told(task, OWNER)
    used.link.send(Terminate((task,), EndCause.EVICTED, 60.0))
    end = used.link.exit_of(task)
    assert (end.cause, end.exit_code) == (EndCause.EVICTED, 7)


def test_what_is_being_ended_does_not_stand_at_a_sign(used: UsedLab):
    text = LISTENS.replace("os._exit(7)", "open('heard', 'w').write('x')")
    task = used.launch(used.python(text, output=""))
    used.wait_for("ready")
    used.watch()
    used.link.send(Terminate((task,), EndCause.CANCELLED, 600.0))
    used.wait_for("heard")
    used.machine.wait_until_read(used.link)
    before = len(used.link.frozen)
    used.use()
    used.machine.wait_until_read(used.link)
    assert len(used.link.frozen) == before
    used.cancel(task)


def test_a_wall_limit_stands_and_a_lease_goes_on(used: UsedLab):
    used.watch()
    limited = used.launch(used.spec("sleep", "600", time_limit_s=2.5))
    used.link.pid_of(limited)
    used.use()
    used.told(limited, OWNER)
    leased, now_s = used.new_attempt(), time.clock_gettime(time.CLOCK_BOOTTIME)
    order = StartOrder(leased, 0, lease_s=3.0, leased_s=now_s)
    used.link.send(Launch((Template(used.spec("sleep", "600"), b"\x80"),), (order,)))
    assert used.link.exit_of(leased).cause is EndCause.LOST
    assert limited not in used.link.exits
    used.release()
    assert used.link.exit_of(limited).cause is EndCause.TIME_LIMIT


def test_who_takes_turns_stands_in_its_own_turn_as_well(used: UsedLab):
    one, two = used.begin("one"), used.begin("two")
    used.runs("one")
    used.runs("two")
    used.watch(two)
    used.link.set_cycle({one: 1, two: 2}, quantum_s=0.1)
    used.use()
    used.told(one, OWNER)
    used.stands("one")
    assert goes_on(used, "two")
    used.release()
    used.told(one)
    assert goes_on(used, "one")
    assert goes_on(used, "two")
    used.cancel(one, two)


# --- daemons and launchers -----------------------------------------------------------------------


def test_a_daemon_that_comes_back_is_told_and_nothing_goes_on_meanwhile(used: UsedLab):
    task = used.begin()
    used.runs()
    used.watch()
    used.use()
    state = used.told(task, OWNER)
    link = used.machine.attach()
    used.machine.wait_until_read(link)
    assert link.told[:3] == ["Attached", "OwnerSeen", "Frozen"]
    assert link.frozen == [state]
    assert [each.kind for each in link.seen[0].last] == [START, INPUT]
    used.stands()
    link.watch_owner(signs=link.seen[-1].signs, are_over=True)
    assert goes_on(used)


def test_a_launcher_that_is_killed_takes_the_process_with_it(used: UsedLab):
    task = used.begin()
    used.runs()
    used.watch()
    used.use()
    used.told(task, OWNER)
    (sensors,), pid = sensors_of(used.machine), used.link.pid_of(task)
    used.machine.kill()
    until(lambda: not is_running(sensors), "the end of the process")
    used.machine.start()
    assert not is_running(pid)
    lab = Lab(used.machine)
    assert {end.attempt for end in lab.link.welcome.ended} == {task}
    assert "OwnerSeen" not in lab.link.told
    assert sensors_of(used.machine) == []
    assert lab.run("true").cause is EndCause.COMPLETED  # it knows no order


def test_without_an_order_nobody_watches(used: UsedLab):
    used.desk.press()
    assert used.run("true").cause is EndCause.COMPLETED
    assert sensors_of(used.machine) == []
    assert used.link.seen == []
    rows = {row.limit: row for row in used.link.welcome.enforcement}
    assert rows["owner-signs"].by == "not watched"


def test_orders_about_attempts_that_nobody_knows_are_harmless(used: UsedLab):
    unknown = attempt(999_999)
    used.watch(unknown, unknown.of_step(2))
    used.link.send(Freeze((FreezeOrder(unknown, 1, (OWNER,)),)))
    assert used.run("true").cause is EndCause.COMPLETED

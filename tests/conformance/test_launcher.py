"""What a node may rely on, whether a real launcher or the simulator's model is behind it."""

import pytest

from iriai.model.ids import AttemptId
from iriai.model.state import EndCause
from iriai.model.usage import Usage
from iriai.sim.world.work import FAILURE, KILLED, SUCCESS, TERMINATED, End, Work
from tests.conformance.place import HOME, LONG, STUBBORN, Place

LOST: End = (EndCause.LOST, None, None)
LEASE_S = 1.0
"""Of what a double holds exactly, as all times here: the model waits for no moment longer."""
NEVER_S = 600.0
"""Longer than any story takes."""


def stubborn_for(run_s: float) -> Work:
    return Work(run_s, stubborn=True)


# --- starts and ends -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "end", [SUCCESS, FAILURE, (EndCause.FAILED, 3, None), (EndCause.FAILED, None, 10)], ids=str
)
def test_an_end_carries_the_exit_code_or_the_signal(place: Place, end: End):
    assert place.end_of(place.launch(Work(0.0, end))) == end


def test_a_start_is_told_before_the_end_and_both_agree_on_when(place: Place):
    attempt = place.begin(Work(0.125))
    end = place.exit_of(attempt)
    started = place.start_of(attempt)
    assert place.heard.index(started) < place.heard.index(end)
    assert end.started_wall_s == started.started_wall_s < end.ended_wall_s
    assert end.elapsed_s >= 0.125
    assert end.message == ""


def test_to_order_again_what_runs_is_answered_and_starts_nothing(place: Place):
    attempt = place.begin()
    started = place.start_of(attempt)
    place.heard.clear()
    place.order(place.new(attempt, LONG))
    place.until(lambda: place.start_of(attempt), "the answer")
    assert place.start_of(attempt) == started
    assert place.starts(attempt) == 1


def test_to_order_again_what_has_ended_is_answered_with_the_same_end(place: Place):
    attempt = place.launch()
    end = place.exit_of(attempt)
    place.heard.clear()
    place.order(place.new(attempt, LONG))
    assert place.exit_of(attempt) == end
    assert place.starts(attempt) == 1


def test_use_is_told_of_what_runs_and_of_nothing_else(place: Place):
    place.exit_of(place.launch())
    running = [place.begin(), place.begin()]
    assert sorted(place.samples()) == sorted(running)


# --- requests to end -----------------------------------------------------------------------------


def test_who_listens_ends_when_asked(place: Place):
    attempt = place.begin()
    place.terminate(attempt, NEVER_S)
    assert place.end_of(attempt) == (EndCause.CANCELLED, None, TERMINATED)
    assert not place.runs(attempt)


def test_who_does_not_listen_is_killed_after_the_grace(place: Place):
    attempt = place.begin(STUBBORN)
    asked_s = place.steady_s()
    place.terminate(attempt, 0.25)
    assert place.end_of(attempt) == (EndCause.CANCELLED, None, KILLED)
    assert place.steady_s() >= asked_s + 0.25
    assert not place.runs(attempt)


@pytest.mark.parametrize("work", [LONG, STUBBORN], ids=["listens", "stubborn"])
def test_without_grace_everybody_is_killed_at_once(place: Place, work: Work):
    attempt = place.begin(work)
    place.terminate(attempt, 0.0, EndCause.EVICTED)
    assert place.end_of(attempt) == (EndCause.EVICTED, None, KILLED)


def test_who_ends_by_itself_within_the_grace_keeps_its_exit_code(place: Place):
    attempt = place.begin(stubborn_for(1.0))
    place.terminate(attempt, NEVER_S)
    assert place.end_of(attempt) == (EndCause.CANCELLED, 0, None)


def test_the_first_cause_stays_and_a_later_request_shortens_the_grace(place: Place):
    attempt = place.begin(STUBBORN)
    place.terminate(attempt, NEVER_S, EndCause.CANCELLED)
    place.terminate(attempt, 0.0, EndCause.EVICTED)
    assert place.end_of(attempt) == (EndCause.CANCELLED, None, KILLED)


def test_a_later_request_lengthens_no_grace(place: Place):
    attempt = place.begin(STUBBORN)
    place.terminate(attempt, 0.25)
    place.terminate(attempt, NEVER_S)
    assert place.end_of(attempt) == (EndCause.CANCELLED, None, KILLED)


def test_what_was_ended_before_it_was_ordered_never_starts(place: Place):
    attempt = AttemptId(HOME, 10_000_000, 0, 1)
    place.terminate(attempt, 0.0, EndCause.CANCELLED)
    assert place.end_of(attempt) == (EndCause.CANCELLED, None, None)
    place.order(place.new(attempt, LONG))
    place.settle()
    assert place.starts(attempt) == 0


def test_to_forget_what_is_unknown_or_end_what_has_ended_does_nothing(place: Place):
    unknown = AttemptId(HOME, 20_000_000, 0, 1)
    place.forget(unknown)
    assert unknown not in place.exits()
    ended = place.launch()
    place.exit_of(ended)
    place.terminate(ended, 0.0)
    place.settle()
    assert place.end_of(ended) == SUCCESS


# --- the limit of wall time ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("work", "grace_s", "end"),
    [
        (LONG, 0.25, (EndCause.TIME_LIMIT, None, TERMINATED)),
        (LONG, 0.0, (EndCause.TIME_LIMIT, None, KILLED)),
        (STUBBORN, 0.25, (EndCause.TIME_LIMIT, None, KILLED)),
        (stubborn_for(0.75), NEVER_S, (EndCause.TIME_LIMIT, 0, None)),
    ],
    ids=["listens", "no-grace", "stubborn", "ends-within-its-grace"],
)
def test_the_time_limit(place: Place, work: Work, grace_s: float, end: End):
    attempt = place.begin(work, time_limit_s=0.5, kill_grace_s=grace_s)
    assert place.end_of(attempt) == end
    patience_s = grace_s if work is STUBBORN else 0.0
    assert place.exit_of(attempt).elapsed_s >= 0.5 + patience_s


def test_what_is_over_its_time_limit_ended_for_that_whatever_is_asked_later(place: Place):
    attempt = place.begin(STUBBORN, time_limit_s=0.5, kill_grace_s=NEVER_S)
    place.pass_s(0.625)
    place.terminate(attempt, 0.0)
    assert place.end_of(attempt) == (EndCause.TIME_LIMIT, None, KILLED)


def test_the_grace_of_the_time_limit_shortens_a_longer_one(place: Place):
    attempt = place.begin(STUBBORN, time_limit_s=1.0, kill_grace_s=0.125)
    place.terminate(attempt, NEVER_S)
    assert place.end_of(attempt) == (EndCause.CANCELLED, None, KILLED)


# --- leases --------------------------------------------------------------------------------------


@pytest.mark.parametrize("work", [LONG, STUBBORN], ids=["listens", "stubborn"])
def test_when_its_lease_is_over_a_task_is_killed(place: Place, work: Work):
    lease = place.lease(LEASE_S)
    attempt = place.begin(work, lease=lease)
    assert place.end_of(attempt) == (EndCause.LOST, None, KILLED)
    assert place.steady_s() >= lease.leased_steady_s + LEASE_S


def test_without_a_lease_nothing_ends_and_a_renewal_is_nothing_to_it(place: Place):
    free = place.begin()
    place.renew(place.steady_s() - NEVER_S)
    place.exit_of(place.begin(lease=place.lease(LEASE_S)))
    assert place.runs(free)


def test_a_renewed_lease_counts_from_when_it_was_asked(place: Place):
    mine = place.begin(lease=place.lease(1.5))
    other = place.begin(lease=place.lease(1.5), home="matsu")
    place.pass_s(0.5)
    asked_s = place.steady_s()
    place.renew(asked_s)
    place.renew(asked_s - NEVER_S)  # an answer that comes late shortens nothing
    assert place.end_of(other) == (EndCause.LOST, None, KILLED)
    assert place.runs(mine)
    assert place.end_of(mine) == (EndCause.LOST, None, KILLED)
    assert place.steady_s() >= asked_s + 1.5


def test_a_renewal_counts_for_what_is_ordered_after_it_too(place: Place):
    """It was granted before the question, and the order took longer than the answer."""
    place.renew(place.steady_s(), "kiri")
    late = place.begin(lease=place.lease(2.0, ago_s=1.0), home="kiri")
    probe = place.begin(lease=place.lease(2.0, ago_s=1.0), home="matsu")
    assert place.end_of(probe) == (EndCause.LOST, None, KILLED)
    assert place.runs(late)


@pytest.mark.parametrize("renewed", [False, True], ids=["", "renewed"])
def test_what_is_ordered_after_its_lease_never_starts(place: Place, renewed: bool):
    if renewed:  # no renewal makes good what was over
        place.renew(place.steady_s())
    attempt = place.launch(lease=place.lease(LEASE_S, ago_s=2.0))
    assert place.end_of(attempt) == LOST
    assert place.starts(attempt) == 0
    assert place.start_of(attempt) is None
    assert place.exit_of(attempt).elapsed_s == 0.0


def test_what_was_asked_to_end_before_its_lease_was_over_ended_for_that(place: Place):
    attempt = place.begin(STUBBORN, lease=place.lease(LEASE_S))
    place.terminate(attempt, NEVER_S)
    assert place.end_of(attempt) == (EndCause.CANCELLED, None, KILLED)


# --- what is remembered --------------------------------------------------------------------------


def test_the_next_daemon_is_told_what_runs_and_what_ended(place: Place):
    running, ended = place.begin(), place.launch(Work(0.0, FAILURE))
    began, end = place.start_of(running), place.exit_of(ended)
    place.attach()
    assert place.alive() == {running: began.started_wall_s}
    assert place.exits() == {ended: end}


def test_an_end_is_told_until_it_is_forgotten(place: Place):
    kept, dropped = place.launch(), place.launch()
    place.exit_of(kept), place.exit_of(dropped)
    place.forget(dropped)
    place.attach()
    assert list(place.exits()) == [kept]


def test_what_runs_is_not_forgotten(place: Place):
    attempt = place.begin()
    place.forget(attempt)
    place.attach()
    assert list(place.alive()) == [attempt]


def test_what_was_forgotten_is_refused_even_by_the_next_launcher(place: Place):
    attempt = place.launch()
    place.exit_of(attempt)
    for is_next in (False, True):
        place.forget(attempt)
        if is_next:
            place.die()
            place.come_up()
        place.heard.clear()
        place.order(place.new(attempt, LONG))
        assert place.end_of(attempt) == (EndCause.REFUSED, None, None)
        assert "ended here earlier" in place.exit_of(attempt).message
    assert place.starts(attempt) == 1
    again = attempt._replace(attempt=2)
    place.order(place.new(again, Work(0.0)))
    assert place.end_of(again) == SUCCESS


# --- a launcher that dies ------------------------------------------------------------------------


def test_what_a_dead_launcher_ran_goes_on_until_the_next_one_ends_it(place: Place):
    attempt = place.begin(STUBBORN)
    began = place.start_of(attempt)
    place.die()
    assert place.runs(attempt)
    died_wall_s = place.wall_s()
    place.pass_s(0.125)
    place.come_up()
    assert not place.runs(attempt)
    assert place.alive() == {}
    assert place.end_of(attempt) == LOST
    end = place.exit_of(attempt)
    assert end.started_wall_s == began.started_wall_s
    assert end.ended_wall_s > died_wall_s
    assert end.usage == Usage()


def test_what_ended_while_no_launcher_was_there_is_lost_since_it_was_last_seen(place: Place):
    attempt = place.begin(Work(1.0))
    place.die()
    died_wall_s = place.wall_s()
    place.until(lambda: not place.runs(attempt), "its own end")
    place.come_up()
    assert place.end_of(attempt) == LOST
    end = place.exit_of(attempt)
    assert end.started_wall_s <= end.ended_wall_s <= died_wall_s
    assert end.usage == Usage()


def test_an_end_that_was_told_stays_what_it_was(place: Place):
    attempt = place.launch(Work(0.0, FAILURE))
    end = place.exit_of(attempt)
    place.die()
    place.come_up()
    assert place.exits() == {attempt: end}


def test_what_was_lost_is_not_started_again(place: Place):
    attempt = place.begin()
    place.die()
    place.come_up()
    place.heard.clear()
    place.order(place.new(attempt, LONG))
    assert place.end_of(attempt) == LOST
    assert place.starts(attempt) == 1


def test_no_limit_holds_while_no_launcher_is_there(place: Place):
    limited = place.begin(time_limit_s=1.0)
    leased = place.begin(lease=place.lease(LEASE_S))
    place.die()
    place.pass_s(LEASE_S + 0.125)
    assert place.runs(limited)
    assert place.runs(leased)
    place.come_up()
    assert (place.end_of(limited), place.end_of(leased)) == (LOST, LOST)


# --- a launcher that sleeps ----------------------------------------------------------------------


def test_who_slept_past_a_lease_ends_it_before_it_listens(place: Place):
    began = place.begin(lease=place.lease(LEASE_S))
    place.stop()
    place.renew(place.steady_s())
    late = place.launch(lease=place.lease(LEASE_S))
    place.pass_s(LEASE_S + 0.125)
    assert place.runs(began)
    place.wake()
    assert place.end_of(began) == (EndCause.LOST, None, KILLED)
    assert place.end_of(late) == LOST
    assert place.starts(late) == 0


def test_who_slept_past_a_time_limit_keeps_it_then(place: Place):
    attempt = place.begin(time_limit_s=1.0)
    place.stop()
    place.pass_s(1.125)
    assert place.runs(attempt)
    woke_wall_s = place.wall_s()
    place.wake()
    assert place.end_of(attempt) == (EndCause.TIME_LIMIT, None, TERMINATED)
    assert place.exit_of(attempt).ended_wall_s >= woke_wall_s


def test_who_slept_past_a_grace_kills_then(place: Place):
    attempt = place.begin(STUBBORN)
    place.terminate(attempt, 1.0)
    place.settle()
    place.stop()
    place.pass_s(1.125)
    assert place.runs(attempt)
    place.wake()
    assert place.end_of(attempt) == (EndCause.CANCELLED, None, KILLED)


def test_an_end_in_its_sleep_is_noticed_afterwards(place: Place):
    attempt = place.begin(Work(1.0))
    place.stop()
    place.until(lambda: not place.runs(attempt), "its own end")
    woke_wall_s = place.wall_s()
    assert attempt not in place.exits()
    place.wake()
    assert place.end_of(attempt) == SUCCESS
    assert place.exit_of(attempt).ended_wall_s >= woke_wall_s


# --- the machine's prolog ------------------------------------------------------------------------


def test_what_its_prolog_keeps_from_starting_is_refused_and_the_machine_called_unfit(place: Place):
    place.have_prolog(fails=True)
    place.attach()
    attempt = place.launch()
    assert place.end_of(attempt) == (EndCause.REFUSED, None, None)
    assert "exit code 1" in place.exit_of(attempt).message
    told = [type(each).__name__ for each in place.heard[-2:]]
    assert told == ["PrologFailed", "AttemptExited"]
    assert (place.starts(attempt), place.start_of(attempt)) == (0, None)
    place.have_prolog(fails=False)
    place.attach()  # told again until it is forgotten
    assert place.unfit() == [attempt]
    assert place.end_of(attempt) == (EndCause.REFUSED, None, None)
    place.forget(attempt)
    place.attach()
    assert place.unfit() == []
    assert place.end_of(place.launch()) == SUCCESS

"""What a node may rely on where attempts take turns, with a real launcher and with the model."""

import pytest

from iriai.model.state import EndCause
from iriai.model.suspension import SuspendReason
from iriai.protocol.messages.effects import AttemptExited, AttemptFrozen, FreezeAttempt
from iriai.sim.world.work import KILLED, TERMINATED
from tests.conformance.place import LONG, STUBBORN, Place

QUANTUM_S = 0.125
NEVER_S = 600.0
LATE_S = 0.1
"""What is said of times here is so to that; the launcher reckons exactly."""


def away_s(end: AttemptExited) -> float:
    """For how long it stood, as its end tells."""
    return end.ended_wall_s - end.started_wall_s - end.elapsed_s


def test_a_time_limit_counts_turns_alone(place: Place):
    attempt = place.begin(LONG, time_limit_s=1.0)
    place.take_turns({attempt: 1}, quantum_s=QUANTUM_S)
    end = place.exit_of(attempt)
    assert end.cause is EndCause.TIME_LIMIT
    assert end.elapsed_s >= 0.999
    assert away_s(end) >= QUANTUM_S


def test_who_has_no_turn_reaches_no_limit_until_it_has(place: Place):
    attempt = place.begin(LONG, time_limit_s=0.5)
    place.take_turns({attempt: 0})
    place.pass_s(1.0)
    assert place.runs(attempt)
    place.take_turns({attempt: 3})
    end = place.exit_of(attempt)
    assert end.cause is EndCause.TIME_LIMIT
    assert away_s(end) >= 1.0 - LATE_S


def test_more_turns_bring_the_limit_nearer(place: Place):
    attempt = place.begin(LONG, time_limit_s=1.0)
    place.take_turns({attempt: 2}, quantum_s=NEVER_S)
    place.pass_s(0.25)
    place.take_turns({})
    end = place.exit_of(attempt)
    assert end.cause is EndCause.TIME_LIMIT
    assert 0.25 - LATE_S <= away_s(end) < NEVER_S


def test_a_turn_is_known_before_the_start(place: Place):
    attempt = place.launch()
    place.exit_of(attempt)  # what ended may be named
    late = attempt._replace(number=attempt.number + 40_000_000)
    place.take_turns({attempt: 1, late: 0})
    place.order(place.new(late, LONG, time_limit_s=0.5))
    place.until(lambda: place.start_of(late), "its start")
    place.pass_s(1.0)
    assert late not in place.exits()
    place.take_turns({late: 1, attempt: 1}, quantum_s=QUANTUM_S)
    assert place.exit_of(late).cause is EndCause.TIME_LIMIT


@pytest.mark.parametrize(
    ("work", "grace_s", "signal"), [(LONG, NEVER_S, TERMINATED), (STUBBORN, 0.25, KILLED)]
)
def test_who_is_asked_to_end_out_of_turn_has_its_grace(place: Place, work, grace_s, signal):
    attempt = place.begin(work)
    place.take_turns({attempt: 0})
    place.pass_s(0.25)
    place.terminate(attempt, grace_s)
    assert place.end_of(attempt) == (EndCause.CANCELLED, None, signal)
    assert away_s(place.exit_of(attempt)) >= 0.25 - LATE_S
    assert away_s(place.exit_of(attempt)) < NEVER_S


def test_a_lease_goes_on_out_of_turn(place: Place):
    attempt = place.begin(STUBBORN, lease=place.lease(1.0))
    place.take_turns({attempt: 0})
    assert place.end_of(attempt) == (EndCause.LOST, None, KILLED)


def test_time_with_a_reason_is_told_and_time_out_of_turn_is_not(place: Place):
    attempt = place.begin(LONG)
    place.take_turns({attempt: 0})
    place.pass_s(0.5)
    place.order(FreezeAttempt(attempt, 1, (SuspendReason.OWNER,)))
    place.until(lambda: frozen(place), "its being frozen")
    place.pass_s(0.25)
    place.order(FreezeAttempt(attempt, 2, ()))
    place.until(lambda: len(frozen(place)) == 2, "its being thawed")
    assert frozen(place)[0].frozen_s == 0.0
    assert frozen(place)[1].frozen_s >= 0.25
    place.pass_s(0.25)
    place.terminate(attempt, 0.0)
    end = place.exit_of(attempt)
    assert away_s(end) >= 1.0 - LATE_S
    assert end.elapsed_s <= end.ended_wall_s - end.started_wall_s - 1.0 + LATE_S


def frozen(place: Place) -> list[AttemptFrozen]:
    return [each for each in place.heard if isinstance(each, AttemptFrozen)]


def test_an_order_that_is_not_newer_changes_nothing(place: Place):
    attempt = place.begin(LONG, time_limit_s=0.5)
    place.take_turns({attempt: 0})
    last = place.cycle_number
    for number in (last, last - 1):
        place.take_turns({}, rows=0, number=number)
    place.pass_s(1.0)
    assert attempt not in place.exits()


def test_turns_outlive_the_daemon(place: Place):
    attempt = place.begin(LONG, time_limit_s=0.5)
    place.take_turns({attempt: 0})
    place.settle()
    place.attach()
    place.pass_s(1.0)
    assert attempt in place.alive()
    assert attempt not in place.exits()
    assert frozen(place) == []


def test_the_next_launcher_has_no_cycle_and_takes_any_number(place: Place):
    lost = place.begin(LONG)
    place.take_turns({lost: 0})
    place.settle()
    place.die()
    place.come_up()
    assert place.exit_of(lost).cause is EndCause.LOST
    attempt = place.begin(LONG, time_limit_s=0.25)
    place.take_turns({attempt: 0}, number=1)
    place.pass_s(0.75)
    assert attempt not in place.exits()
    place.take_turns({}, rows=0, number=2)
    assert place.exit_of(attempt).cause is EndCause.TIME_LIMIT


def test_turns_go_on_while_the_launcher_sleeps(place: Place):
    attempt = place.begin(LONG, time_limit_s=2.0)
    place.take_turns({attempt: 1}, quantum_s=QUANTUM_S)
    place.settle()
    place.stop()
    place.pass_s(1.0)
    place.wake()
    end = place.exit_of(attempt)
    assert end.cause is EndCause.TIME_LIMIT
    assert away_s(end) >= 1.0

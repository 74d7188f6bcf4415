"""What a node may rely on where an owner is, with a real launcher and with the model."""

from iriai.model.ids import AttemptId
from iriai.model.owner import SensorSettings, SensorState, SignKind
from iriai.model.state import EndCause
from iriai.model.suspension import NO_REASONS, Reasons, SuspendReason
from iriai.protocol.messages.effects import (
    AttemptFrozen,
    AttemptStarted,
    FreezeAttempt,
    LauncherAttached,
    OwnerNoticed,
)
from iriai.sim.world.work import KILLED, TERMINATED, Work
from tests.conformance.place import GAME, LONG, STUBBORN, Place

OWNER, USER = SuspendReason.OWNER, SuspendReason.USER
NEVER_S = 600.0


def watched(place: Place, *exempt: AttemptId) -> None:
    """Have the launcher watch, and the signs until now be over."""
    place.watch(*exempt)
    place.until(lambda: place.signs() >= 1 and works(place), "the begin")
    release(place, *exempt)


def release(place: Place, *exempt: AttemptId) -> None:
    """Say that what was told is over, and see it taken in."""
    place.watch(*exempt, signs=place.signs(), are_over=True)
    place.settle()


def works(place: Place) -> bool:
    noticed = place.noticed()
    return noticed is not None and any(each.works for each in noticed.sensors)


def use(place: Place) -> None:
    """A sign, which is told."""
    before = place.signs()
    place.use()
    place.until(lambda: place.signs() == before + 1, "a sign")


def frozen(place: Place, attempt: AttemptId) -> list[AttemptFrozen]:
    told = [each for each in place.heard if isinstance(each, AttemptFrozen)]
    return [each for each in told if each.attempt == attempt]


def await_reasons(place: Place, attempt: AttemptId, reasons: Reasons) -> AttemptFrozen:
    def holds() -> bool:
        return [each.reasons for each in frozen(place, attempt)[-1:]] == [reasons]

    place.until(holds, f"{attempt} with {reasons}")
    return frozen(place, attempt)[-1]


def test_an_order_is_answered_and_the_begin_is_a_sign(place: Place):
    place.watch()
    place.until(lambda: place.noticed() is not None, "an answer")
    place.until(lambda: place.signs() >= 1 and works(place), "the begin")
    assert place.noticed().last[0].kind is SignKind.START
    assert place.noticed().last[0].at_s <= place.steady_s()


def test_what_runs_stands_at_a_sign_until_it_is_over(place: Place):
    attempt = place.begin(LONG, time_limit_s=3.0)
    watched(place)
    use(place)
    told = await_reasons(place, attempt, (OWNER,))
    assert (told.number, told.is_complete) == (0, True)
    place.pass_s(3.25)
    assert attempt not in place.exits()
    release(place)
    assert await_reasons(place, attempt, NO_REASONS).frozen_s >= 3.25
    assert place.exit_of(attempt).cause is EndCause.TIME_LIMIT


def test_the_sign_is_told_before_what_it_has_frozen(place: Place):
    attempt = place.begin()
    watched(place)
    use(place)
    await_reasons(place, attempt, (OWNER,))
    noticed = [each for each in place.heard if isinstance(each, OwnerNoticed)]
    assert place.heard.index(noticed[-1]) < place.heard.index(frozen(place, attempt)[-1])
    assert {each.kind for each in noticed[-1].last} >= {SignKind.INPUT}


def test_the_exempt_do_not_stand_and_may_change(place: Place):
    one, two = place.begin(), place.begin()
    watched(place, one)
    use(place)
    await_reasons(place, two, (OWNER,))
    place.settle()
    assert frozen(place, one) == []
    place.watch(two)
    await_reasons(place, one, (OWNER,))
    await_reasons(place, two, NO_REASONS)


def test_what_starts_meanwhile_starts_frozen(place: Place):
    watched(place)
    use(place)
    attempt = place.launch(Work(0.25))
    await_reasons(place, attempt, (OWNER,))
    started = place.start_of(attempt)
    assert place.heard.index(started) < place.heard.index(frozen(place, attempt)[0])
    place.pass_s(0.5)
    assert attempt not in place.exits()
    release(place)
    end = place.exit_of(attempt)
    assert end.cause is EndCause.COMPLETED
    assert end.ended_wall_s - end.started_wall_s - end.elapsed_s >= 0.25


def test_what_is_exempt_starts_at_once(place: Place):
    watched(place)
    use(place)
    attempt = AttemptId("ume", 50_000_001, 0, 1)
    place.watch(attempt)
    place.order(place.new(attempt, Work(0.0)))
    assert place.exit_of(attempt).cause is EndCause.COMPLETED
    assert frozen(place, attempt) == []


def test_a_sign_that_was_not_taken_in_keeps_them(place: Place):
    attempt = place.begin()
    watched(place)
    use(place)
    signs = place.signs()
    use(place)
    place.watch(signs=signs, are_over=True)
    place.watch(signs=signs + 2, are_over=True)
    place.watch(signs=signs + 1, are_over=False)
    place.settle()
    assert frozen(place, attempt)[-1].reasons == (OWNER,)
    release(place)
    await_reasons(place, attempt, NO_REASONS)


def test_an_order_that_is_not_newer_changes_nothing(place: Place):
    attempt = place.begin()
    watched(place)
    use(place)
    await_reasons(place, attempt, (OWNER,))
    number = place.watch_number
    for late in (number, number - 1):
        place.watch(signs=place.signs(), are_over=True, number=late)
    place.settle()
    assert frozen(place, attempt)[-1].reasons == (OWNER,)


def test_other_reasons_are_added_and_taken_beside_it(place: Place):
    attempt = place.begin()
    watched(place)
    place.order(FreezeAttempt(attempt, 1, (USER,)))
    await_reasons(place, attempt, (USER,))
    use(place)
    assert await_reasons(place, attempt, (USER, OWNER)).number == 1
    place.order(FreezeAttempt(attempt, 2, NO_REASONS))
    assert await_reasons(place, attempt, (OWNER,)).number == 2
    place.order(FreezeAttempt(attempt, 3, (OWNER,)))
    place.until(lambda: frozen(place, attempt)[-1].number == 3, "an answer")
    release(place)
    assert frozen(place, attempt)[-1].reasons == (OWNER,)  # the node's own order has it
    place.order(FreezeAttempt(attempt, 4, NO_REASONS))
    await_reasons(place, attempt, NO_REASONS)


def test_a_program_of_the_owner_s_is_told_again_and_again_until_it_ends(place: Place):
    attempt = place.begin()
    place.conditions = SensorSettings(programs=(GAME,), repeat_s=1.0)
    place.watch()
    place.until(lambda: program(place).works, "its sensor")
    release(place)
    assert not program(place).holds
    place.play(begins=True)
    await_reasons(place, attempt, (OWNER,))
    place.until(lambda: program(place).holds, "its state")
    before = place.signs()
    place.pass_s(5.0)
    assert 3 <= place.signs() - before <= 6
    assert {each.kind for each in place.noticed().last} >= {SignKind.PROGRAM}
    place.play(begins=False)
    place.until(lambda: not program(place).holds, "its end")
    before = place.signs()
    place.pass_s(3.0)
    assert place.signs() == before
    release(place)
    await_reasons(place, attempt, NO_REASONS)


def test_a_program_that_nobody_named_is_no_sign(place: Place):
    place.begin()
    watched(place)
    before = place.signs()
    place.play(begins=True)
    place.pass_s(2.0)
    assert place.signs() == before
    assert [each.kind for each in place.noticed().sensors if each.kind.is_condition] == []
    place.play(begins=False)


def program(place: Place) -> SensorState:
    """How the sensor of programs does."""
    noticed = place.noticed()
    found = [each for each in noticed.sensors if each.kind is SignKind.PROGRAM] if noticed else []
    return found[0] if found else SensorState(SignKind.PROGRAM, False)


def test_where_nothing_is_suspended_a_sign_is_told_alone(place: Place):
    attempt = place.begin()
    watched(place)
    place.watch(suspends=False)
    use(place)
    place.settle()
    assert all(each.reasons == NO_REASONS for each in frozen(place, attempt)[-1:])


def test_what_is_asked_to_end_has_its_grace(place: Place):
    listens, stubborn = place.begin(LONG), place.begin(STUBBORN)
    watched(place)
    use(place)
    for attempt in (listens, stubborn):
        await_reasons(place, attempt, (OWNER,))
    place.terminate(listens, NEVER_S, EndCause.EVICTED)
    place.terminate(stubborn, 0.25, EndCause.EVICTED)
    assert place.end_of(listens) == (EndCause.EVICTED, None, TERMINATED)
    assert place.end_of(stubborn) == (EndCause.EVICTED, None, KILLED)


def test_turns_and_the_owner_both_keep_it(place: Place):
    attempt = place.begin(LONG, time_limit_s=2.0)
    watched(place)
    place.take_turns({attempt: 0})
    use(place)
    await_reasons(place, attempt, (OWNER,))
    place.take_turns({attempt: 3})
    place.pass_s(2.25)
    assert attempt not in place.exits()
    release(place)
    assert place.exit_of(attempt).cause is EndCause.TIME_LIMIT


def test_it_outlives_the_daemon_which_is_told_again(place: Place):
    attempt = place.begin()
    watched(place)
    use(place)
    await_reasons(place, attempt, (OWNER,))
    signs = place.signs()
    place.attach()
    place.until(lambda: frozen(place, attempt), "its state")
    assert frozen(place, attempt)[-1].reasons == (OWNER,)
    assert place.signs() == signs
    kinds = [type(each) for each in place.heard if not isinstance(each, AttemptStarted)]
    assert kinds.index(LauncherAttached) < kinds.index(OwnerNoticed) < kinds.index(AttemptFrozen)
    release(place)
    await_reasons(place, attempt, NO_REASONS)


def test_a_sign_while_the_launcher_sleeps_counts_when_it_wakes(place: Place):
    attempt = place.begin()
    watched(place)
    before = place.signs()
    place.stop()
    place.use()
    place.watch(signs=before, are_over=True)
    place.wake()
    await_reasons(place, attempt, (OWNER,))
    assert place.signs() == before + 1


def test_the_next_launcher_watches_nothing_and_takes_any_number(place: Place):
    attempt = place.begin()
    watched(place)
    use(place)
    await_reasons(place, attempt, (OWNER,))
    place.die()
    place.come_up()
    assert place.exit_of(attempt).cause is EndCause.LOST
    place.use()
    assert place.end_of(place.launch()) == (EndCause.COMPLETED, 0, None)
    assert place.noticed() is None
    place.watch(number=1)
    place.until(lambda: place.signs() >= 1, "the begin")

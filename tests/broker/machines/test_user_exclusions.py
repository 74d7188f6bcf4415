"""A machine that does not run somebody's tasks is not asked again for a while, by that user."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from iriai.broker.machines.machine_view import FAILURES_MIN
from iriai.broker.machines.matchmaking import REMEMBERED_S, USERS_MAX, User, UserExclusions
from iriai.model.reason import Rule
from iriai.protocol.messages.scheduling import Capability, Match, TurnedAway
from tests.broker.lone_broker import LoneBroker, matches, want
from tests.support.told import HOME, instant, job

WORDS = "there is no user ann here"


def refused(broker: LoneBroker, match: Match, user: str = "ann", **fields):
    """The machine's report: the match's capability came back, and why."""
    capability = match.seats[0].capability
    whose = TurnedAway(capability, HOME, user, WORDS)
    return broker.idle(
        1,
        whole=False,
        spent=(match.seats[0].capability,),
        turned_away=(whose,),
        machine="m0",
        **fields,
    )


def turned_away(user: str = "ann", **fields) -> tuple[LoneBroker, Match]:
    """A broker whose only machine, m0, has just refused a task of `user`."""
    broker = LoneBroker()
    [match] = matches(broker.tell(broker.idle(machine="m0"), want(1, user, **fields)))
    assert matches(broker.tell(refused(broker, match, user), want(1, user, **fields))) == []
    return broker, match


def test_the_same_users_tasks_are_not_tried_there_again():
    broker, _ = turned_away()
    assert matches(broker.tell(want(2))) == []
    assert matches(broker.tell(broker.idle(4, whole=False, machine="m0"))) == []


def test_why_says_what_the_machine_said():
    broker, _ = turned_away()
    [reason] = broker.broker.explain(job(1), instant(broker.now_s))
    assert (reason.rule, reason.machine, reason.had) == (Rule.USER_NOT_ALLOWED, "m0", WORDS)
    assert "ann" in reason.needed
    assert HOME in reason.needed


def test_who_is_turned_away_only_while_a_machine_is_in_use_is_told_so():
    broker = LoneBroker()
    [match] = matches(broker.tell(broker.idle(machine="m0"), want(1)))
    capability = match.seats[0].capability
    whose = TurnedAway(capability, HOME, "ann", "its owner typed at a terminal", True)
    report = broker.idle(1, whole=False, spent=(capability,), turned_away=(whose,), machine="m0")
    broker.tell(report, want(1))
    [reason] = broker.broker.explain(job(1), instant(broker.now_s))
    assert (reason.rule, reason.needed, reason.had) == (
        Rule.OWNER_ACTIVE,
        "its owner to leave it, or to exempt ann",
        "its owner typed at a terminal",
    )


def test_others_run_there_however_many_were_turned_away():
    broker = LoneBroker()
    broker.tell(broker.idle(machine="m0"))
    for number in range(1, FAILURES_MIN + 3):
        user = f"user{number}"
        [match] = matches(broker.tell(want(number, user)))
        broker.tell(refused(broker, match, user))
    assert len(matches(broker.tell(want(50, "bob")))) == 1


def test_it_runs_on_machines_that_said_nothing():
    broker, _ = turned_away()
    [match] = matches(broker.tell(broker.idle(machine="m1")))
    assert match.seats[0].machine == "m1"


def test_who_is_meant_is_as_whom_it_runs_and_not_whose_account_it_is():
    broker, _ = turned_away("ann")
    assert matches(broker.tell(replace(want(2, "bob"), user="ann"))) == []
    assert len(matches(broker.tell(replace(want(3, "ann"), user="bob")))) == 1


def test_after_a_while_it_is_tried_again():
    broker, _ = turned_away()
    broker.now_s += REMEMBERED_S - 1.0
    assert matches(broker.wake()) == []
    broker.now_s += 2.0
    assert len(matches(broker.tell(broker.idle(4, machine="m0"), want(1, stamp=9)))) == 1


def test_a_machine_that_is_known_anew_is_asked_again():
    broker, _ = turned_away()
    assert len(matches(broker.tell(broker.idle(machine="m0", incarnation=2)))) == 1


def test_a_machine_cannot_make_a_broker_remember_without_end():
    exclusions = UserExclusions()
    for number in range(2 * USERS_MAX):
        whose = TurnedAway(Capability(1, 1, 1, 1), HOME, f"user{number}", WORDS)
        exclusions.add("m0", whose, float(number))
    assert sum(bool(exclusions.of(want(1, f"user{n}"))) for n in range(2 * USERS_MAX)) == USERS_MAX


MACHINES = st.sampled_from(["m0", "m1", "m2"])
USERS = st.sampled_from(["ann", "bob"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), MACHINES, USERS),
        st.tuples(st.just("forget"), MACHINES),
        st.tuples(st.just("wait"), st.floats(0.0, REMEMBERED_S)),
    ),
    max_size=40,
)


@given(STEPS)
def test_what_is_remembered_is_what_was_said_last_and_lately(steps):
    exclusions, said, now_s = UserExclusions(), {}, 0.0
    for step in steps:
        match step:
            case ("add", machine, user):
                whose = TurnedAway(Capability(1, 1, 1, 1), HOME, user, WORDS)
                exclusions.add(machine, whose, now_s)
                said[machine, user] = now_s + REMEMBERED_S
            case ("forget", machine):
                exclusions.forget(machine)
                said = {key: until_s for key, until_s in said.items() if key[0] != machine}
            case ("wait", seconds):
                now_s += seconds
                exclusions.expire(now_s)
                said = {key: until_s for key, until_s in said.items() if until_s > now_s}
        for user in ("ann", "bob"):
            expected = {machine for machine, who in said if who == user}
            assert exclusions.of(want(1, user)) == expected
        assert exclusions.next_s == min(said.values(), default=None)
    changed = exclusions.drain_changed()
    assert all(User(HOME, who) in changed for _, who in said)

"""When a machine is in use, whatever is seen and said."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iriai.config.sections import OwnerSection
from iriai.machine.owner_section import owner_policy
from iriai.model.owner import OwnerWord, SensorSettings
from iriai.policy.owner.owner_steps import PROFILES, OwnerStep, OwnerSteps
from iriai.policy.owner.presence import Presence

CONTINUE_S = 300.0
moments = st.lists(
    st.tuples(
        st.floats(0.0, 200.0),
        st.sampled_from(["sign", "here", "away", "auto", "look", "blind", "watched"]),
        st.floats(1.0, 500.0),
    ),
    max_size=30,
)


def watched() -> Presence:
    presence = Presence(CONTINUE_S)
    presence.watched(0.0, is_watched=True)
    return presence


@given(moments)
def test_it_is_in_use_exactly_while_the_owner_says_so_or_was_seen(steps):
    presence, now_s = watched(), 0.0
    last_s, word, until_s, is_watched = -inf, None, 0.0, True
    for after_s, what, for_s in steps:
        now_s += after_s
        if word is not None and now_s >= until_s:
            last_s = until_s if word is OwnerWord.HERE else last_s
            word = None
        match what:
            case "sign":
                presence.sign(now_s, now_s)
                last_s = last_s if word is OwnerWord.AWAY else now_s
            case "here" | "away" | "auto":
                said = None if what == "auto" else OwnerWord(what)
                presence.say(said, now_s + for_s, now_s)
                last_s = now_s if word is OwnerWord.HERE else last_s
                last_s = -inf if said is OwnerWord.AWAY else last_s
                word, until_s = said, now_s + for_s
            case "blind" | "watched":
                is_watched = what == "watched"
                presence.watched(now_s, is_watched=is_watched)
            case _:
                presence.look(now_s)
        by_signs = not is_watched or now_s < last_s + CONTINUE_S
        expected = by_signs if word is None else word is OwnerWord.HERE
        assert (presence.since_s is not None) is expected


@given(moments)
def test_it_changes_by_itself_only_when_it_said_that_it_may(steps):
    presence, now_s = watched(), 0.0
    for after_s, what, for_s in steps:
        next_s = presence.next_s
        quiet_s = now_s + after_s
        if quiet_s < next_s:
            before = presence.since_s
            presence.look(quiet_s)
            assert presence.since_s == before
        now_s = quiet_s
        presence.look(now_s)
        if what == "sign":
            presence.sign(now_s, now_s)
        elif what in ("here", "away"):
            presence.say(OwnerWord(what), now_s + for_s, now_s)


def test_a_sign_from_the_future_counts_as_now():
    presence = watched()
    presence.sign(1e9, 10.0)
    presence.look(10.0 + CONTINUE_S)
    assert presence.since_s is None


delays = st.sampled_from([0.0, 1.0, 60.0, 600.0, inf])


@given(delays, delays, delays, st.floats(0.0, 1e6))
def test_steps_only_go_on_and_the_next_is_never_missed(suspend_s, vacate_s, discard_s, used_s):
    policy = OwnerSteps(suspend_s, vacate_s=vacate_s, discard_s=discard_s)
    step, next_s = policy.step(used_s), policy.next_step_s(used_s)
    assert next_s > used_s
    if next_s < inf:
        assert policy.step(next_s) >= step
        assert policy.step((used_s + next_s) / 2) == step


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        (OwnerSection(), None),
        (OwnerSection("desk"), PROFILES["desk"]),
        (OwnerSection("desk", suspend=inf, vacate=inf), None),
        (OwnerSection(discard=0.0), OwnerSteps(discard_s=0.0)),
        (
            OwnerSection("laptop", vacate=5.0),
            OwnerSteps(0.0, vacate_s=5.0, conditions=SensorSettings(on_battery=True)),
        ),
        (OwnerSection("laptop", vacate=5.0, on_battery=False), OwnerSteps(0.0, vacate_s=5.0)),
        (
            OwnerSection("desk", resume=8.0, programs=("zoom",), foreign_cpus_max=0.5),
            replace(
                PROFILES["desk"],
                continue_s=8.0,
                conditions=SensorSettings(("zoom",), foreign_cpus_max=0.5, repeat_s=2.0),
            ),
        ),
        (
            OwnerSection("desk", resume=0.0, gpu_processes=True, temperature_max_c=80.0),
            replace(
                PROFILES["desk"],
                continue_s=0.0,
                conditions=SensorSettings(gpu_processes=True, temperature_max_c=80.0, repeat_s=1.0),
            ),
        ),
    ],
)
def test_what_the_file_names_goes_over_the_profile(section, expected):
    assert owner_policy(section) == expected


def test_vacating_at_once_is_no_less_than_suspending():
    assert PROFILES["classroom"].step(0.0) is OwnerStep.VACATE


@given(st.floats(0.0, 1e8), st.floats(0.0, 1e5), st.floats(0.1, 1e5))
def test_a_step_is_due_at_the_moment_that_was_told_for_it(since_s, suspend_s, later_s):
    steps = OwnerSteps(suspend_s=suspend_s, vacate_s=suspend_s + later_s)
    first_s = since_s + steps.next_step_s(0.0) if suspend_s > 1e-6 else since_s
    assert steps.step(first_s - since_s) is OwnerStep.SUSPEND
    next_s = since_s + steps.next_step_s(first_s - since_s)
    assert next_s > first_s
    assert steps.step(next_s - since_s) is OwnerStep.VACATE

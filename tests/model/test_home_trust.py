"""For which users homes speak, as data."""

import pytest

from iriai.model.admission_rules import ALL, OTHERS
from iriai.model.home_trust import USERS_MAX, HomeTrust, check_home, parse_users, users_text
from iriai.model.problem import UsageProblem


def test_without_a_word_of_others_every_home_speaks_for_everybody():
    assert HomeTrust().trusts("momo", "ann")
    assert HomeTrust().is_open
    trust = HomeTrust({"momo": ("ann",)})
    assert [trust.trusts("momo", name) for name in ("ann", "bob")] == [True, False]
    assert trust.trusts("ume", "bob")


def test_a_home_that_is_named_speaks_for_those_that_are_named_others_for_nobody():
    trust = HomeTrust({OTHERS: (), "ume": (ALL,), "momo": ("ann",)})
    assert not trust.is_open
    assert trust.trusts("ume", "bob")
    assert trust.trusts("momo", "ann")
    assert not trust.trusts("momo", "bob")
    assert not trust.trusts("oni", "ann")


def test_users_are_said_in_words():
    said = {"all": (ALL,), "none": (), "ann,bob": ("ann", "bob"), "ann, ann": ("ann",)}
    for text, users in said.items():
        assert parse_users(text) == users
        assert parse_users(users_text(users)) == users
    assert parse_users("ann,all") == (ALL,)


@pytest.mark.parametrize(
    "text", ["", "a b", "a\nb", "-a", "x" * 65, ",".join(f"u{n}" for n in range(USERS_MAX + 1))]
)
def test_what_names_nobody_is_refused(text):
    with pytest.raises(UsageProblem):
        parse_users(text)


def test_homes_are_machines_or_all_others():
    for home in ("ume", OTHERS):
        check_home(home)
    for home in ("", "Ume", "a b", "**"):
        with pytest.raises(UsageProblem):
            check_home(home)

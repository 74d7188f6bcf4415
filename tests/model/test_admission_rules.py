"""Whose tasks a machine runs, by its owner's rule."""

from __future__ import annotations

import pytest

from iriai.config.reader import BadConfiguration, parse_configuration
from iriai.model.admission_rules import HomeRules


def rules(text: str, *, is_member: bool = True) -> HomeRules:
    configuration = parse_configuration(text, "iriai.toml")
    return HomeRules("ume", configuration.homes, configuration.users.guest or "", is_member)


def test_without_a_rule_every_home_is_welcome():
    assert rules("").refusal("momo", "ann") == ""


def test_nobody_elsewhere_is_root_here():
    assert "root" in rules("").refusal("momo", "root")
    assert rules("").refusal("ume", "root") == ""
    assert rules("", is_member=False).refusal("front", "root") == ""


def test_a_machine_may_name_the_homes_and_users_that_it_takes():
    found = rules('[homes]\nmomo = ["ann"]\nsumomo = "all"\nkaki = "none"')
    assert found.refusal("momo", "ann") == ""
    assert "bob from home momo" in found.refusal("momo", "bob")
    assert found.refusal("sumomo", "bob") == ""
    assert found.refusal("kaki", "ann")
    assert "home nashi" in found.refusal("nashi", "ann")
    assert found.refusal("ume", "bob") == ""


def test_a_rule_may_be_for_all_other_homes():
    found = rules('[homes]\nmomo = "none"\n"*" = ["ann"]')
    assert found.refusal("nashi", "ann") == ""
    assert found.refusal("nashi", "bob")
    assert found.refusal("momo", "ann")


def test_a_guest_stands_in_for_whom_the_machine_does_not_know():
    found = rules('[users]\nguest = "visitor"')
    assert found.user_here("momo", "ann", is_known=True) == "ann"
    assert found.user_here("momo", "zoe", is_known=False) == "visitor"
    assert found.user_here("ume", "zoe", is_known=False) == ""
    assert rules("").user_here("momo", "zoe", is_known=False) == ""


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("[homes]\nUme = 'all'", "homes has an invalid name"),
        ("[homes]\nume = 'ann'", "homes.ume"),
        ("[homes]\nume = ['all', 'ann']", "homes.ume"),
        ("[homes]\nume = [3]", "homes.ume"),
        ("[users]\nguests = 'x'", "users.guests"),
    ],
)
def test_a_rule_that_cannot_be_read_is_refused(text: str, what: str):
    with pytest.raises(BadConfiguration, match=what):
        parse_configuration(text, "iriai.toml")


def test_rules_are_shown_with_their_source():
    found = parse_configuration('[homes]\nmomo = ["ann", "bob"]\nkaki = "none"', "iriai.toml")
    rows = {key: (value, source) for key, value, source in found.rows()}
    assert rows["homes.momo"] == ("ann, bob", "iriai.toml")
    assert rows["homes.kaki"] == ("none", "iriai.toml")

"""A node's first look at whose task it is."""

from __future__ import annotations

from iriai.daemon.user_judge import UserJudge
from iriai.identity.unix_users import Person
from iriai.model.home_rules import HomeRules

PEOPLE = {
    "ann": Person(1001, "ann", "staff", ("staff",)),
    "visitor": Person(1500, "visitor", "visitor", ("visitor",)),
    "daemon": Person(2, "daemon", "daemon", ("daemon",)),
}


class Known:
    """The users of a machine."""

    def by_name(self, name: str) -> Person | None:
        return PEOPLE.get(name)


def judge(home: str, user: str, guest: str = "", single_uid: int | None = None) -> str:
    rules = HomeRules("ume", {}, guest, is_member=True)
    return UserJudge(rules, 1000, single_uid, unix_users=Known()).judge(home, user, 0.0)


def test_a_user_of_the_same_name_is_run():
    assert judge("momo", "ann") == ""


def test_nobody_of_that_name_is_a_refusal_or_a_guest():
    assert judge("momo", "zoe") == "there is no user zoe here"
    assert judge("momo", "zoe", "visitor") == ""
    assert judge("momo", "zoe", "gone") == "there is no user zoe here, nor a guest user 'gone'"


def test_users_below_the_least_id_are_refused():
    assert "below 1000" in judge("momo", "daemon")
    assert "below 1000" in judge("momo", "zoe", "daemon")
    assert judge("momo", "root")


def test_a_single_users_machine_works_for_that_user_alone():
    assert judge("momo", "ann", single_uid=1001) == ""
    assert judge("momo", "visitor", single_uid=1001)


def test_what_was_handed_in_here_was_judged_then():
    assert judge("ume", "zoe") == ""

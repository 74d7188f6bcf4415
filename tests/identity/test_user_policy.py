"""A node's first look at whose task it is."""

from __future__ import annotations

from iriai.identity.trust.consents import Consent, Consents
from iriai.identity.user_policy import UserPolicy
from iriai.model.admission_rules import ALL, OTHERS, HomeRules
from iriai.model.home_trust import HomeTrust
from iriai.system.passwd_cache import Person

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
    return UserPolicy(rules, 1000, single_uid, unix_users=Known()).judge(home, user, 0.0)


def test_a_user_of_the_same_name_is_run():
    assert judge("momo", "ann") == ""


def test_nobody_of_that_name_is_a_refusal_or_a_guest():
    assert judge("momo", "zoe") == "user zoe does not exist here"
    assert judge("momo", "zoe", "visitor") == ""
    nor_guest = "user zoe does not exist here, nor does a guest user 'gone'"
    assert judge("momo", "zoe", "gone") == nor_guest


def test_users_below_the_least_id_are_refused():
    assert "below 1000" in judge("momo", "daemon")
    assert "below 1000" in judge("momo", "zoe", "daemon")
    assert judge("momo", "root")


def test_a_single_users_machine_works_for_that_user_alone():
    assert judge("momo", "ann", single_uid=1001) == ""
    assert judge("momo", "visitor", single_uid=1001)


class Clustered:
    """What a machine holds of its cluster."""

    def __init__(self, homes: dict[str, tuple[str, ...]], *consents: Consent) -> None:
        self.home_trust = HomeTrust(homes)
        self.consents = Consents(consents)


ANN_CONSENTS = Consent("ann", 1001, "momo", 0.0, 60.0)


def judge_of(cluster: Clustered, homes: dict[str, tuple[str, ...]] | None = None) -> UserPolicy:
    rules = HomeRules("ume", homes or {}, "visitor", is_member=True)
    return UserPolicy(rules, 1000, None, cluster, unix_users=Known())


def test_the_owners_word_alone_counts_where_there_is_one():
    cluster = Clustered({OTHERS: (), "kaki": (ALL,)}, ANN_CONSENTS)
    judge = judge_of(cluster, {"nashi": (ALL,)}).judge
    assert judge("nashi", "ann", 0.0) == ""
    assert judge("momo", "ann", 0.0) == "it takes no tasks of home momo"
    assert judge("kaki", "ann", 0.0) == "it takes no tasks of home kaki"


def test_else_trust_or_the_users_own_consent_until_it_ends():
    judge = judge_of(Clustered({OTHERS: (), "kaki": ("ann",)}, ANN_CONSENTS)).judge
    assert judge("kaki", "ann", 0.0) == ""
    assert "iriai trust kaki --users visitor" in judge("kaki", "visitor", 0.0)
    assert judge("momo", "ann", 59.0) == ""
    assert "iriai consent momo" in judge("momo", "ann", 60.0)


def test_who_is_not_trusted_does_not_learn_who_there_is():
    judge = judge_of(Clustered({OTHERS: ()})).judge
    said = {judge("momo", name, 0.0).replace(name, "") for name in ("ann", "zoe", "daemon")}
    assert len(said) == 1


def test_neither_trust_nor_consent_makes_root_or_a_service_of_anybody():
    root = Consent("root", 0, "momo", 0.0, 60.0)
    judge = judge_of(Clustered({"momo": (ALL,)}, root)).judge
    assert "as root" in judge("momo", "root", 0.0)
    assert "below 1000" in judge("momo", "daemon", 0.0)

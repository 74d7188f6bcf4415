"""Who may do what, and whom the use is counted for."""

import pytest

from iriai.config.reader import parse_configuration
from iriai.identity.users.permissions import Permissions
from iriai.model.ids import Account
from iriai.model.problem import ExitCode, NotAllowed, Problem, Refused, UsageProblem
from iriai.system.passwd_cache import Person

ANN = Person(1001, "ann", "staff", ("staff", "physics"))
BOB = Person(1002, "bob", "staff", ("staff", "wheel"))
ROOT = Person(0, "root", "root", ("root",))


class KnownPeople:
    """Stands for the machine's users, so that a test says who there is."""

    def __init__(self, *people: Person) -> None:
        self._people = people

    def by_uid(self, uid: int) -> Person | None:
        return next((each for each in self._people if each.uid == uid), None)

    def by_name(self, name: str) -> Person | None:
        return next((each for each in self._people if each.name == name), None)


def users(text: str = "", owner_uid: int | None = None) -> Permissions:
    return Permissions(
        parse_configuration(text, "iriai.toml"), owner_uid, KnownPeople(ANN, BOB, ROOT)
    )


def refusal(call, *arguments) -> Problem:
    with pytest.raises(Problem) as caught:
        call(*arguments)
    assert caught.value.message
    assert caught.value.hint
    return caught.value


def test_names_are_users_or_one_group():
    known = users('[groups.lecture]\n[identity]\ndefault_group = "house"')
    assert known.users_and_group(["bob", "ann", "bob"]) == (("bob", "ann"), "")
    assert known.users_and_group(["ann", "lecture"]) == (("ann",), "lecture")
    assert known.users_and_group(["house"]) == ((), "house")
    assert known.users_and_group(["root"]) == (("root",), "")  # a group, too: it is the user's
    assert known.users_and_group([]) == ((), "")


def test_a_name_that_is_neither_a_user_nor_a_group_is_refused():
    for name in ("nobody-here", "", "\x1b[31m", "x" * 10_000, "a\0b"):
        problem = refusal(users().users_and_group, ["ann", name])
        assert isinstance(problem, Refused)
        assert problem.code == "unknown-user"
        assert problem.message.isprintable()
        assert len(problem.message) < 200


def test_several_groups_are_refused():
    known = users("[groups.lecture]\n[groups.gravity]")
    assert refusal(known.users_and_group, ["lecture", "gravity"]).code == "two-groups"


def test_a_submission_counts_in_the_primary_group():
    assert users().account(ANN, None, None) == Account("staff", "ann")


def test_the_configured_default_group_comes_first():
    text = '[identity]\ndefault_group = "house"'
    assert users(text).account(ANN, None, None) == Account("house", "ann")


def test_a_configured_group_that_lists_the_user_comes_before_the_primary_one():
    text = "[groups.gravity.users]\nann = 1"
    assert users(text).account(ANN, None, None) == Account("gravity", "ann")
    assert users(text).account(BOB, None, None) == Account("staff", "bob")


@pytest.mark.parametrize("group", ["staff", "physics", "gravity"])
def test_a_person_may_choose_among_unix_groups_and_those_that_list_them(group: str):
    text = "[groups.gravity.users]\nann = 1"
    assert users(text).account(ANN, group, None) == Account(group, "ann")


def test_a_group_of_others_is_refused_with_those_there_are():
    problem = refusal(users().account, ANN, "wheel", None)
    assert isinstance(problem, Refused)
    assert problem.message == "ann has no group 'wheel'"
    assert "staff, physics" in problem.hint


def test_a_configured_group_without_the_user_is_refused():
    problem = refusal(users("[groups.gravity]\nright = 2").account, ANN, "gravity", None)
    assert problem.exit_code is ExitCode.REFUSED


def test_ones_own_account_may_always_be_named():
    assert users().account(ANN, None, "ann") == Account("staff", "ann")
    assert users().account(ANN, None, "physics/ann") == Account("physics", "ann")


def test_anothers_account_needs_permission():
    problem = refusal(users().account, ANN, None, "bob")
    assert isinstance(problem, NotAllowed)
    assert "name_accounts" in problem.hint


def test_anothers_account_is_taken_where_permitted():
    permitted = users("[identity]\nname_accounts = true\n[groups.stats.users]\ncarl = 1")
    assert permitted.account(ANN, None, "bob") == Account("staff", "bob")
    assert permitted.account(ANN, "wheel", "bob") == Account("wheel", "bob")
    assert permitted.account(ANN, None, "carl") == Account("stats", "carl")
    assert permitted.account(ANN, None, "stats/carl") == Account("stats", "carl")


def test_an_unknown_account_is_refused_with_those_there_are():
    permitted = users("[identity]\nname_accounts = true\n[groups.stats.users]\ncarl = 1")
    problem = refusal(permitted.account, ANN, None, "nobody-here")
    assert problem.code == "unknown-account"
    assert "stats/carl" in problem.hint
    assert refusal(permitted.account, ANN, None, "staff/carl").code == "unknown-group"


@pytest.mark.parametrize("text", ["", "/", "a/", "/b", "a/b/c"])
def test_what_is_no_account_is_a_mistake_of_usage(text: str):
    assert isinstance(refusal(users().account, ANN, None, text), UsageProblem)


def test_account_and_group_must_not_contradict():
    assert refusal(users().account, ANN, "staff", "physics/ann").code == "account-and-group"
    assert users().account(ANN, "physics", "physics/ann") == Account("physics", "ann")


def test_root_and_system_users_run_nothing_unless_configured():
    problem = refusal(users().check_may_run, ROOT)
    assert isinstance(problem, NotAllowed)
    assert "minimum_uid = 0" in problem.hint
    users().check_may_run(ANN)
    users("[identity]\nminimum_uid = 0").check_may_run(ROOT)
    assert refusal(users("[identity]\nminimum_uid = 1002").check_may_run, ANN)


def test_operators_are_root_and_the_members_of_a_group():
    asked = users('[identity]\noperators = "wheel"')
    operators = [asked.caller(person.uid).operator for person in (ANN, BOB, ROOT)]
    assert operators == [False, True, True]


def test_a_single_user_daemon_works_for_its_user_alone():
    own = users(owner_uid=ANN.uid)
    assert own.caller(ANN.uid).operator
    assert own.caller(ROOT.uid).operator
    own.check_may_run(ANN)
    assert refusal(own.check_may_run, ROOT).code == "daemon-of-another"
    problem = refusal(own.caller, BOB.uid)
    assert problem.message == "this daemon works for ann alone"


def test_a_user_id_without_a_name_is_refused():
    assert refusal(users().caller, 4_000_000).code == "nameless-user"


def test_answers_are_bounded_in_memory():
    asked = users("[identity]\nname_accounts = true")
    for number in range(10_000):
        with pytest.raises(Refused):
            asked.account(ANN, f"group{number}", None)
        asked.account(Person(number, f"u{number}", "staff", ("staff",)), None, "bob")
    assert len(asked._accounts) <= 4096

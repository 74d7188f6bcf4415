"""Permissions of users here, and the account that a submission is charged to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from iriai.config.reader import Configuration
from iriai.model.admission_rules import service_problem
from iriai.model.ids import Account
from iriai.model.problem import NotAllowed, Refused, UsageProblem
from iriai.model.token_text import TokenKind
from iriai.model.units import printable
from iriai.system.passwd_cache import Person, UnixUsers, is_unix_group

ACCOUNTS_REMEMBERED_MAX = 4096
"""Cached accounts of submitters."""
NAMES_SHOWN_MAX = 10
"""Names listed in a message."""
NAME_SHOWN_MAX = 64
"""Characters of a name that is none."""


class Caller(NamedTuple):
    """The author of a request, and their rights."""

    person: Person
    operator: bool
    """Whether they may see and change the jobs of all users."""

    @property
    def own(self) -> str | None:
        """The user whose jobs alone they may see and change; None: those of all."""
        return None if self.operator else self.person.name


def require_operator(caller: Caller, what: str, operators: str) -> None:
    """Raise `NotAllowed` if `caller` is no operator, who alone may do `what`.

    `operators` is the group whose members are operators.
    """
    if not caller.operator:
        raise NotAllowed(
            "not-an-operator",
            f"{caller.person.name} may not {what}",
            f"members of the group {operators} may",
        )


def user_of_token(caller: Caller, kind: TokenKind, user: str, operators: str) -> str:
    """Return the user of a new token of `caller`, for `user` if one is named; empty: a machine's.

    Raises `NotAllowed` if `caller` may not make it, or it would be root's.
    """
    if kind is TokenKind.JOIN:
        require_operator(caller, "let machines join the cluster", operators)
        return ""
    name = caller.person.name
    if user and user != name:
        require_operator(caller, "make tokens for other users", operators)
        name = user
    if name == "root":
        raise NotAllowed(
            "token-of-root",
            "root has no tokens: such a token would give away the whole machine",
            "make one for a user: 'iriai token --user NAME'",
        )
    return name


class Permissions:
    """Answers for one configuration.

    `owner_uid` is the one user of a single-user daemon; None where it works for everybody.
    """

    def __init__(
        self,
        configuration: Configuration,
        owner_uid: int | None,
        unix_users: UnixUsers | None = None,
    ) -> None:
        self._identity = configuration.identity
        self._groups = configuration.groups
        self._owner_uid = owner_uid
        self._unix = unix_users or UnixUsers()
        self._accounts: dict[tuple[Person, str | None, str | None], Account] = {}

    def caller(self, uid: int) -> Caller:
        """Who the user id is.

        Raises:
            NotAllowed: it has no name here, or this daemon works for another user alone.
        """
        person = self._unix.by_uid(uid)
        if person is None:
            raise NotAllowed(
                "nameless-user",
                f"user id {uid} has no name on this machine",
                "accounts are named after users: give this id an entry in /etc/passwd",
            )
        return self._caller(person)

    def caller_named(self, name: str) -> Caller:
        """Who the user of that name is, who has shown a token.

        Raises:
            NotAllowed: there is none here any more, or this daemon works for another user alone.
        """
        person = self._unix.by_name(name)
        if person is None:
            raise NotAllowed(
                "no-such-user",
                f"there is no user {name} on this machine",
                "ask for a token on a machine where you have an account",
            )
        return self._caller(person)

    def _caller(self, person: Person) -> Caller:
        if self._owner_uid is not None:
            return self._caller_of_single_user(person, self._owner_uid)
        operator = person.uid == 0 or self._identity.operators in person.groups
        return Caller(person, operator)

    def _caller_of_single_user(self, person: Person, owner_uid: int) -> Caller:
        if person.uid not in (0, owner_uid):
            owner = self._unix.by_uid(owner_uid)
            whose = owner.name if owner else f"user id {owner_uid}"
            raise NotAllowed(
                "daemon-of-another",
                f"this daemon works for {whose} alone",
                "start your own with 'iriai up'",
            )
        return Caller(person, operator=True)

    def check_may_run(self, person: Person) -> None:
        """Refuse those whose tasks this machine does not run.

        Raises:
            NotAllowed: root and users below the configured id; in single-user mode everybody else.
        """
        if self._owner_uid is not None:
            if person.uid != self._owner_uid:
                raise NotAllowed(
                    "daemon-of-another",
                    f"this daemon runs no tasks of {person.name}",
                    "submit as the user whom it works for",
                )
            return
        if words := service_problem(person.name, person.uid):
            raise NotAllowed(
                "service-user",
                f"tasks of {person.name} are not run here: {words}",
                "submit as another user, or give this one another id",
            )
        if person.uid < self._identity.minimum_uid:
            raise NotAllowed(
                "uid-too-small",
                f"tasks of {person.name} are not run here: user id {person.uid} is below "
                f"{self._identity.minimum_uid}",
                f"submit as another user, or set minimum_uid = {person.uid} under [identity] in "
                "iriai.toml, then run 'iriai down --kill' and 'iriai up'",
            )

    def account(self, person: Person, group: str | None, account: str | None) -> Account:
        """Whom a submission of `person` is counted for, given `--group` and `--account`.

        Raises:
            UsageProblem: the two contradict each other, or `--account` cannot be read.
            NotAllowed: `person` may not name that account.
            Refused: there is no such group or account for this user.
        """
        key = (person, group, account)
        known = self._accounts.get(key)
        if known is None:
            if len(self._accounts) >= ACCOUNTS_REMEMBERED_MAX:
                self._accounts.clear()
            known = self._accounts[key] = self._decide(person, group, account)
        return known

    def users_and_group(self, names: Iterable[str]) -> tuple[tuple[str, ...], str]:
        """Return which of `names` are users, and the one that is a group; empty: none is.

        Where a user and a group have the same name, it is the user's.

        Raises:
            Refused: a name is neither.
            UsageProblem: several are groups.
        """
        users, groups = [], []
        for name in dict.fromkeys(names):
            if self.groups_of(name):
                users.append(name)
            elif name and (name in self._known_groups or is_unix_group(name)):
                groups.append(name)
            else:
                raise Refused(
                    "unknown-user",
                    f"'{printable(name[:NAME_SHOWN_MAX])}' is neither a user nor a group here",
                    "name users of this machine, or a group of accounts",
                )
            if len(groups) > 1:  # at once: each look-up may be one of a directory service
                raise UsageProblem(
                    "two-groups",
                    f"{_listed(groups)} are several groups",
                    "name one of them, and of the others each user",
                )
        return tuple(users), next(iter(groups), "")

    @property
    def _known_groups(self) -> tuple[str, ...]:
        return (*self._groups, *filter(None, (self._identity.default_group,)))

    def _decide(self, person: Person, group: str | None, account: str | None) -> Account:
        user = person.name
        if account is not None:
            named_group, user = _split(account)
            if named_group and group and named_group != group:
                raise UsageProblem(
                    "account-and-group",
                    f"--account {account} and --group {group} name two groups",
                    "leave one of them out",
                )
            group = named_group or group
        if user != person.name:
            self._check_may_name(person, user)
        groups = self.groups_of(user)
        if group is None and groups:
            return Account(groups[0], user)
        if group is None or group not in groups:
            raise self._no_such(user, group, groups)
        return Account(group, user)

    def _check_may_name(self, person: Person, user: str) -> None:
        if not self._identity.name_accounts:
            raise NotAllowed(
                "account-of-another",
                f"{person.name} may not submit for the account of {user}",
                "leave --account out; name_accounts = true under [identity] in iriai.toml "
                "permits it to all users",
            )

    def groups_of(self, user: str) -> list[str]:
        """Return the groups of `user`, the default first."""
        configured = [name for name, group in self._groups.items() if user in group.users]
        person = self._unix.by_name(user)
        default = self._identity.default_group
        if person is None and not configured:
            return []
        groups = [default] if default else []
        return list(dict.fromkeys([*groups, *configured, *(person.groups if person else ())]))

    def _no_such(self, user: str, group: str | None, groups: list[str]) -> Refused:
        if groups:
            return Refused(
                "unknown-group",
                f"{user} has no group '{group}'",
                f"use one of {_listed(groups)}; [groups.{group}.users] in iriai.toml adds one",
            )
        users = [f"{name}/{each}" for name, entry in self._groups.items() for each in entry.users]
        return Refused(
            "unknown-account",
            f"there is no account '{user}': neither a user of this machine, nor in a group of "
            "iriai.toml",
            f"use one of: {_listed(users)}" if users else "add them under [groups.NAME.users]",
        )


def _split(account: str) -> tuple[str | None, str]:
    group, slash, user = account.rpartition("/")
    if not user or (slash and not group) or "/" in group:
        raise UsageProblem(
            "bad-account", f"'{account}' is not an account", "write USER or GROUP/USER"
        )
    return group or None, user


def _listed(names: list[str]) -> str:
    more = len(names) - NAMES_SHOWN_MAX
    return ", ".join(names[:NAMES_SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")

"""`iriai.toml`: text in, one frozen object out, or one error that says where and what instead."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from difflib import get_close_matches

import msgspec
from msgspec.structs import replace

from iriai.config.limits import LimitsSection
from iriai.config.sections import (
    AMOUNT,
    EXTRA_TABLES,
    KEYS,
    RIGHT,
    ClusterSection,
    GossipSection,
    GroupSection,
    IdentitySection,
    JobSection,
    MachineSection,
    OrderSection,
    UsersSection,
)
from iriai.config.values import (
    ATTRIBUTE,
    NAME_LENGTH_MAX,
    USERS,
    Kind,
    Value_co,
    WrongValue,
    is_name,
)
from iriai.model.ad import Value, is_attribute
from iriai.model.admission_rules import OTHERS
from iriai.model.ids import HOME_NAME
from iriai.model.problem import UsageProblem

TEXT_LENGTH_MAX = 1 << 20
"""A million users with a right each would still fit in a few of these; more is another file."""
FILE_NAME = "iriai.toml"
DEFAULT = "default"
MEASURED = "measured"
UNMEASURED = ("machine.load_max", "machine.no_new_privileges")
"""The keys of `[machine]` whose None is a choice, and no question to the machine."""

QUOTE_LENGTH_MAX = 60
"""Of a wrong value in a message; an error is one line."""


class BadConfiguration(UsageProblem):
    """The configuration cannot be used; nothing of it was."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__("bad-configuration", message, hint)


class Configuration(msgspec.Struct, frozen=True):
    """Everything that a person may set for one machine. `Configuration()` is all defaults."""

    machine: MachineSection = MachineSection()
    groups: Mapping[str, GroupSection] = {}
    order: OrderSection = OrderSection()
    jobs: JobSection = JobSection()
    identity: IdentitySection = IdentitySection()
    users: UsersSection = UsersSection()
    homes: Mapping[str, tuple[str, ...]] = {}
    """`[homes]`: by home, or `*`, the users whose tasks it may have run here; empty: no rule."""
    cluster: ClusterSection = ClusterSection()
    gossip: GossipSection = GossipSection()
    limits: LimitsSection = LimitsSection()
    where: str = ""
    """The file that it was read from; empty: none."""
    given: Mapping[str, str] = {}
    """The keys that were given, dotted, and where each stood; for `config show`."""

    def right_of_group(self, name: str) -> float:
        """The right of a group; 1 where nothing is said of it."""
        group = self.groups.get(name)
        return group.right if group else 1.0

    def right_of_user(self, group: str, user: str) -> float:
        """The right of `user` within `group`; 1 where nothing is said of them."""
        members = self.groups.get(group)
        return members.users.get(user, 1.0) if members else 1.0

    def rows(self) -> list[tuple[str, str, str]]:
        """(key, value, source) of every value, for `config show`.

        A source is the file, `default`, or `measured` for what the machine itself will say.
        """
        rows = []
        for section, keys in KEYS.items():
            values = getattr(self, section)
            for key in keys:
                value = getattr(values, key.field)
                rows.append(self._row(f"{section}.{key.name}", key.kind, value))
        for name, amount in self.machine.resources.items():
            rows.append(self._row(f"machine.resources.{name}", AMOUNT, amount))
        for name, attribute in self.machine.attributes.items():
            rows.append(self._row(f"machine.attributes.{name}", ATTRIBUTE, attribute))
        for name, group in self.groups.items():
            rows.append(self._row(f"groups.{name}.right", RIGHT, group.right))
            for user, right in group.users.items():
                rows.append(self._row(f"groups.{name}.users.{user}", RIGHT, right))
        for home, users in self.homes.items():
            rows.append(self._row(f"homes.{home}", USERS, users))
        return rows

    def _row(self, key: str, kind: Kind[object], value: object) -> tuple[str, str, str]:
        if key in self.given:
            return key, kind.show(value), self.given[key]
        measured = value is None and key.startswith("machine.") and key not in UNMEASURED
        return key, "" if measured else kind.show(value), MEASURED if measured else DEFAULT


def parse_configuration(text: str, where: str) -> Configuration:
    """The configuration that `text` holds; `where` is its file, for messages.

    Raises:
        BadConfiguration: with the line of a syntax error, or the key and what would be right.
    """
    return _Reader(where).configuration(text)


class _Reader:
    """Reads one file; remembers which keys it held."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._given: list[str] = []

    def configuration(self, text: str) -> Configuration:
        document = self._document(text)
        self._no_others("", document, [*KEYS, "groups", "homes"])
        machine = self._table("machine", document.get("machine", {}))
        return Configuration(
            machine=replace(
                MachineSection(),
                resources=self._named("machine.resources", machine.get("resources", {}), AMOUNT),
                attributes=self._attributes(machine.get("attributes", {})),
                **self._section("machine", machine),
            ),
            groups=self._groups(self._table("groups", document.get("groups", {}))),
            order=self._order(document.get("order", {})),
            jobs=replace(JobSection(), **self._section("jobs", document.get("jobs", {}))),
            identity=replace(
                IdentitySection(), **self._section("identity", document.get("identity", {}))
            ),
            users=replace(UsersSection(), **self._section("users", document.get("users", {}))),
            homes=self._homes(self._table("homes", document.get("homes", {}))),
            cluster=replace(
                ClusterSection(), **self._section("cluster", document.get("cluster", {}))
            ),
            gossip=replace(GossipSection(), **self._section("gossip", document.get("gossip", {}))),
            limits=replace(LimitsSection(), **self._section("limits", document.get("limits", {}))),
            where=self._where,
            given=dict.fromkeys(self._given, self._where),
        )

    def _order(self, value: object) -> OrderSection:
        values = self._section("order", value)
        if values.get("name") == "paper000":
            values.setdefault("idle_weight", 0.0)
            values.setdefault("gpu_weight", 0.0)
            values.setdefault("offpeak", "paper000")
        return replace(OrderSection(), **values)

    def _document(self, text: str) -> dict[str, object]:
        if len(text) > TEXT_LENGTH_MAX:
            raise BadConfiguration(
                f"{self._where} is longer than {TEXT_LENGTH_MAX} characters",
                "this is hardly a configuration; check which file it is",
            )
        try:
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            end = f"at line {text.count(chr(10)) + 1}, the end of the document"
            what = str(error).replace("at end of document", end)
            raise BadConfiguration(
                f"{self._where} is not valid TOML: {what}",
                "mend that line; a section looks like [machine], a value like cpus = 4",
            ) from None
        except RecursionError:
            raise BadConfiguration(
                f"{self._where} is nested too deeply", "a section looks like [machine]"
            ) from None
        except ValueError as error:  # of Python's int(), which takes so many digits and no more
            raise BadConfiguration(
                f"{self._where} has a number that cannot be read: {error}", "write a smaller one"
            ) from None

    def _table(self, path: str, value: object) -> dict[str, object]:
        if not isinstance(value, dict):
            raise BadConfiguration(
                f"{self._where}: {path} is {_quoted(value)}", f"write a section, [{path}]"
            )
        return value

    def _section(self, path: str, value: object) -> dict[str, object]:
        table = self._table(path, value)
        known = {key.name: key for key in KEYS[path]}
        self._no_others(path, table, [*known, *EXTRA_TABLES.get(path, ())])
        return {
            known[name].field: self._value(f"{path}.{name}", raw, known[name].kind)
            for name, raw in table.items()
            if name in known
        }

    def _value(self, path: str, raw: object, kind: Kind[Value_co]) -> Value_co:
        try:
            value = kind.read(raw)
        except WrongValue:
            raise BadConfiguration(
                f"{self._where}: {path} is {_quoted(raw)}", f"write {kind.expected}"
            ) from None
        self._given.append(path)
        return value

    def _named(self, path: str, value: object, kind: Kind[Value_co]) -> dict[str, Value_co]:
        table = self._table(path, value)
        for name in table:
            self._check_name(path, name)
        return {name: self._value(f"{path}.{name}", raw, kind) for name, raw in table.items()}

    def _groups(self, table: dict[str, object]) -> dict[str, GroupSection]:
        groups = {}
        for name, value in table.items():
            self._check_name("groups", name)
            path = f"groups.{name}"
            group = self._table(path, value)
            self._no_others(path, group, ["right", "users"])
            groups[name] = GroupSection(
                right=self._value(f"{path}.right", group["right"], RIGHT)
                if "right" in group
                else 1.0,
                users=self._named(f"{path}.users", group.get("users", {}), RIGHT),
            )
        return groups

    def _homes(self, table: dict[str, object]) -> dict[str, tuple[str, ...]]:
        for name in table:
            if name != OTHERS and not HOME_NAME.fullmatch(name):
                raise BadConfiguration(
                    f"{self._where}: homes has a name that cannot be one: {_quoted(name)}",
                    f"write the name of a home, or '{OTHERS}' for all others",
                )
        return {name: self._value(f"homes.{name}", raw, USERS) for name, raw in table.items()}

    def _attributes(self, value: object) -> dict[str, Value]:
        path = "machine.attributes"
        for name in self._table(path, value):
            if not is_attribute(name):
                raise BadConfiguration(
                    f"{self._where}: {path} has a name that cannot be one: {_quoted(name)}",
                    "names have letters, digits and _, and begin with no digit",
                )
        return self._named(path, value, ATTRIBUTE)

    def _check_name(self, path: str, name: str) -> None:
        if not is_name(name):
            raise BadConfiguration(
                f"{self._where}: {path} has a name that cannot be one: {_quoted(name)}",
                f"names have 1 to {NAME_LENGTH_MAX} letters, without / = , or %",
            )

    def _no_others(self, path: str, table: dict[str, object], known: list[str]) -> None:
        for name in table:
            if name not in known:
                what = f"there is no key {path}.{name}" if path else f"there is no section [{name}]"
                close = get_close_matches(name, known, 1)
                raise BadConfiguration(
                    f"{self._where}: {what}",
                    f"did you mean {close[0]}?" if close else f"there are: {', '.join(known)}",
                )


def _quoted(raw: object) -> str:
    """`raw` about as it stood in the file, short enough for a message of one line."""
    if isinstance(raw, dict | list):
        return "a section" if isinstance(raw, dict) else "a list"
    text = str(raw).lower() if isinstance(raw, bool) else repr(raw)
    return text if len(text) <= QUOTE_LENGTH_MAX else text[: QUOTE_LENGTH_MAX - 3] + "..."

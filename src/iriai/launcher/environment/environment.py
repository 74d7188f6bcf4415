"""The environment of a task, as the program between launcher and task takes it.

Each name carries a colon in front until the task begins (see iriai-exec.c), so that nothing the
user sets acts upon the privileged program.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from typing import Annotated

import msgspec

from iriai.launcher.contract.messages import StartOrder
from iriai.launcher.gpus.gpus import HIDDEN
from iriai.model.admission_rules import HomeRules, service_problem
from iriai.model.batch_variables import is_reserved
from iriai.model.bounds import Text, decoded
from iriai.model.sizes import ARGUMENT_BYTES_MAX, ENVIRONMENT_VARIABLES_MAX
from iriai.system.passwd_cache import Login, find_login

LOGIN_KEPT_S = 60.0
"""How long a look-up is cached: it may ask a network directory, and arrays ask ten thousand times.
A change of groups takes effect for tasks started later than this."""


class UserRefused(Exception):
    """Nothing is run as this user here; the text explains why."""


class UnknownUser(UserRefused):
    """There is no user of that name."""


class TaskUsers:
    """Looks users up and decides whether this launcher may run tasks as them."""

    def __init__(self, minimum_uid: int, daemon_uid: int = 0) -> None:
        """`daemon_uid` may give this launcher orders: no task may be that user, except root."""
        self._configured_minimum_uid = minimum_uid
        self._minimum_uid = minimum_uid
        self._own_uid = os.geteuid()
        self._daemon_uid = daemon_uid
        self._rules = HomeRules()
        self._known: dict[str, tuple[float, Login]] = {}

    def require_at_least(self, minimum_uid: int) -> None:
        """Refuse users below `minimum_uid` too; the minimum of the start still holds."""
        self._minimum_uid = max(self._configured_minimum_uid, minimum_uid)

    def go_by(self, rules: HomeRules) -> None:
        """Run only the tasks that the rules of the machine's owner permit."""
        self._rules = rules

    def login(self, home: str, name: str, now_s: float) -> Login:
        """Return the user that a task of `name` from `home` runs as, or raise `UserRefused`."""
        if words := self._rules.refusal(home, name):
            raise UserRefused(words)
        try:
            return self._login(name, now_s)
        except UnknownUser:
            name_here = self._rules.user_here(home, name, is_known=False)
            if not name_here:
                raise
            return self._login(name_here, now_s)

    def _login(self, name: str, now_s: float) -> Login:
        found = self._known.get(name)
        if found is None or now_s - found[0] > LOGIN_KEPT_S:
            login = find_login(name)
            if login is None:
                raise UnknownUser(f"user {name[:64]!r} does not exist on this machine")
            found = self._known[name] = (now_s, login)
        login = found[1]
        if self._own_uid != 0:
            if login.uid != self._own_uid:
                raise UserRefused(
                    f"this launcher runs without privileges, for user id {self._own_uid} alone;"
                    f" it cannot run tasks of {name} ({login.uid})"
                )
        elif words := service_problem(name, login.uid):
            raise UserRefused(words)
        elif login.uid == self._daemon_uid != 0:
            raise UserRefused(f"{name} is the user of the daemon, who runs no tasks")
        elif login.uid < self._minimum_uid:
            raise UserRefused(
                f"user {name} has id {login.uid}; tasks run for ids from {self._minimum_uid} on"
            )
        return login


MARK = "IRIAI_MARK"
"""`LAUNCHER/ATTEMPT`: by it a later launcher finds what an earlier one left running."""
_MARK = b":" + MARK.encode()
PATH_DEFAULT = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_KEPT_BYTES_MAX = 8 << 20
"""Size of cached environments in memory: a thousand of the usual ones."""
_ENTRY_BYTES = 200
"""What one variable takes in memory beside its text."""

Variables = Annotated[dict[Text, Text], msgspec.Meta(max_length=ENVIRONMENT_VARIABLES_MAX)]
_decoder: msgspec.msgpack.Decoder[dict[str, str]] = msgspec.msgpack.Decoder(Variables)


class BadEnvironment(ValueError):
    """The stored environment cannot be read."""


class SharedEnvironments:
    """Decoded environments of templates, cached for the batches of an array."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[bytes, Login, int], tuple[dict[bytes, bytes], int]]
        self._kept = OrderedDict()
        self._bytes = 0

    def of(self, packed: bytes, login: Login, cpus: int) -> dict[bytes, bytes]:
        """Return the environment `packed`, with the user's defaults; not to be changed.

        Raises `BadEnvironment`.
        """
        key = packed, login, cpus
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
            return found[0]
        shared = _decoded(packed, login, cpus)
        size_bytes = len(packed) + sum(map(len, shared.values())) + len(shared) * _ENTRY_BYTES
        if size_bytes <= _KEPT_BYTES_MAX:
            self._kept[key] = shared, size_bytes
            self._bytes += size_bytes
            while self._bytes > _KEPT_BYTES_MAX:
                self._bytes -= self._kept.popitem(last=False)[1][1]
        return shared


def _decoded(packed: bytes, login: Login, cpus: int) -> dict[bytes, bytes]:
    try:
        given = decoded(_decoder, packed) if packed else {}
    except msgspec.MsgspecError as error:
        raise BadEnvironment(f"the stored environment cannot be read: {error}") from error
    defaults = {
        "HOME": login.home,
        "USER": login.name,
        "LOGNAME": login.name,
        "SHELL": login.shell or "/bin/sh",
        "PATH": PATH_DEFAULT,
        "OMP_NUM_THREADS": str(cpus),
    }
    ours = {"IRIAI_RANK": "0", "IRIAI_RANKS": "1", "IRIAI_CPUS": str(cpus)}
    kept = {name: value for name, value in given.items() if not is_reserved(name)}
    merged = defaults | kept | ours | HIDDEN
    result = {
        b":" + name.encode(errors="surrogateescape"): value.encode(errors="surrogateescape")
        for name, value in merged.items()
    }
    if len(packed) > ARGUMENT_BYTES_MAX:
        for name, value in result.items():
            if len(name) + len(value) > ARGUMENT_BYTES_MAX:
                raise BadEnvironment(
                    f"variable {name[1:65].decode(errors='replace')!r} has"
                    f" {len(name) + len(value)} bytes; the system starts no program with one of"
                    f" more than ARGUMENT_BYTES_MAX = {ARGUMENT_BYTES_MAX}: put it into a file"
                )
    return result


def environment_of(
    order: StartOrder, shared: dict[bytes, bytes], mark: str, tmp: str
) -> dict[bytes, bytes]:
    """Return the environment of one task.

    `shared` is the common part of its template, without reserved names of the submitter's and with
    all GPUs hidden, `mark` the value of MARK, `tmp` the task's private directory.
    """
    home, number, index, tries, *_ = order.attempt
    result = shared.copy()
    result[b":IRIAI_JOB_ID"] = b"%b-%d" % (home.encode(), number)
    result[b":IRIAI_TASK_ID"] = b"%d" % index
    result[b":IRIAI_ATTEMPT"] = b"%d" % tries
    result[_MARK] = mark.encode()
    result[b":TMPDIR"] = os.fsencode(tmp)
    return result

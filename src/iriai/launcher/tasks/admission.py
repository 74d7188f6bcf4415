"""Admission: whether a task may start here, and what it needs for that."""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

from iriai.launcher.containment.namespaces.visible import visible_for
from iriai.launcher.contract.messages import EXIT_NOT_RUN, Template
from iriai.launcher.environment.environment import (
    BadEnvironment,
    SharedEnvironments,
    TaskUsers,
    UserRefused,
)
from iriai.launcher.spawn.spawn import Prepared, Spawner
from iriai.launcher.system.digest import digest_of
from iriai.launcher.tasks.task import kernel_limits
from iriai.model.ids import HOME_NAME
from iriai.model.job import JobSpec, limits_problem
from iriai.model.sizes import (
    ENVIRONMENT_BYTES_MAX,
    FILE_NAME_BYTES_MAX,
    command_problem,
    file_problem,
)
from iriai.model.state import EndCause
from iriai.model.submission import Interaction, Layout

_encode = msgspec.msgpack.Encoder().encode

_ACCOUNT_NAME = re.compile(r"[^\s\x00-\x1f\x7f/]{1,256}")
"""Any name of a group that a directory service may have."""


def content_problem(template: Template) -> str:
    """Return why no task of `template` can be started, for people; empty if they can."""
    spec, size_bytes = template.spec, len(template.environment)
    packed = _encode((spec.command, spec.pipes, spec.working_directory, spec.output, spec.error))
    is_small = len(packed) <= FILE_NAME_BYTES_MAX and size_bytes <= ENVIRONMENT_BYTES_MAX
    if is_small and b"\0" not in packed and _ACCOUNT_NAME.fullmatch(spec.account.group):
        return ""  # nearly all: one check suffices
    if size_bytes > ENVIRONMENT_BYTES_MAX:
        return (
            f"its environment has {size_bytes} bytes; the limit of the system is "
            f"ENVIRONMENT_BYTES_MAX = {ENVIRONMENT_BYTES_MAX}: submit with fewer variables"
        )
    named = (
        ("working directory", spec.working_directory),
        ("output file", spec.output),
        ("error file", spec.error),
    )
    found = (file_problem(what, path) for what, path in named)
    for problem in (*map(command_problem, (spec.command, *spec.pipes)), *found):
        if problem:
            return str(problem)
    if not _ACCOUNT_NAME.fullmatch(spec.account.group):
        return (
            f"its account's group is {spec.account.group[:64]!r}, which is not the name of a group"
        )
    return ""


def parallel_problem(spec: JobSpec) -> str:
    """Return why a job cannot have several ranks, for people; empty: it can."""
    if spec.interaction is Interaction.TERMINAL and spec.layout is Layout.RANKS:
        return "several processes cannot have one terminal"
    if spec.pipes and spec.layout is Layout.FIRST:
        return "the stages of a pipe run for each rank, not on the first machine alone"
    return ""


_DIGEST_BYTES = 8
"""Enough to recognise a command in a journal."""


class NotStarted(Exception):
    """An attempt ended before it began.

    `REFUSED`: the launcher can start nothing at present; the task is queued again, and the machine
    gets no work for a while. `FAILED`: no later attempt could succeed.
    """

    def __init__(self, cause: EndCause, message: str) -> None:
        super().__init__(message)
        self.cause = cause
        self.message = message

    @property
    def exit_code(self) -> int | None:
        """The exit code of the end: that of a shell that cannot execute."""
        return EXIT_NOT_RUN if self.cause is EndCause.FAILED else None


DECISION_KEPT_S = 1.0
"""How long the tasks of a template may start after one look at it."""


class _Decision(NamedTuple):
    """That the tasks of a template may start."""

    about: tuple[Template, str]
    """With their home."""
    until_s: float
    prepared: Prepared


class Authorizer:
    """Decides whose tasks are run, independently of the daemon."""

    def __init__(self, users: TaskUsers, spawner: Spawner) -> None:
        self.users = users
        self._spawner = spawner
        self._environments = SharedEnvironments()
        self._last: _Decision | None = None
        """The tasks of an array come in many orders, one after the other."""

    def forget(self) -> None:
        """Decide anew what was decided before: the machine's configuration has been read again."""
        self._last = None

    def prepare(self, template: Template, home: str, now_s: float) -> Prepared | NotStarted:
        """Return the common part of the tasks of `template`, or why none of them is started."""
        last = self._last
        if last is not None and now_s < last.until_s and (template, home) == last.about:
            return last.prepared
        prepared = self._prepared(template, home, now_s)
        if isinstance(prepared, Prepared):
            self._last = _Decision((template, home), now_s + DECISION_KEPT_S, prepared)
        return prepared

    def _prepared(self, template: Template, home: str, now_s: float) -> Prepared | NotStarted:
        if not HOME_NAME.fullmatch(home):
            return NotStarted(EndCause.FAILED, "the attempt's home has no valid name")
        spec, command = template.spec, _encode(template.spec.command)
        if spec.pipes or b"%{" in command:
            from iriai.launcher.tasks.this_machine import as_here  # few commands need it

            template = as_here(template)
            spec, command = template.spec, _encode(template.spec.command)
        try:
            login = self.users.login(home, spec.user, now_s)
        except UserRefused as refusal:
            return NotStarted(EndCause.FAILED, str(refusal))
        if not (spec.command or template.script or (spec.pipes and all(spec.pipes))):
            return NotStarted(EndCause.FAILED, "there is neither a command nor a script")
        words = limits_problem(spec) or content_problem(template)
        if words:
            return NotStarted(EndCause.FAILED, words)
        try:
            environment = self._environments.of(template.environment, login, spec.resources.cpus)
        except BadEnvironment as bad:
            return NotStarted(EndCause.FAILED, str(bad))
        options = self._spawner.options(spec, login)
        digest = digest_of(
            command,
            template.script,
            template.stdin,
            template.environment,
            size_bytes=_DIGEST_BYTES,
        )
        return Prepared(
            spec,
            login,
            environment,
            options,
            spec.command,
            template.script,
            template.stdin,
            digest,
            template.notice,
            visible_for(spec, login),
            kernel_limits(spec),
        )

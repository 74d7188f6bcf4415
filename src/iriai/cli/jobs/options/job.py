"""Options of `run` and `submit`, and the draft of a job that they make."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from iriai.cli.framework.command import OptionGroup, option, options_under
from iriai.cli.jobs.options.script import check_command, check_directory
from iriai.client.job_builder import DraftFields, draft
from iriai.model.problem import UsageProblem
from iriai.model.resources import CPUS, GPUS, MEMORY, NAMED_KINDS
from iriai.model.submission import NotifyOn, check_notify
from iriai.model.units import parse_duration, parse_size
from iriai.wire.requests import JobDraft

if TYPE_CHECKING:
    from pathlib import Path

    from iriai.model.architecture import BinaryKind


def job_environment(settings: Iterable[str], *, inherit: bool) -> dict[str, str]:
    """Return this process's environment (or none, without `inherit`), changed by `settings`.

    Each setting is `NAME=VALUE`, or `NAME` for the value that the variable has here.

    Raises:
        UsageProblem: a setting is neither, or names a variable that is not set.
    """
    environment = dict(os.environ) if inherit else {}
    for text in settings:
        name, equals, value = text.partition("=")
        if not name or "\0" in text:
            raise UsageProblem(
                "bad-variable", f"--env '{text}' names no variable", "write --env NAME=VALUE"
            )
        if not equals and name not in os.environ:
            raise UsageProblem(
                "bad-variable",
                f"--env {name}: the variable {name} is not set here",
                f"write --env {name}=VALUE, or export it first",
            )
        environment[name] = value if equals else os.environ[name]
    return environment


need = options_under("Resources")
limit = options_under("Limits")
surrounding = options_under("Input, output and environment")
priority = options_under("Priority")
"""Like `option`, each for one heading of the help pages."""
WAIT_FOR_RESOURCES = need(
    False, "--wait-for-resources", help="Wait even if no machine is large enough today."
)
_T = TypeVar("_T")
_Given = TypeVar("_Given")

AMOUNT_MAX = 2**53
"""The largest whole number that every reader of JSON keeps exact."""


class JobOptions(OptionGroup, frozen=True):
    """Options of both commands."""

    name: str = option(
        "",
        "-J",
        "--name",
        metavar="NAME",
        help="Name of the job, for listings. \\[default: the command's]",
    )
    cpus: int = need(1, "-c", "--cpus", metavar="N", help=CPUS.help)
    memory: str | None = need(None, metavar="SIZE", help=MEMORY.help)
    gpus: int = need(0, metavar="N", help=GPUS.help)
    resource: list[str] | None = need(
        None,
        metavar="NAME=N",
        help="Amount of a named resource per task, as licence=1. Repeatable.",
    )
    wait_for_resources: bool = WAIT_FOR_RESOURCES
    requirements: str = need(
        "",
        metavar="EXPR",
        help="Condition on the machine, as 'Arch == \"X86_64\" && Mips > 9000'; see 'iriai "
        "ads' and 'iriai match'.",
    )
    rank: str = need(
        "", metavar="EXPR", help="Preferred machines: those with the larger value, as KFlops."
    )
    exclusive: bool = need(
        False, "--exclusive", help="A whole machine, with nothing else on it; all of it is charged."
    )
    time: str | None = limit(
        None,
        "-t",
        "--time",
        metavar="DURATION",
        help="Time limit (wall time), as 90s, 1h30m or H:MM:SS. Jobs with a limit can fill gaps.",
    )
    cpu_time: str | None = limit(
        None,
        metavar="DURATION",
        help="Limit of CPU time of a task: of all its processes, divided by its ranks.",
    )
    processes: int | None = limit(
        None, metavar="N", help="Limit of processes and threads of a task."
    )
    max_restarts: int | None = limit(
        None,
        metavar="N",
        help="Number of restarts after a failure of its machine. \\[default: no limit]",
    )
    no_restart: bool = limit(False, "--no-restart", help="The same as --max-restarts 0.")
    lease: str | None = limit(
        None,
        metavar="DURATION",
        help="How long a task may keep running on another machine without contact; after "
        "that it is killed and rerun.",
    )
    no_suspend: bool = limit(
        False,
        "--no-suspend",
        help="Where its task would be suspended for the owner of a machine, end it with its grace; "
        "it runs again elsewhere.",
    )
    checkpoint_exit: int | None = limit(
        None,
        "--checkpoint-exit",
        metavar="CODE",
        help="Exit code with which a task says that it has saved itself: it waits again, first of "
        "its account. HTCondor's is 85.",
    )
    group: str | None = priority(
        None,
        metavar="GROUP",
        help="Group whose share the job uses. \\[default: your primary group]",
    )
    account: str | None = priority(
        None,
        metavar="[GROUP/]USER",
        help="User to charge instead of you, if the machine permits it.",
    )
    reservation: str = priority(
        "",
        metavar="ID",
        help="Run in this reservation alone; see 'iriai reserve'.",
        autocompletion="complete_reservation",
    )
    or_queue: bool = priority(
        False,
        "--or-queue",
        help="What has not started by the end of the reservation waits on as an ordinary job.",
    )
    evictable: bool | None = priority(
        None,
        "--evictable/--no-evict",
        help="A task may start although a reservation begins before its end; it is then ended "
        "with its grace, and is the next of its account. \\[default: jobs without --time]",
        show_default=False,
    )
    queue: int = priority(
        0,
        "-q",
        "--queue",
        metavar="N",
        help="Queue of the job; 0 comes first; see 'iriai queues'. \\[default: 0]",
        show_default=False,
        autocompletion="complete_queue",
    )
    urgency: float = priority(
        1.0,
        "-p",
        "--urgency",
        metavar="FACTOR",
        help="Factor of chance and cost: 2 doubles the chance to be next, and what the job "
        "costs. \\[default: 1]",
        show_default=False,
    )
    after: list[str] | None = priority(
        None,
        metavar="COND:ID[,ID]...",
        help="Start when these jobs have ended: ok (completed), fail (not), any. Repeatable.",
        autocompletion="complete_dependency",
    )
    notify: str = surrounding(
        "",
        metavar="COMMAND|mailto:ADDRESS",
        help="Command to run as you, or address to write to, when the job has finished.",
    )
    notify_on: NotifyOn = surrounding(
        NotifyOn.END, help="Ends that are notified: all, or only those not completed."
    )
    env: list[str] | None = surrounding(
        None,
        metavar="NAME[=VALUE]",
        help="Set a variable; NAME alone takes your value, with --no-env. Repeatable.",
    )
    no_env: bool = surrounding(False, "--no-env", help="Do not pass your environment to the job.")
    chdir: Path | None = surrounding(
        None, metavar="DIR", help="Working directory. \\[default: the current one]"
    )
    no_check: bool = surrounding(
        False, "--no-check", help="Do not check that command and directory exist."
    )
    dry_run: bool = option(
        False, "--dry-run", help="Show what would happen, without submitting the job."
    )
    immediate: bool = option(
        False, "--immediate", help="Refuse the job (exit code 3) unless it can start now."
    )

    def draft(self, command: Sequence[str], more: DraftFields) -> JobDraft:
        """Return the draft of a job that runs `command`, or the script in `more` with it."""
        environment = job_environment(self.env or (), inherit=not self.no_env)
        fields = self._fields() | more
        made = draft(command, cwd=self.chdir, env=environment, **fields)
        commands = made.pipes or (() if made.script else (command,))
        if not self.no_check:
            check_directory(made.working_directory)
            for words in commands:
                if not _is_by_machine(words):
                    check_command(words[0] if words else "", environment, made.working_directory)
        found = (_binary(words, made.working_directory) for words in commands)
        binary = next(filter(None, found), None)
        return made if binary is None else replace(made, binary=binary)

    def _fields(self) -> DraftFields:
        if self.rank.strip().isdecimal():
            raise UsageProblem(
                "bad-rank",
                f"--rank {self.rank} prefers no machine to another",
                f"for {self.rank} processes use -n {self.rank}",
            )
        return DraftFields(
            name=self.name,
            cpus=whole("--cpus", self.cpus, 1),
            memory_bytes=parsed("--memory", self.memory, parse_size) or 0,
            gpus=whole("--gpus", self.gpus, 0),
            named=tuple(named_resource(text) for text in self.resource or ()),
            wait_for_resources=self.wait_for_resources,
            time_limit_s=parsed("--time", self.time, parse_duration),
            cpu_limit_s=parsed("--cpu-time", self.cpu_time, parse_duration),
            process_limit=_optional("--processes", self.processes, 1),
            max_restarts=self._restarts(),
            lease_s=parsed("--lease", self.lease, parse_duration),
            no_suspend=self.no_suspend,
            checkpoint_exit=_optional("--checkpoint-exit", self.checkpoint_exit, 1),
            group=self.group,
            account=self.account,
            reservation=_reservation(self.reservation, or_queue=self.or_queue),
            or_queue=self.or_queue,
            evictable=self.evictable,
            queue=whole("--queue", self.queue, 0),
            urgency=self.urgency,
            after=after_texts(self.after),
            exclusive=self.exclusive,
            requirements=self.requirements,
            rank=self.rank,
            notify=parsed("--notify", self.notify, check_notify) or "",
            notify_on=self.notify_on,
        )

    def _restarts(self) -> int | None:
        if not self.no_restart:
            return _optional("--max-restarts", self.max_restarts, 0)
        if self.max_restarts:
            raise UsageProblem(
                "bad-restarts",
                f"--no-restart and --max-restarts {self.max_restarts} contradict each other",
                "leave out one of them",
            )
        return 0


def _reservation(text: str, *, or_queue: bool) -> str:
    if or_queue and not text:
        raise UsageProblem(
            "no-reservation", "--or-queue without --reservation", "name one with --reservation ID"
        )
    if text:
        from iriai.model.ids import parse_reservation_id

        parsed("--reservation", text, parse_reservation_id)
    return text


def after_texts(texts: list[str] | None) -> tuple[str, ...]:
    """Return the values of `--after`; raises `UsageProblem` if one is malformed."""
    if not texts:
        return ()
    from iriai.model.job import joined_dependencies

    parsed("--after", texts, joined_dependencies)
    return tuple(texts)


def parsed(option: str, given: _Given | None, parse: Callable[[_Given], _T]) -> _T | None:
    """Apply `parse` to the value of an option; its problem names the option."""
    if given is None:
        return None
    try:
        return parse(given)
    except UsageProblem as problem:
        raise UsageProblem(problem.code, f"{option}: {problem.message}", problem.hint) from None


def _optional(option: str, amount: int | None, least: int) -> int | None:
    return None if amount is None else whole(option, amount, least)


def whole(option: str, amount: int, least: int) -> int:
    """Return `amount`, which is at least `least`; its problem names the option."""
    if not least <= amount <= AMOUNT_MAX:
        raise UsageProblem(
            "bad-amount", f"{option} {amount} is out of range", f"use {least} or more"
        )
    return amount


def named_resource(text: str) -> tuple[str, int]:
    """Return the resource and amount of `NAME=N`; raises `UsageProblem`."""
    name, _, amount = text.partition("=")
    kind = NAMED_KINDS.get(name)
    if kind and kind.unit == "bytes":
        return name, parsed(f"--{name}", amount, parse_size) or 0
    if not name or not amount.isdecimal() or int(amount) > AMOUNT_MAX:
        raise UsageProblem(
            "bad-resource",
            f"'{text}' is not a resource and its amount",
            "write NAME=N, as licence=1",
        )
    return name, int(amount)


def _is_by_machine(words: Sequence[str]) -> bool:
    """Return whether the program has another name on other machines."""
    if not (words and "%" in words[0]):
        return False
    from iriai.model.architecture import differs_by_machine

    return differs_by_machine(words[:1])


def _binary(words: Sequence[str], directory: str) -> BinaryKind | None:
    """Return for which machines the program is, where it is a file of the user's."""
    if not (words and "/" in words[0]):
        return None
    from iriai.client.binary_file import binary_at

    return binary_at(words[0], directory)
